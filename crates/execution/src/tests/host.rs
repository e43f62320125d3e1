//! Tests of calls of a host: verdicts, ledger records, and limits of the sandbox of Sinew.

use std::path::Path;
use std::sync::Arc;

use ::guardrail::CuratedGuardrails;
use governance::files::Isolation;
use governance::policy_environment::{NameComparison, PathVariables, PolicyEnvironment, ProtectedFolders};
use governance::{EMBEDDED_FILES, Policy, Workspace, WorkspaceAccess, Workspaces};
use ledger::{Ledger, LedgerOptions, LedgerRecovery};
use serde_json::{Value, json};
use tool::{Category, RefusalCode, RiskLevel, ToolSpec};

use super::{LayerBench, empty_undo_store, ready_output, records, request};
use crate::host::{
    Host, HostArgument, HostCall, HostCallOrigin, HostCallOutcome, HostJudge, HostTool, HostToolName,
    HostVerdict, JudgedTool, NotJudgedReason, OnApproval, OnPermit, RecursiveListing,
};
use crate::{ConfigSnapshot, ExplainedVerdict, LayerParts, ToolExecutionLayer};

fn judged_host_tool(name: &str, category: Category, schema: Value, arguments: Vec<HostArgument>) -> HostTool {
    HostTool::Judged(Box::new(judged_tool(name, category, schema, arguments)))
}

fn judged_tool(name: &str, category: Category, schema: Value, arguments: Vec<HostArgument>) -> JudgedTool {
    let mut spec = ToolSpec::new(name, "A host's tool", category, RiskLevel::Low);
    spec.input_schema = Some(schema);
    spec.example = Some(json!({"path": "a.txt", "line": "x"}));
    JudgedTool::new(spec.check().unwrap(), arguments)
}

fn host() -> Host {
    let path = json!({"type": "string", "format": "path", "x-sinew-access": "read"});
    let looks = json!({"type": "object", "properties": {"path": path}, "required": ["path"]});
    let runs = json!({"type": "object", "properties": {"line": {"type": "string"}}, "required": ["line"]});
    let argument = HostArgument::Path { key: "path".to_owned(), default: None };
    let is = |name: &str| HostToolName::Exact(name.to_owned());
    let finds = judged_tool("find", Category::READ_ONLY, looks.clone(), vec![argument.clone()]);
    let finds = finds.with_listing(RecursiveListing { filter_argument: Some("glob".to_owned()) });
    Host {
        name: "other".to_owned(),
        on_permit: OnPermit::default(),
        on_approval: OnApproval::default(),
        user_home: None,
        tools: vec![
            (is("Find"), HostTool::Judged(Box::new(finds))),
            (is("Look"), judged_host_tool("look", Category::READ_ONLY, looks, vec![argument])),
            (is("Shell"), judged_host_tool("bash", Category::SELF_CHECK, runs, Vec::new())),
            (HostToolName::Prefix("ours__".to_owned()), HostTool::SinewTool),
        ],
    }
}

/// Snapshot with that host, a Sinew tool called `bash`, and one more rule for it, on a machine with full
/// isolation.
fn snapshot(folder: &Path, rule: &str) -> ConfigSnapshot {
    let around = PolicyEnvironment {
        variables: PathVariables::with_home(folder),
        protected: ProtectedFolders::default(),
        name_comparison: NameComparison::CaseSensitive,
    };
    let policy = folder.join("policy");
    std::fs::create_dir_all(&policy).unwrap();
    for (name, text) in EMBEDDED_FILES {
        let text = if name == "tools.yaml" {
            text.replacen("\ntools:\n", &format!("\ntools:\n{rule}"), 1)
        } else {
            text.to_owned()
        };
        std::fs::write(policy.join(name), text).unwrap();
    }
    let policy = Policy::load(&policy, &around).unwrap().with_isolation(Some(Isolation::Full));
    let bench = LayerBench::new().tool("bash", Category::SELF_CHECK, |_| ready_output(json!({})));
    let workspace = Workspace::open(folder, WorkspaceAccess::ReadWrite).unwrap();
    ConfigSnapshot {
        registry: bench.registry,
        policy,
        curated: CuratedGuardrails::embedded().unwrap().into(),
        workspaces: Workspaces::new(vec![workspace]),
        hosts: [host()].into(),
        keys: std::collections::BTreeMap::new(),
        problems: Vec::new(),
    }
}

fn layer(folder: &Path, rule: &str) -> Arc<ToolExecutionLayer> {
    let (ledger, recovery) = Ledger::open(&folder.join("ledger"), &LedgerOptions::default()).unwrap();
    let (fixture, state, undo) = (snapshot(folder, rule), folder.join("state"), empty_undo_store(folder));
    ToolExecutionLayer::new(LayerParts {
        snapshot: fixture,
        ledger,
        recovery,
        state_dir: state,
        undo,
        reserved_ports: Default::default(),
    })
    .unwrap()
}

fn call(tool: &str, input: Value) -> HostCall {
    let origin = HostCallOrigin { session_id: Some("s-1".to_owned()), ..HostCallOrigin::default() };
    let system_programs = vec!["cat".to_owned(), "head".to_owned(), "grep".to_owned(), "git".to_owned()];
    HostCall { host: "other".to_owned(), request: request(tool, input, None), origin, system_programs }
}

/// Verdict as text: `permit`, `ask`, code and detail of a refusal, or the reason why there is no verdict.
fn verdict_text(verdict: &HostVerdict) -> String {
    match verdict {
        HostVerdict::None { because } => format!("{because:?}"),
        HostVerdict::Judged { explanation, .. } => match &explanation.finding {
            ExplainedVerdict::Deny { refusal } => {
                format!("{} {}", refusal.code, refusal.detail.as_deref().unwrap_or("-"))
            }
            finding => finding.as_str().to_owned(),
        },
    }
}

fn calls(folder: &Path) -> Vec<(HostCall, &'static str)> {
    std::fs::write(folder.join("a.txt"), "x").unwrap();
    let file = |name: &str| json!({"path": folder.join(name)});
    vec![
        (call("Look", file("a.txt")), "permit"),
        (call("Look", json!({"path": "/etc/hostname"})), "path_not_allowed outside_workspaces"),
        (call("Look", json!({})), "invalid_arguments schema"),
        (call("Shell", json!({"line": "ls"})), "permit"),
        (call("look", file("a.txt")), "UnknownTool"),
        (call("ours__look", file("a.txt")), "JudgedOnArrival"),
    ]
}

#[tokio::test]
async fn only_denials_of_host_calls_are_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let layer = layer(folder.path(), "");
    let mut denied = 0;
    for (asked, expect) in calls(folder.path()) {
        let verdict = layer.judge_host_call(asked).await.unwrap();
        let reported = verdict_text(&verdict);
        assert_eq!(reported.split(' ').next(), expect.split(' ').next(), "{verdict:?}");
        denied += usize::from(reported.contains(' '));
        let written = records(folder.path()).into_iter().filter(|record| record["kind"] == "refusal");
        assert_eq!(written.count(), denied, "{reported}");
    }
    let last = records(folder.path()).pop().unwrap();
    assert_eq!(
        last["facts"]["host"],
        json!({"name": "other", "tool": "Look", "session_id": "s-1"}),
        "{last}"
    );
    let stranger = HostCall { host: "stranger".to_owned(), ..call("Look", json!({})) };
    assert!(layer.judge_host_call(stranger).await.unwrap_err().to_string().contains("`stranger`"));
}

#[tokio::test]
async fn judge_without_a_ledger_agrees_but_gives_no_denial() {
    let folder = tempfile::tempdir().unwrap();
    let layer = layer(folder.path(), "");
    let before = records(folder.path());
    let judge = HostJudge::new(snapshot(folder.path(), ""), &LedgerRecovery::default()).unwrap();
    for (asked, expect) in calls(folder.path()) {
        let glanced = judge.judge(asked.clone()).await.unwrap();
        match expect.contains(' ') {
            true => assert_eq!(glanced, None, "a denial needs a ledger"),
            false => assert_eq!(glanced, Some(layer.judge_host_call(asked).await.unwrap())),
        }
    }
    assert_eq!(records(folder.path()), before);
    let tampered = LedgerRecovery { damage: vec!["line 1".to_owned()], ..LedgerRecovery::default() };
    let judge = HostJudge::new(judge.into_snapshot().unwrap(), &tampered).unwrap();
    let shell = judge.judge(call("mcp", json!({}))).await.unwrap();
    assert_eq!(shell, Some(HostVerdict::None { because: NotJudgedReason::UnknownTool }));
    let Some(HostVerdict::Judged { explanation, .. }) =
        judge.judge(call("Look", json!({"path": folder.path().join("a.txt")}))).await.unwrap()
    else {
        panic!("reading is allowed in every mode");
    };
    assert_eq!(explanation.mode, tool::Mode::Lockdown, "a damaged ledger implies LOCKDOWN");
}

#[tokio::test]
async fn sandbox_rules_refuse_host_calls_outside_the_sandbox() {
    for (rule, expect) in [
        ("", "permit"),
        ("    requires_sandbox: true\n", "bash.requires_sandbox"),
        ("    min_isolation: reduced\n", "bash.min_isolation"),
        ("    max_processes: 4\n", "bash.max_processes"),
        ("    network: loopback\n", "bash.network"),
        ("    network: full\n", "permit"),
        ("    requires_sandbox: false\n    memory_mb: 64\n", "permit"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let entry = if rule.is_empty() { String::new() } else { format!("  bash:\n{rule}") };
        let layer = layer(folder.path(), &entry);
        let verdict = layer.judge_host_call(call("Shell", json!({"line": "ls"}))).await.unwrap();
        let HostVerdict::Judged { explanation, .. } = &verdict else { panic!("{verdict:?}") };
        match &explanation.finding {
            ExplainedVerdict::Deny { refusal } => {
                assert_eq!(refusal.code, RefusalCode::SandboxUnavailable, "{refusal:?}");
                assert_eq!(refusal.rule.as_ref().map(|rule| &*rule.id), Some(expect));
                assert!(refusal.hint.as_deref().unwrap().contains("Sinew's own `bash`"), "{refusal:?}");
            }
            finding => assert_eq!(finding.as_str(), expect, "{rule}"),
        }
    }
}

#[tokio::test]
async fn finished_host_calls_get_advice() {
    let folder = tempfile::tempdir().unwrap();
    let layer = layer(folder.path(), "");
    let review = async |review| layer.review_host_call("other", review).await.unwrap();
    let returned = |tool: &str, answer: Value| HostCallOutcome::Succeeded { tool: tool.to_owned(), answer };
    let secret = format!("ghp_{}", "a1B2".repeat(9));
    let advice =
        review(returned("Read", json!({"file": [{"content": format!("x {secret}")}]}))).await.unwrap();
    assert!(advice.contains("github_token") && !advice.contains(&secret), "{advice}");
    let in_a_key = returned("Read", json!({"env": {secret.as_str(): true}}));
    assert!(review(in_a_key).await.unwrap().contains("github_token"));
    assert_eq!(review(returned("Read", json!(["token = 5", 5, null]))).await, None);
    let failed =
        |tool: &str, error: &str| HostCallOutcome::Failed { tool: tool.to_owned(), error: error.to_owned() };
    let missing = "InputValidationError: The required parameter `path` is missing";
    assert!(review(failed("Look", missing)).await.unwrap().contains("a.txt"));
    assert_eq!(review(failed("Look", "disk full")).await, None);
    assert_eq!(review(failed("Task", missing)).await, None);
    let content = json!([{"type": "text", "text": missing}]);
    for reported in
        [json!({"isError": true, "content": content}), json!({"is_error": true, "content": missing})]
    {
        let advice = review(returned("Look", reported.clone())).await;
        assert!(advice.is_some_and(|advice| advice.contains("a.txt")), "{reported}");
    }
    assert_eq!(review(returned("Look", json!({"content": content}))).await, None, "no error is reported");
    assert!(layer.review_host_call("stranger", failed("Look", missing)).await.is_err());
}

#[tokio::test]
async fn host_calls_use_no_rate_limit_of_other_calls() {
    let folder = tempfile::tempdir().unwrap();
    let layer = layer(folder.path(), "");
    // NORMAL allows 600 calls per minute. Host calls have a limit of their own, so calls that run are not
    // affected.
    let mut permitted = 0;
    while verdict_text(&layer.judge_host_call(call("Shell", json!({"line": "ls"}))).await.unwrap())
        == "permit"
    {
        permitted += 1;
        assert!(permitted <= 600, "a host has a limit too");
    }
    assert_eq!(permitted, 600);
    assert!(layer.execute(request("bash", json!({}), None)).await.success, "other calls are not affected");
}

#[tokio::test]
async fn recursive_host_tool_reveals_no_forbidden_path() {
    let folder = tempfile::tempdir().unwrap();
    let rule = "  find:\n    forbidden_paths: [\"**/.env\", \"**/secret.rs\", \"**/vault\"]\n";
    let layer = layer(folder.path(), rule);
    let work = folder.path().join("work");
    for sub in ["clean/deep", "env/deep", "code", "vault"] {
        std::fs::create_dir_all(work.join(sub)).unwrap();
    }
    for file in ["clean/deep/a.rs", "env/deep/.env", "env/a.rs", "code/secret.rs", "vault/a.rs"] {
        std::fs::write(work.join(file), "x").unwrap();
    }
    std::os::unix::fs::symlink(&work, work.join("clean/link")).unwrap();
    let find = async |path: &str, glob: Option<&str>| {
        let mut input = json!({"path": work.join(path)});
        input.as_object_mut().unwrap().extend(glob.map(|glob| ("glob".to_owned(), json!(glob))));
        layer.judge_host_call(call("Find", input)).await.unwrap()
    };
    let forbidden = "path_forbidden forbidden_below";
    for (path, glob, expect) in [
        ("clean", None, "permit"),
        ("clean/deep/a.rs", None, "permit"),
        ("missing", None, "permit"),
        ("env", None, forbidden),
        ("env/a.rs", None, "permit"),
        ("env", Some("**/*.rs"), "permit"),
        ("env", Some("*.{rs,env}"), forbidden),
        ("env", Some("!.env"), forbidden),
        ("code", None, forbidden),
        ("code", Some("*.rs"), forbidden),
        ("code", Some("*.md"), "permit"),
        (".", Some("*.md"), forbidden),
        ("vault", None, "path_forbidden forbidden_path"),
    ] {
        assert_eq!(verdict_text(&find(path, glob).await), expect, "{path} {glob:?}");
    }
    let HostVerdict::Judged { explanation, .. } = find("env", None).await else { panic!("no verdict") };
    let refusal = explanation.finding.refusal().unwrap();
    let rule = refusal.rule.as_ref().unwrap();
    assert!(&*rule.id == "find.forbidden_paths" && rule.line > 0, "{rule:?}");
    assert!(refusal.hint.as_ref().unwrap().contains("narrow `glob`"), "{refusal:?}");
    assert!(!refusal.reason.contains(".env"), "the refusal does not reveal the file: {}", refusal.reason);
}
