//! Checks of examples: the scenarios each command should have, and the outcome of each example.

use strict_yaml::{YamlNode, YamlNodeKind};

use crate::diagnostic::DiagnosticCode;
use crate::diagnostic_collector::{DiagnosticCollector, FieldPosition};

/// Scenarios of the specification; `*` matches any suffix.
const SCENARIOS: [&str; 4] = ["success", "failure_invalid_param", "failure_api_error", "edge_case_*"];

fn matches_scenario(scenario: &str, wanted: &str) -> bool {
    wanted.strip_suffix('*').map_or(scenario == wanted, |start| scenario.starts_with(start))
}

pub(super) fn check(tool: &YamlNode, findings: &mut DiagnosticCollector<'_>) {
    let examples = tool.get("examples").map(YamlNode::entries).unwrap_or_default();
    for (command, list) in examples {
        let YamlNodeKind::List(items) = &list.kind else { continue };
        let named = |example: &YamlNode| example.get("scenario").and_then(YamlNode::text).map(str::to_owned);
        let scenarios: Vec<String> = items.iter().filter_map(named).collect();
        let field = format!("tool.examples.{}", command.value);
        for wanted in SCENARIOS {
            if !scenarios.iter().any(|scenario| matches_scenario(scenario, wanted)) {
                let message = format!("`{}` has no example of the scenario `{wanted}`", command.value);
                let fix = format!("add `- scenario: {}`", wanted.replace('*', "NAME"));
                findings.add(
                    DiagnosticCode::MissingScenario,
                    FieldPosition::key(command, &field),
                    &message,
                    &fix,
                );
            }
        }
        for (index, example) in items.iter().enumerate() {
            check_example(example, &format!("{field}[{index}]"), findings);
        }
    }
}

fn check_example(example: &YamlNode, field: &str, findings: &mut DiagnosticCollector<'_>) {
    let Some(scenario) = example.get("scenario").and_then(YamlNode::text) else { return };
    let at = FieldPosition::node(example, field);
    let has = |key: &str| example.get(key).is_some();
    let missing = match scenario {
        "success" if !has("output") => Some("output"),
        failure if failure.starts_with("failure_") && !has("error") => Some("error"),
        _ if !has("output") && !has("error") => Some("output` or `error"),
        _ => None,
    };
    if let Some(missing) = missing {
        let message = format!("the example `{scenario}` has no `{missing}`");
        findings.add(DiagnosticCode::MissingRequiredField, at, &message, "state the outcome of the call");
    }
    let is_known =
        scenario == "success" || ["failure_", "edge_case_"].iter().any(|start| scenario.starts_with(start));
    if !is_known {
        let message = format!("the scenario `{}` is not of a known kind", tool::text::shorten(scenario, 64));
        findings.add(
            DiagnosticCode::NamingConvention,
            at,
            &message,
            "success, failure_NAME or edge_case_NAME",
        );
    }
}
