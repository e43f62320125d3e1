//! Unusual environments: terminals, homes, locales and kernels that lack something. The daemon serves files there,
//! and runs a program in a sandbox or not at all.

use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};

use serde_json::json;
use tests::{Campaign, Client, Home, sinew, wait_until};

/// One environment: variables to set or remove, and a script that prepares namespaces before it runs the program.
struct Environment {
    name: &'static str,
    set: &'static [(&'static str, &'static str)],
    removed: &'static [&'static str],
    /// Shell script that runs `"$@"`, itself run as root of a new user namespace with a mount namespace.
    script: Option<&'static str>,
    /// Part of the reason for which the daemon does not start.
    refused: Option<&'static str>,
    /// True if the daemon cannot see process 1.
    hides_processes: bool,
}

/// The shipped policy forbids paths below `$HOME`: without it those rules would forbid nothing.
const NO_HOME: Option<&str> = Some("unknown variable `$HOME`");

const PLAIN: Environment =
    Environment { name: "", set: &[], removed: &[], script: None, refused: None, hides_processes: false };

const ENVIRONMENTS: [Environment; 9] = [
    Environment { name: "dumb terminal", set: &[("TERM", "dumb")], ..PLAIN },
    Environment { name: "no HOME", removed: &["HOME"], refused: NO_HOME, ..PLAIN },
    Environment { name: "read-only HOME", set: &[("HOME", "/proc")], ..PLAIN },
    Environment {
        name: "empty environment",
        removed: &["HOME", "PATH", "NO_COLOR"],
        refused: NO_HOME,
        ..PLAIN
    },
    Environment {
        name: "Turkish locale",
        set: &[("LC_ALL", "tr_TR.UTF-8"), ("LANG", "tr_TR.UTF-8")],
        ..PLAIN
    },
    Environment {
        name: "unknown locale",
        set: &[("LC_ALL", "xx_YY.EBCDIC"), ("TZ", "Nowhere/Land")],
        ..PLAIN
    },
    Environment {
        name: "no user namespaces",
        script: Some("echo 0 > /proc/sys/user/max_user_namespaces && exec \"$@\""),
        ..PLAIN
    },
    Environment {
        name: "processes of others hidden",
        // The daemon has no capabilities, so the kernel hides the shell, which has them, as it hides processes of
        // other users. Without `exit` the shell would become the daemon.
        script: Some(
            "mount -t proc -o hidepid=2 proc /proc && setpriv --inh-caps=-all --bounding-set=-all -- \"$@\"; exit $?",
        ),
        hides_processes: true,
        ..PLAIN
    },
    Environment {
        name: "no /proc/sys",
        script: Some("mount -t tmpfs -o ro none /proc/sys && exec \"$@\""),
        ..PLAIN
    },
];

impl Environment {
    /// Returns a command for `sinew` in this environment.
    fn command(&self, home: &Home, words: &[&str]) -> Command {
        let plain = sinew();
        let mut command = match self.script {
            None => sinew(),
            Some(script) => {
                let mut command = Command::new("unshare");
                // A process of its own is the first one of the new process namespace, as `hidepid` needs.
                command.args(["-Urmpf", "--kill-child", "sh", "-c", script, "sh"]).arg(plain.get_program());
                command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
                command
            }
        };
        command.args(words).current_dir(home.workspace());
        command.env("SINEW_HOME", home.root()).env("HOME", home.user_home());
        for name in self.removed {
            command.env_remove(name);
        }
        command.envs(self.set.iter().copied());
        command
    }

    /// Starts the daemon; `None` if the kernel does not allow such an environment.
    fn serve(&self, home: &Home) -> Option<Daemon> {
        if let Some(script) = self.script {
            let made = Command::new("unshare").args(["-Urmpf", "sh", "-c", script, "sh", "true"]).output();
            if !made.is_ok_and(|output| output.status.success()) {
                tests::left_out(&format!("{}: this machine does not allow such an environment", self.name));
                return None;
            }
        }
        // Root of a user namespace has no rights outside of it.
        let words: &[&str] = if self.script.is_some() { &["serve", "--allow-root"] } else { &["serve"] };
        let log = std::fs::File::create(home.user_home().join("serve.log")).expect("a log");
        let mut command = self.command(home, words);
        command.stdin(Stdio::null()).stdout(log.try_clone().expect("a second handle")).stderr(log);
        Some(Daemon(command.spawn().expect("start the daemon")))
    }

    /// Checks the environment. Returns false if it was left out.
    fn check(&self, home: &Home) -> bool {
        let log = || std::fs::read_to_string(home.user_home().join("serve.log")).unwrap_or_default();
        let Some(mut daemon) = self.serve(home) else { return false };
        if let Some(reason) = self.refused {
            let ended = daemon.0.wait().expect("the daemon ends");
            assert!(!ended.success() && log().contains(reason), "{}: {ended}: {}", self.name, log());
            println!("{}: refused: {reason}", self.name);
            return true;
        }
        wait_until(self.name, || {
            let ended = daemon.0.try_wait().expect("ask for the daemon");
            assert!(ended.is_none(), "{}: the daemon ended: {}", self.name, log());
            std::os::unix::net::UnixStream::connect(home.socket("agent.sock")).is_ok()
        });
        let mut agent = Client::connect(&home.socket("agent.sock"));
        let read = agent.execute("read_file", &json!({"path": "I.txt"}));
        assert_eq!(read["output"]["content"], "x", "{}: {read}", self.name);
        let write = agent.execute("write_file", &json!({"path": "new.txt", "content": "y"}));
        assert_eq!(write["success"], true, "{}: {write}", self.name);
        let run = agent.execute("run_command", &json!({"command": ["cat", "I.txt"]}));
        let tier = run["output"]["sandbox"]["tier"].as_str().unwrap_or_default();
        let is_sandboxed = run["success"] == true && ["full", "reduced"].contains(&tier);
        assert!(is_sandboxed || run["success"] == false, "{}: run without a sandbox: {run}", self.name);
        self.check_hidden_processes(&mut agent);
        let doctor = self.command(home, &["doctor"]).output().expect("run doctor");
        let told = String::from_utf8_lossy(&[doctor.stdout, doctor.stderr].concat()).into_owned();
        assert!(!told.contains("panicked") && !told.is_empty(), "{}: {told}", self.name);
        drop(daemon);
        let report = home.run(&["ledger", "verify", "--json"]).json();
        assert_eq!(report["intact"], true, "{}: {report}", self.name);
        let how = if is_sandboxed { tier.to_owned() } else { format!("refused: {}", run["error"]) };
        println!("{}: a command is {how:.120}", self.name);
        true
    }

    /// A process that is not visible may be running: the daemon must not say that it is not.
    fn check_hidden_processes(&self, agent: &mut Client) {
        let health = agent.execute("check_process_health", &json!({"pid": 1}));
        let outcome = if self.hides_processes { "unavailable" } else { "running" };
        assert_eq!(health["output"]["outcome"], outcome, "{}: {health}", self.name);
        let metrics = agent.execute("system_metrics_snapshot", &json!({}));
        assert_eq!(metrics["success"], true, "{}: {metrics}", self.name);
    }
}

/// Daemon of an environment, killed when dropped.
struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn soak_daemon_serves_in_unusual_environments() {
    let mut campaign = Campaign::start(ENVIRONMENTS.len() as u64);
    let mut checked = Vec::new();
    while let Some(round) = campaign.next_round()
        && let Some(environment) = ENVIRONMENTS.get(usize::try_from(round).expect("a small number"))
    {
        let home = Home::initialised().without_automatic_modes();
        home.file("I.txt", "x");
        std::fs::set_permissions(home.user_home(), PermissionsExt::from_mode(0o700)).expect("private");
        if environment.check(&home) {
            checked.push(environment.name);
        }
    }
    campaign.finish(checked.len() as u64, &checked.join(", "));
}
