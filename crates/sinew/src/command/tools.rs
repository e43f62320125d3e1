//! `sinew tools`: lists and shows the tools of the running daemon, else those of the configuration.

use execution::ToolFilter;
use serde_json::json;
use tool::{Format, ToolDefinition, nearest};

use crate::cli::{JsonArgs, ToolsCommand};
use crate::exit::{Exit, Problem};
use crate::render;
use crate::setting::Setting;
use crate::terminal::say;

pub(crate) fn run(command: ToolsCommand) -> Result<Exit, Problem> {
    let setting = Setting::find()?;
    match command {
        ToolsCommand::List { mode, category, output } => {
            list(&setting.definitions(&ToolFilter { mode, category })?, output)
        }
        ToolsCommand::Show { name, output } => {
            show(&setting.definitions(&ToolFilter::default())?, &name, output)
        }
    }
    .map(|()| Exit::Done)
}

/// Returns the tool with this name, alias, or `name@major`.
pub(crate) fn find<'a>(definitions: &'a [ToolDefinition], name: &str) -> Option<&'a ToolDefinition> {
    definitions.iter().find(|definition| definition.answers_to(name))
}

fn list(definitions: &[ToolDefinition], output: JsonArgs) -> Result<(), Problem> {
    if output.json {
        let tools: Vec<_> = definitions.iter().map(|definition| Format::Native.export(definition)).collect();
        say(json!({"schema_version": 1, "tools": tools}))
    } else {
        say(render::tool_table(definitions))
    }
}

fn show(definitions: &[ToolDefinition], name: &str, output: JsonArgs) -> Result<(), Problem> {
    let Some(definition) = find(definitions, name) else {
        let near = nearest(name, definitions.iter().map(|definition| definition.name().as_str()));
        let hint = near
            .map_or("list the tools with `sinew tools list`".to_owned(), |n| format!("sinew tools show {n}"));
        return Err(Problem::usage(format!("there is no tool `{name}`")).hint(hint));
    };
    if output.json {
        say(json!({"schema_version": 1, "tool": Format::Native.export(definition)}))
    } else {
        render::tool_page(definition)
    }
}
