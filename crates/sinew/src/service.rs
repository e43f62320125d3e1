//! Runs the daemon as a user service: the files of a service manager and the commands to control it.
//!
//! Both managers are compiled on every system, so that their files can be printed and tested anywhere.

mod facts;
mod launchd;
mod systemd;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

pub(crate) use facts::Facts;
use server::Home;

use crate::exit::{Exit, Problem};

/// Timeout for a manager to unload a service.
const PATIENCE: Duration = Duration::from_secs(20);
const GLANCE: Duration = Duration::from_millis(100);

/// Service manager that starts the daemon and keeps it running.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Manager {
    /// macOS.
    Launchd,
    /// Linux.
    Systemd,
}

/// Action of a service manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Load the service files and start the service.
    Install,
    /// Stop and unload the service; its files are removed afterwards.
    Uninstall,
    Start,
    Stop,
    Restart,
}

/// File that a service manager reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServiceFile {
    pub(crate) path: PathBuf,
    pub(crate) text: String,
}

/// Command of a service manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Must succeed.
    Must(Vec<String>),
    /// May fail, for example if there is nothing to undo.
    May(Vec<String>),
    /// Repeated until it fails: only then is the service unloaded.
    UntilItFails(Vec<String>),
}

impl Manager {
    /// Service manager of this system.
    pub(crate) const CURRENT: Manager =
        if cfg!(target_os = "macos") { Manager::Launchd } else { Manager::Systemd };

    /// Returns the service files with their paths.
    pub(crate) fn files(self, facts: &Facts) -> Result<Vec<ServiceFile>, Problem> {
        match self {
            Manager::Launchd => launchd::files(facts),
            Manager::Systemd => Ok(systemd::files(facts)),
        }
    }

    /// Returns the paths of the service files.
    fn paths(self, user_home: &Path) -> Vec<PathBuf> {
        match self {
            Manager::Launchd => vec![launchd::path(user_home)],
            Manager::Systemd => systemd::paths(user_home).into(),
        }
    }

    /// Returns the commands of an action, in order.
    pub(crate) fn steps(self, action: Action, facts: &Facts) -> Vec<Step> {
        match self {
            Manager::Launchd => launchd::steps(action, facts),
            Manager::Systemd => systemd::steps(action),
        }
    }

    /// Returns the command that prints the status of the service.
    pub(crate) fn inquiry(self, facts: &Facts) -> Vec<String> {
        match self {
            Manager::Launchd => launchd::inquiry(facts),
            Manager::Systemd => systemd::inquiry(),
        }
    }

    /// Returns the command that prints the process id of the service.
    pub(crate) fn whom(self, facts: &Facts) -> Vec<String> {
        match self {
            Manager::Launchd => launchd::inquiry(facts),
            Manager::Systemd => systemd::whom(),
        }
    }

    /// Parses the process id from the output of that command.
    pub(crate) fn named(self, said: &str) -> Option<i32> {
        let pid = match self {
            Manager::Launchd => said.lines().find_map(|line| line.trim().strip_prefix("pid = ")),
            Manager::Systemd => Some(said),
        };
        // Systemd prints 0 if the service does not run.
        pid?.trim().parse().ok().filter(|pid| *pid > 0)
    }
}

/// Returns true if a service of this user is installed, by this or another version.
pub(crate) fn is_installed(home: &Home) -> bool {
    home.user_home().is_some_and(|user| Manager::CURRENT.paths(user).iter().all(|path| path.exists()))
}

impl ServiceFile {
    /// Returns true if the file exists with this content.
    pub(crate) fn is_in_place(&self) -> bool {
        std::fs::read_to_string(&self.path).is_ok_and(|there| there == self.text)
    }

    /// Writes the file atomically.
    pub(crate) fn write(&self) -> Result<(), Problem> {
        let failed = |error: std::io::Error| {
            Problem::failed(format!("`{}` cannot be written: {error}", self.path.display()))
        };
        let folder = self.path.parent().unwrap_or(Path::new("/"));
        std::fs::create_dir_all(folder).map_err(failed)?;
        strict_yaml::replace_private(&self.path, self.text.as_bytes()).map_err(failed)
    }
}

/// Runs the commands in order.
pub(crate) fn carry_out(steps: &[Step]) -> Result<(), Problem> {
    for step in steps {
        match step {
            Step::Must(words) => {
                let (worked, said) = ask(words)?;
                if !worked {
                    let message = format!("`{}` failed: {}", words.join(" "), said.trim());
                    return Err(Problem::failed(message).hint(
                        "`sinew service install --print` shows the files; `sinew serve` runs without a manager",
                    ));
                }
            }
            Step::May(words) => drop(ask(words)?),
            Step::UntilItFails(words) => wait_until_it_fails(words)?,
        }
    }
    Ok(())
}

fn wait_until_it_fails(words: &[String]) -> Result<(), Problem> {
    let deadline = Instant::now() + PATIENCE;
    while ask(words)?.0 {
        if Instant::now() >= deadline {
            let message = format!("the old service is still loaded: `{}` succeeds", words.join(" "));
            return Err(Problem::new(Exit::TimedOut, message).hint("try again in a moment"));
        }
        std::thread::sleep(GLANCE);
    }
    Ok(())
}

/// Runs a command and returns whether it succeeded, and its output.
pub(crate) fn ask(words: &[String]) -> Result<(bool, String), Problem> {
    let Some((program, rest)) = words.split_first() else { return Ok((true, String::new())) };
    let output = Command::new(program).args(rest).output().map_err(|error| {
        let problem = Problem::failed(format!("`{program}` cannot be run: {error}"));
        problem.hint("`sinew serve` runs the daemon without a service manager")
    })?;
    let said = [&output.stdout[..], &output.stderr[..]].concat();
    Ok((output.status.success(), String::from_utf8_lossy(&said).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn a_failed_required_command_stops_the_rest() {
        let folder = tempfile::tempdir().unwrap();
        let mark = folder.path().join("mark").display().to_string();
        let after = Step::Must(words(&format!("touch {mark}")));
        let error = carry_out(&[Step::Must(words("false x")), after.clone()]).unwrap_err();
        assert!(error.message.contains("`false x` failed"), "{}", error.message);
        assert!(!Path::new(&mark).exists(), "no command runs after it");
        carry_out(&[Step::May(words("false")), Step::UntilItFails(words("false")), after]).unwrap();
        assert!(Path::new(&mark).exists(), "an optional command may fail");
        let error = carry_out(&[Step::May(words("no-such-manager-here"))]).unwrap_err();
        assert!(error.message.contains("no-such-manager-here"), "{}", error.message);
    }

    #[test]
    fn only_the_service_process_id_is_parsed() {
        let launchd = "gui/501/x = {\n\tstate = running\n\truns = 7\n\tpid = 42\n\tlast exit code = 0\n}";
        assert_eq!(Manager::Launchd.named(launchd), Some(42));
        assert_eq!(Manager::Launchd.named("runs = 7\nlast pid = 42\nsomething pid = 42"), None);
        assert_eq!(Manager::Systemd.named("42\n"), Some(42));
        for said in ["0\n", "", "Main PID: 42 (sinew)", "42\n43\n"] {
            assert_eq!(Manager::Systemd.named(said), None, "{said}");
        }
    }

    #[test]
    fn a_written_file_is_recognised() {
        let folder = tempfile::tempdir().unwrap();
        let file = ServiceFile { path: folder.path().join("a/b/c.unit"), text: "one".to_owned() };
        assert!(!file.is_in_place());
        file.write().unwrap();
        assert!(file.is_in_place());
        let newer = ServiceFile { text: "two".to_owned(), ..file.clone() };
        assert!(!newer.is_in_place());
        newer.write().unwrap();
        assert!(newer.is_in_place() && !file.is_in_place());
    }
}
