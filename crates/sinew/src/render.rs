//! Renders results and definitions for people. Results go to standard output, messages about them to standard
//! error.

mod tool_output;

use serde_json::Value;
use tool::{Mode, Refusal, RefusalCode, RiskLevel, RuleRef, ToolDefinition, ToolResult};

use crate::cli::JsonArgs;
use crate::exit::{CommandError, ExitKind};
use crate::table::{Column, Table};
use crate::terminal::{
    DIM_STYLE, ERROR_STYLE, HEADING_STYLE, SUCCESS_STYLE, WARNING_STYLE, escape_invisible,
    escape_invisible_line, paint, print_message, print_result_line, print_warning, print_whole_line,
    stdout_width,
};
use crate::units;

/// Returns one line about a manifest or tool that could not be loaded.
pub(crate) fn manifest_problem(problem: &Value) -> String {
    let text = |key: &str| problem[key].as_str().unwrap_or_default();
    let place = match problem["line"].as_u64() {
        None | Some(0) => text("file").to_owned(),
        Some(line) => format!("{}:{line}", text("file")),
    };
    format!("{place}: {}: {}", text("code"), text("message"))
}

/// Prints a tool result: the output, then one line about the call.
pub(crate) fn print_result(result: &ToolResult) -> Result<(), CommandError> {
    if let Some(repeat) = &result.metadata.repeat {
        let line =
            format!("not run again: call {} used the same key and ended as {}", repeat.of, repeat.outcome);
        print_warning(line);
    }
    if result.success {
        tool_output::print(&result.tool_name, &result.output)?;
        if let Some(cut) = &result.metadata.truncated {
            let line = format!("cut: {} of {}; {}", cut.returned, cut.total, cut.how_to_continue);
            print_warning(line);
        }
        // The output of a tool that changes one file names it.
        let shown = result.output.get("path").and_then(Value::as_str);
        let is_new = |file: &&String| shown != Some(file.as_str());
        for file in result.metadata.files_touched.iter().filter(is_new) {
            print_message(format!("changed {}", escape_invisible_line(file)));
        }
    } else if let Some(refusal) = &result.metadata.refusal {
        self::print_refusal(refusal);
    } else {
        print_failure(result);
    }
    if !result.metadata.recorded {
        print_warning("not recorded yet: the ledger accepts no records; `sinew status` shows the reason");
    }
    print_message(paint(DIM_STYLE, result_summary(result)));
    Ok(())
}

fn result_summary(result: &ToolResult) -> String {
    let end = match (&result.metadata.refusal, result.success) {
        (Some(refusal), _) if refusal.code == RefusalCode::ApprovalPending => {
            "waiting for approval".to_owned()
        }
        (Some(refusal), _) => refusal.code.to_string(),
        (None, true) => "done".to_owned(),
        (None, false) => "failed".to_owned(),
    };
    let us = std::time::Duration::from_secs_f64(result.latency_ms.max(0.0) / 1000.0).as_micros();
    let took = units::duration(u64::try_from(us).unwrap_or(u64::MAX));
    format!("{end} · {took} · call {}", result.metadata.call_id)
}

/// Prints a call that waits for approval. It is not refused.
fn print_pending(refusal: &Refusal) {
    let id = escape_invisible_line(refusal.approval_id.as_deref().unwrap_or_default());
    print_message(format!("{} {id}", paint(WARNING_STYLE, "waiting for approval")));
    print_message(format!(
        "{} `sinew approve {id}`, then the same call again",
        paint(SUCCESS_STYLE, "hint:")
    ));
}

fn print_refusal(refusal: &Refusal) {
    if refusal.code == RefusalCode::ApprovalPending {
        return print_pending(refusal);
    }
    // Drops the variation selector, which only requests colour and would be printed as an escape.
    let reason = refusal.reason.replace("⚠\u{fe0f}", "⚠");
    print_message(format!("{} {}", paint(ERROR_STYLE, "refused:"), escape_invisible(&reason)));
    for problem in &refusal.problems {
        print_message(format!(
            "  {} {}",
            paint(HEADING_STYLE, escape_invisible_line(&problem.pointer)),
            escape_invisible_line(&problem.message)
        ));
    }
    if let Some(rule) = &refusal.rule {
        print_message(format!("  rule: {}", self::format_rule(rule)));
    }
    if let Some(repair) = &refusal.repair {
        let arguments = serde_json::Value::Object(repair.arguments.clone()).to_string();
        print_message(format!(
            "  repair: {} ({})",
            escape_invisible(&arguments),
            escape_invisible(&repair.note)
        ));
    }
    if let Some(hint) = &refusal.hint {
        print_message(format!("{} {}", paint(SUCCESS_STYLE, "hint:"), escape_invisible(hint)));
    }
}

/// Formats a rule with its location.
pub(crate) fn format_rule(rule: &RuleRef) -> String {
    match rule.line {
        0 if rule.file == rule.id => escape_invisible_line(&rule.id),
        0 => format!("{} ({})", escape_invisible_line(&rule.id), escape_invisible_line(&rule.file)),
        line => format!("{} ({}:{line})", escape_invisible_line(&rule.id), escape_invisible_line(&rule.file)),
    }
}

fn print_failure(result: &ToolResult) {
    let error = result.error.as_deref().unwrap_or("no reason was given");
    print_message(format!("{} {}", paint(ERROR_STYLE, "failed:"), escape_invisible(error)));
    let failure = result.metadata.failure.as_ref();
    if let Some(hint) = failure.and_then(|failure| failure.hint.as_deref()) {
        print_message(format!("{} {}", paint(SUCCESS_STYLE, "hint:"), escape_invisible(hint)));
    }
}

/// Builds a table with one line per tool.
pub(crate) fn tool_table(definitions: &[ToolDefinition]) -> Table {
    let mut table = Table::default();
    table.set_header([
        Column::whole("TOOL"),
        Column::optional("CATEGORY", 2),
        Column::optional("RISK", 1),
        Column::line("DESCRIPTION"),
    ]);
    for definition in definitions {
        let first_line = definition.description().lines().next().unwrap_or_default();
        table.add_row([
            definition.name().as_str().to_owned(),
            definition.category().as_str().to_owned(),
            format_risk(definition.risk_level()),
            escape_invisible_line(first_line),
        ]);
    }
    table
}

/// Formats a risk: high ones stand out.
fn format_risk(risk: RiskLevel) -> String {
    match risk {
        RiskLevel::High => paint(WARNING_STYLE, risk),
        RiskLevel::Low | RiskLevel::Medium => risk.to_string(),
    }
}

/// Prints the full description of a tool.
pub(crate) fn print_tool(definition: &ToolDefinition) -> Result<(), CommandError> {
    print_result_line(format!(
        "{} {}",
        paint(HEADING_STYLE, definition.name()),
        paint(DIM_STYLE, definition.version())
    ))?;
    print_result_line(escape_invisible(definition.description()))?;
    let modes: Vec<&str> = definition.allowed_modes().iter().map(|mode| mode.as_str()).collect();
    print_result_line(format!(
        "\ncategory {} · risk {} · at most {} s",
        definition.category(),
        definition.risk_level(),
        definition.timeout().as_secs()
    ))?;
    print_result_line(format!("modes {} (policy may restrict them)\n", modes.join(", ")))?;
    let mut table = Table::default();
    table.set_header([
        Column::whole("ARGUMENT"),
        Column::optional("TYPE", 1),
        Column::optional("", 2),
        Column::from("DESCRIPTION"),
    ]);
    for parameter in definition.parameters() {
        let need = match &parameter.default {
            Some(default) if !default.is_null() => format!("default {default}"),
            _ if parameter.required => "required".to_owned(),
            _ => "optional".to_owned(),
        };
        table.add_row([
            parameter.name.clone(),
            parameter.kind.as_str().to_owned(),
            need,
            parameter.description.lines().map(escape_invisible_line).collect::<Vec<_>>().join(" "),
        ]);
    }
    print_table(&table)?;
    match definition.example() {
        Some(example) => {
            print_result_line(format!("\nexample: sinew call {} --json '{example}'", definition.name()))
        }
        None => Ok(()),
    }
}

/// Formats a mode in the colour of its meaning.
pub(crate) fn format_mode(name: &str) -> String {
    let style = match name.parse() {
        Ok(Mode::Normal) => SUCCESS_STYLE,
        Ok(Mode::Lockdown) => ERROR_STYLE,
        Ok(Mode::Alert | Mode::Degraded | Mode::Recovery) | Err(_) => WARNING_STYLE,
    };
    paint(style, escape_invisible_line(name))
}

/// Prints a reply as JSON, or with `show` for people.
pub(crate) fn reply(
    output: JsonArgs,
    reply: Value,
    show: impl FnOnce(&Value) -> Result<(), CommandError>,
) -> Result<ExitKind, CommandError> {
    if output.json {
        print_json(reply)?;
    } else {
        show(&reply)?;
    }
    Ok(ExitKind::Done)
}

/// Returns the items of a list in a reply.
pub(crate) fn items<'a>(reply: &'a Value, key: &str) -> &'a [Value] {
    reply[key].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Formats JSON output with a `schema_version`, in printable ASCII.
pub(crate) fn versioned_json(mut answer: Value) -> String {
    if let Some(fields) = answer.as_object_mut() {
        fields.insert("schema_version".to_owned(), Value::from(1));
    }
    to_ascii_json(&answer)
}

/// Formats JSON in printable ASCII.
fn to_ascii_json(value: &Value) -> String {
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

/// Prints a list as a table with one line per item, or `empty` if there is none.
pub(crate) fn print_list<const COLUMNS: usize>(
    items: &[Value],
    empty: &str,
    header: [Column; COLUMNS],
    row: impl Fn(&Value) -> [String; COLUMNS],
) -> Result<(), CommandError> {
    if items.is_empty() {
        print_message(empty);
        return Ok(());
    }
    let mut table = Table::default();
    table.set_header(header);
    for item in items {
        table.add_row(row(item));
    }
    print_table(&table)
}

/// Returns a string field of a reply, with control characters made visible.
pub(crate) fn text_field(value: &Value, key: &str) -> String {
    value[key].as_str().map(escape_invisible_line).unwrap_or_default()
}

/// Prints a table that fits the terminal.
pub(crate) fn print_table(table: &Table) -> Result<(), CommandError> {
    table.lines(stdout_width()).into_iter().try_for_each(print_whole_line)
}

/// Prints JSON with a `schema_version`.
pub(crate) fn print_json(answer: Value) -> Result<(), CommandError> {
    print_whole_line(versioned_json(answer))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn json_output_is_printable_and_equal() {
        let value = json!({"a": "\u{1b}[2J\u{202e}é\u{9b}\u{e0041}\n", "b": [1, null]});
        let text = versioned_json(value.clone());
        assert!(text.chars().all(|c| (' '..='~').contains(&c)), "{text}");
        let read: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&read["a"], &read["b"]), (&value["a"], &value["b"]));
    }
}
