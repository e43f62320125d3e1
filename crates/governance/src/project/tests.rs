//! Project policies: what they restrict. That they loosen nothing is tested on random ones.

mod never_loosens;

use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use tool::{Category, Mode, RiskLevel, ToolSpec};

use super::*;
use crate::Policy;
use crate::files::{Isolation, VerdictKind};
use crate::judge_tests::{machine, valid_call};
use crate::policy_environment::{NameComparison, PathVariables, ProtectedFolders};
use crate::situation::{Workspace, WorkspaceAccess, Workspaces};

const ROOT: &str = "/m/site";

fn environment() -> PolicyEnvironment {
    PolicyEnvironment {
        variables: PathVariables::with_home(Path::new("/home/ada")),
        protected: ProtectedFolders::default(),
        name_comparison: NameComparison::CaseSensitive,
    }
}

fn home() -> Policy {
    Policy::embedded(&environment()).unwrap().with_isolation(Some(Isolation::Full))
}

fn with_project(text: &str) -> Result<Policy, PolicyError> {
    let document = Document::from_text(PROJECT_POLICY, text).unwrap();
    let project = ProjectRules::compile(Path::new(ROOT), &document, &environment())?;
    Ok(home().with_project_rules(vec![project].into()))
}

fn workspaces(base: &str) -> Workspaces {
    let open = |root| Workspace::hypothetical(root, WorkspaceAccess::ReadWrite);
    Workspaces::new(vec![open(ROOT), open("/m/other")]).with_base(Some(Path::new(base)))
}

fn definition(name: &str) -> Arc<ToolDefinition> {
    let (category, access) = match name {
        "read_file" | "search_files" => (Category::READ_ONLY, "read"),
        "fetch_url" => (Category::NETWORK, "read"),
        "run_command" | "run_tests" => (Category::SYSTEM_WRITE, "read"),
        _ => (Category::SYSTEM_WRITE, "write"),
    };
    let mut spec = ToolSpec::new(name, "a test tool", category, RiskLevel::Low);
    spec.requires_sandbox = name.starts_with("run_");
    let path = json!({"type": "string", "format": "path", "x-sinew-access": access});
    let argv = json!({"type": "array", "format": "command", "items": {"type": "string"}});
    let url = json!({"type": "string", "format": "uri"});
    let properties = match name {
        "run_command" => json!({"command": argv, "path": path}),
        "fetch_url" => json!({"url": url}),
        _ => json!({"path": path}),
    };
    spec.input_schema = Some(json!({"type": "object", "properties": properties}));
    Arc::new(spec.check().unwrap())
}

fn verdict(
    policy: &Policy,
    tool: &str,
    arguments: &Map<String, Value>,
    mode: Mode,
    base: &str,
) -> VerdictKind {
    policy.dry_run_arguments(&definition(tool), arguments, mode, &workspaces(base)).unwrap().verdict
}

const EXAMPLE: &str = "\
forbidden_paths: [\"**/.secret\"]
tools:
  write_file: {allowed_paths: [src/**]}
  run_command: {allowed_commands: [pytest, ls]}
  fetch_url: {allowed_domains: [docs.python.org]}
  delete_file: {requires_approval: true}
";

#[test]
fn project_policy_restricts_calls_that_concern_it() {
    let policy = with_project(EXAMPLE).unwrap();
    let check = |tool: &str, arguments: Value, base: &str, expect: VerdictKind| {
        let Value::Object(arguments) = arguments else { panic!() };
        assert_eq!(
            verdict(&policy, tool, &arguments, Mode::Normal, base),
            expect,
            "{tool} {arguments:?} {base}"
        );
    };
    use VerdictKind::{Allow, Ask, Deny};
    check("write_file", json!({"path": "/m/site/src/a.py"}), ROOT, Allow);
    check("write_file", json!({"path": "/m/site/setup.py"}), ROOT, Deny);
    check("write_file", json!({"path": "/m/other/setup.py"}), ROOT, Allow);
    check("edit_file", json!({"path": "/m/site/setup.py"}), "/m/other", Deny);
    check("delete_file", json!({"path": "/m/site/src/a.py"}), ROOT, Ask);
    check("delete_file", json!({"path": "/m/site/a.py"}), ROOT, Deny);
    check("read_file", json!({"path": "/m/site/setup.py"}), ROOT, Allow);
    check("read_file", json!({"path": "/m/site/x/.secret"}), ROOT, Deny);
    check("read_file", json!({"path": "/m/other/x/.secret"}), ROOT, Allow);
    check("run_command", json!({"command": ["ls"]}), ROOT, Allow);
    check("run_command", json!({"command": ["cat"]}), ROOT, Deny);
    check("run_command", json!({"command": ["cat"]}), "/m/other", Allow);
    check("run_command", json!({"command": ["cat"], "path": "/m/site/src"}), "/m/other", Deny);
    // A program that starts elsewhere and names a path in the project.
    for words in [
        json!(["cat", "/m/site/a.py"]),
        json!(["cat", "../site/a.py"]),
        json!(["cat", "--from=/m/x/../site"]),
    ] {
        check("run_command", json!({"command": words}), "/m/other", Deny);
    }
    check("run_command", json!({"command": ["cat", "/m/sites/a", "../x/site"]}), "/m/other", Allow);
    check("run_command", json!({"command": ["pytest"]}), ROOT, Deny);
    check("fetch_url", json!({"url": "https://docs.python.org/3/"}), ROOT, Allow);
    check("fetch_url", json!({"url": "https://example.org/"}), ROOT, Deny);
    check("fetch_url", json!({"url": "https://example.org/"}), "/m/other", Allow);
    check("write_file", json!({"path": "/m/site/.sinew/policy.yaml"}), ROOT, Deny);
    check("write_file", json!({"path": "/m/other/.sinew/policy.yaml"}), ROOT, Deny);
}

#[test]
fn project_policy_may_consist_of_forbidden_paths() {
    let policy = with_project("forbidden_paths: [\"**/.secret\"]\n").unwrap();
    let read = |path: &str| {
        let Value::Object(arguments) = json!({"path": path}) else { panic!() };
        verdict(&policy, "read_file", &arguments, Mode::Normal, ROOT)
    };
    assert_eq!(read("/m/site/x/.secret"), VerdictKind::Deny);
    assert_eq!(read("/m/site/x/plain"), VerdictKind::Allow);
}

#[test]
fn programs_can_write_only_in_the_write_scope() {
    let folders = |text: &str| {
        let policy = with_project(text).unwrap();
        let (tool, open) = (definition("run_command"), workspaces(ROOT));
        let project = &policy.projects[0];
        let folders =
            project.restrict_folders(&tool, &[], Some(Isolation::Full), open.iter().cloned().collect());
        let shown = |one: &Workspace| format!("{} {:?}", one.root().display(), one.access());
        folders.iter().map(shown).collect::<Vec<_>>()
    };
    let other = "/m/other ReadWrite";
    assert_eq!(folders(EXAMPLE), ["/m/site ReadOnly", "/m/site/src ReadWrite", other]);
    let own = "tools:\n  write_file: {allowed_paths: [src/**]}\n  run_command: {allowed_paths: [src/**, build/**]}\n";
    assert_eq!(folders(own), ["/m/site ReadOnly", "/m/site/src ReadWrite", "/m/site/build ReadWrite", other]);
    assert_eq!(folders("tools: {read_file: {requires_approval: true}}\n"), ["/m/site ReadWrite", other]);
    assert_eq!(folders("tools: {write_file: {allowed_paths: [\"*.md\"]}}\n"), ["/m/site ReadOnly", other]);
}

/// A program that the project does not list cannot change the project, wherever it starts.
#[test]
fn unlisted_program_finds_the_project_read_only() {
    let folders = |program: &str, isolation: Isolation, open: &[&str]| {
        let policy = with_project(EXAMPLE).unwrap();
        let open = open.iter().map(|root| Workspace::read_write(Path::new(root))).collect();
        let command = RequestedCommand::Words(vec![program.to_owned()]);
        let tool = definition("run_command");
        let folders = policy.projects[0].restrict_folders(&tool, &[command], Some(isolation), open);
        let shown = |one: &Workspace| format!("{} {:?}", one.root().display(), one.access());
        folders.iter().map(shown).collect::<Vec<_>>()
    };
    let (full, reduced) = (Isolation::Full, Isolation::Reduced);
    assert_eq!(folders("ls", full, &["/m/site"]), ["/m/site ReadOnly", "/m/site/src ReadWrite"]);
    assert_eq!(folders("cat", full, &["/m/site", "/m/other"]), ["/m/site ReadOnly", "/m/other ReadWrite"]);
    assert_eq!(folders("cat", full, &["/m/site/src"]), ["/m/site/src ReadOnly"]);
    assert_eq!(folders("cat", full, &["/m"]), ["/m ReadWrite", "/m/site ReadOnly"]);
    assert_eq!(folders("cat", reduced, &["/m"]), ["/m ReadOnly", "/m/site ReadOnly"]);
    assert_eq!(folders("cat", full, &["/m/other"]), ["/m/other ReadWrite"]);
}

#[test]
fn read_only_workspace_in_a_project_stays_read_only() {
    let policy = with_project("tools: {write_file: {allowed_paths: [src/**, src/gen/**]}}\n").unwrap();
    let open = vec![
        Workspace::granted(Path::new(ROOT), WorkspaceAccess::ReadWrite),
        Workspace::granted(&Path::new(ROOT).join("src"), WorkspaceAccess::ReadOnly),
    ];
    let folders = policy.projects[0].restrict_folders(&definition("run_command"), &[], None, open);
    let writable = folders.iter().filter(|folder| folder.access() == WorkspaceAccess::ReadWrite).count();
    assert_eq!((folders.len(), writable), (2, 0), "{folders:?}");
}

#[test]
fn project_policy_cannot_have_keys_that_loosen() {
    for (text, place) in [
        ("tools: {write_file: {allowed_in_modes: [LOCKDOWN]}}\n", "1:22"),
        ("tools: {write_file: {shadow: true}}\n", "1:22"),
        ("tools: {run_command: {network: full}}\n", "1:23"),
        ("tool_categories: {}\ntools: {}\n", "1:1"),
        ("path_sets: {}\ntools: {}\n", "1:1"),
    ] {
        let error = with_project(text).map(drop).unwrap_err().to_string();
        assert!(error.contains(place) && error.contains("project policy cannot have"), "{text}{error}");
    }
}

/// The judge sees the URL of the call. Where that leads, and what a tool asks by itself, is in the project too.
#[test]
fn permit_stays_within_the_limits_of_a_project() {
    let machine = machine("tools: {fetch: {timeout_seconds: 9}}\n")
        .safety("outbound_gateway: {allowed_domains: [\"*\"]}\n");
    let text = "tools: {fetch: {allowed_domains: [a.org], max_file_size_mb: 1}}\n";
    let document = Document::from_text(PROJECT_POLICY, text).unwrap();
    let root = machine.path("ws/sub");
    let project: Arc<[ProjectRules]> =
        vec![ProjectRules::compile(&root, &document, &environment()).unwrap()].into();
    let within = machine.policy().with_project_rules(project);
    let waiting = machine.policy().tightened_by(within.clone());
    for policy in [within, waiting] {
        let permit = |base: &Path| {
            let folders = machine.workspaces.with_base(Some(base));
            let situation =
                crate::Situation { mode: Mode::Normal, workspaces: &folders, counts: machine.counts };
            let call = valid_call("fetch", json!({"url": "https://a.org/"}));
            let opened = file_access::open(crate::precheck(&policy, &situation, call).unwrap()).unwrap();
            let crate::Verdict::Permit(permit) = crate::judge(&policy, &situation, opened) else { panic!() };
            permit
        };
        let inside = permit(&root);
        assert!(inside.may_reach("https://a.org/x").is_ok() && inside.may_reach("https://b.org/x").is_err());
        assert!(inside.may_reach_service("https://b.org/").is_err());
        assert!(inside.may_reach_server("https://b.org/").is_err());
        assert_eq!(inside.max_file_bytes(), Some(1024 * 1024));
        let outside = permit(&machine.path("ws"));
        assert!(outside.may_reach("https://b.org/x").is_ok(), "the call does not concern the project");
        assert_eq!(outside.max_file_bytes(), None);
    }
}
