//! `sinew tools`: lists and shows the tools of the running daemon, else those of the configuration.

use std::collections::BTreeSet;

use execution::ToolFilter;
use serde_json::json;
use tool::definition::ToolFormat;
use tool::text::nearest_word;
use tool::{Category, ToolDefinition};

use crate::cli::{JsonArgs, ToolsCommand};
use crate::command_context::CommandContext;
use crate::exit::{CommandError, ExitKind};
use crate::render;
use crate::terminal::print_result_line;

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
            show(&context.definitions(&ToolFilter::default())?, &name, output)
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
        print_result_line(json!({"schema_version": 1, "tools": tools}))
    } else {
        render::print_table(render::tool_table(definitions))
    }
}

fn show(definitions: &[ToolDefinition], name: &str, output: JsonArgs) -> Result<(), CommandError> {
    let Some(definition) = find_tool(definitions, name) else {
        let near = nearest_word(name, definitions.iter().map(|definition| definition.name().as_str()));
        let hint = near
            .map_or("list the tools with `sinew tools list`".to_owned(), |n| format!("sinew tools show {n}"));
        return Err(CommandError::usage(format!("there is no tool `{name}`")).with_hint(hint));
    };
    if output.json {
        print_result_line(json!({"schema_version": 1, "tool": ToolFormat::Native.export(definition)}))
    } else {
        render::print_tool(definition)
    }
}
