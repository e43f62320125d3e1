//! Environment of the demo: a temporary home, a project in it, and the daemon.

use std::io::IsTerminal;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use anstream::adapter::strip_str;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid};
use serde_json::{Value, json};
use server::SinewHome;
use tempfile::TempDir;

use crate::command_context::CommandContext;
use crate::exit::{CommandError, ExitKind};
use crate::terminal::{ERROR_STYLE, SUCCESS_STYLE, paint, print_result_line};

/// Timeout for the daemon to start and for an approval request to appear.
const START_LIMIT: Duration = Duration::from_secs(20);
/// Width to which output is wrapped.
const COLUMNS: usize = 80;

/// Temporary home with a project and a running daemon.
pub(super) struct DemoHome {
    daemon: DaemonProcess,
    folder: TempDir,
}

/// Daemon process. It is killed on drop, however the demo ends.
struct DaemonProcess(Child);

impl Drop for DaemonProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl DemoHome {
    pub(super) fn start() -> Result<DemoHome, CommandError> {
        let folder =
            tempfile::Builder::new().prefix("sinew-demo-").tempdir().map_err(failed_to("make a folder"))?;
        let project = folder.path().join("project");
        std::fs::create_dir(&project).map_err(failed_to("make a folder"))?;
        let files =
            [("README.md", "# A project\n\nThe agent may work here.\n"), (".env", "API_KEY=do-not-read\n")];
        for (name, content) in files {
            std::fs::write(project.join(name), content).map_err(failed_to("write a file"))?;
        }
        let prepared = sinew_command(folder.path())?
            .args(["init", "--workspace", "."])
            .output()
            .map_err(failed_to("run init"))?;
        if !prepared.status.success() {
            let stderr = String::from_utf8_lossy(&prepared.stderr).into_owned();
            return Err(CommandError::configuration(format!("init failed: {stderr}")));
        }
        let mut serve = sinew_command(folder.path())?;
        serve.arg("serve").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        if geteuid().is_root() {
            print_result_line(paint(
                ERROR_STYLE,
                "running as root: the demo starts its daemon with `--allow-root`",
            ))?;
            serve.arg("--allow-root");
        }
        let daemon = DaemonProcess(serve.spawn().map_err(failed_to("start the daemon"))?);
        let mut stage = DemoHome { daemon, folder };
        stage.wait_for_daemon()?;
        Ok(stage)
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }

    fn wait_for_daemon(&mut self) -> Result<(), CommandError> {
        let context = self.context()?;
        let deadline = Instant::now() + START_LIMIT;
        while !context.is_daemon_ready() {
            if let Ok(Some(status)) = self.daemon.0.try_wait() {
                return Err(CommandError::failed(format!("the daemon ended with {status}")));
            }
            if Instant::now() > deadline {
                return Err(CommandError::new(ExitKind::Unreachable, "the daemon does not answer"));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    fn context(&self) -> Result<CommandContext, CommandError> {
        let home =
            SinewHome::from_root(&self.folder.path().join("home")).map_err(CommandError::configuration)?;
        Ok(CommandContext::new(home, self.folder.path().join("project")))
    }

    /// Runs one command, shows its output, and checks its exit code.
    pub(super) fn show_command(&self, words: &[&str], expect: ExitKind) -> Result<(), CommandError> {
        print_prompt(words)?;
        let output = self.command(words)?.output().map_err(failed_to("run sinew"))?;
        check_exit(print_output(&output)?, expect)
    }

    /// Like `show_command`, for a call that needs a sandbox. A machine without one must refuse the call.
    pub(super) fn show_sandboxed(&self, words: &[&str]) -> Result<(), CommandError> {
        print_prompt(words)?;
        let output = self.command(words)?.output().map_err(failed_to("run sinew"))?;
        let ended = print_output(&output)?;
        let unavailable = String::from_utf8_lossy(&output.stderr).contains("sandbox_unavailable");
        if unavailable { check_exit(ended, ExitKind::Refused) } else { check_exit(ended, ExitKind::Done) }
    }

    /// Runs a call that needs approval, shows its approval request, and approves it.
    pub(super) fn show_approval(&self, words: &[&str]) -> Result<(), CommandError> {
        print_prompt(words)?;
        let mut waiting = self.command(words)?;
        waiting.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let waiting = waiting.spawn().map_err(failed_to("run sinew"))?;
        let question = self.wait_for_approval()?;
        self.show_command(&["approvals", "show", &question], ExitKind::Done)?;
        self.show_command(&["approve", &question], ExitKind::Done)?;
        check_exit(
            print_output(&waiting.wait_with_output().map_err(failed_to("wait for sinew"))?)?,
            ExitKind::Done,
        )
    }

    /// Waits for an approval request and returns its id.
    fn wait_for_approval(&self) -> Result<String, CommandError> {
        let deadline = Instant::now() + START_LIMIT;
        while Instant::now() < deadline {
            let listed = self.context()?.request_control("control/approvals.list", json!({}))?;
            if let Some(id) = listed.pointer("/approvals/0/id").and_then(Value::as_str) {
                return Ok(id.to_owned());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Err(CommandError::failed("no approval request appeared in time"))
    }

    fn command(&self, words: &[&str]) -> Result<Command, CommandError> {
        let mut command = sinew_command(self.folder.path())?;
        command.args(words);
        Ok(command)
    }

    /// Returns the ledger records, oldest first.
    pub(super) fn records(&self) -> Result<Vec<Value>, CommandError> {
        let mut reply = self.context()?.request_control("control/ledger.tail", json!({"count": 40}))?;
        let listed = reply.get_mut("records").and_then(Value::as_array_mut);
        Ok(listed.map(std::mem::take).unwrap_or_default())
    }

    pub(super) fn stop(mut self) -> Result<(), CommandError> {
        let pid = i32::try_from(self.daemon.0.id()).unwrap_or_default();
        kill(Pid::from_raw(pid), Signal::SIGTERM)
            .map_err(|errno| failed_to("stop the daemon")(errno.into()))?;
        self.daemon.0.wait().map_err(failed_to("wait for the daemon"))?;
        Ok(())
    }
}

/// Builds a command that runs this binary with the temporary home, in the project folder.
fn sinew_command(folder: &Path) -> Result<Command, CommandError> {
    let binary = std::env::current_exe().map_err(failed_to("find this program"))?;
    let mut command = Command::new(binary);
    command.env("SINEW_HOME", folder.join("home")).current_dir(folder.join("project"));
    if std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none() {
        command.env("CLICOLOR_FORCE", "1");
    }
    Ok(command)
}

fn print_prompt(words: &[&str]) -> Result<(), CommandError> {
    let quoted: Vec<String> = words
        .iter()
        .map(|word| if word.contains([' ', '"']) { format!("'{word}'") } else { (*word).to_owned() })
        .collect();
    print_result_line(paint(SUCCESS_STYLE, format!("$ sinew {}", quoted.join(" "))))
}

/// Prints the output of a command and returns its exit status.
fn print_output(output: &Output) -> Result<ExitStatus, CommandError> {
    for part in [&output.stdout, &output.stderr] {
        let text = String::from_utf8_lossy(part);
        text.lines().flat_map(|line| wrap(line, COLUMNS)).try_for_each(print_result_line)?;
    }
    Ok(output.status)
}

fn check_exit(status: ExitStatus, expect: ExitKind) -> Result<(), CommandError> {
    match status.code().and_then(ExitKind::from_code) {
        Some(exit) if exit == expect => Ok(()),
        Some(exit) => {
            Err(CommandError::failed(format!("the command ended with {exit:?} instead of {expect:?}")))
        }
        None => Err(CommandError::failed(format!("sinew ended with {status}"))),
    }
}

fn failed_to(doing: &'static str) -> impl Fn(std::io::Error) -> CommandError {
    move |error| CommandError::failed(format!("cannot {doing}: {error}"))
}

/// Wraps a long line between words. Escape sequences for colours have no width. Only a single word may exceed `width`; continuation lines are indented.
fn wrap(line: &str, width: usize) -> Vec<String> {
    let begin = line.chars().take_while(|c| *c == ' ').count();
    let indent = " ".repeat(begin + 2);
    let mut lines = vec![String::new()];
    let mut column = 0;
    for word in line.split_inclusive(' ') {
        let (length, bare) = (display_width(word), display_width(word.trim_end()));
        if column > 0 && column + bare > width {
            lines.push(indent.clone());
            column = indent.len();
        }
        if let Some(last) = lines.last_mut() {
            last.push_str(word);
        }
        column += length;
    }
    lines.iter().map(|line| line.trim_end().to_owned()).collect()
}

fn display_width(text: &str) -> usize {
    strip_str(text).to_string().chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expect: &[&str]) {
        assert_eq!(wrap(line, 20), expect);
    }

    #[test]
    fn lines_break_between_words() {
        check("", &[""]);
        check("exactly twenty wide.", &["exactly twenty wide."]);
        check("this line is a little too long", &["this line is a", "  little too long"]);
        check("  rule: some.rule (/a/b:64)", &["  rule: some.rule", "    (/a/b:64)"]);
        check("one /word/that/is/longer/than/all x", &["one", "  /word/that/is/longer/than/all", "  x"]);
        check("  two  spaces   stay", &["  two  spaces   stay"]);
    }

    #[test]
    fn colour_codes_have_no_width() {
        check("\u{1b}[31mexactly\u{1b}[0m twenty wide.", &["\u{1b}[31mexactly\u{1b}[0m twenty wide."]);
    }
}
