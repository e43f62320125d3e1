//! `sinew demo`: runs a real daemon in a temporary home and drives it with the commands an operator would
//! type.

mod stage;

use comfy_table::Table;
use serde_json::Value;

use crate::command::demo::stage::Stage;
use crate::command::ledger::{about, end};
use crate::exit::{Exit, Problem};
use crate::render;
use crate::terminal::{GOOD, QUIET, STRONG, paint, say};

/// Command line after `sinew`, with the exit code that the demo expects.
type Shown = (&'static [&'static str], Exit);

/// Part of the demo: a title and the commands shown under it.
type Step = (&'static str, &'static [Shown]);

const CALLS: [Step; 5] = [
    ("A valid call runs", &[(&["call", "read_file", "path=README.md"], Exit::Done)]),
    (
        "A malformed call is refused, and the refusal shows the correction",
        &[(&["call", "write_file", "path=notes.txt", "contnet=Remember the milk."], Exit::Refused)],
    ),
    (
        "The corrected call succeeds",
        &[(&["call", "write_file", "path=notes.txt", "content=Remember the milk."], Exit::Done)],
    ),
    (
        "A forbidden file is refused, and the refusal names the rule",
        &[(&["call", "read_file", "path=.env"], Exit::Refused)],
    ),
    (
        "A path outside the workspace is refused",
        &[(&["call", "read_file", "path=../../etc/hosts"], Exit::Refused)],
    ),
];

const LOCKDOWN: Step = (
    "Lock down: no tool can change the machine",
    &[
        (&["lockdown"], Exit::Done),
        (&["call", "write_file", "path=notes.txt", "content=Forget it."], Exit::Refused),
    ],
);

/// Recursive search. The sandbox hides the forbidden `.env` file from it.
const PROGRAM: [&str; 3] = ["call", "run_command", r#"command=["grep","-r","-i","key","."]"#];

pub(crate) fn run() -> Result<Exit, Problem> {
    let demo_home = Stage::build()?;
    say(paint(QUIET, format!("daemon in {} (removed afterwards)", demo_home.path().display())))?;
    for step in CALLS {
        play(&demo_home, step)?;
    }
    headline("A program runs in a sandbox: forbidden files are closed to it as well")?;
    demo_home.show_confined(&PROGRAM)?;
    headline("In ALERT mode a deletion needs approval, and the operator decides")?;
    demo_home.show(&["mode", "set", "ALERT"], Exit::Done)?;
    demo_home.show_approved(&["call", "delete_file", "path=notes.txt"])?;
    headline("Changes made by a tool can be undone")?;
    let deleted = last_done(&demo_home.records()?, "delete_file");
    demo_home.show(&["undo", &deleted], Exit::Done)?;
    play(&demo_home, LOCKDOWN)?;
    headline("Every call is in the ledger, each line sealed to the one before")?;
    let records = demo_home.records()?;
    say(table(&records))?;
    headline("A changed, moved or truncated line is detected")?;
    demo_home.show(&["ledger", "verify"], Exit::Done)?;
    headline("A trace shows where a call spent its time")?;
    demo_home.show(&["trace", &last_done(&records, "write_file")], Exit::Done)?;
    demo_home.end()?;
    say(format!(
        "\n{} Run `sinew init` and `sinew serve` to set Sinew up.",
        paint(GOOD, "The demo is done.")
    ))?;
    Ok(Exit::Done)
}

fn play(demo_home: &Stage, (title, commands): Step) -> Result<(), Problem> {
    headline(title)?;
    commands.iter().try_for_each(|(words, expect)| demo_home.show(words, *expect))
}

fn headline(title: &str) -> Result<(), Problem> {
    say(format!("\n{}", paint(STRONG, format!("● {title}"))))
}

/// Returns the id of the last completed call of a tool.
fn last_done(records: &[Value], tool: &str) -> String {
    let is_it = |record: &&Value| record["outcome"] == "done" && record["tool"] == tool;
    let call = records.iter().rev().find(is_it).and_then(|record| record["call_id"].as_str());
    call.unwrap_or_default().to_owned()
}

fn table(records: &[Value]) -> Table {
    let mut table = render::plain_table();
    table.set_header(["SEQ", "KIND", "SUBJECT", "OUTCOME", "SEAL"]);
    for record in records {
        let text = |key: &str| record[key].as_str().unwrap_or_default().to_owned();
        let seal: String = text("hash").chars().take(12).collect();
        table.add_row([record["seq"].to_string(), text("kind"), about(record), end(record), seal]);
    }
    table
}
