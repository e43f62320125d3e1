//! Outputs of tools for people: tables, snippets and bars. Without a page of its own here, an output is shown as the text that
//! models receive, else as its fields. `--json` shows everything.

use serde_json::Value;

use super::{items, text_field};
use crate::exit::CommandError;
use crate::table::{Column, Table};
use crate::terminal::{
    DIM_STYLE, ERROR_STYLE, HEADING_STYLE, SUCCESS_STYLE, WARNING_STYLE, escape_invisible,
    escape_invisible_line, paint, print_external_text, print_result_line, print_whole_line,
};
use crate::units;

const BAR_WIDTH: u64 = 20;
/// Percentages from which a bar is yellow, and red.
const BUSY_PERCENT: f64 = 75.0;
const FULL_PERCENT: f64 = 90.0;
/// Length of a commit id.
const SHORT_COMMIT: usize = 12;

/// Prints the output of a tool.
pub(super) fn print(tool: &str, output: &Value) -> Result<(), CommandError> {
    match tool {
        "search_files" => print_matches(output),
        "git_status" => print_status(output),
        "git_log" => print_commits(output),
        "git_diff" => print_patch(output),
        "system_metrics_snapshot" => print_metrics(output),
        "list_directory" if !items(output, "entries").is_empty() => super::print_table(&entry_table(output)),
        _ => match (output["content"].as_str(), toolbox::model_text(tool)) {
            (Some(content), _) => print_external_text(content),
            (None, Some(text)) => match text.0(output) {
                Some(text) => print_coloured(&text),
                None => print_fields(output),
            },
            (None, None) => print_fields(output),
        },
    }
}

/// Prints text that begins its lines with a verdict, in the colour of that.
fn print_coloured(text: &str) -> Result<(), CommandError> {
    for line in escape_invisible(text).lines() {
        let style = match line.split([':', ' ']).next() {
            Some("passed") => SUCCESS_STYLE,
            Some("failed" | "FAILED" | "error" | "ERROR") => ERROR_STYLE,
            _ => anstyle::Style::new(),
        };
        print_result_line(paint(style, line))?;
    }
    Ok(())
}

fn entry_table(output: &Value) -> Table {
    let mut table = Table::default();
    table.set_header([
        Column::optional("KIND", 1),
        Column::whole("SIZE"),
        Column::optional("CHANGED", 2),
        Column::path("NAME"),
    ]);
    for entry in items(output, "entries") {
        let name = match entry["target"].as_str() {
            Some(target) => format!("{} -> {}", text_field(entry, "name"), escape_invisible_line(target)),
            None => text_field(entry, "name"),
        };
        table.add_row([
            text_field(entry, "kind"),
            entry["size"].as_u64().map(units::byte_count).unwrap_or_default(),
            units::local_time_text(entry["modified"].as_str().unwrap_or_default()),
            name,
        ]);
    }
    table
}

/// Prints the matches below the name of their file, with line numbers.
fn print_matches(output: &Value) -> Result<(), CommandError> {
    let mut file = "";
    for found in items(output, "matches") {
        let path = found["path"].as_str().unwrap_or_default();
        if path != file {
            file = path;
            print_result_line(paint(HEADING_STYLE, escape_invisible_line(path)))?;
        }
        let line = found["line"].as_u64().unwrap_or_default();
        let context = |number: u64, text: &Value| {
            let text = escape_invisible_line(text.as_str().unwrap_or_default());
            print_whole_line(paint(DIM_STYLE, format!("{number:>6}  {text}")))
        };
        let (before, after) = (items(found, "before"), items(found, "after"));
        let first = line.saturating_sub(before.len() as u64);
        (first..).zip(before).try_for_each(|(number, text)| context(number, text))?;
        print_whole_line(format!(
            "{} {}",
            paint(WARNING_STYLE, format!("{line:>6}:")),
            text_field(found, "text")
        ))?;
        (line + 1..).zip(after).try_for_each(|(number, text)| context(number, text))?;
    }
    let files = items(output, "files");
    files.iter().try_for_each(|file| print_result_line(text_field(file, "path")))?;
    let matches = items(output, "matches").len();
    let searched = units::count(output["searched_files"].as_u64().unwrap_or_default() as usize, "file");
    let summary = match (matches, files.len()) {
        (0, 0) => format!("no match in {searched}"),
        (0, named) => units::count(named, "file"),
        (matches, _) => format!(
            "{} in {searched}",
            if matches == 1 { "1 match".to_owned() } else { format!("{matches} matches") }
        ),
    };
    print_result_line(paint(DIM_STYLE, summary))
}

fn print_status(output: &Value) -> Result<(), CommandError> {
    let branch = &output["branch"];
    let number =
        |key: &str| branch[key].as_u64().filter(|count| *count > 0).map(|count| format!("{count} {key}"));
    let mut facts = vec![match branch["head"].as_str() {
        Some(name) => format!("on {}", paint(HEADING_STYLE, escape_invisible_line(name))),
        None => "on no branch".to_owned(),
    }];
    facts.extend(branch["upstream"].as_str().map(|name| format!("tracks {}", escape_invisible_line(name))));
    facts.extend(["ahead", "behind"].into_iter().filter_map(number));
    print_result_line(facts.join(", "))?;
    if output["clean"] == true {
        return print_result_line(paint(SUCCESS_STYLE, "clean"));
    }
    let mut table = Table::default();
    table.set_header([Column::whole("STAGED"), Column::whole("NOT STAGED"), Column::path("PATH")]);
    let state = |entry: &Value, key: &str, style| match entry[key].as_str() {
        None | Some("unmodified") => String::new(),
        Some(_) if entry["kind"] == "untracked" => paint(DIM_STYLE, "untracked"),
        Some(word) => paint(style, escape_invisible_line(word)),
    };
    for entry in items(output, "entries") {
        let staged = state(entry, "staged", SUCCESS_STYLE);
        let path = match entry["original_path"].as_str() {
            Some(before) => format!("{} -> {}", escape_invisible_line(before), text_field(entry, "path")),
            None => text_field(entry, "path"),
        };
        table.add_row([staged, state(entry, "unstaged", WARNING_STYLE), path]);
    }
    super::print_table(&table)
}

fn print_commits(output: &Value) -> Result<(), CommandError> {
    let mut table = Table::default();
    table.set_header([
        Column::whole("COMMIT"),
        Column::optional("TIME", 1),
        Column::optional("AUTHOR", 2),
        Column::from("SUBJECT"),
    ]);
    for commit in items(output, "commits") {
        let refs: Vec<String> =
            items(commit, "refs").iter().filter_map(Value::as_str).map(escape_invisible_line).collect();
        let refs = if refs.is_empty() {
            String::new()
        } else {
            paint(WARNING_STYLE, format!(" ({})", refs.join(", ")))
        };
        table.add_row([
            text_field(commit, "commit").chars().take(SHORT_COMMIT).collect(),
            units::local_time_text(commit["date"].as_str().unwrap_or_default()),
            text_field(commit, "author"),
            text_field(commit, "subject") + &refs,
        ]);
    }
    super::print_table(&table)
}

/// Prints a patch with its added and removed lines in colour.
fn print_patch(output: &Value) -> Result<(), CommandError> {
    let patch = output["patch"].as_str().unwrap_or_default();
    if patch.is_empty() {
        return print_result_line("no differences");
    }
    for line in escape_invisible(patch).lines() {
        let style = match line.chars().next() {
            _ if line.starts_with("+++") || line.starts_with("---") || line.starts_with("diff ") => {
                HEADING_STYLE
            }
            Some('+') => SUCCESS_STYLE,
            Some('-') => ERROR_STYLE,
            Some('@') => DIM_STYLE,
            _ => anstyle::Style::new(),
        };
        print_whole_line(paint(style, line))?;
    }
    Ok(())
}

fn print_metrics(output: &Value) -> Result<(), CommandError> {
    let number = |pointer: &str| output.pointer(pointer).and_then(Value::as_f64);
    let bytes = |value: &Value, key: &str| units::byte_count(value[key].as_u64().unwrap_or_default());
    let mut table = Table::default();
    table.set_header([Column::whole(""), Column::whole(""), "".into()]);
    let mut row = |name: String, percent: Option<f64>, text: String| {
        table.add_row([name, percent.map(bar).unwrap_or_default(), text]);
    };
    let cores = output.pointer("/cpu/cores").and_then(Value::as_u64).unwrap_or_default();
    row("cpu".to_owned(), number("/cpu/total_percent"), units::count(cores as usize, "core"));
    let memory = &output["memory"];
    let used = format!("{} of {}", bytes(memory, "used_bytes"), bytes(memory, "total_bytes"));
    row("memory".to_owned(), number("/memory/used_percent"), used);
    let swap = &output["swap"];
    if swap["total_bytes"].as_u64().unwrap_or(0) > 0 {
        let used = format!("{} of {}", bytes(swap, "used_bytes"), bytes(swap, "total_bytes"));
        let share = number("/swap/used_bytes").zip(number("/swap/total_bytes"));
        row("swap".to_owned(), share.map(|(used, total)| used * 100.0 / total), used);
    }
    for disk in items(output, "disks") {
        let free = format!("{} of {} free", bytes(disk, "available_bytes"), bytes(disk, "total_bytes"));
        row(text_field(disk, "mount"), disk["used_percent"].as_f64(), free);
    }
    let load = ["one", "five", "fifteen"].map(|key| number(&format!("/load/{key}")).unwrap_or(0.0));
    row("load".to_owned(), None, load.map(|load| format!("{load:.2}")).join(" "));
    for link in
        items(output, "network").iter().filter(|link| link["received_bytes"].as_u64().unwrap_or(0) > 0)
    {
        let rate = |key: &str| bytes(link, key) + "/s";
        let text = format!("in {}, out {}", rate("received_per_second"), rate("sent_per_second"));
        row(text_field(link, "name"), None, text);
    }
    for (what, why) in output["unavailable"].as_object().into_iter().flatten() {
        let why = escape_invisible_line(why.as_str().unwrap_or_default());
        row(escape_invisible_line(what), None, paint(DIM_STYLE, why));
    }
    super::print_table(&table)
}

/// Draws a percentage: red if almost nothing is left.
fn bar(percent: f64) -> String {
    let percent = percent.clamp(0.0, 100.0);
    let filled = (percent * BAR_WIDTH as f64 / 100.0).round() as usize;
    let style = match percent {
        percent if percent >= FULL_PERCENT => ERROR_STYLE,
        percent if percent >= BUSY_PERCENT => WARNING_STYLE,
        _ => SUCCESS_STYLE,
    };
    let rest = (BAR_WIDTH as usize).saturating_sub(filled);
    format!("{}{} {percent:>3.0} %", paint(style, "█".repeat(filled)), "░".repeat(rest))
}

/// Prints the fields of any output.
fn print_fields(output: &Value) -> Result<(), CommandError> {
    let mut rows = Vec::new();
    flatten(output, "", &mut rows);
    let mut table = Table::default();
    table.set_header([Column::whole(""), "".into()]);
    for (key, value) in rows {
        table.add_row([paint(DIM_STYLE, key), value]);
    }
    super::print_table(&table)
}

/// Collects the values of an output, each with the path of keys that leads to it.
fn flatten(value: &Value, key: &str, rows: &mut Vec<(String, String)>) {
    let below = |name: &str| if key.is_empty() { name.to_owned() } else { format!("{key}.{name}") };
    match value {
        Value::Object(fields) => {
            fields
                .iter()
                .for_each(|(name, value)| flatten(value, &below(&escape_invisible_line(name)), rows));
        }
        Value::Array(list) if list.iter().any(|one| one.is_object() || one.is_array()) => {
            list.iter()
                .zip(1..)
                .for_each(|(one, number): (_, usize)| flatten(one, &below(&number.to_string()), rows));
        }
        Value::Array(list) => {
            let texts: Vec<String> = list.iter().map(scalar).collect();
            rows.push((key.to_owned(), texts.join(", ")));
        }
        scalar_value => rows.push((key.to_owned(), scalar(scalar_value))),
    }
}

fn scalar(value: &Value) -> String {
    match value {
        Value::String(text) => escape_invisible(text),
        Value::Null => "none".to_owned(),
        Value::Number(number) if number.is_f64() => format!("{:.1}", number.as_f64().unwrap_or_default()),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_of_any_output_are_named_by_their_path() {
        let mut rows = Vec::new();
        flatten(
            &json!({"a": {"b": 1.25}, "list": ["x", "y"], "of": [{"c": null}], "d": true}),
            "",
            &mut rows,
        );
        let rows: Vec<String> = rows.iter().map(|(key, value)| format!("{key}={value}")).collect();
        assert_eq!(rows, ["a.b=1.2", "list=x, y", "of.1.c=none", "d=true"]);
    }

    #[test]
    fn bar_shows_its_percentage() {
        let plain = |percent| anstream::adapter::strip_str(&bar(percent)).to_string();
        assert_eq!(plain(0.0), format!("{}   0 %", "░".repeat(20)));
        assert_eq!(plain(250.0), format!("{} 100 %", "█".repeat(20)));
        assert!(bar(95.0).contains("\u{1b}[31m") && bar(10.0).contains("\u{1b}[32m"));
    }
}
