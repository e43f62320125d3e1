//! Renders results and definitions for people. Results go to standard output, messages about them to standard
//! error.

use comfy_table::{ContentArrangement, Table, presets};
use serde_json::Value;
use tool::{Mode, Refusal, RuleRef, ToolDefinition, ToolResult};

use crate::cli::JsonArgs;
use crate::exit::{Exit, Problem};
use crate::terminal::{
    BAD, GOOD, NOTE, QUIET, STRONG, paint, say, show_foreign, tell, visible, visible_line,
};

/// Prints a tool result: the output, then one line about the call.
pub(crate) fn result(result: &ToolResult) -> Result<(), Problem> {
    if let Some(repeat) = &result.metadata.repeat {
        let line =
            format!("not run again: call {} used the same key and ended as {}", repeat.of, repeat.outcome);
        tell(paint(NOTE, line));
    }
    if result.success {
        output(&result.output)?;
        if let Some(cut) = &result.metadata.truncated {
            let line = format!("cut: {} of {}; {}", cut.returned, cut.total, cut.how_to_continue);
            tell(paint(NOTE, line));
        }
        for file in &result.metadata.files_touched {
            tell(format!("changed {}", visible_line(file)));
        }
    } else if let Some(refusal) = &result.metadata.refusal {
        self::refusal(refusal);
    } else {
        failure(result);
    }
    if !result.metadata.recorded {
        tell(paint(NOTE, "not recorded yet: the ledger accepts no records; `sinew status` shows the reason"));
    }
    tell(paint(QUIET, summary(result)));
    Ok(())
}

fn summary(result: &ToolResult) -> String {
    let end = match (&result.metadata.refusal, result.success) {
        (Some(refusal), _) => refusal.code.to_string(),
        (None, true) => "done".to_owned(),
        (None, false) => "failed".to_owned(),
    };
    format!("{end} · {:.1} ms · call {}", result.latency_ms, result.metadata.call_id)
}

fn output(value: &Value) -> Result<(), Problem> {
    if let Some(text) = value["content"].as_str() {
        show_foreign(text)
    } else if let Some(entries) = value["entries"].as_array().filter(|entries| are_of_a_directory(entries)) {
        say(entry_table(entries))
    } else {
        say(visible(&format!("{value:#}")))
    }
}

/// Returns true if the entries are those of a directory listing. Other tools have entries too, without these
/// fields.
fn are_of_a_directory(entries: &[Value]) -> bool {
    !entries.is_empty() && entries.iter().all(|entry| entry["name"].is_string() && entry["kind"].is_string())
}

fn entry_table(entries: &[Value]) -> Table {
    let mut table = plain_table();
    for entry in entries {
        let text = |key: &str| entry[key].as_str().map(visible_line).unwrap_or_default();
        let size = entry["size"].as_u64().map(|size| size.to_string()).unwrap_or_default();
        let name = match entry["target"].as_str() {
            Some(target) => format!("{} -> {}", text("name"), visible_line(target)),
            None => text("name"),
        };
        table.add_row([text("kind"), size, text("modified"), name]);
    }
    table
}

fn refusal(refusal: &Refusal) {
    // Drops the variation selector, which only requests colour and would be printed as an escape.
    let reason = refusal.reason.replace("⚠\u{fe0f}", "⚠");
    tell(format!("{} {}", paint(BAD, "refused:"), visible(&reason)));
    for problem in &refusal.problems {
        tell(format!(
            "  {} {}",
            paint(STRONG, visible_line(&problem.pointer)),
            visible_line(&problem.message)
        ));
    }
    if let Some(rule) = &refusal.rule {
        tell(format!("  rule: {}", self::rule(rule)));
    }
    if let Some(repair) = &refusal.repair {
        let arguments = serde_json::Value::Object(repair.arguments.clone()).to_string();
        tell(format!("  repair: {} ({})", visible(&arguments), visible(&repair.note)));
    }
    if let Some(hint) = &refusal.hint {
        tell(format!("{} {}", paint(GOOD, "hint:"), visible(hint)));
    }
}

/// Formats a rule with its location.
pub(crate) fn rule(rule: &RuleRef) -> String {
    match rule.line {
        0 if rule.file == rule.id => visible_line(&rule.id),
        0 => format!("{} ({})", visible_line(&rule.id), visible_line(&rule.file)),
        line => format!("{} ({}:{line})", visible_line(&rule.id), visible_line(&rule.file)),
    }
}

fn failure(result: &ToolResult) {
    let error = result.error.as_deref().unwrap_or("no reason was given");
    tell(format!("{} {}", paint(BAD, "failed:"), visible(error)));
    let failure = result.metadata.failure.as_ref();
    if let Some(hint) = failure.and_then(|failure| failure.hint.as_deref()) {
        tell(format!("{} {}", paint(GOOD, "hint:"), visible(hint)));
    }
}

/// Builds a table with one line per tool.
pub(crate) fn tool_table(definitions: &[ToolDefinition]) -> Table {
    let mut table = plain_table();
    table.set_header(["TOOL", "CATEGORY", "RISK", "DESCRIPTION"]);
    for definition in definitions {
        let first_line = definition.description().lines().next().unwrap_or_default();
        table.add_row([
            definition.name().as_str(),
            definition.category().as_str(),
            definition.risk_level().as_str(),
            &visible_line(first_line),
        ]);
    }
    table
}

/// Prints the full description of a tool.
pub(crate) fn tool_page(definition: &ToolDefinition) -> Result<(), Problem> {
    say(format!("{} {}", paint(STRONG, definition.name()), paint(QUIET, definition.version())))?;
    say(visible(definition.description()))?;
    let modes: Vec<&str> = definition.allowed_modes().iter().map(|mode| mode.as_str()).collect();
    say(format!(
        "\ncategory {} · risk {} · at most {} s",
        definition.category(),
        definition.risk_level(),
        definition.timeout().as_secs()
    ))?;
    say(format!("modes {} (policy may restrict them)\n", modes.join(", ")))?;
    let mut table = plain_table();
    table.set_header(["ARGUMENT", "TYPE", "", "DESCRIPTION"]);
    for parameter in definition.parameters() {
        let need = match &parameter.default {
            Some(default) if !default.is_null() => format!("default {default}"),
            _ if parameter.required => "required".to_owned(),
            _ => "optional".to_owned(),
        };
        table.add_row([
            &parameter.name,
            parameter.kind.as_str(),
            &need,
            &visible_line(&parameter.description),
        ]);
    }
    say(table)?;
    match definition.example() {
        Some(example) => say(format!("\nexample: sinew call {} --json '{example}'", definition.name())),
        None => Ok(()),
    }
}

/// Formats a mode: green for normal, yellow otherwise.
pub(crate) fn mode(name: &str) -> String {
    paint(if name == Mode::Normal.as_str() { GOOD } else { NOTE }, visible_line(name))
}

/// Prints a reply as JSON, or with `show` for people.
pub(crate) fn reply(
    output: JsonArgs,
    reply: Value,
    show: impl FnOnce(&Value) -> Result<(), Problem>,
) -> Result<Exit, Problem> {
    if output.json {
        say(versioned(reply))?;
    } else {
        show(&reply)?;
    }
    Ok(Exit::Done)
}

/// Returns the items of a list in a reply.
pub(crate) fn items<'a>(reply: &'a Value, key: &str) -> &'a [Value] {
    reply[key].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Formats JSON output with a `schema_version`, in printable ASCII.
pub(crate) fn versioned(mut answer: Value) -> String {
    if let Some(fields) = answer.as_object_mut() {
        fields.insert("schema_version".to_owned(), Value::from(1));
    }
    ascii(&answer)
}

/// Formats JSON in printable ASCII.
fn ascii(value: &Value) -> String {
    let mut out = String::new();
    for c in value.to_string().chars() {
        match c {
            ' '..='~' => out.push(c),
            c => {
                let mut units = [0; 2];
                for unit in c.encode_utf16(&mut units) {
                    out.push_str(&format!("\\u{unit:04x}"));
                }
            }
        }
    }
    out
}

/// Creates a table without borders that fits the width of the terminal.
pub(crate) fn plain_table() -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    table
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn json_output_is_printable_and_equal() {
        let value = json!({"a": "\u{1b}[2J\u{202e}é\u{9b}\u{e0041}\n", "b": [1, null]});
        let text = versioned(value.clone());
        assert!(text.chars().all(|c| (' '..='~').contains(&c)), "{text}");
        let read: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&read["a"], &read["b"]), (&value["a"], &value["b"]));
    }
}
