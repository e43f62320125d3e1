//! docs/protocol.md: every method of both sockets, from the descriptions beside the method tables of the server and
//! from examples that the test suite recorded and checks.

use std::fmt::Write as _;

use anyhow::{Context, Result};
use serde_json::Value;

/// Descriptions of the methods. A test of the server compares them with its method tables.
pub(crate) const DESCRIPTIONS: &str = "crates/server/protocol.json";
/// One example per method. A test of the suite sends each to a daemon.
pub(crate) const EXAMPLES: &str = "crates/server/protocol-examples.json";

const HEAD: &str = "<!-- Written by `cargo xtask docs` from `crates/server/protocol.json`. Do not edit. -->

# Protocol reference

Both sockets are Unix sockets with one JSON-RPC 2.0 message per line (UTF-8, at most `limits.max_line_bytes`). Only the user who
runs the daemon can connect. `sinew status --json` gives their paths in `sockets`.

```sh
echo '{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"control/status\"}' | nc -NU \"$SINEW_HOME/run/control.sock\"
```

- Requests of one connection run concurrently; replies come in the order of completion and carry the `id` of the request.
- Sinew's own methods refuse an unknown parameter. MCP methods ignore it, as MCP requires.
- Optional fields are marked with `?`. The examples are recorded from a running daemon; long texts, lists and tool schemas in them
  are shortened.

| error code | meaning |
|---|---|
| -32700, -32600 | the line is not JSON, or not a request |
| -32601 | unknown method; the message names the other socket if that has it |
| -32602 | wrong parameters; `data.field` names the parameter |
| -32603 | internal error |
| -32000 | the request cannot be fulfilled; `data.code` is a word for programs, such as `rate_limited`, `not_found`, `pin_needed` |
| -32022 | unsupported revision of MCP |

A refused or failed tool call is not an error but a result: [tool result](schemas/tool-result.json), [refusal](schemas/refusal.json).
";

/// Generates the page from the two files.
pub(crate) fn page(descriptions: &str, examples: &str) -> Result<String> {
    let descriptions: Value =
        serde_json::from_str(descriptions).with_context(|| format!("`{DESCRIPTIONS}` is not JSON"))?;
    let examples: Value =
        serde_json::from_str(examples).with_context(|| format!("`{EXAMPLES}` is not JSON"))?;
    let sockets =
        descriptions.get("sockets").with_context(|| format!("`{DESCRIPTIONS}` has no `sockets`"))?;
    let mut page = HEAD.to_owned();
    for socket in items(sockets) {
        write!(page, "\n## {}\n\n{}\n\n", text(&socket["socket"]), text(&socket["text"]))?;
        page.push_str("| method | purpose |\n|---|---|\n");
        for method in items(&socket["methods"]) {
            let name = text(&method["name"]);
            writeln!(page, "| [`{name}`](#{}) | {} |", anchor(name), text(&method["summary"]))?;
        }
        for method in items(&socket["methods"]) {
            let name = text(&method["name"]);
            let example = examples.get(name).with_context(|| format!("`{EXAMPLES}` has no `{name}`"))?;
            page.push_str(&section(method, example)?);
        }
    }
    Ok(page)
}

fn section(method: &Value, example: &Value) -> Result<String> {
    let name = text(&method["name"]);
    let mut section = format!("\n### `{name}`\n\n{}", text(&method["summary"]));
    if let Some(note) = method["note"].as_str() {
        write!(section, " {note}")?;
    }
    section.push_str("\n\n");
    section.push_str(&fields("parameter", &method["params"]));
    section.push_str(&fields("result", &method["result"]));
    let request = serde_json::json!({"method": name, "params": example["params"]});
    write!(
        section,
        "```json\n{}\n```\n\n```json\n{}\n```\n",
        serde_json::to_string(&request)?,
        serde_json::to_string_pretty(&serde_json::json!({"result": example["result"]}))?,
    )?;
    Ok(section)
}

/// Generates the table of fields, or nothing if there are none.
fn fields(heading: &str, list: &Value) -> String {
    let rows: String = items(list)
        .map(|field| {
            let mark = if field["optional"] == true { "?" } else { "" };
            format!(
                "| `{}`{mark} | {} | {} |\n",
                text(&field["name"]),
                text(&field["type"]),
                text(&field["text"])
            )
        })
        .collect();
    match rows.is_empty() {
        true => String::new(),
        false => format!("| {heading} | type | |\n|---|---|---|\n{rows}\n"),
    }
}

/// Anchor of a heading with a method's name, as Markdown renderers derive it.
fn anchor(name: &str) -> String {
    name.chars().filter(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-')).collect()
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_shows_fields_and_example_of_a_method() {
        let descriptions = r#"{"sockets": [{"socket": "a.sock", "text": "For a.", "methods": [{"name": "a/b.c",
            "summary": "Does it.", "note": "Once.", "result": [],
            "params": [{"name": "id", "type": "string", "text": "an id", "optional": true}]}]}]}"#;
        let examples = r#"{"a/b.c": {"params": {"id": "x"}, "result": {}}}"#;
        let page = page(descriptions, examples).unwrap();
        for part in [
            "| [`a/b.c`](#abc) | Does it. |",
            "### `a/b.c`\n\nDoes it. Once.\n\n| parameter |",
            "| `id`? | string | an id |",
            r#"{"method":"a/b.c","params":{"id":"x"}}"#,
        ] {
            assert!(page.contains(part), "{part}\n{page}");
        }
        assert!(!page.contains("| result |"));
        assert!(super::page(descriptions, "{}").is_err(), "a method without an example");
    }
}
