//! Environment of the demo: a temporary home, a project in it, and the daemon.

use std::io::IsTerminal;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use anstream::adapter::strip_str;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid};
use serde_json::{Value, json};
use server::Home;
use tempfile::TempDir;

use crate::exit::{Exit, Problem};
use crate::setting::Setting;
use crate::terminal::{BAD, GOOD, paint, say};

/// Timeout for the daemon to start and for an approval request to appear.
const START_LIMIT: Duration = Duration::from_secs(20);
/// Width to which output is wrapped.
const COLUMNS: usize = 80;

/// Temporary home with a project and a running daemon.
pub(super) struct Stage {
    daemon: Daemon,
    folder: TempDir,
}

/// Daemon process. It is killed on drop, however the demo ends.
struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Stage {
    pub(super) fn build() -> Result<Stage, Problem> {
        let folder =
            tempfile::Builder::new().prefix("sinew-demo-").tempdir().map_err(failed("make a folder"))?;
        let project = folder.path().join("project");
        std::fs::create_dir(&project).map_err(failed("make a folder"))?;
        let files =
            [("README.md", "# A project\n\nThe agent may work here.\n"), (".env", "API_KEY=do-not-read\n")];
        for (name, content) in files {
            std::fs::write(project.join(name), content).map_err(failed("write a file"))?;
        }
        let prepared =
            sinew(folder.path())?.args(["init", "--workspace", "."]).output().map_err(failed("run init"))?;
        if !prepared.status.success() {
            let stderr = String::from_utf8_lossy(&prepared.stderr).into_owned();
            return Err(Problem::configuration(format!("init failed: {stderr}")));
        }
        let mut serve = sinew(folder.path())?;
        serve.arg("serve").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        if geteuid().is_root() {
            say(paint(BAD, "running as root: the demo starts its daemon with `--allow-root`"))?;
            serve.arg("--allow-root");
        }
        let daemon = Daemon(serve.spawn().map_err(failed("start the daemon"))?);
        let mut stage = Stage { daemon, folder };
        stage.wait_until_it_answers()?;
        Ok(stage)
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }

    fn wait_until_it_answers(&mut self) -> Result<(), Problem> {
        let setting = self.setting()?;
        let deadline = Instant::now() + START_LIMIT;
        while !setting.daemon_answers() {
            if let Ok(Some(status)) = self.daemon.0.try_wait() {
                return Err(Problem::failed(format!("the daemon ended with {status}")));
            }
            if Instant::now() > deadline {
                return Err(Problem::new(Exit::Unreachable, "the daemon does not answer"));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    fn setting(&self) -> Result<Setting, Problem> {
        let home = Home::at(&self.folder.path().join("home")).map_err(Problem::configuration)?;
        Ok(Setting::at(home, self.folder.path().join("project")))
    }

    /// Runs one command, shows its output, and checks its exit code.
    pub(super) fn show(&self, words: &[&str], expect: Exit) -> Result<(), Problem> {
        prompt(words)?;
        let output = self.command(words)?.output().map_err(failed("run sinew"))?;
        must_end(shown(&output)?, expect)
    }

    /// Like `show_command`, for a call that needs a sandbox. A machine without one must refuse the call.
    pub(super) fn show_confined(&self, words: &[&str]) -> Result<(), Problem> {
        prompt(words)?;
        let output = self.command(words)?.output().map_err(failed("run sinew"))?;
        let ended = shown(&output)?;
        let unavailable = String::from_utf8_lossy(&output.stderr).contains("sandbox_unavailable");
        if unavailable { must_end(ended, Exit::Refused) } else { must_end(ended, Exit::Done) }
    }

    /// Runs a call that needs approval, shows its approval request, and approves it.
    pub(super) fn show_approved(&self, words: &[&str]) -> Result<(), Problem> {
        prompt(words)?;
        let mut waiting = self.command(words)?;
        waiting.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let waiting = waiting.spawn().map_err(failed("run sinew"))?;
        let question = self.question()?;
        self.show(&["approvals", "show", &question], Exit::Done)?;
        self.show(&["approve", &question], Exit::Done)?;
        must_end(shown(&waiting.wait_with_output().map_err(failed("wait for sinew"))?)?, Exit::Done)
    }

    /// Waits for an approval request and returns its id.
    fn question(&self) -> Result<String, Problem> {
        let deadline = Instant::now() + START_LIMIT;
        while Instant::now() < deadline {
            let listed = self.setting()?.ask_control("control/approvals.list", json!({}))?;
            if let Some(id) = listed.pointer("/approvals/0/id").and_then(Value::as_str) {
                return Ok(id.to_owned());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Err(Problem::failed("no approval request appeared in time"))
    }

    fn command(&self, words: &[&str]) -> Result<Command, Problem> {
        let mut command = sinew(self.folder.path())?;
        command.args(words);
        Ok(command)
    }

    /// Returns the ledger records, oldest first.
    pub(super) fn records(&self) -> Result<Vec<Value>, Problem> {
        let mut reply = self.setting()?.ask_control("control/ledger.tail", json!({"count": 40}))?;
        let listed = reply.get_mut("records").and_then(Value::as_array_mut);
        Ok(listed.map(std::mem::take).unwrap_or_default())
    }

    pub(super) fn end(mut self) -> Result<(), Problem> {
        let pid = i32::try_from(self.daemon.0.id()).unwrap_or_default();
        kill(Pid::from_raw(pid), Signal::SIGTERM).map_err(|errno| failed("stop the daemon")(errno.into()))?;
        self.daemon.0.wait().map_err(failed("wait for the daemon"))?;
        Ok(())
    }
}

/// Builds a command that runs this binary with the temporary home, in the project folder.
fn sinew(folder: &Path) -> Result<Command, Problem> {
    let binary = std::env::current_exe().map_err(failed("find this program"))?;
    let mut command = Command::new(binary);
    command.env("SINEW_HOME", folder.join("home")).current_dir(folder.join("project"));
    if std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none() {
        command.env("CLICOLOR_FORCE", "1");
    }
    Ok(command)
}

fn prompt(words: &[&str]) -> Result<(), Problem> {
    let quoted: Vec<String> = words
        .iter()
        .map(|word| if word.contains([' ', '"']) { format!("'{word}'") } else { (*word).to_owned() })
        .collect();
    say(paint(GOOD, format!("$ sinew {}", quoted.join(" "))))
}

/// Prints the output of a command and returns its exit status.
fn shown(output: &Output) -> Result<ExitStatus, Problem> {
    for part in [&output.stdout, &output.stderr] {
        let text = String::from_utf8_lossy(part);
        text.lines().flat_map(|line| wrap(line, COLUMNS)).try_for_each(say)?;
    }
    Ok(output.status)
}

fn must_end(status: ExitStatus, expect: Exit) -> Result<(), Problem> {
    match status.code().and_then(Exit::from_code) {
        Some(exit) if exit == expect => Ok(()),
        Some(exit) => Err(Problem::failed(format!("the command ended with {exit:?} instead of {expect:?}"))),
        None => Err(Problem::failed(format!("sinew ended with {status}"))),
    }
}

fn failed(doing: &'static str) -> impl Fn(std::io::Error) -> Problem {
    move |error| Problem::failed(format!("cannot {doing}: {error}"))
}

/// Wraps a long line between words. Escape sequences for colours have no width. Only a single word may exceed `width`; continuation lines are indented.
fn wrap(line: &str, width: usize) -> Vec<String> {
    let begin = line.chars().take_while(|c| *c == ' ').count();
    let indent = " ".repeat(begin + 2);
    let mut lines = vec![String::new()];
    let mut column = 0;
    for word in line.split_inclusive(' ') {
        let (length, bare) = (columns(word), columns(word.trim_end()));
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

fn columns(text: &str) -> usize {
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
