//! `fleet hosts`: presence and state of every host.

use std::path::Path;

use fleet::servers::Role;
use serde_json::{Value, json};

use super::admin::FleetAdmin;
use super::beats::{Beats, ReceivedBeat};
use crate::cli::JsonArgs;
use crate::command_context::CommandContext;
use crate::exit::{CommandError, ExitKind};
use crate::render;
use crate::table::{Column, Table};
use crate::terminal::{escape_invisible_line, print_message};

pub(super) fn run(
    context: &CommandContext,
    path: &Path,
    seconds: u64,
    output: JsonArgs,
) -> Result<ExitKind, CommandError> {
    let admin = FleetAdmin::open(path)?;
    let rows = collect(context, &admin, seconds)?;
    if output.json {
        render::print_json(json!({"hosts": rows}))?;
        return Ok(ExitKind::Done);
    }
    if rows.is_empty() {
        print_message("the fleet has no hosts; invite one with `sinew fleet invite HOST`");
        return Ok(ExitKind::Done);
    }
    let mut table = Table::default();
    table.set_header([
        Column::whole("HOST"),
        Column::whole("STATE"),
        "VERSION".into(),
        "MODE".into(),
        "POLICY".into(),
        "HEAD".into(),
        "LAG".into(),
        "CLOCK".into(),
    ]);
    for row in &rows {
        let text = |key: &str| match &row[key] {
            Value::Null => "–".to_owned(),
            Value::String(text) => escape_invisible_line(text),
            other => other.to_string(),
        };
        let clock = row["skew_ms"].as_i64().map_or("–".to_owned(), |skew| format!("{skew} ms"));
        table.add_row([
            text("host"),
            text("state"),
            text("version"),
            text("mode"),
            text("policy"),
            text("head"),
            text("lag"),
            clock,
        ]);
    }
    render::print_table(&table)?;
    Ok(ExitKind::Done)
}

/// Returns one object per host of the roster and per open invitation.
pub(super) fn collect(
    context: &CommandContext,
    admin: &FleetAdmin,
    seconds: u64,
) -> Result<Vec<Value>, CommandError> {
    let newest = super::runtime(context)?.block_on(async {
        let connection = admin.connect(&Role::Auditor).await?;
        let mut beats = Beats::listen(&connection).await?;
        beats.collect(admin, seconds, |_| true).await;
        Ok::<_, CommandError>(beats.newest)
    })?;
    let members = admin.roster.hosts.iter().map(|(host, entry)| {
        let mut row = json!({"host": host, "group": entry.group, "state": "absent"});
        if let Some(found) = newest.get(host) {
            describe(&mut row, found);
        }
        row
    });
    let invited = admin.roster.invitations.iter();
    let invited = invited.map(|(host, open)| json!({"host": host, "group": open.group, "state": "invited"}));
    Ok(members.chain(invited).collect())
}

fn describe(row: &mut Value, found: &ReceivedBeat) {
    let beat = &found.beat;
    row["state"] = json!("present");
    row["version"] = json!(beat.version);
    row["mode"] = json!(beat.mode);
    row["mode_epoch"] = json!(beat.mode_epoch);
    row["policy"] = json!(beat.policy);
    row["policy_state"] = json!(beat.policy_state);
    row["head"] = json!(beat.head.seq);
    row["lag"] = json!(beat.head.seq.saturating_sub(beat.mirrored));
    // It includes the time on the way, which is short.
    let skew = i128::from(found.received_at) - i128::from(beat.at);
    row["skew_ms"] = json!(i64::try_from(skew).unwrap_or(i64::MAX));
}
