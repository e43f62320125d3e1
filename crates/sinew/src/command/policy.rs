//! `sinew policy`: tests a policy before it takes effect. It runs nothing, opens no file of a call and
//! records nothing.

mod replay;

use std::path::Path;
use std::sync::Arc;

use governance::{Workspace, WorkspaceAccess};
use policy_tools::{Reach, Trials};
use serde_json::json;
use tool::{Mode, ToolDefinition};

use crate::cli::{JsonArgs, PolicyCommand};
use crate::compose::{self, Folders};
use crate::exit::{Exit, Problem};
use crate::render;
use crate::setting::Setting;
use crate::terminal::{BAD, GOOD, QUIET, paint, say, visible_line};

pub(crate) fn run(command: PolicyCommand) -> Result<Exit, Problem> {
    let setting = Setting::find()?;
    match command {
        PolicyCommand::Test { file, output } => test(&setting, &file, output),
        PolicyCommand::Reach { mode, output } => reach(&setting, mode, output),
        PolicyCommand::Replay { against, since, output } => replay::run(&setting, &against, since, output),
    }
}

fn test(setting: &Setting, file: &Path, output: JsonArgs) -> Result<Exit, Problem> {
    let snapshot = compose::world(setting, &setting.settings()?, Folders::Configured)?;
    let definitions: Vec<Arc<ToolDefinition>> = snapshot.registry.definitions().cloned().collect();
    let variables = compose::surroundings(setting).variables;
    let trials = Trials::read(file, &variables).map_err(Problem::configuration)?;
    let tried = trials.run(&snapshot.policy, &definitions).map_err(Problem::configuration)?;
    let failed = tried.iter().filter(|one| !one.holds).count();
    if output.json {
        let cases = tried.iter().map(|one| {
            json!({"line": one.line, "call": one.call, "expect": one.expect, "found": one.found, "holds": one.holds})
        });
        say(json!({"schema_version": 1, "passed": tried.len() - failed, "failed": failed,
            "policy_hash": snapshot.policy.hash(), "cases": cases.collect::<Vec<_>>()}))?;
    } else {
        for one in &tried {
            let mark = if one.holds { paint(GOOD, "passed") } else { paint(BAD, "failed") };
            say(format!("{mark} {}:{} {}", file.display(), one.line, visible_line(&one.call)))?;
            if !one.holds {
                say(format!("       expected {}, found {}", one.expect, visible_line(&one.found)))?;
            }
        }
        say(format!("{} of {} passed", tried.len() - failed, tried.len()))?;
    }
    Ok(if failed == 0 { Exit::Done } else { Exit::Failed })
}

fn reach(setting: &Setting, mode: Option<Mode>, output: JsonArgs) -> Result<Exit, Problem> {
    let snapshot = compose::world(setting, &setting.settings()?, Folders::Configured)?;
    let definitions: Vec<&ToolDefinition> = snapshot.registry.definitions().map(AsRef::as_ref).collect();
    let modes = mode.map_or(Mode::ALL.to_vec(), |mode| vec![mode]);
    let found: Vec<Reach> = modes
        .iter()
        .flat_map(|mode| policy_tools::reach(&snapshot.policy, definitions.iter().copied(), *mode))
        .collect();
    let workspaces = || snapshot.workspaces.iter();
    if output.json {
        let roots: Vec<String> = workspaces().map(|folder| folder.root().display().to_string()).collect();
        say(json!({"schema_version": 1, "policy_hash": snapshot.policy.hash(), "workspaces": roots,
            "reach": found}))?;
        return Ok(Exit::Done);
    }
    let mut table = render::plain_table();
    table.set_header(["MODE", "TOOL", "ACCESS", "TARGETS", "PER HOUR"]);
    for one in &found {
        table.add_row([
            one.mode.as_str(),
            &one.tool,
            if one.writes { "write" } else { "read" },
            &visible_line(&places(one)),
            &one.per_hour.map_or("any".to_owned(), |most| most.to_string()),
        ]);
    }
    say(table)?;
    let named: Vec<String> = workspaces().map(workspace).collect();
    let listed = if named.is_empty() { "none".to_owned() } else { named.join(", ") };
    say(paint(
        QUIET,
        format!("workspaces: {}; the built-in denials apply everywhere", visible_line(&listed)),
    ))?;
    Ok(Exit::Done)
}

/// Returns what a tool can reach: paths, programs and hosts, each with the number of exceptions.
fn places(one: &Reach) -> String {
    let within = match one.within.as_slice() {
        [] => String::new(),
        list => format!(" within {}", list.join(", ")),
    };
    let parts = [
        (format!("{}{within}", one.paths.join(", ")), one.except.len()),
        (one.commands.join(", "), one.except_commands.len()),
        (one.hosts.join(", "), one.except_hosts.len()),
    ];
    let shown = parts.into_iter().filter(|(list, _)| !list.is_empty()).map(|(list, except)| match except {
        0 => list,
        count => format!("{list} ({count} excepted)"),
    });
    shown.collect::<Vec<_>>().join("; ")
}

fn workspace(folder: &Workspace) -> String {
    let access = match folder.access() {
        WorkspaceAccess::ReadOnly => " (read-only)",
        WorkspaceAccess::ReadWrite => "",
    };
    format!("{}{access}", folder.root().display())
}
