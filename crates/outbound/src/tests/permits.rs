//! Permits for tests, issued by the real `judge`.

use std::sync::Arc;

use governance::policy_environment::{NameComparison, PathVariables, PolicyEnvironment, ProtectedFolders};
use governance::{Permit, Policy, RateCounts, Situation, Verdict, Workspaces, judge, precheck};
use guardrail::InputSchema;
use serde_json::json;
use tool::{Category, Mode, RiskLevel, ToolSpec};

/// Returns a permit under this `outbound_gateway` section.
pub(super) fn permit(gateway: &str) -> Permit {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("modes.yaml", "modes: {NORMAL: {}}\n");
    write("tools.yaml", "tool_categories: {}\ntools: {}\n");
    let safety = format!(
        "content_filtering: {{}}\nrate_limits: {{}}\nhuman_approval: {{}}\noutbound_gateway: {gateway}\n"
    );
    write("safety.yaml", &safety);
    let around = PolicyEnvironment {
        variables: PathVariables::with_home(folder.path()),
        protected: ProtectedFolders { folders: Vec::new() },
        name_comparison: NameComparison::CaseSensitive,
    };
    let policy = Policy::load_with(folder.path(), governance::files::LayerDefault::Replace, &around)
        .unwrap_or_else(|error| panic!("{error}"));
    let mut spec = ToolSpec::new("probe", "Goes out.", Category::NETWORK, RiskLevel::Low);
    spec.input_schema = Some(json!({"type": "object"}));
    let definition = Arc::new(spec.check().unwrap());
    let schema = InputSchema::compile(definition.input_schema()).unwrap();
    let call = guardrail::check(&definition, &schema, json!({})).unwrap();
    let workspaces = Workspaces::new(Vec::new());
    let situation = Situation { mode: Mode::Normal, workspaces: &workspaces, counts: RateCounts::default() };
    let prechecked = precheck(&policy, &situation, call).unwrap();
    match judge(&policy, &situation, file_access::open(prechecked).unwrap()) {
        Verdict::Permit(permit) => permit,
        other => panic!("{other:?}"),
    }
}

/// The section as shipped.
pub(super) const SHIPPED: &str =
    "{allowed_domains: [\"*\"], blocked_domains: [\"*.onion\"], allow_private_addresses: false}";

/// A section that allows tests to reach this machine.
pub(super) const OPEN: &str = "{allowed_domains: [\"*\"], allow_private_addresses: true}";
