//! Targets of the hostile programs: files, processes, sockets and memory outside the sandbox, and hidden or
//! protected names inside. The programs themselves are in `tests/hostile/`.

use std::net::{TcpListener, UdpSocket};
use std::os::fd::AsRawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use serde_json::json;

/// Interpreter of the attempts.
pub const PYTHON: &str = "/usr/bin/python3";

/// Targets outside the sandbox. Created anew for each attempt, because some attempts destroy them.
pub struct HostileTargets {
    folder: tempfile::TempDir,
    /// Folder outside the scratch folders, which a run has copies of: only rules and read-only mounts protect
    /// this one.
    visible: tempfile::TempDir,
    strays: Vec<PathBuf>,
    victim: Child,
    /// Id of a shared memory segment that every process of this user may attach.
    memory: String,
    /// Listener on the loopback interface of the machine.
    pub tcp: TcpListener,
    udp: UdpSocket,
    _unix: UnixListener,
    _hidden: UnixListener,
    /// Both ends of a terminal that belongs to another program.
    _terminal: nix::pty::OpenptyResult,
    terminal: PathBuf,
}

impl HostileTargets {
    /// Creates all targets.
    pub fn create() -> HostileTargets {
        let folder = tempfile::Builder::new().prefix("sinew-outside-").tempdir().expect("a folder");
        std::fs::write(folder.path().join("secret"), "secret").expect("a secret");
        let anywhere = ["/run/lock", "/tmp"];
        let mut visible = anywhere.iter().filter_map(|base| tempfile::tempdir_in(base).ok());
        let visible = visible.next().expect("a folder");
        std::fs::write(visible.path().join("note"), "note").expect("a note");
        std::os::unix::fs::symlink("note", visible.path().join("link")).expect("a link");
        let name = folder.path().file_name().expect("a name").to_owned();
        let strays = ["/dev/shm", "/var/tmp"].map(|base| PathBuf::from(base).join(&name)).to_vec();
        for stray in &strays {
            std::fs::write(stray, "stray").expect("a file outside");
        }
        let ends = nix::pty::openpty(None, None).expect("a terminal");
        let terminal =
            std::fs::read_link(format!("/proc/self/fd/{}", ends.slave.as_raw_fd())).expect("its name");
        let hidden = SocketAddr::from_abstract_name(name.as_encoded_bytes()).expect("a name");
        HostileTargets {
            strays,
            memory: create_shared_memory(),
            victim: Command::new("/bin/sleep").arg("60").spawn().expect("a process"),
            tcp: TcpListener::bind("127.0.0.1:0").expect("a port"),
            udp: UdpSocket::bind("127.0.0.1:0").expect("a port"),
            _unix: UnixListener::bind(folder.path().join("socket")).expect("a socket"),
            _hidden: UnixListener::bind_addr(&hidden).expect("a socket"),
            _terminal: ends,
            terminal,
            folder,
            visible,
        }
    }

    /// Returns the description of the targets that an attempt receives, as JSON.
    pub fn to_json(&self, workspace: &Path, read_only: &Path) -> String {
        let folder = self.folder.path();
        json!({
            "outside": folder,
            "home": self.visible.path(),
            "workspace": workspace,
            "read_only": read_only,
            "shm": self.strays[0],
            "var_tmp": self.strays[1],
            "victim": self.victim.id(),
            "tcp": self.tcp.local_addr().expect("an address").port(),
            "udp": self.udp.local_addr().expect("an address").port(),
            "unix": folder.join("socket"),
            "memory": self.memory,
            "terminal": self.terminal,
            "abstract": folder.file_name().expect("a name").to_str(),
        })
        .to_string()
    }
}

impl Drop for HostileTargets {
    fn drop(&mut self) {
        let _ = self.victim.kill();
        let _ = self.victim.wait();
        let _ = Command::new("/usr/bin/ipcrm").args(["-m", &self.memory]).status();
        for stray in &self.strays {
            let _ = std::fs::remove_file(stray);
        }
    }
}

/// Fills a workspace with names that must stay hidden or unchanged, and creates a read-only file.
pub fn fill_workspace(workspace: &Path, read_only: &Path) {
    for name in std::fs::read_dir(workspace).expect("the workspace").flatten().map(|entry| entry.path()) {
        let removed =
            if name.is_dir() { std::fs::remove_dir_all(&name) } else { std::fs::remove_file(&name) };
        removed.expect("an empty workspace");
    }
    for folder in [".git/hooks", ".env.d", "vault/inner"] {
        std::fs::create_dir_all(workspace.join(folder)).expect("a folder");
    }
    for file in
        [".env", ".env.d/key", "vault/inner/.env", ".git/config", ".git/hooks/sample", ".bashrc", ".mcp.json"]
    {
        std::fs::write(workspace.join(file), "original").expect("a file");
    }
    std::fs::write(workspace.join("attempts.py"), include_str!("../hostile/attempts.py")).expect("attempts");
    std::fs::write(read_only.join("given"), "given").expect("a file that may be read");
}

/// Creates a System V shared memory segment in the IPC namespace of this process.
fn create_shared_memory() -> String {
    let made = Command::new("/usr/bin/ipcmk").args(["-M", "4096"]).output().expect("ipcmk, which makes it");
    let text = String::from_utf8_lossy(&made.stdout).into_owned();
    text.split_whitespace().last().unwrap_or_else(|| panic!("{made:?}")).to_owned()
}
