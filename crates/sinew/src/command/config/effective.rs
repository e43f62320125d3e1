//! `sinew config show --effective`: prints the merged policy with the origin of every line.

use governance::suggested_change::PolicyFile;
use serde_json::{Value, json};
use strict_yaml::Document;

use crate::cli::JsonArgs;
use crate::command_context::CommandContext;
use crate::compose;
use crate::exit::{CommandError, ExitKind};
use crate::render;
use crate::terminal::{DIM_STYLE, escape_invisible_line, paint, print_result_line};

/// Widest line before its origin.
const MAX_LINE_WIDTH: usize = 72;

pub(super) fn show(output: JsonArgs) -> Result<ExitKind, CommandError> {
    let context = CommandContext::from_environment()?;
    let policy = compose::read_policy(&context)?.map_err(CommandError::configuration)?;
    let curated = compose::curated_map(&context)?;
    let files = PolicyFile::ALL.map(|file| (file.name(), policy.merged_document(file)));
    let files = files.into_iter().chain(curated.document().map(|document| ("guardrails.yaml", document)));
    if output.json {
        let files: Vec<Value> = files.map(|(name, document)| as_json(name, document)).collect();
        render::print_json(json!({"policy_hash": policy.hash(), "files": files}))?;
        return Ok(ExitKind::Done);
    }
    for (name, document) in files {
        print_result_line(format!("# {name}"))?;
        for (line, origin) in document.lines_with_origins() {
            let place = format!("# {}:{}", origin.document.name(), origin.line);
            let (line, place) = (escape_invisible_line(line), escape_invisible_line(&place));
            print_result_line(format!("{line:<MAX_LINE_WIDTH$}  {}", paint(DIM_STYLE, place)))?;
        }
    }
    Ok(ExitKind::Done)
}

fn as_json(name: &str, document: &Document) -> Value {
    let lines = document
        .lines_with_origins()
        .map(|(line, origin)| json!({"text": line, "file": origin.document.name(), "line": origin.line}));
    json!({"name": name, "lines": lines.collect::<Vec<_>>()})
}
