//! `sinew demo`: a real daemon in a temporary home, driven by the commands a person would type.

use std::io::IsTerminal;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use comfy_table::Table;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid};
use serde_json::{Value, json};
use server::Home;
use tempfile::TempDir;

use crate::command::ledger::{about, end};
use crate::exit::{Exit, Problem};
use crate::render;
use crate::setting::Setting;
use crate::terminal::{BAD, GOOD, QUIET, STRONG, paint, say};
use crate::wrap::wrap;

/// A daemon that does not answer within this time will not answer at all.
const START_LIMIT: Duration = Duration::from_secs(20);
/// The width of the narrowest screen it should look well on.
const COLUMNS: usize = 80;

/// A part of the demo: a title, and commands (the words after `sinew`), each with the end that proves it went as told.
type Step = (&'static str, &'static [(&'static [&'static str], Exit)]);

const STEPS: [Step; 6] = [
    ("A good call runs", &[(&["call", "read_file", "path=README.md"], Exit::Done)]),
    (
        "A malformed call is refused, and told how to be right",
        &[(&["call", "write_file", "path=notes.txt", "contnet=Remember the milk."], Exit::Refused)],
    ),
    (
        "The corrected call succeeds at once",
        &[(&["call", "write_file", "path=notes.txt", "content=Remember the milk."], Exit::Done)],
    ),
    (
        "A forbidden file stays closed; the rule is named",
        &[(&["call", "read_file", "path=.env"], Exit::Refused)],
    ),
    (
        "So does everything outside the workspace",
        &[(&["call", "read_file", "path=../../etc/hosts"], Exit::Refused)],
    ),
    (
        "One word, and nothing changes the machine any more",
        &[
            (&["lockdown"], Exit::Done),
            (&["call", "write_file", "path=notes.txt", "content=Forget it."], Exit::Refused),
        ],
    ),
];

pub(crate) fn run() -> Result<Exit, Problem> {
    let stage = Stage::build()?;
    say(paint(QUIET, format!("a daemon in {} (removed afterwards)", stage.folder.path().display())))?;
    for (title, commands) in STEPS {
        headline(title)?;
        for (words, expect) in commands {
            stage.show(words, *expect)?;
        }
    }
    headline("All of it is on record, each line sealed to the one before")?;
    let records = stage.records()?;
    say(table(&records))?;
    headline("A line that is changed, moved or cut off does not go unseen")?;
    stage.show(&["ledger", "verify"], Exit::Done)?;
    headline("And every call says where its time went")?;
    let first = records.iter().find(|record| record["outcome"] == "done");
    let first = first.and_then(|record| record["call_id"].as_str()).unwrap_or_default();
    stage.show(&["trace", first], Exit::Done)?;
    stage.end()?;
    say(format!("\n{} `sinew init` and `sinew serve` set it up for good.", paint(GOOD, "That is Sinew.")))?;
    Ok(Exit::Done)
}

fn headline(title: &str) -> Result<(), Problem> {
    say(format!("\n{}", paint(STRONG, format!("● {title}"))))
}

/// The temporary home, a project in it, and the daemon.
struct Stage {
    daemon: Daemon,
    folder: TempDir,
}

/// Ended with the demo, whichever way the demo ends.
struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Stage {
    fn build() -> Result<Stage, Problem> {
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
            let said = String::from_utf8_lossy(&prepared.stderr).into_owned();
            return Err(Problem::configuration(format!("init failed: {said}")));
        }
        let mut serve = sinew(folder.path())?;
        serve.arg("serve").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        if geteuid().is_root() {
            say(paint(BAD, "this is root: the daemon of this demo runs with --allow-root"))?;
            serve.arg("--allow-root");
        }
        let daemon = Daemon(serve.spawn().map_err(failed("start the daemon"))?);
        let mut stage = Stage { daemon, folder };
        stage.wait_until_it_answers()?;
        Ok(stage)
    }

    fn wait_until_it_answers(&mut self) -> Result<(), Problem> {
        let setting = self.setting()?;
        let deadline = Instant::now() + START_LIMIT;
        while !setting.daemon_answers() {
            if let Ok(Some(status)) = self.daemon.0.try_wait() {
                return Err(Problem::new(Exit::Failed, format!("the daemon ended with {status}")));
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

    /// Runs one command as a person would, and shows what that person would see.
    fn show(&self, words: &[&str], expect: Exit) -> Result<(), Problem> {
        let quoted: Vec<String> = words
            .iter()
            .map(|word| if word.contains(' ') { format!("'{word}'") } else { (*word).to_owned() })
            .collect();
        say(paint(GOOD, format!("$ sinew {}", quoted.join(" "))))?;
        let output = sinew(self.folder.path())?.args(words).output().map_err(failed("run sinew"))?;
        for part in [&output.stdout, &output.stderr] {
            let text = String::from_utf8_lossy(part);
            text.lines().flat_map(|line| wrap(line, COLUMNS)).try_for_each(say)?;
        }
        match output.status.code().and_then(Exit::from_code) {
            Some(exit) if exit == expect => Ok(()),
            Some(exit) => {
                Err(Problem::new(Exit::Failed, format!("that ended in {exit:?}, not in {expect:?}")))
            }
            None => Err(Problem::new(Exit::Failed, format!("sinew ended with {}", output.status))),
        }
    }

    /// What is on record, oldest first.
    fn records(&self) -> Result<Vec<Value>, Problem> {
        let mut reply = self.setting()?.ask_control("control/ledger.tail", json!({"count": 40}))?;
        let listed = reply.get_mut("records").and_then(Value::as_array_mut);
        Ok(listed.map(std::mem::take).unwrap_or_default())
    }

    fn end(mut self) -> Result<(), Problem> {
        let pid = i32::try_from(self.daemon.0.id()).unwrap_or_default();
        kill(Pid::from_raw(pid), Signal::SIGTERM).map_err(|errno| failed("stop the daemon")(errno.into()))?;
        self.daemon.0.wait().map_err(failed("wait for the daemon"))?;
        Ok(())
    }
}

/// This very binary, in the temporary home, standing in the project.
fn sinew(folder: &Path) -> Result<Command, Problem> {
    let binary = std::env::current_exe().map_err(failed("find this program"))?;
    let mut command = Command::new(binary);
    command.env("SINEW_HOME", folder.join("home")).current_dir(folder.join("project"));
    if std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none() {
        command.env("CLICOLOR_FORCE", "1");
    }
    Ok(command)
}

fn table(records: &[Value]) -> Table {
    let mut table = render::plain_table();
    table.set_header(["SEQ", "KIND", "WHAT", "END", "SEALED BY"]);
    for record in records {
        let text = |key: &str| record[key].as_str().unwrap_or_default().to_owned();
        let seal: String = text("hash").chars().take(12).collect();
        table.add_row([record["seq"].to_string(), text("kind"), about(record), end(record), seal]);
    }
    table
}

fn failed(doing: &'static str) -> impl Fn(std::io::Error) -> Problem {
    move |error| Problem::new(Exit::Failed, format!("cannot {doing}: {error}"))
}
