//! Starts a daemon if none runs and waits until it answers. The daemon outlives the command that starts it.

use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::command_context::{CommandContext, serve_error};
use crate::exit::{CommandError, ExitKind};

/// Timeout for a new daemon to answer.
const START_TIMEOUT: Duration = Duration::from_secs(20);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Starts a daemon unless one already answers.
pub(crate) fn ensure_daemon(context: &CommandContext) -> Result<(), CommandError> {
    if context.is_daemon_ready() {
        return Ok(());
    }
    context.home().prepare().map_err(|error| serve_error(&error))?;
    let words = context.home().log_dir().join("start.log");
    let mut starting = spawn(&words)?;
    let deadline = Instant::now() + START_TIMEOUT;
    while !context.is_daemon_ready() {
        let ended = starting.try_wait().ok().flatten();
        // The new daemon also exits if another one won the race for the state lock; that one will answer.
        if ended.is_some_and(|status| !status.success()) && !context.is_state_locked() {
            return Err(start_error("it exited immediately", &words));
        }
        if Instant::now() >= deadline {
            return Err(start_error("it does not answer", &words));
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    Ok(())
}

/// Starts the daemon in its own process group, so that a signal to the starting command's group does not
/// reach it.
fn spawn(words: &Path) -> Result<Child, CommandError> {
    let cannot =
        |error: std::io::Error| CommandError::failed(format!("the daemon cannot be started: {error}"));
    let log =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(words).map_err(cannot)?;
    let mut command = Command::new(daemon_program().map_err(cannot)?);
    for (name, _) in std::env::vars_os().filter(|(name, _)| is_host_variable(name)) {
        command.env_remove(name);
    }
    command.arg("serve").current_dir("/").process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    command.spawn().map_err(cannot)
}

/// Returns the file at the path of this program, which is another one after an upgrade; if there is none any more, the
/// file that this program runs from.
fn daemon_program() -> std::io::Result<PathBuf> {
    let path = std::env::current_exe()?;
    // Linux marks the path of a file that was removed or replaced.
    let installed =
        path.to_str().and_then(|path| path.strip_suffix(" (deleted)")).map_or(path.as_path(), Path::new);
    if installed.is_file() { Ok(installed.to_owned()) } else { sandbox::own_program() }
}

fn start_error(how: &str, words: &Path) -> CommandError {
    let text = std::fs::read_to_string(words).unwrap_or_default();
    let problem = CommandError::new(
        ExitKind::Unreachable,
        format!("the daemon was started, but {how}: {}", text.trim()),
    );
    problem.with_hint(format!("run `sinew serve` to see more; its output is in {}", words.display()))
}

/// Prefixes of the variables of model hosts, among them their API keys.
const HOST_VARIABLE_PREFIXES: [&str; 13] = [
    "ANTHROPIC_",
    "AWS_",
    "AZURE_OPENAI_",
    "CLAUDE",
    "CODEX_",
    "CURSOR_",
    "DEEPSEEK_",
    "GEMINI_",
    "GOOGLE_API",
    "GROQ_",
    "MISTRAL_",
    "OPENAI_",
    "OPENROUTER_",
];

/// Returns true if a variable belongs to the model host that started this process. The daemon outlives that
/// host and serves others, so it must not have the keys. Other variables stay: the settings may name one that
/// contains the key of a search provider.
fn is_host_variable(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    HOST_VARIABLE_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_the_host_are_recognised() {
        for (name, expect) in [
            ("ANTHROPIC_API_KEY", true),
            ("OPENAI_API_KEY", true),
            ("CLAUDECODE", true),
            ("AWS_SECRET_ACCESS_KEY", true),
            ("HOME", false),
            ("SINEW_HOME", false),
            ("BRAVE_API_KEY", false),
        ] {
            assert_eq!(is_host_variable(OsStr::new(name)), expect, "{name}");
        }
    }
}
