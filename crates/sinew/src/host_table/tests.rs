//! Tests: the built-in tables are valid and match their documentation, and errors in a table have a location.

use execution::host::{HostTool, OnApproval, OnPermit};
use strict_yaml::Document;
use tool::Mode;
use tool::definition::PathAccess;

use super::*;

fn built_in_host(wanted: &str) -> Host {
    let (name, text) = EMBEDDED.into_iter().find(|(name, _)| *name == wanted).unwrap();
    let document = Document::from_text(&format!("{name}.yaml"), text).unwrap();
    check_table(name, &document, TableCheckLevel::Full).unwrap_or_else(|errors| panic!("{errors:?}"))
}

/// Every way to change files or to run programs is judged in every host, and a host that cannot ask denies.
#[test]
fn tables_of_all_hosts_are_valid_and_restrictive() {
    for (name, on_approval, shell, writers) in [
        ("codex", OnApproval::Deny, "Bash", &["apply_patch"][..]),
        ("gemini-cli", OnApproval::Ask, "run_shell_command", &["write_file", "replace"]),
        ("cursor", OnApproval::Deny, "Shell", &["Write", "Delete"]),
    ] {
        let host = built_in_host(name);
        assert_eq!(host.on_approval, on_approval, "{name}");
        let judged = |tool: &str| match host.tool(tool) {
            Some(HostTool::Judged(judged)) => judged.definition().clone(),
            other => panic!("{name} {tool}: {other:?}"),
        };
        assert!(judged(shell).requires_approval() && judged(shell).name().as_str() == "bash", "{name}");
        for writer in writers {
            let paths = judged(writer).path_arguments().to_vec();
            assert!(!paths.is_empty(), "{name} {writer}");
            assert!(paths.iter().all(|path| path.access == PathAccess::Write), "{name} {writer}");
        }
    }
    assert!(
        matches!(built_in_host("gemini-cli").tool("mcp_sinew_read_file"), Some(HostTool::Judged(_))),
        "only the registry tells whether `_` belongs to the name of the server"
    );
    assert!(built_in_host("cursor").tool("MCP:anything").is_none());
}

#[test]
fn ask_is_refused_for_a_host_that_does_not_enforce_it() {
    let check = |host: &str, line: &str, expect: Result<OnApproval, &str>| {
        let document = Document::from_text("x.yaml", &format!("{line}tools: {{}}\n")).unwrap();
        let found = check_table(host, &document, TableCheckLevel::Lazy).map(|host| host.on_approval);
        match (found, expect) {
            (Ok(found), Ok(expect)) => assert_eq!(found, expect, "{host} {line}"),
            (Err(errors), Err(expect)) => assert!(errors[0].to_string().contains(expect), "{errors:?}"),
            (found, expect) => panic!("{host} {line}: {found:?}, not {expect:?}"),
        }
    };
    for host in ["codex", "cursor"] {
        check(host, "", Ok(OnApproval::Deny));
        check(host, "on_approval: none\n", Ok(OnApproval::None));
        check(host, "on_approval: ask\n", Err("does not enforce the answer `ask`"));
    }
    for host in ["claude-code", "gemini-cli"] {
        check(host, "", Ok(OnApproval::Ask));
        check(host, "on_approval: ask\n", Ok(OnApproval::Ask));
    }
}

#[test]
fn built_in_table_is_valid_and_restrictive() {
    let host = built_in_host("claude-code");
    assert_eq!(host.on_permit, OnPermit::Allow, "a permitted call needs no second prompt");
    let judged = |name: &str| match host.tool(name) {
        Some(HostTool::Judged(tool)) => tool.definition().clone(),
        other => panic!("{name}: {other:?}"),
    };
    for (name, governed, access) in [
        ("Read", "read_file", PathAccess::Read),
        ("Write", "write_file", PathAccess::Write),
        ("Edit", "write_file", PathAccess::Write),
        ("Glob", "list_directory", PathAccess::Read),
    ] {
        let definition = judged(name);
        assert_eq!(definition.name().as_str(), governed);
        assert!(!definition.path_arguments().is_empty(), "{name}");
        assert!(definition.path_arguments().iter().all(|path| path.access == access), "{name}");
    }
    assert!(judged("Bash").requires_approval() && judged("Bash").category().as_str() == "execution");
    assert!(judged("Bash").allowed_modes().contains(&Mode::Normal));
    assert_eq!(judged("mcp__github__create_issue").name().as_str(), "mcp");
    assert!(
        matches!(host.tool("mcp__sinew__read_file"), Some(HostTool::SinewTool)),
        "the longest prefix wins"
    );
    for others in ["mcp__sinew__x__y", "mcp__sinew___y", "mcp__sinew____y", "mcp__sinew__", "mcp__sinew2__y"]
    {
        assert!(
            matches!(host.tool(others), Some(HostTool::Judged(_))),
            "it may belong to another server: {others}"
        );
    }
    for unknown in ["read", "Reader", "Task", "", "xmcp__a__b"] {
        assert!(host.tool(unknown).is_none(), "{unknown}");
    }
}

#[test]
fn errors_have_a_location_and_a_reason() {
    let errors = |text: &str| {
        let errors = check_table("h", &Document::from_text("h.yaml", text).unwrap(), TableCheckLevel::Full)
            .unwrap_err();
        errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    };
    let check = |text: &str, place: &str, message: &str| {
        let shown = errors(text);
        assert!(shown.starts_with(&format!("h.yaml:{place}: ")) && shown.contains(message), "{shown}");
    };
    let tool = |rest: &str| format!("tools:\n  T: {{category: read_only, risk_level: low{rest}}}\n");
    check("on_permit: yes\ntools: {}\n", "1:12", "unknown word");
    check("tools:\n  T: {}\n", "2:3", "needs a `category` and a `risk_level`");
    check(
        "tools:\n  T: {decided_by: daemon, requires_approval: true}\n",
        "2:3",
        "its other keys have no effect",
    );
    check("tools:\n  \"a*b\": {decided_by: daemon}\n", "2:3", "is not the name of a tool");
    check("tools:\n  T: {category: Bad, risk_level: low}\n", "2:17", "is not a category name");
    check(&tool(", rules_of: \"a b\""), "2:55", "is not a tool name");
    check(&tool(", arguments: {a: {is: pth}}"), "2:65", "did you mean `path`?");
    check(&tool(", arguments: {a: {is: pattern, below: b}}"), "2:81", "must name a path argument");
    check(&tool(", narrowed_by: glob"), "2:58", "`narrowed_by` needs");
    check(&tool(", reading_lines: true"), "2:60", "`reading_lines` needs `requires_approval`");
    check(&tool(", arguments: {a: {is: path}}, example: {b: 1}"), "2:3", "the example would be refused");
    let two = errors("tools:\n  A: {}\n  B: {}\n");
    assert!(two.contains("h.yaml:2:3") && two.contains("h.yaml:3:3"), "all errors: {two}");
}

/// Keeps the tables in docs/hooks.md equal to the files.
#[test]
fn documentation_matches_the_built_in_tables() {
    let page = include_str!("../../../../docs/hooks.md");
    let shown: Vec<&str> = page.lines().filter(|line| line.starts_with("| `")).collect();
    let mut expected = Vec::new();
    for (_, text) in EMBEDDED {
        let file: HostFile = Document::from_text("f", text).unwrap().parse().unwrap();
        expected.extend(file.tools.iter().map(|(key, row)| documentation_row(key, row)));
    }
    assert_eq!(shown, expected, "docs/hooks.md must have these lines:\n{}", expected.join("\n"));
}

fn documentation_row(key: &Located<String>, row: &HostToolRow) -> String {
    if row.decided_by.is_some() {
        return format!(
            "| `{}` | – | – | – | left to the daemon, which judges calls of Sinew's tools |",
            key.value
        );
    }
    let rules = row.rules_of.as_ref().map_or_else(|| key.to_ascii_lowercase(), |rules| rules.value.clone());
    let category = row.category.as_ref().unwrap();
    let arguments: Vec<String> = row
        .arguments
        .iter()
        .map(|(key, argument)| match argument.is {
            HostArgumentKind::Path => format!("`{}`: path, {}", key.value, argument.access.as_str()),
            HostArgumentKind::Pattern => format!("`{}`: pattern, {}", key.value, argument.access.as_str()),
            HostArgumentKind::Url => format!("`{}`: URL", key.value),
            HostArgumentKind::Command => format!("`{}`: command", key.value),
            HostArgumentKind::Patch => format!("`{}`: patch, {}", key.value, argument.access.as_str()),
        })
        .collect();
    let arguments = if arguments.is_empty() { "–".to_owned() } else { arguments.join("; ") };
    let asks = match (row.asks(), row.shows_below) {
        (true, _) if row.reading_lines.is_some() => "asks, unless the line only reads",
        (true, _) => "asks",
        (false, true) => "judged, with what is below",
        (false, false) => "judged",
    };
    format!(
        "| `{}` | `{rules}` | {}, {} | {arguments} | {asks} |",
        key.value,
        category.value,
        row.risk_level.unwrap()
    )
}
