//! `sinew schema`: prints the JSON Schemas of configuration files and messages.

use schemars::{Schema, schema_for};
use tool::nearest;

use crate::cli::SchemaArgs;
use crate::exit::{Exit, Problem};
use crate::terminal::say;

type Named = (&'static str, fn() -> Schema);

/// Schemas by name: files first, then messages.
const SCHEMAS: [Named; 11] = [
    ("modes", || schema_for!(governance::files::ModesFile)),
    ("tools", || schema_for!(governance::files::ToolsFile)),
    ("safety", || schema_for!(governance::files::SafetyFile)),
    ("guardrails", || schema_for!(guardrail::GuardrailsFile)),
    ("manifest", || schema_for!(manifest::ManifestFile)),
    ("host", || schema_for!(crate::host_table::HostFile)),
    ("settings", || schema_for!(server::SettingsFile)),
    ("tool-definition", || schema_for!(tool::ToolSpec)),
    ("tool-result", || schema_for!(tool::ToolResult)),
    ("refusal", || schema_for!(tool::Refusal)),
    ("explanation", || schema_for!(execution::Explanation)),
];

pub(crate) fn run(args: &SchemaArgs) -> Result<Exit, Problem> {
    let Some(wanted) = &args.name else {
        SCHEMAS.iter().try_for_each(|(name, _)| say(name))?;
        return Ok(Exit::Done);
    };
    let Some(schema) = text(wanted) else {
        let problem = Problem::usage(format!("there is no schema `{wanted}`"));
        let near = nearest(wanted, SCHEMAS.iter().map(|(name, _)| *name));
        return Err(problem.hint(
            near.map_or("list the schemas with `sinew schema`".to_owned(), |n| format!("sinew schema {n}")),
        ));
    };
    say(schema)?;
    Ok(Exit::Done)
}

/// Returns the schema of this name as text, without a trailing newline.
pub(crate) fn text(wanted: &str) -> Option<String> {
    let (_, make) = SCHEMAS.iter().find(|(name, _)| *name == wanted)?;
    Some(format!("{:#}", make().to_value()))
}
