//! Checks of examples: the scenarios each command should have, and the outcome of each example.

use strict_yaml::{Node, NodeKind};

use crate::diagnostic::Code;
use crate::findings::{At, Findings};

/// Scenarios of the specification; `*` matches any suffix.
const SCENARIOS: [&str; 4] = ["success", "failure_invalid_param", "failure_api_error", "edge_case_*"];

fn is(scenario: &str, wanted: &str) -> bool {
    wanted.strip_suffix('*').map_or(scenario == wanted, |start| scenario.starts_with(start))
}

pub(super) fn check(tool: &Node, findings: &mut Findings<'_>) {
    let examples = tool.get("examples").map(Node::entries).unwrap_or_default();
    for (command, list) in examples {
        let NodeKind::List(items) = &list.kind else { continue };
        let named = |example: &Node| example.get("scenario").and_then(Node::text).map(str::to_owned);
        let scenarios: Vec<String> = items.iter().filter_map(named).collect();
        let field = format!("tool.examples.{}", command.value);
        for wanted in SCENARIOS {
            if !scenarios.iter().any(|scenario| is(scenario, wanted)) {
                let message = format!("`{}` has no example of the scenario `{wanted}`", command.value);
                let fix = format!("add `- scenario: {}`", wanted.replace('*', "NAME"));
                findings.add(Code::MissingScenario, At::key(command, &field), &message, &fix);
            }
        }
        for (index, example) in items.iter().enumerate() {
            one(example, &format!("{field}[{index}]"), findings);
        }
    }
}

fn one(example: &Node, field: &str, findings: &mut Findings<'_>) {
    let Some(scenario) = example.get("scenario").and_then(Node::text) else { return };
    let at = At::node(example, field);
    let has = |key: &str| example.get(key).is_some();
    let missing = match scenario {
        "success" if !has("output") => Some("output"),
        failure if failure.starts_with("failure_") && !has("error") => Some("error"),
        _ if !has("output") && !has("error") => Some("output` or `error"),
        _ => None,
    };
    if let Some(missing) = missing {
        let message = format!("the example `{scenario}` has no `{missing}`");
        findings.add(Code::MissingRequiredField, at, &message, "state the outcome of the call");
    }
    let is_known =
        scenario == "success" || ["failure_", "edge_case_"].iter().any(|start| scenario.starts_with(start));
    if !is_known {
        let message = format!("the scenario `{}` is not of a known kind", tool::shorten(scenario, 64));
        findings.add(Code::NamingConvention, at, &message, "success, failure_NAME or edge_case_NAME");
    }
}
