//! `sinew demo`: a real daemon in a temporary home, driven by the commands a person would type.

mod stage;

use comfy_table::Table;
use serde_json::Value;

use crate::command::demo::stage::Stage;
use crate::command::ledger::{about, end};
use crate::exit::{Exit, Problem};
use crate::render;
use crate::terminal::{GOOD, QUIET, STRONG, paint, say};

/// A command, as the words after `sinew`, with the end that proves it went as told.
type Shown = (&'static [&'static str], Exit);

/// A part of the demo: a title and what is shown under it.
type Step = (&'static str, &'static [Shown]);

const CALLS: [Step; 5] = [
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
];

const LOCKDOWN: Step = (
    "One word, and nothing changes the machine any more",
    &[
        (&["lockdown"], Exit::Done),
        (&["call", "write_file", "path=notes.txt", "content=Forget it."], Exit::Refused),
    ],
);

/// It looks everywhere, and finds what it may.
const PROGRAM: [&str; 3] = ["call", "run_command", r#"command=["grep","-r","-i","key","."]"#];

pub(crate) fn run() -> Result<Exit, Problem> {
    let stage = Stage::build()?;
    say(paint(QUIET, format!("a daemon in {} (removed afterwards)", stage.path().display())))?;
    for step in CALLS {
        play(&stage, step)?;
    }
    headline("A program runs in walls: what is forbidden is closed to it as well")?;
    stage.show_confined(&PROGRAM)?;
    headline("In ALERT a human is asked, sees what would happen, and decides")?;
    stage.show(&["mode", "set", "ALERT"], Exit::Done)?;
    stage.show_approved(&["call", "delete_file", "path=notes.txt"])?;
    headline("What a tool changed can be taken back")?;
    let deleted = last_done(&stage.records()?, "delete_file");
    stage.show(&["undo", &deleted], Exit::Done)?;
    play(&stage, LOCKDOWN)?;
    headline("All of it is on record, each line sealed to the one before")?;
    let records = stage.records()?;
    say(table(&records))?;
    headline("A line that is changed, moved or cut off does not go unseen")?;
    stage.show(&["ledger", "verify"], Exit::Done)?;
    headline("And every call says where its time went")?;
    stage.show(&["trace", &last_done(&records, "write_file")], Exit::Done)?;
    stage.end()?;
    say(format!("\n{} `sinew init` and `sinew serve` set it up for good.", paint(GOOD, "That is Sinew.")))?;
    Ok(Exit::Done)
}

fn play(stage: &Stage, (title, commands): Step) -> Result<(), Problem> {
    headline(title)?;
    commands.iter().try_for_each(|(words, expect)| stage.show(words, *expect))
}

fn headline(title: &str) -> Result<(), Problem> {
    say(format!("\n{}", paint(STRONG, format!("● {title}"))))
}

/// The last call of a tool that was carried out.
fn last_done(records: &[Value], tool: &str) -> String {
    let is_it = |record: &&Value| record["outcome"] == "done" && record["tool"] == tool;
    let call = records.iter().rev().find(is_it).and_then(|record| record["call_id"].as_str());
    call.unwrap_or_default().to_owned()
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
