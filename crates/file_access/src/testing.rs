//! Shared test support: a workspace next to an outside folder, calls that name paths, and child processes
//! that run one test again as another user, under limits or with injected faults.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::time::Duration;

use tool::CallId;
use tool::definition::PathAccess;

use crate::error::OpenError;
use crate::{ChangeRecorder, OpenedPath, PathRequest, PathSource, UndoLimits, UndoStore, open};

/// Environment variable with the root of the fixture, set in child processes.
const FIXTURE_ENV: &str = "RESOURCES_TEST_CHILD";

/// An unprivileged user.
pub(crate) const UNPRIVILEGED_UID: u32 = 65534;

/// Returns true unless this run of the tests opens paths as on a system without `openat2`.
#[cfg(target_os = "linux")]
pub(crate) fn has_openat2() -> bool {
    std::env::var_os("SINEW_TESTS_OPEN").is_none()
}

/// Temporary folder with a workspace `ws` and a folder `outside` that holds a secret.
pub(crate) struct WorkspaceFixture {
    root: PathBuf,
    _tempdir: Option<tempfile::TempDir>,
}

impl WorkspaceFixture {
    pub(crate) fn new() -> WorkspaceFixture {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        fs::create_dir(root.join("ws")).unwrap();
        fs::create_dir(root.join("outside")).unwrap();
        fs::write(root.join("outside/secret"), "secret").unwrap();
        WorkspaceFixture { root, _tempdir: Some(folder) }
    }

    /// Returns the fixture that the parent process created.
    pub(crate) fn from_parent() -> Option<WorkspaceFixture> {
        std::env::var_os(FIXTURE_ENV).map(|root| WorkspaceFixture { root: root.into(), _tempdir: None })
    }

    pub(crate) fn path(&self, relative: &str) -> PathBuf {
        self.root.join(relative)
    }

    pub(crate) fn file(&self, relative: &str, content: &str) -> PathBuf {
        let path = self.path(relative);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    pub(crate) fn link(&self, relative: &str, target: impl AsRef<Path>) {
        std::os::unix::fs::symlink(target, self.path(relative)).unwrap();
    }

    pub(crate) fn content(&self, relative: &str) -> String {
        fs::read_to_string(self.path(relative)).unwrap()
    }

    pub(crate) fn names(&self, relative: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(relative)).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// Opens one path from the workspace.
    pub(crate) fn try_open(&self, text: &str, access: PathAccess) -> Result<OpenedPath, OpenError> {
        open_from(&self.path("ws"), text, access)
    }

    pub(crate) fn read(&self, text: &str) -> OpenedPath {
        self.try_open(text, PathAccess::Read).unwrap()
    }

    pub(crate) fn write(&self, text: &str) -> OpenedPath {
        self.try_open(text, PathAccess::Write).unwrap()
    }

    /// Returns the undo store of the fixture.
    pub(crate) fn undo(&self) -> Arc<UndoStore> {
        let limits = UndoLimits { keep_bytes: 64 << 20, keep_for: Duration::from_secs(3600) };
        UndoStore::at(&self.path("undo"), limits)
    }

    /// Returns a recorder for a new call.
    pub(crate) fn recorder(&self) -> ChangeRecorder {
        self.undo().for_call(CallId::fresh())
    }

    pub(crate) fn remove(&self, text: &str) -> OpenedPath {
        self.try_open(text, PathAccess::Remove).unwrap()
    }

    /// Gives the world to another user, which only root can.
    pub(crate) fn chown_to(&self, user: u32) {
        chown_all(&self.root, user);
    }

    /// Runs the named test again in its own process, which finds this fixture by `from_parent`.
    pub(crate) fn run_child(&self, wrapper: &[&str], test: &str, user: Option<u32>) -> Output {
        let mut command = self.child_command(wrapper, test);
        if let Some(user) = user {
            command.uid(user).gid(user);
        }
        command.output().unwrap()
    }

    /// Like `run_child`, as a user to whom permission bits apply: root gives the fixture to [`UNPRIVILEGED_UID`], any
    /// other user is one already.
    pub(crate) fn unprivileged_child(&self, test: &str) -> Output {
        let user = rustix::process::geteuid().is_root().then_some(UNPRIVILEGED_UID);
        if let Some(user) = user {
            self.chown_to(user);
        }
        self.run_child(&["env"], test, user)
    }

    /// Returns the command that runs the named test again.
    pub(crate) fn child_command(&self, wrapper: &[&str], test: &str) -> Command {
        let program = std::env::current_exe().unwrap();
        let mut words: Vec<&OsStr> = wrapper.iter().map(OsStr::new).collect();
        words.extend([program.as_os_str(), test.as_ref(), "--exact".as_ref(), "--nocapture".as_ref()]);
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).env(FIXTURE_ENV, &self.root);
        command
    }
}

fn chown_all(path: &Path, user: u32) {
    std::os::unix::fs::lchown(path, Some(user), Some(user)).unwrap();
    if path.is_dir() && !path.is_symlink() {
        for entry in fs::read_dir(path).unwrap() {
            chown_all(&entry.unwrap().path(), user);
        }
    }
}

/// A call that names one path.
pub(crate) struct SinglePathCall(PathRequest);

impl SinglePathCall {
    pub(crate) fn at(path: &Path, access: PathAccess) -> SinglePathCall {
        let (key, text) = ("path".into(), path.display().to_string());
        SinglePathCall(PathRequest { key, text: text.into(), access, base: Path::new("/").into() })
    }
}

impl PathSource for SinglePathCall {
    fn path_requests(&self) -> Vec<PathRequest> {
        vec![self.0.clone()]
    }
}

pub(crate) fn open_from(base: &Path, text: &str, access: PathAccess) -> Result<OpenedPath, OpenError> {
    let request = PathRequest { key: "path".into(), text: text.into(), access, base: base.into() };
    open(SinglePathCall(request)).map(|opened| opened.into_paths().remove(0))
}

/// Fails unless a child ran exactly one test and it passed.
pub(crate) fn assert_passed(output: &Output) {
    let text = String::from_utf8_lossy(&output.stdout);
    let passed = output.status.success() && text.contains("1 passed");
    assert!(passed, "{}\n{text}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
}
