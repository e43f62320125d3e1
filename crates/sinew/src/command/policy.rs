//! `sinew policy`: tests a policy before it takes effect, proves what it permits, and suggests changes. It runs nothing, opens no file of
//! a call and records nothing.

mod diff;
mod mode_rules;
mod prove;
mod record;
mod replay;
mod suggest;

use std::path::Path;
use std::sync::Arc;

use governance::files::PROJECT_POLICY;
use governance::{Workspace, WorkspaceAccess};
use policy_tools::{PolicyTests, ToolReach};
use serde_json::json;
use tool::{Mode, ToolDefinition};

use crate::cli::{JsonArgs, PolicyCommand};
use crate::command_context::CommandContext;
use crate::compose::{self, WorkspaceSelection};
use crate::exit::{CommandError, ExitKind};
use crate::render;
use crate::table::{Column, Table};
use crate::terminal::{
    DIM_STYLE, ERROR_STYLE, SUCCESS_STYLE, WARNING_STYLE, escape_invisible_line, paint, print_result_line,
    stdout_width,
};

/// Width below which the columns of modes have short names.
const NARROW: usize = 80;

pub(crate) fn run(command: PolicyCommand) -> Result<ExitKind, CommandError> {
    let context = CommandContext::from_environment()?;
    match command {
        PolicyCommand::Test { file, output } => run_tests(&context, &file, output),
        PolicyCommand::Diff { before, after, output } => diff::run(&context, [&before, &after], output),
        PolicyCommand::Prove { question, output } => prove::run(&context, &question, output),
        PolicyCommand::Reach { mode, verbose, output } => show_reach(&context, mode, verbose, output),
        PolicyCommand::Replay { against, since, output } => replay::run(&context, &against, since, output),
        PolicyCommand::Record(args) => record::run(&context, &args),
        PolicyCommand::Suggest { since, apply, output } => suggest::run(&context, since, apply, output),
    }
}

fn run_tests(context: &CommandContext, file: &Path, output: JsonArgs) -> Result<ExitKind, CommandError> {
    let snapshot = compose::config_snapshot(context, &context.settings()?, WorkspaceSelection::Configured)?;
    let definitions: Vec<Arc<ToolDefinition>> = snapshot.registry.definitions().cloned().collect();
    let variables = compose::policy_environment(context).variables;
    let trials = PolicyTests::read(file, &variables).map_err(CommandError::configuration)?;
    let tried = trials.run(&snapshot.policy, &definitions).map_err(CommandError::configuration)?;
    let failed = tried.iter().filter(|one| !one.passed).count();
    if output.json {
        let cases = tried.iter().map(|one| {
            json!({"line": one.line, "call": one.call, "expect": one.expect, "found": one.actual, "passed": one.passed})
        });
        render::print_json(json!({"passed": tried.len() - failed, "failed": failed,
            "policy_hash": snapshot.policy.hash(), "cases": cases.collect::<Vec<_>>()}))?;
    } else {
        for one in &tried {
            let mark = if one.passed { paint(SUCCESS_STYLE, "passed") } else { paint(ERROR_STYLE, "failed") };
            print_result_line(format!(
                "{mark} {}:{} {}",
                file.display(),
                one.line,
                escape_invisible_line(&one.call)
            ))?;
            if !one.passed {
                print_result_line(format!(
                    "       expected {}, found {}",
                    one.expect,
                    escape_invisible_line(&one.actual)
                ))?;
            }
        }
        print_result_line(format!("{} of {} passed", tried.len() - failed, tried.len()))?;
    }
    Ok(if failed == 0 { ExitKind::Done } else { ExitKind::Failed })
}

fn show_reach(
    context: &CommandContext,
    mode: Option<Mode>,
    verbose: bool,
    output: JsonArgs,
) -> Result<ExitKind, CommandError> {
    let snapshot = compose::config_snapshot(context, &context.settings()?, WorkspaceSelection::Configured)?;
    let definitions: Vec<&ToolDefinition> = snapshot.registry.definitions().map(AsRef::as_ref).collect();
    let modes = mode.map_or(Mode::ALL.to_vec(), |mode| vec![mode]);
    let found: Vec<ToolReach> = modes
        .iter()
        .flat_map(|mode| policy_tools::reach(&snapshot.policy, definitions.iter().copied(), *mode))
        .collect();
    let workspaces = || snapshot.workspaces.iter();
    if output.json {
        let roots: Vec<String> = workspaces().map(|folder| folder.root().display().to_string()).collect();
        render::print_json(json!({"policy_hash": snapshot.policy.hash(), "workspaces": roots,
            "reach": found}))?;
        return Ok(ExitKind::Done);
    }
    match verbose {
        true => render::print_table(&detailed_reach(&found))?,
        false => {
            render::print_table(&reach_by_mode(&found, &modes, stdout_width()))?;
            if is_narrow(stdout_width()) {
                let names: Vec<&str> = modes.iter().map(|mode| mode.as_str()).collect();
                let legend = format!("r reads, w writes, in the modes {}", names.join(", "));
                print_result_line(paint(DIM_STYLE, legend))?;
            }
        }
    }
    let named: Vec<String> = workspaces().map(workspace_text).collect();
    let listed = if named.is_empty() { "none".to_owned() } else { named.join(", ") };
    print_result_line(paint(
        DIM_STYLE,
        format!("workspaces: {}; the built-in denials apply everywhere", escape_invisible_line(&listed)),
    ))?;
    for (project, _) in snapshot.policy.project_policies() {
        let file = project.join(PROJECT_POLICY).display().to_string();
        let text = format!("{} restricts calls into its project further", escape_invisible_line(&file));
        print_result_line(paint(DIM_STYLE, text))?;
    }
    Ok(ExitKind::Done)
}

fn is_narrow(width: Option<usize>) -> bool {
    width.is_some_and(|width| width < NARROW)
}

/// Returns a table with one row for each tool and one column for each mode. A narrow one has letters instead of words.
fn reach_by_mode(found: &[ToolReach], modes: &[Mode], width: Option<usize>) -> Table {
    let letters = if is_narrow(width) { 1 } else { usize::MAX };
    let short = |text: &'static str| text.get(..letters).unwrap_or(text);
    let mut table = Table::default();
    let columns = modes.iter().map(|mode| Column::whole(short(mode.as_str())));
    table.set_header(
        [Column::whole("TOOL")].into_iter().chain(columns).chain([Column::optional("PER HOUR", 1)]),
    );
    let mut tools: Vec<&str> = found.iter().map(|one| one.tool.as_str()).collect();
    tools.sort_unstable();
    tools.dedup();
    for tool in tools {
        let of_tool = |mode: &Mode| found.iter().find(|one| one.tool == tool && one.mode == *mode);
        let cell = |mode: &Mode| match of_tool(mode) {
            None => paint(DIM_STYLE, "–"),
            Some(reach) if reach.writes => paint(WARNING_STYLE, short("write")),
            Some(_) => short("read").to_owned(),
        };
        let per_hour = modes.iter().find_map(|mode| of_tool(mode)?.per_hour).map(|most| most.to_string());
        let cells = modes.iter().map(cell).chain([per_hour.unwrap_or_default()]);
        table.add_row([tool.to_owned()].into_iter().chain(cells));
    }
    table
}

/// Returns a table with one row for each tool and mode, and everything that the tool can reach.
fn detailed_reach(found: &[ToolReach]) -> Table {
    let mut table = Table::default();
    table.set_header([
        Column::whole("MODE"),
        Column::whole("TOOL"),
        Column::whole("ACCESS"),
        "TARGETS".into(),
        Column::optional("PER HOUR", 1),
    ]);
    for one in found {
        table.add_row([
            one.mode.as_str().to_owned(),
            one.tool.clone(),
            access_text(one),
            escape_invisible_line(&reach_targets(one)),
            one.per_hour.map_or("any".to_owned(), |most| most.to_string()),
        ]);
    }
    table
}

/// Formats the access of a tool: writing stands out.
pub(super) fn access_text(reach: &ToolReach) -> String {
    if reach.writes { paint(WARNING_STYLE, "write") } else { "read".to_owned() }
}

/// Returns what a tool can reach: paths, programs and hosts, each with the number of exceptions.
pub(super) fn reach_targets(one: &ToolReach) -> String {
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

fn workspace_text(folder: &Workspace) -> String {
    let access = match folder.access() {
        WorkspaceAccess::ReadOnly => " (read-only)",
        WorkspaceAccess::ReadWrite => "",
    };
    format!("{}{access}", folder.root().display())
}
