//! Another user of the machine: refused by the kernel while the sockets are created and after, and by the
//! daemon where the kernel would admit it. Only root can start a process of another user, so without root
//! these tests are skipped.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use nix::sys::stat::{Mode, umask};
use tests::{Daemon, Home, wait_until};

/// User id that is neither root nor the user of the daemon.
const STRANGER: u32 = 65533;

/// Connects to the given sockets until it is stopped, or once to one socket, and reports the result.
const SCRIPT: &str = r#"
import select, socket, sys

def connect(path):
    stream = socket.socket(socket.AF_UNIX)
    try:
        stream.connect(path)
    except OSError:
        return None
    return stream

for line in sys.stdin:
    word, *paths = line.split()
    if word == "poll":
        tries, inside = 0, 0
        print("polling", flush=True)
        while not select.select([sys.stdin], [], [], 0)[0]:
            for path in paths:
                tries += 1
                stream = connect(path)
                inside += stream is not None
        sys.stdin.readline()
        print(tries, inside, flush=True)
    else:
        stream = connect(paths[0])
        said = "nothing" if stream is None else "inside"
        if stream is not None:
            stream.settimeout(20)
            try:
                said = "heard %d" % len(stream.recv(64))
            except OSError as error:
                said = "heard 0" if not isinstance(error, TimeoutError) else "still there"
        print(said, flush=True)
"#;

/// Process of another user, ended with the test.
struct Stranger {
    process: Child,
    answers: BufReader<std::process::ChildStdout>,
}

impl Stranger {
    /// Starts the process, only while this process is still root.
    fn come() -> Option<Stranger> {
        if !nix::unistd::geteuid().is_root() {
            return None;
        }
        let mut command = Command::new("/usr/bin/python3");
        // Unbuffered, so that `select` sees every line that is there.
        command.args(["-u", "-c", SCRIPT]).uid(STRANGER).gid(STRANGER).current_dir("/");
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("python3");
        let answers = BufReader::new(process.stdout.take().expect("its output"));
        Some(Stranger { process, answers })
    }

    fn tell(&mut self, line: &str) {
        writeln!(self.process.stdin.as_mut().expect("its input"), "{line}").expect("it listens");
    }

    fn hear(&mut self) -> String {
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("it answers");
        line.trim_end().to_owned()
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn sockets(home: &Home) -> String {
    ["agent.sock", "control.sock"].map(|name| home.socket(name).display().to_string()).join(" ")
}

/// Checks that another user cannot connect under this umask, at any moment from before the start on. The
/// parents of the daemon's folders are open to all users here, so that only those folders keep the other user
/// out.
fn assert_no_connection_under(mask: u32) {
    let Some(mut stranger) = Stranger::come() else {
        return tests::left_out("only root can be two users");
    };
    let home = Home::initialised();
    open_to_all(home.user_home());
    open_to_all(&home.root());
    umask(Mode::from_bits_truncate(mask));
    stranger.tell(&format!("poll {}", sockets(&home)));
    assert_eq!(stranger.hear(), "polling");
    // The first start creates the folders, the second finds them.
    let home = Daemon::start_in(home).stop();
    let _daemon = Daemon::start_in(home);
    stranger.tell("stop");
    let reported = stranger.hear();
    let counted: Vec<u64> = reported.split(' ').map(|number| number.parse().expect("a number")).collect();
    assert!(matches!(counted[..], [tries, 0] if tries > 0), "it tried, and was never inside: {reported}");
}

#[test]
fn no_other_user_connects_during_a_start_with_umask_000() {
    assert_no_connection_under(0o000);
}

#[test]
fn no_other_user_connects_during_a_start_with_umask_022() {
    assert_no_connection_under(0o022);
}

fn open_to_all(folder: &Path) {
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755)).expect("ours to open");
}

/// If the permissions were opened by mistake, the daemon itself checks the peer credentials.
#[test]
fn another_user_is_dropped_before_any_data_is_sent() {
    let Some(mut stranger) = Stranger::come() else {
        return tests::left_out("only root can be two users");
    };
    let daemon = Daemon::start();
    let home = daemon.home();
    stranger.tell(&format!("once {}", home.socket("agent.sock").display()));
    assert_eq!(stranger.hear(), "nothing", "the kernel keeps it out");
    for folder in [home.user_home().to_owned(), home.root(), home.root().join("run")] {
        open_to_all(&folder);
    }
    for name in ["agent.sock", "control.sock"] {
        let open_to_all_users = std::fs::Permissions::from_mode(0o666);
        std::fs::set_permissions(home.socket(name), open_to_all_users).expect("ours to open");
        stranger.tell(&format!("once {}", home.socket(name).display()));
        assert_eq!(stranger.hear(), "heard 0", "{name}: no greeting, no version");
    }
    let reported = |log: &str| log.lines().filter(|line| line.contains("foreign_user_dropped")).count();
    // The log is written asynchronously.
    wait_until("both are in the log", || reported(&home.run(&["logs"]).must_exit(0).stdout()) >= 2);
    let log = home.run(&["logs"]).must_exit(0).stdout();
    assert!(log.contains(&STRANGER.to_string()), "by its number: {log}");
    assert!(daemon.agent().request("sinew/status", &serde_json::json!({}))["result"].is_object());
}
