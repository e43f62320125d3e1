//! Every hostile program, without walls and within them.

use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use tests::{Daemon, Home};

use super::{home, output, run};

const PYTHON: &str = "/usr/bin/python3";

/// What is outside, and what the attempts are made on. Made anew for each of them: some leave nothing as it was.
struct Outside {
    folder: tempfile::TempDir,
    /// Beside the scratch folders, which a run has of its own: here only rules and read-only mounts are in the way.
    visible: tempfile::TempDir,
    strays: Vec<PathBuf>,
    victim: Child,
    tcp: TcpListener,
    udp: UdpSocket,
    _unix: UnixListener,
    _hidden: UnixListener,
}

impl Outside {
    fn new() -> Outside {
        let folder = tempfile::Builder::new().prefix("sinew-outside-").tempdir().expect("a folder");
        std::fs::write(folder.path().join("secret"), "secret").expect("a secret");
        let anywhere = ["/run/lock", "/tmp"];
        let mut visible = anywhere.iter().filter_map(|base| tempfile::tempdir_in(base).ok());
        let visible = visible.next().expect("a folder");
        std::fs::write(visible.path().join("note"), "note").expect("a note");
        let name = folder.path().file_name().expect("a name").to_owned();
        let strays = ["/dev/shm", "/var/tmp"].map(|base| PathBuf::from(base).join(&name)).to_vec();
        for stray in &strays {
            std::fs::write(stray, "stray").expect("a file outside");
        }
        let hidden = SocketAddr::from_abstract_name(name.as_encoded_bytes()).expect("a name");
        Outside {
            strays,
            victim: Command::new("/bin/sleep").arg("60").spawn().expect("a process"),
            tcp: TcpListener::bind("127.0.0.1:0").expect("a port"),
            udp: UdpSocket::bind("127.0.0.1:0").expect("a port"),
            _unix: UnixListener::bind(folder.path().join("socket")).expect("a socket"),
            _hidden: UnixListener::bind_addr(&hidden).expect("a socket"),
            folder,
            visible,
        }
    }

    fn described(&self, home: &Home) -> String {
        let folder = self.folder.path();
        json!({
            "outside": folder,
            "home": self.visible.path(),
            "workspace": home.workspace(),
            "read_only": read_only(home),
            "shm": self.strays[0],
            "var_tmp": self.strays[1],
            "victim": self.victim.id(),
            "tcp": self.tcp.local_addr().expect("an address").port(),
            "udp": self.udp.local_addr().expect("an address").port(),
            "unix": folder.join("socket"),
            "abstract": folder.file_name().expect("a name").to_str(),
        })
        .to_string()
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        let _ = self.victim.kill();
        let _ = self.victim.wait();
        for stray in &self.strays {
            let _ = std::fs::remove_file(stray);
        }
    }
}

/// A second workspace, which may only be read.
fn read_only(home: &Home) -> PathBuf {
    home.workspace().with_file_name("given")
}

/// A workspace with everything in it that must be hidden or kept.
fn furnish(home: &Home) {
    let workspace = home.workspace();
    for name in std::fs::read_dir(&workspace).expect("the workspace").flatten().map(|entry| entry.path()) {
        let removed =
            if name.is_dir() { std::fs::remove_dir_all(&name) } else { std::fs::remove_file(&name) };
        removed.expect("an empty workspace");
    }
    for folder in [".git/hooks", ".env.d"] {
        std::fs::create_dir_all(workspace.join(folder)).expect("a folder");
    }
    for file in [".env", ".env.d/key", ".git/config", ".git/hooks/sample", ".bashrc", ".mcp.json"] {
        home.file(file, "original");
    }
    home.file("attempts.py", include_str!("../../hostile/attempts.py"));
    std::fs::write(read_only(home).join("given"), "given").expect("a file that may be read");
}

fn names(home: &Home) -> Vec<String> {
    furnish(home);
    let script = home.workspace().join("attempts.py");
    let listed =
        Command::new(PYTHON).arg(script).arg("--list").output().expect("python3, which the attempts need");
    String::from_utf8(listed.stdout).expect("names").lines().map(str::to_owned).collect()
}

/// The same program with nothing around it, started as any program starts another.
fn unconfined(home: &Home, name: &str, outside: &Outside) -> String {
    furnish(home);
    let open_for_all = outside.tcp.try_clone().expect("a descriptor");
    rustix_inheritable(&open_for_all);
    let mut command = Command::new(PYTHON);
    command.arg(home.workspace().join("attempts.py")).args([name, &outside.described(home)]);
    command.env("SINEW_CANARY", "leaked").stdin(Stdio::piped());
    let ran = command.output().expect("run an attempt");
    String::from_utf8_lossy(&ran.stdout).into_owned() + &String::from_utf8_lossy(&ran.stderr)
}

/// What a careless program does: a descriptor that its children get.
fn rustix_inheritable(socket: &TcpListener) {
    let flags = nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::empty());
    nix::fcntl::fcntl(socket, flags).expect("an inheritable descriptor");
}

fn confined(daemon: &Daemon, name: &str, outside: &Outside) -> Value {
    furnish(daemon.home());
    let script = daemon.home().workspace().join("attempts.py").display().to_string();
    run(daemon, &[PYTHON, &script, name, &outside.described(daemon.home())])
}

#[test]
fn every_attempt_escapes_without_walls_and_none_within_them() {
    let home = home("");
    std::fs::create_dir(read_only(&home)).expect("a second workspace");
    home.run(&["workspace", "add", "--read-only", read_only(&home).to_str().expect("text")]).must_exit(0);
    let daemon = Daemon::start_with(home, &[("SINEW_CANARY", "leaked")]);
    let names = names(daemon.home());
    assert!(names.len() >= 40, "{} attempts", names.len());
    let mut wrong = Vec::new();
    for name in &names {
        let without = unconfined(daemon.home(), name, &Outside::new());
        if without.trim() != "escaped" {
            wrong.push(format!("{name} proves nothing: without walls it said {without}"));
        }
        let result = confined(&daemon, name, &Outside::new());
        let within = output(&result);
        if !within.starts_with("contained:") {
            wrong.push(format!("{name} within walls: {within}{}", result["output"]["stderr"]));
        }
    }
    assert!(wrong.is_empty(), "of {}:\n{}", names.len(), wrong.join("\n"));
}
