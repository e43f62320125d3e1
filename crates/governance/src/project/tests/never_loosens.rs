//! Property of project policies: with one, no call gets a more permissive verdict, and no sandboxed program gets more
//! access.

use std::path::Path;
use std::sync::Arc;

use guardrail::{InputSchema, ValidCall};
use serde_json::{Value, json};
use strict_yaml::Document;
use tool::definition::PathAccess;
use tool::{Mode, ToolDefinition};

use super::{ROOT, definition, environment, home};
use crate::Policy;
use crate::dry_run::{ProgramAccess, dry_run_verdict};
use crate::files::VerdictKind;
use crate::project::{PROJECT_POLICY, ProjectRules};
use crate::situation::{RateCounts, Situation, Workspace, WorkspaceAccess, Workspaces};
use crate::suggested_change::PolicyFile;

const TOOLS: [&str; 8] = [
    "read_file",
    "write_file",
    "edit_file",
    "delete_file",
    "search_files",
    "run_command",
    "run_tests",
    "fetch_url",
];
const OTHER_ROOT: &str = "/m/site/lib";
const CALLS_PER_POLICY: u64 = 40;

/// Paths of calls, and paths at which the access of programs is compared.
const PATHS: [&str; 12] = [
    "/m/site/src/a",
    "/m/site/a.md",
    "/m/site/.env",
    "/m/site/gen/x",
    "/m/site/lib/src/k",
    "/m/site/lib/gen/k",
    "/m/site/.sinew/policy.yaml",
    "/m/site",
    "/m/other/x",
    "/m/x",
    "/etc/x",
    "src/b",
];

/// Home with rules that permit more than the built-in ones, some of them in shadow mode.
const WIDE_HOME: &str = "\
tools:
  read_file: {allowed_paths: [/m/**, /etc/**]}
  write_file: {allowed_paths: [/m/**], requires_approval: true, unattended_paths: [/m/site/src/**, /m/site/lib/**]}
  delete_file: {shadow: true}
  run_command: {allowed_commands: [\"*\"], allowed_paths: [/m/**]}
  run_tests: {allowed_paths: [/m/site/**, /m/other/**]}
";

struct Rng(u64);

impl Rng {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }

    fn pick<'t, T: ?Sized>(&mut self, from: &[&'t T]) -> &'t T {
        from[self.below(from.len())]
    }

    /// Returns one or two patterns.
    fn patterns(&mut self, from: &[&str]) -> String {
        let more = if self.below(2) == 0 { format!(", {}", self.pick(from)) } else { String::new() };
        format!("[{}{more}]", self.pick(from))
    }

    fn entry(&mut self) -> String {
        let paths = [
            "src/**",
            "lib/**",
            "gen/**",
            "lib/src/**",
            "\"**\"",
            "\"*.md\"",
            "/m/**",
            "\"**/.env\"",
            "/**/x",
            "$HOME/**",
        ];
        let commands = ["ls", "cat", "\"*\"", "{argv: [git, push]}", "sudo"];
        let hosts = ["example.org", "\"*\"", "\"*.org\""];
        let keys = [
            format!("allowed_paths: {}", self.patterns(&paths)),
            format!("forbidden_paths: {}", self.patterns(&paths)),
            format!("allowed_commands: {}", self.patterns(&commands)),
            format!("forbidden_commands: {}", self.patterns(&commands[3..])),
            format!("allowed_domains: {}", self.patterns(&hosts)),
            format!("requires_approval: {}", self.pick(&["true", "false"])),
            format!("requires_approval_in_modes: [{}]", self.pick(&["NORMAL", "LOCKDOWN", "ALERT"])),
            format!("forbidden_in_modes: [{}]", self.pick(&["NORMAL", "ALERT"])),
            format!("max_file_size_mb: {}", self.below(3)),
        ];
        let chosen: Vec<String> = keys.into_iter().filter(|_| self.below(4) == 0).collect();
        format!("{{{}}}", chosen.join(", "))
    }

    fn project(&mut self) -> String {
        let forbidden = match self.below(4) {
            0 => format!("forbidden_paths: {}\n", self.patterns(&["\"**/.env\"", "gen/**", "/m/**", "lib"])),
            _ => String::new(),
        };
        let entries: String = TOOLS.iter().map(|tool| format!("  {tool}: {}\n", self.entry())).collect();
        format!("{forbidden}tools:\n{entries}")
    }

    fn workspaces(&mut self) -> Workspaces {
        let access = |writes| if writes { WorkspaceAccess::ReadWrite } else { WorkspaceAccess::ReadOnly };
        let all = ["/m", ROOT, OTHER_ROOT, "/m/site/gen", "/m/site/lib/src", "/m/other"];
        let chosen: Vec<&str> = all.into_iter().filter(|_| self.below(2) == 0).collect();
        let folders = chosen.iter().map(|root| Workspace::hypothetical(root, access(self.below(3) > 0)));
        Workspaces::new(folders.collect()).with_base(Some(Path::new(self.pick(&[
            ROOT,
            "/m/other",
            "/m/site/src",
        ]))))
    }

    fn arguments(&mut self, tool: &str) -> Value {
        let path = self.pick(&PATHS);
        let url = self.pick(&["https://example.org/", "https://a.b.org/", "http://10.0.0.1/"]);
        match tool {
            "run_command" => {
                json!({"command": [self.pick(&["ls", "cat", "git", "sudo"]), "push"], "path": path})
            }
            "fetch_url" => json!({"url": url}),
            _ => json!({"path": path}),
        }
    }
}

/// Returns the policy with these projects; `None` if one of them does not load. A list of allowed paths, for example,
/// may not match everything.
fn with_projects(home: &Policy, texts: &[(&str, String)]) -> Option<Policy> {
    let compile = |(root, text): &(&str, String)| {
        let document = Document::from_text(PROJECT_POLICY, text).ok()?;
        ProjectRules::compile(Path::new(root), &document, &environment()).ok()
    };
    let projects: Option<Vec<ProjectRules>> = texts.iter().map(compile).collect();
    Some(home.clone().with_project_rules(projects?.into()))
}

fn rank(verdict: VerdictKind) -> u8 {
    match verdict {
        VerdictKind::Deny => 0,
        VerdictKind::Ask => 1,
        VerdictKind::Allow => 2,
    }
}

/// Differences that project policies have made.
#[derive(Debug, Default)]
struct Restricted {
    verdicts: u64,
    programs: u64,
}

/// Compares a call under both policies.
fn compare(
    plain: &Policy,
    policy: &Policy,
    situation: &Situation<'_>,
    call: &ValidCall,
    context: &dyn Fn() -> String,
) -> Restricted {
    let [before, after] = [plain, policy].map(|policy| dry_run_verdict(policy, situation, call));
    assert!(rank(after) <= rank(before), "{before} to {after}\n{}", context());
    let mut restricted = Restricted { verdicts: u64::from(after != before), programs: 0 };
    if after == VerdictKind::Deny {
        return restricted;
    }
    let [before, after] = [plain, policy].map(|policy| ProgramAccess::of_call(policy, situation, call));
    let (Some(before), Some(after)) = (before, after) else { return restricted };
    assert_eq!(before.network, after.network, "{}", context());
    for path in PATHS.map(Path::new) {
        for access in [PathAccess::Read, PathAccess::Write] {
            let (could, can) = (before.may_access(path, access), after.may_access(path, access));
            assert!(could || !can, "a program gets {access:?} at {}\n{}", path.display(), context());
            restricted.programs += u64::from(could != can);
        }
    }
    restricted
}

/// `SINEW_PROJECT_CALLS` and `SINEW_PROJECT_SEED` set the number of calls and the seed, as `cargo xtask soak` does.
#[test]
fn project_policy_never_loosens() {
    let number = |name: &str, few: u64| std::env::var(name).map_or(few, |text| text.parse().unwrap());
    let (calls, seed) = (number("SINEW_PROJECT_CALLS", 12_000), number("SINEW_PROJECT_SEED", 7));
    let wide = home().with_user_text(PolicyFile::Tools, WIDE_HOME, &environment()).unwrap();
    let homes = [home(), wide];
    let tools: Vec<(Arc<ToolDefinition>, InputSchema)> = TOOLS
        .map(definition)
        .into_iter()
        .map(|tool| (Arc::clone(&tool), InputSchema::compile(tool.input_schema()).unwrap()))
        .collect();
    let (mut rng, mut made, mut restricted) = (Rng(seed), 0, Restricted::default());
    while made < calls {
        let plain = &homes[rng.below(homes.len())];
        let mut projects = vec![(ROOT, rng.project())];
        if rng.below(2) == 0 {
            projects.push((OTHER_ROOT, rng.project()));
        }
        let Some(policy) = with_projects(plain, &projects) else { continue };
        let folders = rng.workspaces();
        for _ in 0..CALLS_PER_POLICY {
            let (tool, schema) = &tools[rng.below(tools.len())];
            let arguments = rng.arguments(tool.name().as_str());
            let mode = Mode::ALL[rng.below(Mode::ALL.len())];
            let call = guardrail::check(tool, schema, arguments.clone()).unwrap();
            let situation = Situation { mode, workspaces: &folders, counts: RateCounts::default() };
            let context = || {
                format!(
                    "seed {seed}, call {made}: {} {arguments} {mode}\n{projects:#?}\n{folders:?}",
                    tool.name()
                )
            };
            let found = compare(plain, &policy, &situation, &call, &context);
            restricted.verdicts += found.verdicts;
            restricted.programs += found.programs;
            made += 1;
        }
    }
    assert!(restricted.verdicts > calls / 100 && restricted.programs > calls / 100, "{restricted:?}");
}
