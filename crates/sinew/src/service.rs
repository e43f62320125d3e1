//! The daemon as a service of its user: the files a service manager reads, and what to tell the manager.
//!
//! Both managers are values, so that each one's files can be shown and tested on any system.

mod facts;
mod launchd;
mod systemd;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

pub(crate) use facts::Facts;
use server::Home;

use crate::exit::{Exit, Problem};

/// How long a manager may take to let go of a service.
const PATIENCE: Duration = Duration::from_secs(20);
const GLANCE: Duration = Duration::from_millis(100);

/// Who starts the daemon and keeps it running.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Manager {
    /// On macOS.
    Launchd,
    /// On Linux.
    Systemd,
}

/// What a manager is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Take the service's files in, and start it.
    Install,
    /// Stop it and forget its files, which are removed afterwards.
    Uninstall,
    Start,
    Stop,
    Restart,
}

/// A file that a manager reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServiceFile {
    pub(crate) path: PathBuf,
    pub(crate) text: String,
}

/// One thing to tell a manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// It must work.
    Must(Vec<String>),
    /// It may fail: there may be nothing to undo.
    May(Vec<String>),
    /// Ask until it fails: what was let go is gone only then.
    UntilItFails(Vec<String>),
}

impl Manager {
    /// The one of this system.
    pub(crate) const CURRENT: Manager =
        if cfg!(target_os = "macos") { Manager::Launchd } else { Manager::Systemd };

    /// The files, and where they go.
    pub(crate) fn files(self, facts: &Facts) -> Result<Vec<ServiceFile>, Problem> {
        match self {
            Manager::Launchd => launchd::files(facts),
            Manager::Systemd => Ok(systemd::files(facts)),
        }
    }

    /// Where its files go.
    fn paths(self, user_home: &Path) -> Vec<PathBuf> {
        match self {
            Manager::Launchd => vec![launchd::path(user_home)],
            Manager::Systemd => systemd::paths(user_home).into(),
        }
    }

    /// What to tell it, in this order.
    pub(crate) fn steps(self, action: Action, facts: &Facts) -> Vec<Step> {
        match self {
            Manager::Launchd => launchd::steps(action, facts),
            Manager::Systemd => systemd::steps(action),
        }
    }

    /// The question how the service is.
    pub(crate) fn inquiry(self, facts: &Facts) -> Vec<String> {
        match self {
            Manager::Launchd => launchd::inquiry(facts),
            Manager::Systemd => systemd::inquiry(),
        }
    }

    /// The question which process it runs.
    pub(crate) fn whom(self, facts: &Facts) -> Vec<String> {
        match self {
            Manager::Launchd => launchd::inquiry(facts),
            Manager::Systemd => systemd::whom(),
        }
    }

    /// The process that its answer to that names.
    pub(crate) fn named(self, said: &str) -> Option<i32> {
        let pid = match self {
            Manager::Launchd => said.lines().find_map(|line| line.trim().strip_prefix("pid = ")),
            Manager::Systemd => Some(said),
        };
        // Where there is none, systemd says 0.
        pid?.trim().parse().ok().filter(|pid| *pid > 0)
    }
}

/// Whether a service of this user's was installed, by this version or another.
pub(crate) fn is_installed(home: &Home) -> bool {
    home.user_home().is_some_and(|user| Manager::CURRENT.paths(user).iter().all(|path| path.exists()))
}

impl ServiceFile {
    /// Whether the file is there just so.
    pub(crate) fn is_in_place(&self) -> bool {
        std::fs::read_to_string(&self.path).is_ok_and(|there| there == self.text)
    }

    /// Puts it in place, whole or not at all.
    pub(crate) fn write(&self) -> Result<(), Problem> {
        let failed = |error: std::io::Error| {
            Problem::new(Exit::Failed, format!("`{}` cannot be written: {error}", self.path.display()))
        };
        let folder = self.path.parent().unwrap_or(Path::new("/"));
        std::fs::create_dir_all(folder).map_err(failed)?;
        let draft = tempfile::NamedTempFile::new_in(folder).map_err(failed)?;
        std::fs::write(draft.path(), &self.text).map_err(failed)?;
        draft.persist(&self.path).map_err(|error| failed(error.error))?;
        Ok(())
    }
}

/// Tells a manager what to do, step by step.
pub(crate) fn carry_out(steps: &[Step]) -> Result<(), Problem> {
    for step in steps {
        match step {
            Step::Must(words) => {
                let (worked, said) = ask(words)?;
                if !worked {
                    let message = format!("`{}` failed: {}", words.join(" "), said.trim());
                    return Err(Problem::new(Exit::Failed, message).hint(
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
            let message = format!("the old service is still there: `{}` answers", words.join(" "));
            return Err(Problem::new(Exit::TimedOut, message).hint("try again in a moment"));
        }
        std::thread::sleep(GLANCE);
    }
    Ok(())
}

/// Whether it worked, and what the manager said.
pub(crate) fn ask(words: &[String]) -> Result<(bool, String), Problem> {
    let Some((program, rest)) = words.split_first() else { return Ok((true, String::new())) };
    let output = Command::new(program).args(rest).output().map_err(|error| {
        let problem = Problem::new(Exit::Failed, format!("`{program}` cannot be asked: {error}"));
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
    fn a_step_that_must_work_stops_the_rest_and_says_what_failed() {
        let folder = tempfile::tempdir().unwrap();
        let mark = folder.path().join("mark").display().to_string();
        let after = Step::Must(words(&format!("touch {mark}")));
        let error = carry_out(&[Step::Must(words("false x")), after.clone()]).unwrap_err();
        assert!(error.message.contains("`false x` failed"), "{}", error.message);
        assert!(!Path::new(&mark).exists(), "nothing happens after it");
        carry_out(&[Step::May(words("false")), Step::UntilItFails(words("false")), after]).unwrap();
        assert!(Path::new(&mark).exists(), "what may fail stops nothing");
        let error = carry_out(&[Step::May(words("no-such-manager-here"))]).unwrap_err();
        assert!(error.message.contains("no-such-manager-here"), "{}", error.message);
    }

    #[test]
    fn only_what_a_manager_says_is_its_process_is_taken_for_one() {
        let launchd = "gui/501/x = {\n\tstate = running\n\truns = 7\n\tpid = 42\n\tlast exit code = 0\n}";
        assert_eq!(Manager::Launchd.named(launchd), Some(42));
        assert_eq!(Manager::Launchd.named("runs = 7\nlast pid = 42\nsomething pid = 42"), None);
        assert_eq!(Manager::Systemd.named("42\n"), Some(42));
        for said in ["0\n", "", "Main PID: 42 (sinew)", "42\n43\n"] {
            assert_eq!(Manager::Systemd.named(said), None, "{said}");
        }
    }

    #[test]
    fn a_file_is_written_once_and_known_again() {
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
