//! Project policies: what they restrict, and that they loosen nothing.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use tool::{Category, Mode, RiskLevel, ToolSpec};

use super::*;
use crate::Policy;
use crate::files::{Isolation, VerdictKind};
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
        "run_command" => (Category::SYSTEM_WRITE, "read"),
        _ => (Category::SYSTEM_WRITE, "write"),
    };
    let mut spec = ToolSpec::new(name, "a test tool", category, RiskLevel::Low);
    spec.requires_sandbox = name == "run_command";
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

/// Random project policies and calls.
struct ProjectRng(u64);

impl ProjectRng {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    fn pick<'t>(&mut self, from: &[&'t str]) -> &'t str {
        from[self.below(from.len() as u64) as usize]
    }

    fn entry(&mut self) -> String {
        let paths = ["src/**", "**", "*.md", "/m/**", "\"**/.env\"", "/**/x", "$HOME/**"];
        let commands = ["ls", "cat", "\"*\"", "{argv: [git, push]}", "sudo"];
        let hosts = ["example.org", "\"*\"", "\"*.org\""];
        let keys = [
            format!("allowed_paths: [src/**, {}]", self.pick(&paths[..3])),
            format!("forbidden_paths: [{}]", self.pick(&paths)),
            format!("allowed_commands: [{}]", self.pick(&commands)),
            format!("forbidden_commands: [{}]", self.pick(&commands[3..])),
            format!("allowed_domains: [{}]", self.pick(&hosts)),
            format!("requires_approval: {}", self.pick(&["true", "false"])),
            format!("requires_approval_in_modes: [{}]", self.pick(&["NORMAL", "LOCKDOWN", "ALERT"])),
            format!("forbidden_in_modes: [{}]", self.pick(&["NORMAL", "ALERT"])),
        ];
        let chosen = keys.into_iter().filter(|_| self.below(3) == 0).collect::<Vec<_>>();
        format!("{{{}}}", chosen.join(", "))
    }
}

#[test]
fn project_policy_never_loosens() {
    let tools =
        ["read_file", "write_file", "edit_file", "delete_file", "run_command", "fetch_url", "search_files"];
    let rank = |verdict| match verdict {
        VerdictKind::Deny => 0,
        VerdictKind::Ask => 1,
        VerdictKind::Allow => 2,
    };
    let (mut dice, plain) = (ProjectRng(7), home());
    let mut tightened = 0;
    for _ in 0..300 {
        let entries = tools.iter().map(|tool| format!("  {tool}: {}\n", dice.entry())).collect::<String>();
        // A list of allowed paths may not match everything; such a policy does not load.
        let Ok(policy) = with_project(&format!("tools:\n{entries}")) else { continue };
        for _ in 0..40 {
            let path = dice.pick(&[
                "/m/site/src/a",
                "/m/site/a.md",
                "/m/site/.env",
                "/m/other/x",
                "/etc/x",
                "src/b",
            ]);
            let program = dice.pick(&["ls", "cat", "git", "sudo"]);
            let url = dice.pick(&["https://example.org/", "https://a.b.org/", "http://10.0.0.1/"]);
            let (tool, base) = (dice.pick(&tools), dice.pick(&[ROOT, "/m/other", "/m/site/src"]));
            let mode = Mode::ALL[dice.below(5) as usize];
            let arguments = match tool {
                "run_command" => json!({"command": [program, "push"], "path": path}),
                "fetch_url" => json!({"url": url}),
                _ => json!({"path": path}),
            };
            let Value::Object(arguments) = arguments else { panic!() };
            let before = verdict(&plain, tool, &arguments, mode, base);
            let after = verdict(&policy, tool, &arguments, mode, base);
            assert!(
                rank(after) <= rank(before),
                "{entries}{tool} {arguments:?} {mode} {base}: {before} to {after}"
            );
            tightened += usize::from(rank(after) < rank(before));
        }
    }
    assert!(tightened > 50, "the policies restrict something: {tightened}");
}
