//! `sinew policy`: try a policy out before it decides. Nothing is run, opened or put on record.

mod replay;

use std::path::Path;
use std::sync::Arc;

use governance::{Reach, Trials};
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
    let world = compose::world(setting, &setting.settings()?, Folders::Configured)?;
    let definitions: Vec<Arc<ToolDefinition>> = world.registry.definitions().cloned().collect();
    let variables = compose::surroundings(setting).variables;
    let trials = Trials::read(file, &variables).map_err(Problem::configuration)?;
    let tried = trials.run(&world.policy, &definitions).map_err(Problem::configuration)?;
    let failed = tried.iter().filter(|one| !one.holds).count();
    if output.json {
        let cases = tried.iter().map(|one| {
            json!({"line": one.line, "call": one.call, "expect": one.expect, "found": one.found, "holds": one.holds})
        });
        say(json!({"schema_version": 1, "passed": tried.len() - failed, "failed": failed,
            "policy_hash": world.policy.hash(), "cases": cases.collect::<Vec<_>>()}))?;
    } else {
        for one in &tried {
            let mark = if one.holds { paint(GOOD, "holds") } else { paint(BAD, "broken") };
            say(format!("{mark} {}:{} {}", file.display(), one.line, visible_line(&one.call)))?;
            if !one.holds {
                say(format!("       expected {}, found {}", one.expect, visible_line(&one.found)))?;
            }
        }
        say(format!("{} of {} hold", tried.len() - failed, tried.len()))?;
    }
    Ok(if failed == 0 { Exit::Done } else { Exit::Failed })
}

fn reach(setting: &Setting, mode: Option<Mode>, output: JsonArgs) -> Result<Exit, Problem> {
    let world = compose::world(setting, &setting.settings()?, Folders::Configured)?;
    let definitions: Vec<&ToolDefinition> = world.registry.definitions().map(AsRef::as_ref).collect();
    let modes = mode.map_or(Mode::ALL.to_vec(), |mode| vec![mode]);
    let found: Vec<Reach> =
        modes.iter().flat_map(|mode| world.policy.reach(definitions.iter().copied(), *mode)).collect();
    let workspaces: Vec<String> =
        world.workspaces.iter().map(|workspace| workspace.root().display().to_string()).collect();
    if output.json {
        say(json!({"schema_version": 1, "policy_hash": world.policy.hash(), "workspaces": workspaces,
            "reach": found}))?;
        return Ok(Exit::Done);
    }
    let mut table = render::plain_table();
    table.set_header(["MODE", "TOOL", "DOES", "WHERE", "AN HOUR"]);
    for one in &found {
        let places = [&one.paths, &one.commands, &one.hosts].map(|list| list.join(", "));
        let places: Vec<&str> = places.iter().map(String::as_str).filter(|list| !list.is_empty()).collect();
        let except = match one.except.len() {
            0 => String::new(),
            count => format!(", {count} places excepted"),
        };
        table.add_row([
            one.mode.as_str(),
            &one.tool,
            if one.writes { "changes" } else { "looks" },
            &visible_line(&format!("{}{except}", places.join("; "))),
            &one.per_hour.map_or("any".to_owned(), |most| most.to_string()),
        ]);
    }
    say(table)?;
    let listed = if workspaces.is_empty() { "none".to_owned() } else { workspaces.join(", ") };
    say(paint(QUIET, format!("workspaces: {}; the built-in floor holds everywhere", visible_line(&listed))))?;
    Ok(Exit::Done)
}
