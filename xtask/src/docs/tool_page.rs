//! docs/tools: one page per tool and their index, generated from the definitions in Sinew's own format.

use serde_json::Value;

const HEAD: &str = "<!-- Written by `cargo xtask docs` from the tool's definition. Do not edit. -->\n\n";

/// Generates the page of one tool.
pub(crate) fn page(tool: &Value) -> String {
    let mut page = format!("{HEAD}# `{}`\n\n{}\n\n", text(&tool["name"]), text(&tool["description"]));
    page.push_str(&facts(tool));
    page.push_str(&parameters(tool));
    page.push_str(&example(tool));
    if let Some(schema) = tool.get("output_schema") {
        page.push_str(&format!("## Output\n\n```json\n{}\n```\n", pretty(schema)));
    }
    page.truncate(page.trim_end().len());
    page.push('\n');
    page
}

/// Generates the index of all tools.
pub(crate) fn index(tools: &[Value]) -> String {
    let mut page = format!("{HEAD}# Tools\n\n| tool | purpose | category | risk |\n|---|---|---|---|\n");
    for tool in tools {
        let name = text(&tool["name"]);
        let sentence = cell(first_sentence(&text(&tool["description"])));
        let (category, risk) = (text(&tool["category"]), text(&tool["risk_level"]));
        page.push_str(&format!("| [`{name}`]({name}.md) | {sentence} | {category} | {risk} |\n"));
    }
    page
}

fn facts(tool: &Value) -> String {
    let aliases = names(&tool["aliases"]);
    let rate = tool["rate_limit_per_hour"]
        .as_u64()
        .map_or("none".to_owned(), |rate| format!("{rate} calls an hour"));
    let rows = [
        ("version", text(&tool["version"])),
        ("also called", aliases),
        ("category", text(&tool["category"])),
        ("risk", text(&tool["risk_level"])),
        ("modes, unless the policy restricts them", names(&tool["allowed_modes"])),
        ("requires approval", yes_no(&tool["requires_approval"])),
        ("runs in a sandbox", yes_no(&tool["requires_sandbox"])),
        ("time limit", format!("{} s", text(&tool["timeout_seconds"]))),
        ("rate limit", rate),
    ];
    let mut table = "| | |\n|---|---|\n".to_owned();
    for (name, value) in rows.iter().filter(|(_, value)| !value.is_empty()) {
        table.push_str(&format!("| {name} | {} |\n", cell(value)));
    }
    table + "\n"
}

fn parameters(tool: &Value) -> String {
    let list = tool["parameters"].as_array().map(Vec::as_slice).unwrap_or_default();
    if list.is_empty() {
        return "## Arguments\n\nNone.\n\n".to_owned();
    }
    let mut table =
        "## Arguments\n\n| name | type | required | default | description |\n|---|---|---|---|---|\n"
            .to_owned();
    for parameter in list {
        // A schema marks an optional parameter with a default of null.
        let default = parameter.get("default").filter(|value| !value.is_null());
        let required = parameter["required"] == true && parameter.get("default").is_none();
        let kind = match parameter["format"].as_str() {
            Some(format) => format!("{} ({format})", text(&parameter["type"])),
            None => text(&parameter["type"]),
        };
        table.push_str(&format!(
            "| `{}` | {kind} | {} | {} | {} |\n",
            text(&parameter["name"]),
            if required { "yes" } else { "no" },
            default.map(|value| format!("`{}`", cell(&value.to_string()))).unwrap_or_default(),
            cell(&text(&parameter["description"])),
        ));
    }
    table + "\n"
}

fn example(tool: &Value) -> String {
    let Some(example) = tool.get("example") else { return String::new() };
    format!("## Example\n\n```sh\nsinew call {} --json '{example}'\n```\n\n", text(&tool["name"]))
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

fn names(value: &Value) -> String {
    let list = value.as_array().map(Vec::as_slice).unwrap_or_default();
    list.iter().map(|name| format!("`{}`", text(name))).collect::<Vec<_>>().join(", ")
}

fn yes_no(value: &Value) -> String {
    if *value == true { "yes" } else { "no" }.to_owned()
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

fn first_sentence(text: &str) -> &str {
    text.split_once(". ").map_or(text, |(first, _)| first).trim_end_matches('.')
}

/// Joins the text into one line and escapes bars, so that it fits into a table cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn tool() -> Value {
        json!({"name": "read_file", "version": "1.0.0", "description": "Read a file. All of it.",
            "category": "read_only", "risk_level": "low", "allowed_modes": ["NORMAL", "ALERT"],
            "requires_approval": false, "requires_sandbox": true, "timeout_seconds": 30, "rate_limit_per_hour": null,
            "parameters": [
                {"name": "path", "type": "string", "format": "path", "required": true, "description": "a | b"},
                {"name": "max", "type": "integer", "required": true, "default": 10, "description": "at\nmost"},
                {"name": "seal", "type": "string", "required": false, "default": null}],
            "output_schema": {"type": "object"}, "example": {"path": "README.md"}})
    }

    #[test]
    fn a_page_contains_the_fields_of_the_definition() {
        let page = page(&tool());
        for part in [
            "# `read_file`\n\nRead a file. All of it.\n",
            "| modes, unless the policy restricts them | `NORMAL`, `ALERT` |\n",
            "| runs in a sandbox | yes |\n",
            "| rate limit | none |\n",
            "| `path` | string (path) | yes |  | a \\| b |\n",
            "| `max` | integer | no | `10` | at most |\n",
            "| `seal` | string | no |  |  |\n",
            "sinew call read_file --json '{\"path\":\"README.md\"}'\n",
            "## Output\n\n```json\n{\n  \"type\": \"object\"\n}\n```\n",
        ] {
            assert!(page.contains(part), "`{part}` is not in:\n{page}");
        }
        assert!(!page.contains("also called"), "an empty row is left out");
    }

    #[test]
    fn the_index_has_one_line_per_tool() {
        let index = index(&[tool()]);
        assert!(
            index.ends_with("| [`read_file`](read_file.md) | Read a file | read_only | low |\n"),
            "{index}"
        );
    }
}
