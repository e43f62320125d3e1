//! Runs the daemon as a user service: the files of a service manager and the commands to control it.
//!
//! Both managers are compiled on every system, so that their files can be printed and tested anywhere.

mod facts;
mod launchd;
mod systemd;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

pub(crate) use facts::ServiceFacts;
use server::SinewHome;

use crate::exit::{CommandError, ExitKind};

/// Timeout for a manager to unload a service.
const UNLOAD_TIMEOUT: Duration = Duration::from_secs(20);
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Service manager that starts the daemon and keeps it running.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ServiceManagerKind {
    /// macOS.
    Launchd,
    /// Linux.
    Systemd,
}

/// Action of a service manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServiceAction {
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
pub(crate) enum ManagerCommand {
    /// Must succeed.
    Required(Vec<String>),
    /// May fail, for example if there is nothing to undo.
    Optional(Vec<String>),
    /// Repeated until it fails: only then is the service unloaded.
    UntilFailure(Vec<String>),
}

impl ServiceManagerKind {
    /// Service manager of this system.
    pub(crate) const CURRENT: ServiceManagerKind =
        if cfg!(target_os = "macos") { ServiceManagerKind::Launchd } else { ServiceManagerKind::Systemd };

    /// Returns the service files with their paths.
    pub(crate) fn files(self, facts: &ServiceFacts) -> Result<Vec<ServiceFile>, CommandError> {
        match self {
            ServiceManagerKind::Launchd => launchd::files(facts),
            ServiceManagerKind::Systemd => Ok(systemd::files(facts)),
        }
    }

    /// Returns the paths of the service files.
    fn paths(self, user_home: &Path) -> Vec<PathBuf> {
        match self {
            ServiceManagerKind::Launchd => vec![launchd::path(user_home)],
            ServiceManagerKind::Systemd => systemd::paths(user_home).into(),
        }
    }

    /// Returns the existing files of the service, with the links by which it is enabled.
    pub(crate) fn installed_paths(self, user_home: &Path) -> Vec<PathBuf> {
        let links = match self {
            ServiceManagerKind::Launchd => Vec::new(),
            ServiceManagerKind::Systemd => systemd::enabling_links(user_home).into(),
        };
        let all = self.paths(user_home).into_iter().chain(links);
        all.filter(|path| path.symlink_metadata().is_ok()).collect()
    }

    /// Returns a command that succeeds if the manager of this user can be reached.
    pub(crate) fn check_command(self, facts: &ServiceFacts) -> Vec<String> {
        match self {
            ServiceManagerKind::Launchd => launchd::check_command(facts),
            ServiceManagerKind::Systemd => systemd::check_command(),
        }
    }

    /// Returns the commands of an action, in order.
    pub(crate) fn commands(self, action: ServiceAction, facts: &ServiceFacts) -> Vec<ManagerCommand> {
        match self {
            ServiceManagerKind::Launchd => launchd::commands(action, facts),
            ServiceManagerKind::Systemd => systemd::commands(action),
        }
    }

    /// Returns the command that prints the status of the service.
    pub(crate) fn status_command(self, facts: &ServiceFacts) -> Vec<String> {
        match self {
            ServiceManagerKind::Launchd => launchd::status_command(facts),
            ServiceManagerKind::Systemd => systemd::status_command(),
        }
    }

    /// Returns the command that prints the process id of the service.
    pub(crate) fn pid_command(self, facts: &ServiceFacts) -> Vec<String> {
        match self {
            ServiceManagerKind::Launchd => launchd::status_command(facts),
            ServiceManagerKind::Systemd => systemd::pid_command(),
        }
    }

    /// Parses the process id from the output of that command.
    pub(crate) fn parse_pid(self, text: &str) -> Option<i32> {
        let pid = match self {
            ServiceManagerKind::Launchd => text.lines().find_map(|line| line.trim().strip_prefix("pid = ")),
            ServiceManagerKind::Systemd => Some(text),
        };
        // Systemd prints 0 if the service does not run.
        pid?.trim().parse().ok().filter(|pid| *pid > 0)
    }
}

/// Returns true if a service of this user is installed, by this or another version.
pub(crate) fn is_installed(home: &SinewHome) -> bool {
    home.user_home()
        .is_some_and(|user| ServiceManagerKind::CURRENT.paths(user).iter().all(|path| path.exists()))
}

impl ServiceFile {
    /// Returns true if the file exists with this content.
    pub(crate) fn is_current(&self) -> bool {
        std::fs::read_to_string(&self.path).is_ok_and(|there| there == self.text)
    }

    /// Restores the content that the file had before, or removes it if there was none.
    pub(crate) fn restore(&self, earlier: Option<&str>) -> Result<(), CommandError> {
        match earlier {
            Some(text) => ServiceFile { path: self.path.clone(), text: text.to_owned() }.write(),
            None => match std::fs::remove_file(&self.path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    let message = format!("`{}` cannot be removed: {error}", self.path.display());
                    Err(CommandError::failed(message))
                }
                _ => Ok(()),
            },
        }
    }

    /// Writes the file atomically.
    pub(crate) fn write(&self) -> Result<(), CommandError> {
        let failed = |error: std::io::Error| {
            CommandError::failed(format!("`{}` cannot be written: {error}", self.path.display()))
        };
        let folder = self.path.parent().unwrap_or(Path::new("/"));
        std::fs::create_dir_all(folder).map_err(failed)?;
        strict_yaml::replace_private_file(&self.path, self.text.as_bytes()).map_err(failed)
    }
}

/// Runs the commands in order.
pub(crate) fn run_commands(steps: &[ManagerCommand]) -> Result<(), CommandError> {
    for step in steps {
        match step {
            ManagerCommand::Required(words) => {
                let (worked, text) = run_command(words)?;
                if !worked {
                    let message = format!("`{}` failed: {}", words.join(" "), text.trim());
                    return Err(CommandError::failed(message).with_hint(
                        "`sinew service install --print` shows the files; `sinew serve` runs without a manager",
                    ));
                }
            }
            ManagerCommand::Optional(words) => drop(run_command(words)?),
            ManagerCommand::UntilFailure(words) => poll_until_failure(words)?,
        }
    }
    Ok(())
}

fn poll_until_failure(words: &[String]) -> Result<(), CommandError> {
    let deadline = Instant::now() + UNLOAD_TIMEOUT;
    while run_command(words)?.0 {
        if Instant::now() >= deadline {
            let message = format!("the old service is still loaded: `{}` succeeds", words.join(" "));
            return Err(CommandError::new(ExitKind::TimedOut, message).with_hint("try again in a moment"));
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    Ok(())
}

/// Runs a command and returns whether it succeeded, and its output.
pub(crate) fn run_command(words: &[String]) -> Result<(bool, String), CommandError> {
    let Some((program, rest)) = words.split_first() else { return Ok((true, String::new())) };
    let output = Command::new(program).args(rest).output().map_err(|error| {
        let problem = CommandError::failed(format!("`{program}` cannot be run: {error}"));
        problem.with_hint("`sinew serve` runs the daemon without a service manager")
    })?;
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    Ok((output.status.success(), String::from_utf8_lossy(&text).into_owned()))
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
        let after = ManagerCommand::Required(words(&format!("touch {mark}")));
        let error = run_commands(&[ManagerCommand::Required(words("false x")), after.clone()]).unwrap_err();
        assert!(error.message.contains("`false x` failed"), "{}", error.message);
        assert!(!Path::new(&mark).exists(), "no command runs after it");
        run_commands(&[
            ManagerCommand::Optional(words("false")),
            ManagerCommand::UntilFailure(words("false")),
            after,
        ])
        .unwrap();
        assert!(Path::new(&mark).exists(), "an optional command may fail");
        let error = run_commands(&[ManagerCommand::Optional(words("no-such-manager-here"))]).unwrap_err();
        assert!(error.message.contains("no-such-manager-here"), "{}", error.message);
    }

    #[test]
    fn only_the_service_process_id_is_parsed() {
        let launchd = "gui/501/x = {\n\tstate = running\n\truns = 7\n\tpid = 42\n\tlast exit code = 0\n}";
        assert_eq!(ServiceManagerKind::Launchd.parse_pid(launchd), Some(42));
        assert_eq!(
            ServiceManagerKind::Launchd.parse_pid("runs = 7\nlast pid = 42\nsomething pid = 42"),
            None
        );
        assert_eq!(ServiceManagerKind::Systemd.parse_pid("42\n"), Some(42));
        for text in ["0\n", "", "Main PID: 42 (sinew)", "42\n43\n"] {
            assert_eq!(ServiceManagerKind::Systemd.parse_pid(text), None, "{text}");
        }
    }

    #[test]
    fn a_written_file_is_recognised() {
        let folder = tempfile::tempdir().unwrap();
        let file = ServiceFile { path: folder.path().join("a/b/c.unit"), text: "one".to_owned() };
        assert!(!file.is_current());
        file.write().unwrap();
        assert!(file.is_current());
        let newer = ServiceFile { text: "two".to_owned(), ..file.clone() };
        assert!(!newer.is_current());
        newer.write().unwrap();
        assert!(newer.is_current() && !file.is_current());
    }
}
