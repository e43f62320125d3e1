//! `sinew tools`: lists and shows the tools of the running daemon, else those of the configuration.

use std::collections::BTreeSet;

use execution::ToolFilter;
use serde_json::json;
use tool::definition::ToolFormat;
use tool::text::nearest_word;
use tool::{Category, Mode, ToolDefinition};

use crate::cli::{JsonArgs, ToolsCommand};
use crate::command::policy;
use crate::command_context::CommandContext;
use crate::compose::{self, WorkspaceSelection};
use crate::exit::{CommandError, ExitKind};
use crate::render;
use crate::table::{Column, Table};
use crate::terminal::{DIM_STYLE, escape_invisible_line, paint, print_message, print_result_line};

pub(crate) fn run(command: ToolsCommand) -> Result<ExitKind, CommandError> {
    let context = CommandContext::from_environment()?;
    match command {
        ToolsCommand::List { mode, category, output } => {
            if let Some(category) = &category {
                check_category(&context, category)?;
            }
            list(&context.definitions(&ToolFilter { mode, category })?, output)
        }
        ToolsCommand::Show { name, output } => {
            show(&context, &context.definitions(&ToolFilter::default())?, &name, output)
        }
    }
    .map(|()| ExitKind::Done)
}

/// Returns the tool with this name, alias, or `name@major`.
pub(crate) fn find_tool<'a>(definitions: &'a [ToolDefinition], name: &str) -> Option<&'a ToolDefinition> {
    definitions.iter().find(|definition| definition.matches_name(name))
}

/// Refuses a category that no tool has, with the ones that exist.
fn check_category(context: &CommandContext, category: &Category) -> Result<(), CommandError> {
    let definitions = context.definitions(&ToolFilter::default())?;
    let known: BTreeSet<&str> = definitions.iter().map(|definition| definition.category().as_str()).collect();
    if known.contains(category.as_str()) {
        return Ok(());
    }
    let known: Vec<&str> = known.into_iter().collect();
    let problem = CommandError::usage(format!("no tool has the category `{category}`"));
    Err(problem.with_hint(format!("the categories are {}", known.join(", "))))
}

fn list(definitions: &[ToolDefinition], output: JsonArgs) -> Result<(), CommandError> {
    if output.json {
        let tools: Vec<_> =
            definitions.iter().map(|definition| ToolFormat::Native.export(definition)).collect();
        render::print_json(json!({"tools": tools}))
    } else {
        render::print_table(&render::tool_table(definitions))?;
        let line = "`sinew tools show TOOL` shows arguments, output and rights of a tool";
        print_message(paint(DIM_STYLE, line));
        Ok(())
    }
}

fn show(
    context: &CommandContext,
    definitions: &[ToolDefinition],
    name: &str,
    output: JsonArgs,
) -> Result<(), CommandError> {
    let Some(definition) = find_tool(definitions, name) else {
        let near = nearest_word(name, definitions.iter().map(|definition| definition.name().as_str()));
        let hint = near
            .map_or("list the tools with `sinew tools list`".to_owned(), |n| format!("sinew tools show {n}"));
        return Err(CommandError::usage(format!("there is no tool `{name}`")).with_hint(hint));
    };
    if output.json {
        render::print_json(json!({"tool": ToolFormat::Native.export(definition)}))
    } else {
        render::print_tool(definition)?;
        print_reach(context, definition)
    }
}

/// Prints the policy of the tool in each mode, as the configuration has it.
fn print_reach(context: &CommandContext, definition: &ToolDefinition) -> Result<(), CommandError> {
    let snapshot = compose::config_snapshot(context, &context.settings()?, WorkspaceSelection::Configured)?;
    let mut table = Table::default();
    table.set_header([Column::whole("MODE"), "WITHOUT APPROVAL".into(), "REACHES".into()]);
    for mode in Mode::ALL {
        let found = policy_tools::reach(&snapshot.policy, [definition], mode);
        let (access, targets) = match found.first() {
            None => (paint(DIM_STYLE, "no"), String::new()),
            Some(reach) => (policy::access_text(reach), escape_invisible_line(&policy::reach_targets(reach))),
        };
        table.add_row([render::format_mode(mode.as_str()), access, targets]);
    }
    print_result_line("")?;
    render::print_table(&table)?;
    let line = format!("`sinew explain {} …` decides one call", definition.name());
    print_message(paint(DIM_STYLE, line));
    Ok(())
}
