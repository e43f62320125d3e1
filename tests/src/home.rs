//! A temporary Sinew home with a workspace, and the command line run against it.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::Value;
use tempfile::TempDir;

use crate::sinew;

/// A temporary home, removed when dropped.
pub struct Home {
    folder: TempDir,
}

/// Policy files, which are layers over the built-in ones.
const LAYERED_FILES: [&str; 4] = [
    "governance/tools.yaml",
    "governance/modes.yaml",
    "governance/safety.yaml",
    "governance/guardrails.yaml",
];

#[allow(clippy::new_without_default)] // creating a home writes to the disk
impl Home {
    /// Returns a value in which policy files have the names that agents see: relative to the configuration.
    pub fn with_short_names(&self, value: &Value) -> Value {
        let folder = format!("{}/", self.root().join("config").display());
        serde_json::from_str(&value.to_string().replace(&folder, "")).expect("JSON")
    }

    /// Creates a home without any configuration.
    pub fn new() -> Home {
        let _ = sinew(); // drops root before anything is created
        let folder = tempfile::Builder::new().prefix("sinew-test-").tempdir().expect("a temporary folder");
        std::fs::create_dir(folder.path().join("work")).expect("a workspace");
        Home { folder }
    }

    /// Creates a home whose configuration, state and sockets are on a tmpfs of this size. Returns nothing
    /// without root, which the mount needs. The mount ends with the process.
    #[cfg(target_os = "linux")]
    pub fn on_small_disk(bytes: u64) -> Option<Home> {
        use nix::mount::{MsFlags, mount};
        if !nix::unistd::geteuid().is_root() {
            return None;
        }
        let folder = tempfile::Builder::new().prefix("sinew-test-").tempdir().expect("a temporary folder");
        std::os::unix::fs::chown(folder.path(), Some(65534), Some(65534)).expect("hand the folder over");
        let disk = folder.path().join("home");
        std::fs::create_dir(&disk).expect("a mount point");
        enter_private_mount_namespace();
        let options = format!("size={bytes},mode=0700,uid=65534,gid=65534");
        mount(Some("tmpfs"), &disk, Some("tmpfs"), MsFlags::empty(), Some(options.as_str()))
            .expect("a small disk");
        let _ = sinew();
        std::fs::create_dir(folder.path().join("work")).expect("a workspace");
        let home = Home { folder };
        home.initialise();
        Some(home)
    }

    /// Creates a home with mounts in its workspace: a tmpfs at `volume`, and a bind mount at `bound` of an
    /// outside folder that contains `there.txt`. Returns nothing without root.
    #[cfg(target_os = "linux")]
    pub fn with_mounts() -> Option<Home> {
        use nix::mount::{MsFlags, mount};
        if !nix::unistd::geteuid().is_root() {
            return None;
        }
        let folder = tempfile::Builder::new().prefix("sinew-test-").tempdir().expect("a temporary folder");
        let names = ["", "work", "work/volume", "work/bound", "outside"];
        for path in names.map(|name| folder.path().join(name)) {
            std::fs::create_dir_all(&path).expect("a folder");
            std::os::unix::fs::chown(&path, Some(65534), Some(65534)).expect("hand the folder over");
        }
        std::fs::write(folder.path().join("outside/there.txt"), "x").expect("a file");
        enter_private_mount_namespace();
        let (none, options) = (None::<&str>, "size=1m,mode=0700,uid=65534,gid=65534");
        let (volume, bound) = (folder.path().join("work/volume"), folder.path().join("work/bound"));
        mount(Some("tmpfs"), &volume, Some("tmpfs"), MsFlags::empty(), Some(options)).expect("a volume");
        mount(Some(&folder.path().join("outside")), &bound, none, MsFlags::MS_BIND, none)
            .expect("a bound folder");
        let _ = sinew();
        let home = Home { folder };
        home.initialise();
        Some(home)
    }

    /// Creates an initialised home, with its workspace added.
    pub fn initialised() -> Home {
        let home = Home::new();
        home.initialise();
        home
    }

    fn initialise(&self) {
        self.run(&["init", "--full"]).must_exit(0);
        let workspace = self.workspace().display().to_string();
        self.run(&["workspace", "add", &workspace]).must_exit(0);
    }

    /// Returns the home folder of the user, which contains all the others.
    pub fn user_home(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the folder that `SINEW_HOME` names.
    pub fn root(&self) -> PathBuf {
        self.folder.path().canonicalize().expect("the home exists").join("home")
    }

    /// Returns the workspace.
    pub fn workspace(&self) -> PathBuf {
        self.folder.path().canonicalize().expect("the home exists").join("work")
    }

    /// Creates a file below the workspace.
    pub fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.workspace().join(name);
        std::fs::write(&path, content).expect("write a test file");
        path
    }

    /// Replaces a configuration file. A policy file replaces the built-in one too, unless it says what it
    /// extends: most tests state a whole policy.
    pub fn configure(&self, name: &str, content: &str) {
        let is_whole = content.contains("extends:") || content.trim().is_empty();
        match is_whole || !LAYERED_FILES.contains(&name) {
            true => self.configure_layer(name, content),
            // At the end, where it moves no line.
            false => {
                let line_end = if content.ends_with('\n') { "" } else { "\n" };
                self.configure_layer(name, &format!("{content}{line_end}extends: none\n"));
            }
        }
    }

    /// Replaces a configuration file atomically, because a watching daemon must not read half of it.
    pub fn configure_layer(&self, name: &str, content: &str) {
        let draft = self.root().join("configuration.draft");
        std::fs::write(&draft, content).expect("write configuration");
        let owner = std::fs::metadata(self.root().join("config")).expect("there is a configuration");
        std::os::unix::fs::chown(&draft, Some(owner.uid()), Some(owner.gid())).expect("hand the file over");
        std::fs::rename(draft, self.root().join("config").join(name)).expect("replace configuration");
    }

    /// Creates a manifest, or a file that one runs, among the tools of this home.
    pub fn put_tool(&self, name: &str, text: &str) {
        let folder = self.root().join("tools");
        std::fs::create_dir_all(&folder).expect("a folder of tools");
        std::fs::write(folder.join(name), text).expect("write a tool");
        for (path, mode) in [(folder.join(name), 0o600), (folder, 0o700)] {
            std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("close it to others");
        }
    }

    /// Disables all automatic mode changes, which repeated refusals in a test would trigger. The table is
    /// empty and not absent, because without the key the built-in rules would apply.
    pub fn without_automatic_modes(self) -> Home {
        let file = self.root().join("config/governance/modes.yaml");
        let modes = std::fs::read_to_string(file).expect("the shipped modes");
        let (modes, _) = modes.split_once("transition_rules:").expect("the shipped file has rules");
        self.configure("governance/modes.yaml", &format!("{modes}transition_rules: {{}}\n"));
        self
    }

    /// Removes all rate limits, which a test with many calls would reach.
    pub fn without_rate_limits(self) -> Home {
        let file = self.root().join("config/governance/safety.yaml");
        let safety = std::fs::read_to_string(file).expect("the shipped limits");
        let (before, rest) = safety.split_once("\nrate_limits:").expect("the shipped file has limits");
        let after = rest.split_once("\nhuman_approval:").expect("approvals follow the limits").1;
        let text = format!("{before}\nrate_limits: {{}}\nhuman_approval:{after}");
        self.configure("governance/safety.yaml", &text);
        self
    }

    /// Logs every call, not only those that failed.
    pub fn logging_all_calls(self) -> Home {
        let settings = std::fs::read_to_string(self.root().join("config/sinew.yaml")).expect("the settings");
        assert!(settings.contains("  calls: failed "), "the settings have the key");
        self.configure("sinew.yaml", &settings.replace("  calls: failed ", "  calls: all    "));
        self
    }

    /// Returns the path of a socket.
    pub fn socket(&self, name: &str) -> PathBuf {
        self.root().join("run").join(name)
    }

    /// Runs `sinew` with these arguments, in the workspace.
    pub fn run(&self, words: &[&str]) -> SinewRun {
        self.run_in(&self.workspace(), words)
    }

    /// Runs `sinew` with these arguments, in a folder.
    pub fn run_in(&self, folder: &Path, words: &[&str]) -> SinewRun {
        let mut command = sinew();
        command.args(words).current_dir(folder).env("SINEW_HOME", self.root()).env("HOME", self.user_home());
        SinewRun { arguments: words.join(" "), output: command.output().expect("run sinew") }
    }

    /// Returns all records of the ledger, oldest first, read from its files.
    pub fn records(&self) -> Vec<Value> {
        self.lines().iter().map(|line| serde_json::from_str(line).expect("a record is JSON")).collect()
    }

    /// Like `records`, and skips lines that a crash cut short.
    pub fn complete_records(&self) -> Vec<Value> {
        self.lines().iter().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    fn lines(&self) -> Vec<String> {
        let folder = self.root().join("state/ledger");
        let mut segments: Vec<PathBuf> = std::fs::read_dir(&folder)
            .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
            .map(|entry| entry.expect("a folder entry").path())
            .filter(|path| path.extension().is_some_and(|extension| extension == "ndjson"))
            .collect();
        segments.sort();
        let text: String =
            segments.iter().map(|path| std::fs::read_to_string(path).expect("read a segment")).collect();
        text.lines().map(str::to_owned).collect()
    }
}

/// A finished run of `sinew`.
pub struct SinewRun {
    /// The arguments.
    pub arguments: String,
    /// Exit status and output.
    pub output: Output,
}

impl SinewRun {
    /// Returns standard output as text.
    pub fn stdout(&self) -> String {
        String::from_utf8_lossy(&self.output.stdout).into_owned()
    }

    /// Returns standard error as text.
    pub fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.output.stderr).into_owned()
    }

    /// Returns standard output as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.output.stdout).unwrap_or_else(|error| panic!("{error}\n{self}"))
    }

    /// Fails the test and shows the whole run, unless the exit code is this one.
    pub fn must_exit(self, code: i32) -> SinewRun {
        assert_eq!(self.output.status.code(), Some(code), "{self}");
        self
    }
}

impl std::fmt::Display for SinewRun {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let status = self.output.status;
        write!(f, "sinew {} → {status}\nstdout: {}\nstderr: {}", self.arguments, self.stdout(), self.stderr())
    }
}

/// Enters a private mount namespace, so that mounts end with this process and no other process sees them.
#[cfg(target_os = "linux")]
fn enter_private_mount_namespace() {
    use nix::mount::{MsFlags, mount};
    nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNS).expect("a mount namespace");
    let (none, private) = (None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE);
    mount(none, "/", none, private, none).expect("private mounts");
}

/// Returns true if a record holds an entry of a kind. A `call` holds a decision and an outcome.
pub fn holds(record: &Value, kind: &str) -> bool {
    record["kind"] == kind || (record["kind"] == "call" && ["decision", "outcome"].contains(&kind))
}
