//! Finds the binary under test, and makes sure an unprivileged user can run it.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use nix::unistd::geteuid;

/// User id of `nobody`, to which a root process changes.
#[cfg(target_os = "linux")]
const UNPRIVILEGED_UID: u32 = 65534;

/// Returns a command for the binary under test, with an empty environment except for `PATH` and `NO_COLOR`.
pub fn sinew() -> Command {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    let binary = BINARY.get_or_init(prepare_binary);
    #[cfg(target_os = "linux")]
    crate::openat2::take_away_if_asked();
    let mut command = Command::new(binary);
    command.env_clear().env("PATH", "/usr/bin:/bin").env("NO_COLOR", "1");
    command
}

/// Like `sinew`, without dropping root: for tests whose peers only root can start.
pub fn sinew_as_current_user() -> Command {
    let mut command = Command::new(locate_binary());
    command.env_clear().env("PATH", "/usr/bin:/bin").env("NO_COLOR", "1");
    command
}

/// Makes this process unprivileged. A test binary that only root can reach is restarted from a copy that
/// every user can reach, because it may have to start itself.
pub fn drop_root_permanently() {
    use std::os::unix::process::CommandExt;
    if !geteuid().is_root() {
        return;
    }
    let binary = std::env::current_exe().expect("this test binary has a path");
    if !is_accessible_to_all(&binary) {
        let words = std::env::args_os().skip(1);
        let error = Command::new(copy_to_shared_folder(&binary)).args(words).exec();
        panic!("cannot restart from a copy: {error}");
    }
    drop_root();
}

/// Locates the binary while root can still read every folder, then drops root.
fn prepare_binary() -> PathBuf {
    let binary = locate_binary();
    if !geteuid().is_root() {
        return binary;
    }
    let binary = if is_accessible_to_all(&binary) { binary } else { copy_to_shared_folder(&binary) };
    drop_root();
    binary
}

#[cfg(target_os = "linux")]
fn drop_root() {
    use nix::unistd::{Gid, Uid, setgroups, setresgid, setresuid};
    let (user, group) = (Uid::from_raw(UNPRIVILEGED_UID), Gid::from_raw(UNPRIVILEGED_UID));
    setgroups(&[group]).expect("drop groups");
    setresgid(group, group, group).expect("drop group");
    setresuid(user, user, user).expect("drop user");
    // The uid change cleared the dumpable flag. Sets it again, so that processes of the same user can inspect
    // this one.
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::Dumpable).expect("dumpable");
}

#[cfg(not(target_os = "linux"))]
fn drop_root() {
    panic!("run the suite as an unprivileged user: root hides permission failures");
}

fn locate_binary() -> PathBuf {
    let named = std::env::var_os("SINEW_BIN").map(PathBuf::from);
    let beside = || {
        let here = std::env::current_exe().expect("this test binary has a path");
        here.ancestors().nth(2).map(|profile| profile.join("sinew")).expect("target/<profile>/deps/<test>")
    };
    let binary = named.unwrap_or_else(beside);
    assert!(binary.is_file(), "{} does not exist: run `cargo xtask test`, which builds it", binary.display());
    binary
}

fn is_accessible_to_all(binary: &Path) -> bool {
    binary
        .ancestors()
        .skip(1)
        .all(|dir| dir.metadata().is_ok_and(|facts| facts.permissions().mode() & 0o001 != 0))
}

/// Copies a binary out of a private folder such as root's home. The name identifies the original, so that one
/// copy serves the whole run.
fn copy_to_shared_folder(binary: &Path) -> PathBuf {
    let facts = binary.metadata().expect("facts of the binary");
    let name = format!("sinew-under-test-{}-{}-{}", facts.ino(), facts.size(), facts.mtime_nsec());
    let copy = std::env::temp_dir().join(name);
    if !copy.is_file() {
        let draft = copy.with_extension(std::process::id().to_string());
        std::fs::copy(binary, &draft).expect("copy the binary");
        std::fs::rename(&draft, &copy).expect("put the copy in place");
    }
    copy
}
