//! Renders results and definitions for people. Results go to standard output, messages about them to standard
//! error.

use comfy_table::{ContentArrangement, Table, presets};
use serde_json::Value;
use tool::{Mode, Refusal, RuleRef, ToolDefinition, ToolResult};

use crate::cli::JsonArgs;
use crate::exit::{CommandError, ExitKind};
use crate::terminal::{
    DIM_STYLE, ERROR_STYLE, HEADING_STYLE, SUCCESS_STYLE, WARNING_STYLE, escape_invisible,
    escape_invisible_line, paint, print_external_text, print_message, print_result_line, print_warning,
};

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
        print_output(&result.output)?;
        if let Some(cut) = &result.metadata.truncated {
            let line = format!("cut: {} of {}; {}", cut.returned, cut.total, cut.how_to_continue);
            print_warning(line);
        }
        for file in &result.metadata.files_touched {
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
        (Some(refusal), _) => refusal.code.to_string(),
        (None, true) => "done".to_owned(),
        (None, false) => "failed".to_owned(),
    };
    format!("{end} · {:.1} ms · call {}", result.latency_ms, result.metadata.call_id)
}

fn print_output(value: &Value) -> Result<(), CommandError> {
    if let Some(text) = value["content"].as_str() {
        print_external_text(text)
    } else if let Some(entries) = value["entries"].as_array().filter(|entries| is_directory_listing(entries))
    {
        print_table(entry_table(entries))
    } else {
        print_result_line(escape_invisible(&format!("{value:#}")))
    }
}

/// Returns true if the entries are those of a directory listing. Other tools have entries too, without these
/// fields.
fn is_directory_listing(entries: &[Value]) -> bool {
    !entries.is_empty() && entries.iter().all(|entry| entry["name"].is_string() && entry["kind"].is_string())
}

fn entry_table(entries: &[Value]) -> Table {
    let mut table = plain_table();
    for entry in entries {
        let text = |key: &str| text_field(entry, key);
        let size = entry["size"].as_u64().map(|size| size.to_string()).unwrap_or_default();
        let name = match entry["target"].as_str() {
            Some(target) => format!("{} -> {}", text("name"), escape_invisible_line(target)),
            None => text("name"),
        };
        table.add_row([text("kind"), size, text("modified"), name]);
    }
    table
}

fn print_refusal(refusal: &Refusal) {
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
    let mut table = plain_table();
    table.set_header(["TOOL", "CATEGORY", "RISK", "DESCRIPTION"]);
    for definition in definitions {
        let first_line = definition.description().lines().next().unwrap_or_default();
        table.add_row([
            definition.name().as_str(),
            definition.category().as_str(),
            definition.risk_level().as_str(),
            &escape_invisible_line(first_line),
        ]);
    }
    table
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
            &escape_invisible_line(&parameter.description),
        ]);
    }
    print_table(table)?;
    match definition.example() {
        Some(example) => {
            print_result_line(format!("\nexample: sinew call {} --json '{example}'", definition.name()))
        }
        None => Ok(()),
    }
}

/// Formats a mode: green for normal, yellow otherwise.
pub(crate) fn format_mode(name: &str) -> String {
    paint(
        if name == Mode::Normal.as_str() { SUCCESS_STYLE } else { WARNING_STYLE },
        escape_invisible_line(name),
    )
}

/// Prints a reply as JSON, or with `show` for people.
pub(crate) fn reply(
    output: JsonArgs,
    reply: Value,
    show: impl FnOnce(&Value) -> Result<(), CommandError>,
) -> Result<ExitKind, CommandError> {
    if output.json {
        print_result_line(versioned_json(reply))?;
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
    header: [&str; COLUMNS],
    row: impl Fn(&Value) -> [String; COLUMNS],
) -> Result<(), CommandError> {
    if items.is_empty() {
        print_message(empty);
        return Ok(());
    }
    let mut table = plain_table();
    table.set_header(header).add_rows(items.iter().map(row));
    print_table(table)
}

/// Returns a string field of a reply, with control characters made visible.
pub(crate) fn text_field(value: &Value, key: &str) -> String {
    value[key].as_str().map(escape_invisible_line).unwrap_or_default()
}

/// Formats a duration in microseconds, milliseconds or seconds.
pub(crate) fn duration(us: u64) -> String {
    match us {
        0..1_000 => format!("{us} µs"),
        1_000..1_000_000 => format!("{}.{} ms", us / 1_000, us % 1_000 / 100),
        _ => format!("{}.{} s", us / 1_000_000, us % 1_000_000 / 100_000),
    }
}

/// Formats a number of bytes in its largest unit.
pub(crate) fn byte_count(bytes: u64) -> String {
    let scaled = |unit: u64| format!("{}.{}", bytes / unit, bytes % unit * 10 / unit);
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{} KiB", scaled(1024)),
        1_048_576..1_073_741_824 => format!("{} MiB", scaled(1_048_576)),
        _ => format!("{} GiB", scaled(1_073_741_824)),
    }
}

/// Prints a table.
pub(crate) fn print_table(table: Table) -> Result<(), CommandError> {
    print_result_line(table_text(table))
}

/// Returns the text of a table, without spaces at the ends of its lines.
pub(crate) fn table_text(mut table: Table) -> String {
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.trim_fmt()
}

/// Widest line of a text that is wrapped.
const TEXT_WIDTH: usize = 80;

/// Wraps a text at its spaces. The first line begins with the first indent, the others with the second one.
pub(crate) fn wrapped(text: &str, [first, other]: [&str; 2]) -> Vec<String> {
    let mut lines = vec![first.to_owned()];
    for word in text.split(' ') {
        let Some(line) = lines.last_mut() else { break };
        let is_begun = line.len() > first.len().max(other.len());
        if is_begun && line.chars().count() + 1 + word.chars().count() > TEXT_WIDTH {
            lines.push(format!("{other}{word}"));
        } else {
            let space = if is_begun { " " } else { "" };
            line.push_str(space);
            line.push_str(word);
        }
    }
    lines
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
    fn numbers_are_rounded_for_people() {
        assert_eq!([duration(999), duration(1_500), duration(2_340_000)], ["999 µs", "1.5 ms", "2.3 s"]);
        assert_eq!(
            [byte_count(1023), byte_count(1536), byte_count(10 << 20), byte_count(5 << 30)],
            ["1023 B", "1.5 KiB", "10.0 MiB", "5.0 GiB"]
        );
    }

    #[test]
    fn text_is_wrapped_at_its_spaces() {
        let text = "word ".repeat(40);
        let lines = wrapped(text.trim_end(), ["- ", "  "]);
        assert!(lines.iter().all(|line| line.len() <= TEXT_WIDTH), "{lines:#?}");
        assert!(lines[0].starts_with("- word word") && lines[1].starts_with("  word"), "{lines:#?}");
        assert_eq!(lines.join(" ").split_whitespace().filter(|word| *word == "word").count(), 40);
        assert_eq!(wrapped("short", ["- ", "  "]), ["- short"]);
    }

    #[test]
    fn json_output_is_printable_and_equal() {
        let value = json!({"a": "\u{1b}[2J\u{202e}é\u{9b}\u{e0041}\n", "b": [1, null]});
        let text = versioned_json(value.clone());
        assert!(text.chars().all(|c| (' '..='~').contains(&c)), "{text}");
        let read: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&read["a"], &read["b"]), (&value["a"], &value["b"]));
    }
}
