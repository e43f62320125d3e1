//! `sinew schema`: prints the JSON Schemas of configuration files and messages.

use schemars::{Schema, schema_for};
use tool::text::nearest_word;

use crate::cli::SchemaArgs;
use crate::exit::{CommandError, ExitKind};
use crate::terminal::print_result_line;

type NamedSchema = (&'static str, fn() -> Schema);

/// Schemas by name: files first, then messages.
const SCHEMAS: [NamedSchema; 12] = [
    ("modes", || schema_for!(governance::files::ModesFile)),
    ("tools", || schema_for!(governance::files::ToolsFile)),
    ("safety", || schema_for!(governance::files::SafetyFile)),
    ("guardrails", || schema_for!(guardrail::GuardrailsFile)),
    ("manifest", || schema_for!(manifest::ManifestFile)),
    ("host", || schema_for!(crate::host_table::HostFile)),
    ("settings", || schema_for!(server::settings::DaemonSettingsFile)),
    ("tool-definition", || schema_for!(tool::ToolSpec)),
    ("tool-result", || schema_for!(tool::ToolResult)),
    ("refusal", || schema_for!(tool::Refusal)),
    ("explanation", || schema_for!(execution::Explanation)),
    ("protocol", server::protocol_schema),
];

pub(crate) fn run(args: &SchemaArgs) -> Result<ExitKind, CommandError> {
    let Some(wanted) = &args.name else {
        SCHEMAS.iter().try_for_each(|(name, _)| print_result_line(name))?;
        return Ok(ExitKind::Done);
    };
    let Some(schema) = schema_text(wanted) else {
        let problem = CommandError::usage(format!("there is no schema `{wanted}`"));
        let near = nearest_word(wanted, SCHEMAS.iter().map(|(name, _)| *name));
        return Err(problem.with_hint(near.map_or("list the schemas with `sinew schema`".to_owned(), |n| {
            format!("did you mean `sinew schema {n}`?")
        })));
    };
    print_result_line(schema)?;
    Ok(ExitKind::Done)
}

/// Returns the schema of this name as text, without a trailing newline.
pub(crate) fn schema_text(wanted: &str) -> Option<String> {
    let (_, make) = SCHEMAS.iter().find(|(name, _)| *name == wanted)?;
    Some(format!("{:#}", make().to_value()))
}
