//! `sinew demo`: runs a real daemon in a temporary home and drives it with the commands an operator would
//! type.

mod demo_home;

use serde_json::Value;

use crate::command::demo::demo_home::DemoHome;
use crate::command::ledger::{record_outcome, record_subject};
use crate::exit::{CommandError, ExitKind};
use crate::render;
use crate::table::Table;
use crate::terminal::{DIM_STYLE, HEADING_STYLE, SUCCESS_STYLE, paint, print_result_line};

/// Command line after `sinew`, with the exit code that the demo expects.
type DemoCommand = (&'static [&'static str], ExitKind);

/// Part of the demo: a title and the commands shown under it.
type DemoStep = (&'static str, &'static [DemoCommand]);

const CALLS: [DemoStep; 5] = [
    ("A valid call runs", &[(&["call", "read_file", "path=README.md"], ExitKind::Done)]),
    (
        "A malformed call is refused, and the refusal shows the correction",
        &[(&["call", "write_file", "path=notes.txt", "contnet=Remember the milk."], ExitKind::Refused)],
    ),
    (
        "The corrected call succeeds",
        &[(&["call", "write_file", "path=notes.txt", "content=Remember the milk."], ExitKind::Done)],
    ),
    (
        "A forbidden file is refused, and the refusal names the rule",
        &[(&["call", "read_file", "path=.env"], ExitKind::Refused)],
    ),
    (
        "A path outside the workspace is refused",
        &[(&["call", "read_file", "path=../../etc/hosts"], ExitKind::Refused)],
    ),
];

const LOCKDOWN: DemoStep = (
    "Lock down: no tool can change the machine",
    &[
        (&["lockdown"], ExitKind::Done),
        (&["call", "write_file", "path=notes.txt", "content=Forget it."], ExitKind::Refused),
    ],
);

/// Recursive search. The sandbox hides the forbidden `.env` file from it.
const SEARCH_COMMAND: [&str; 3] = ["call", "run_command", r#"command=["grep","-r","-i","key","."]"#];

pub(crate) fn run() -> Result<ExitKind, CommandError> {
    let demo_home = DemoHome::start()?;
    print_result_line(paint(
        DIM_STYLE,
        format!("daemon in {} (removed afterwards)", demo_home.path().display()),
    ))?;
    for step in CALLS {
        run_step(&demo_home, step)?;
    }
    print_title("A program runs in a sandbox: forbidden files are closed to it as well")?;
    demo_home.show_sandboxed(&SEARCH_COMMAND)?;
    print_title("In ALERT mode a deletion needs approval, and the operator decides")?;
    demo_home.show_command(&["mode", "set", "ALERT"], ExitKind::Done)?;
    demo_home.show_approval(&["call", "delete_file", "path=notes.txt"])?;
    print_title("Changes made by a tool can be undone")?;
    let deleted = last_completed_call(&demo_home.records()?, "delete_file");
    demo_home.show_command(&["undo", &deleted], ExitKind::Done)?;
    run_step(&demo_home, LOCKDOWN)?;
    print_title("Every call is in the ledger, each line sealed to the one before")?;
    let records = demo_home.records()?;
    render::print_table(&record_table(&records))?;
    print_title("A changed, moved or truncated line is detected")?;
    demo_home.show_command(&["ledger", "verify"], ExitKind::Done)?;
    print_title("A trace shows where a call spent its time")?;
    demo_home.show_command(&["trace", &last_completed_call(&records, "write_file")], ExitKind::Done)?;
    demo_home.stop()?;
    print_result_line(format!(
        "\n{} Run `sinew init` and `sinew serve` to set Sinew up.",
        paint(SUCCESS_STYLE, "The demo is done.")
    ))?;
    Ok(ExitKind::Done)
}

fn run_step(demo_home: &DemoHome, (title, commands): DemoStep) -> Result<(), CommandError> {
    print_title(title)?;
    commands.iter().try_for_each(|(words, expect)| demo_home.show_command(words, *expect))
}

fn print_title(title: &str) -> Result<(), CommandError> {
    print_result_line(format!("\n{}", paint(HEADING_STYLE, format!("● {title}"))))
}

/// Returns the id of the last completed call of a tool.
fn last_completed_call(records: &[Value], tool: &str) -> String {
    let is_it = |record: &&Value| record["outcome"] == "done" && record["tool"] == tool;
    let call = records.iter().rev().find(is_it).and_then(|record| record["call_id"].as_str());
    call.unwrap_or_default().to_owned()
}

fn record_table(records: &[Value]) -> Table {
    let mut table = Table::default();
    table.set_header(["SEQ", "KIND", "SUBJECT", "OUTCOME", "SEAL"]);
    for record in records {
        let text = |key: &str| record[key].as_str().unwrap_or_default().to_owned();
        let seal: String = text("hash").chars().take(12).collect();
        table.add_row([
            record["seq"].to_string(),
            text("kind"),
            record_subject(record),
            record_outcome(record),
            seal,
        ]);
    }
    table
}
