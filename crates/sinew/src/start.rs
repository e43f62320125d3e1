//! Starts a daemon where none runs, and waits until it answers. It belongs to nobody: whoever started it may end.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::exit::{Exit, Problem};
use crate::setting::{Setting, explain};

/// How long a daemon may take until it answers.
const PATIENCE: Duration = Duration::from_secs(20);
const GLANCE: Duration = Duration::from_millis(20);

/// Makes sure that a daemon answers, starting one if none does.
pub(crate) fn daemon(setting: &Setting) -> Result<(), Problem> {
    if setting.daemon_answers() {
        return Ok(());
    }
    setting.home().prepare().map_err(|error| explain(&error))?;
    let words = setting.home().log().join("start.log");
    let mut starting = spawn(&words)?;
    let deadline = Instant::now() + PATIENCE;
    while !setting.daemon_answers() {
        let ended = starting.try_wait().ok().flatten();
        // One that found another at work ends too, and then the other one answers.
        if ended.is_some_and(|status| !status.success()) && !setting.is_held() {
            return Err(failed("it ended at once", &words));
        }
        if Instant::now() >= deadline {
            return Err(failed("it does not answer", &words));
        }
        std::thread::sleep(GLANCE);
    }
    Ok(())
}

/// A daemon in a process group of its own, so that what ends its starter does not end it.
fn spawn(words: &Path) -> Result<Child, Problem> {
    let cannot =
        |error: std::io::Error| Problem::new(Exit::Failed, format!("the daemon cannot be started: {error}"));
    let log =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(words).map_err(cannot)?;
    let mut command = Command::new(std::env::current_exe().map_err(cannot)?);
    command.arg("serve").current_dir("/").process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    command.spawn().map_err(cannot)
}

fn failed(how: &str, words: &Path) -> Problem {
    let said = std::fs::read_to_string(words).unwrap_or_default();
    let problem =
        Problem::new(Exit::Unreachable, format!("the daemon was started, but {how}: {}", said.trim()));
    problem.hint(format!("run `sinew serve` yourself to see more; what it said is in {}", words.display()))
}
