//! Runs the tests as an ordinary user if the task runs as root, because root passes checks that stop other
//! users.
//!
//! Cargo itself stays root: it builds into a target directory of root and reads a toolchain that may be in
//! root's home. Only the test binaries change user, by cargo's target runner.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::tree::Root;
use crate::{process, project};

/// Name of the user, who is created if there is none of this name.
const NAME: &str = "sinew-tests";

/// Makes directories reachable that are in a directory closed to other users, such as root's home. In a mount
/// namespace of its own, an empty directory covers the closed one, and the needed entries are bound into it
/// under their old names. The arguments are the entries, `--`, and the command.
const REVEAL: &str = r#"
stash=$(mktemp -d /tmp/sinew-stash.XXXXXX)
mount -t tmpfs -o mode=0700 tmpfs "$stash"
count=0
for entry; do
    [ "$entry" != -- ] || break
    count=$((count + 1))
    mkdir "$stash/$count"
    mount --rbind "$entry" "$stash/$count"
done
covered=
count=0
while [ "$1" != -- ]; do
    count=$((count + 1))
    closed=$(dirname "$1")
    case " $covered " in
        *" $closed "*) ;;
        *) mount -t tmpfs -o mode=0755 tmpfs "$closed"; covered="$covered $closed" ;;
    esac
    mkdir "$1"
    mount --rbind "$stash/$count" "$1"
    shift
done
shift
umount --recursive "$stash"
rmdir "$stash"
# Or cargo would work in the covered directory, which is another mount than the one its absolute paths lead to.
cd "$PWD"
exec "$@"
"#;

/// An ordinary user of this machine.
pub(crate) struct OrdinaryUser {
    home: PathBuf,
    /// Homes of cargo and rustup, which are not in the user's own.
    toolchain: [(&'static str, PathBuf); 2],
    /// Variable by which cargo takes a runner for test binaries.
    runner_variable: String,
    /// Entries of closed directories that tests need.
    hidden: BTreeSet<PathBuf>,
}

impl OrdinaryUser {
    /// The user to run tests as, or `None` where this process is not root. `binary` is the program under
    /// test.
    pub(crate) fn if_root(root: &Root, binary: &Path) -> Result<Option<Self>> {
        if !is_root() {
            return Ok(None);
        }
        let home = home_of_user().or_else(|_| {
            process::run(Command::new("useradd").args(["--create-home", "--shell", "/bin/sh", NAME]))
                .with_context(|| format!("root runs the tests as `{NAME}`, who could not be created"))
                .and_then(|()| home_of_user())
        })?;
        let target = binary.ancestors().nth(2).context("target/<profile>/sinew")?;
        // trybuild compiles below this directory.
        let writable = target.join("tests");
        std::fs::create_dir_all(&writable)?;
        process::run(Command::new("chown").args(["-R", &format!("{NAME}:")]).arg(&writable))?;
        let host = project::host_target(root)?.to_uppercase().replace('-', "_");
        let toolchain = toolchain();
        let search_path = std::env::var_os("PATH").unwrap_or_default();
        let needed = [root.path(), target].map(Path::to_owned).into_iter();
        let needed = needed.chain(toolchain.iter().map(|(_, home)| home.clone()));
        let needed = needed.chain(std::env::split_paths(&search_path));
        Ok(Some(OrdinaryUser {
            home,
            hidden: needed.filter_map(|path| hidden_entry(&path)).collect(),
            toolchain,
            runner_variable: format!("CARGO_TARGET_{host}_RUNNER"),
        }))
    }

    /// Copies the cargo command so that its test binaries run as this user.
    pub(crate) fn runs_tests_of(&self, cargo: &Command) -> Command {
        let mut command = self.revealing(cargo, &[]);
        command.env(&self.runner_variable, self.runner());
        command
    }

    /// Copies the command so that it runs as this user.
    pub(crate) fn runs(&self, command: &Command) -> Command {
        self.revealing(command, &self.runner().split_whitespace().collect::<Vec<_>>())
    }

    /// Copies the command, started by the program and arguments in `starter`, with the hidden entries
    /// reachable.
    fn revealing(&self, copied: &Command, starter: &[&str]) -> Command {
        let argv = starter.iter().map(OsStr::new).chain([copied.get_program()]).chain(copied.get_args());
        let mut argv = argv.map(OsStr::to_owned);
        let mut command = match self.hidden.is_empty() {
            true => Command::new(argv.next().unwrap_or_default()),
            false => {
                let mut command = Command::new("unshare");
                command.args(["--mount", "--propagation", "private", "sh", "-euc", REVEAL, "sh"]);
                command.args(&self.hidden).arg("--");
                command
            }
        };
        command.args(argv);
        command.current_dir(copied.get_current_dir().unwrap_or(Path::new(".")));
        for (name, value) in copied.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command
    }

    fn runner(&self) -> String {
        let (home, variable) = (self.home.display(), &self.runner_variable);
        let toolchain = self.toolchain.iter().map(|(name, home)| format!(" {name}={}", home.display()));
        format!(
            "setpriv --reuid={NAME} --regid={NAME} --clear-groups \
             env -u {variable} HOME={home} USER={NAME} LOGNAME={NAME} TMPDIR=/tmp{}",
            toolchain.collect::<String>()
        )
    }
}

#[cfg(target_os = "linux")]
pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn is_root() -> bool {
    false
}

fn home_of_user() -> Result<PathBuf> {
    let entry = process::capture(Command::new("getent").args(["passwd", NAME]))?;
    entry.trim().split(':').nth(5).map(PathBuf::from).context("a passwd entry without a home")
}

fn toolchain() -> [(&'static str, PathBuf); 2] {
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let variables = [("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")];
    variables.map(|(variable, name)| {
        (variable, std::env::var_os(variable).map_or_else(|| home.join(name), PathBuf::from))
    })
}

/// Entry of the topmost closed directory among the ancestors of a path, if there is one.
fn hidden_entry(path: &Path) -> Option<PathBuf> {
    let path = path.canonicalize().ok()?;
    let ancestors: Vec<&Path> = path.ancestors().collect();
    let open = |folder: &Path| folder.metadata().is_ok_and(|facts| facts.permissions().mode() & 0o001 != 0);
    let mut pairs = ancestors.windows(2).rev().filter_map(|pair| Some((*pair.first()?, *pair.last()?)));
    pairs.find(|(_, folder)| !open(folder)).map(|(entry, _)| entry.to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_entry_of_the_topmost_closed_directory_is_hidden() {
        let folder = tempfile::tempdir_in("/tmp").unwrap();
        let path = folder.path().join("a/b/c");
        fs::create_dir_all(&path).unwrap();
        let mode = |name: &str, mode| {
            fs::set_permissions(folder.path().join(name), fs::Permissions::from_mode(mode)).unwrap();
        };
        mode("", 0o755);
        assert_eq!(hidden_entry(&path), None);
        mode("a/b", 0o700);
        assert_eq!(hidden_entry(&path), Some(path.clone()));
        mode("a", 0o700);
        assert_eq!(hidden_entry(&path), Some(folder.path().join("a/b")));
        assert_eq!(hidden_entry(&folder.path().join("absent")), None);
    }

    #[test]
    fn test_binaries_change_user_and_cargo_does_not() {
        let user = |hidden: &[&str]| OrdinaryUser {
            home: "/home/x".into(),
            toolchain: [("CARGO_HOME", "/c".into()), ("RUSTUP_HOME", "/r".into())],
            runner_variable: "CARGO_TARGET_T_RUNNER".into(),
            hidden: hidden.iter().map(PathBuf::from).collect(),
        };
        let mut cargo = Command::new("cargo");
        cargo.args(["nextest", "run"]).env("A", "1").current_dir("/");
        let shown = process::shown(&user(&[]).runs_tests_of(&cargo));
        assert!(shown.starts_with("A=1 CARGO_TARGET_T_RUNNER='setpriv --reuid=sinew-tests "), "{shown}");
        assert!(shown.ends_with("TMPDIR=/tmp CARGO_HOME=/c RUSTUP_HOME=/r' cargo nextest run"), "{shown}");
        let shown = process::shown(&user(&["/closed/.cargo", "/closed/b"]).runs_tests_of(&cargo));
        assert!(shown.ends_with("sh /closed/.cargo /closed/b -- cargo nextest run"), "{shown}");
        let mut python = Command::new("python3");
        python.arg("a.py");
        let shown = process::shown(&user(&[]).runs(&python));
        assert!(
            shown.starts_with("setpriv --reuid=sinew-tests ") && shown.ends_with(" python3 a.py"),
            "{shown}"
        );
    }
}
