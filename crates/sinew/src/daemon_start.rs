//! Starts a daemon if none runs and waits until it answers. The daemon outlives the command that starts it.

use std::ffi::{OsStr, OsString};
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
    // Settings that cannot be read name no variable; the daemon reports them.
    let settings = std::fs::read_to_string(context.home().settings_file()).unwrap_or_default();
    let mut starting = spawn(&words, &settings)?;
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
fn spawn(words: &Path, settings: &str) -> Result<Child, CommandError> {
    let cannot =
        |error: std::io::Error| CommandError::failed(format!("the daemon cannot be started: {error}"));
    let log =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(words).map_err(cannot)?;
    let program = daemon_program().map_err(cannot)?;
    let mut command = serve_command(&program, std::env::vars_os().map(|(name, _)| name), settings);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    command.spawn().map_err(cannot)
}

/// Builds the command of the daemon, without the variables of the host among these.
fn serve_command(program: &Path, variables: impl Iterator<Item = OsString>, settings: &str) -> Command {
    let mut command = Command::new(program);
    command.arg("serve").current_dir("/").process_group(0);
    for name in variables.filter(|name| is_host_variable(name, settings)) {
        command.env_remove(name);
    }
    command
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

/// Prefixes of the variables of model hosts.
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

/// Words in the names of variables that contain keys.
const KEY_WORDS: [&str; 7] = ["CREDENTIAL", "CREDENTIALS", "KEY", "PASSWORD", "PAT", "SECRET", "TOKEN"];
/// Variables that the daemon reads unless the settings name others.
const SEARCH_KEYS: [&str; 2] = ["BRAVE_API_KEY", "TAVILY_API_KEY"];

/// Returns true if a variable belongs to the model host that started this process, or may contain a key of its. The
/// daemon outlives that host and serves others, so it gets only the keys that the settings name.
fn is_host_variable(name: &OsStr, settings: &str) -> bool {
    let name = name.to_string_lossy();
    let mut words = settings.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let is_named = SEARCH_KEYS.contains(&name.as_ref()) || words.any(|word| word == name);
    let is_key = name.to_ascii_uppercase().split('_').any(|word| KEY_WORDS.contains(&word));
    !is_named && (is_key || HOST_VARIABLE_PREFIXES.iter().any(|prefix| name.starts_with(prefix)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn daemon_gets_no_variable_of_the_host() {
        let variables = ["PATH", "ANTHROPIC_API_KEY", "HOME"].map(OsString::from).into_iter();
        let command = serve_command(Path::new("sinew"), variables, "");
        let removed: Vec<&OsStr> = command.get_envs().map(|(name, _)| name).collect();
        assert_eq!(removed, ["ANTHROPIC_API_KEY"]);
    }

    #[test]
    fn keys_of_the_host_are_recognised() {
        for (name, expect) in [
            ("ANTHROPIC_API_KEY", true),
            ("OPENAI_API_KEY", true),
            ("CLAUDECODE", true),
            ("AWS_SECRET_ACCESS_KEY", true),
            ("XAI_API_KEY", true),
            ("GITHUB_TOKEN", true),
            ("db_password", true),
            ("NAMED_API_KEY", false),
            ("API_KEY", true),
            ("KEYBOARD", false),
            ("PATH", false),
            ("HOME", false),
            ("SINEW_HOME", false),
            ("BRAVE_API_KEY", false),
        ] {
            let settings = "keys:\n  search: {host: example.org, key_variable: NAMED_API_KEY}\n";
            assert_eq!(is_host_variable(OsStr::new(name), settings), expect, "{name}");
        }
    }
}
