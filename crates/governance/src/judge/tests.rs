//! The judge on real files: a policy folder, a workspace, a call through the guardrail, and the verdict in a word.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::Arc;

use guardrail::InputSchema;
use serde_json::{Value, json};
use tempfile::TempDir;
use tool::{Category, Mode, RiskLevel, RuleRef, ToolDefinition, ToolSpec};

use super::*;
use crate::{Counts, FileNames, Protected, Surroundings, Variables, Workspace, WorkspaceAccess, Workspaces};

/// A machine of its own: `$ROOT/ws` is the workspace, `$ROOT/home` the home, `$ROOT/sinew` Sinew's own.
struct Machine {
    root: PathBuf,
    workspaces: Workspaces,
    files: [(&'static str, String); 3],
    names: FileNames,
    mode: Mode,
    counts: Counts,
    _folder: TempDir,
}

fn machine(tools: &str) -> Machine {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    for name in ["ws/sub", "ws-evil", "home/.ssh", "sinew/config", "policy", "other"] {
        fs::create_dir_all(root.join(name)).unwrap();
    }
    for name in ["ws/a.txt", "ws/sub/b.txt", "ws-evil/x", "home/.ssh/id", "sinew/config/f", "other/o.txt"] {
        fs::write(root.join(name), "12345").unwrap();
    }
    let files = [
        ("modes.yaml", "modes: {NORMAL: {}}\n".to_owned()),
        ("tools.yaml", tools.to_owned()),
        ("safety.yaml", "rate_limits: {}\n".to_owned()),
    ];
    let workspace = Workspace::at(&root.join("ws"), WorkspaceAccess::ReadWrite).unwrap();
    Machine {
        root,
        workspaces: Workspaces::new(vec![workspace]),
        files,
        names: FileNames::CaseSensitive,
        mode: Mode::Normal,
        counts: Counts::default(),
        _folder: folder,
    }
}

impl Machine {
    fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    fn with(mut self, change: impl FnOnce(&mut Machine)) -> Self {
        change(&mut self);
        self
    }

    fn modes(self, text: &str) -> Self {
        self.with(|m| m.files[0].1 = text.to_owned())
    }

    fn safety(self, text: &str) -> Self {
        self.with(|m| m.files[2].1 = text.to_owned())
    }

    fn mode(self, mode: Mode) -> Self {
        self.with(|m| m.mode = mode)
    }

    fn counts(self, tool_last_hour: u32, all_last_minute: u32) -> Self {
        self.with(|m| m.counts = Counts { tool_last_hour, all_last_minute })
    }

    fn policy(&self) -> Policy {
        let folder = self.path("policy");
        for (name, text) in &self.files {
            let text = text.replace("$ROOT", &self.root.display().to_string());
            fs::write(folder.join(name), text).unwrap();
        }
        let around = Surroundings {
            variables: Variables::with_home(&self.path("home")),
            protected: Protected { folders: vec![self.path("sinew")] },
            names: self.names,
        };
        Policy::load(&folder, &around).unwrap_or_else(|error| panic!("{error}"))
    }

    fn verdict(&self, call: ValidCall) -> Verdict {
        let policy = self.policy();
        let situation = Situation { mode: self.mode, workspaces: &self.workspaces, counts: self.counts };
        match clear(&policy, &situation, call) {
            Ok(cleared) => judge(&policy, &situation, resources::open(cleared).unwrap()),
            Err(denial) => Verdict::Denial(denial),
        }
    }

    /// The verdict in a word: `permit`, `ask`, or the code and detail of a denial.
    #[track_caller]
    fn expect(&self, tool: &str, arguments: &Value, expect: &str) -> Outcome {
        let arguments = arguments.to_string().replace("$ROOT", &self.root.display().to_string());
        let arguments: Value = serde_json::from_str(&arguments).unwrap();
        let shown = format!("{tool} {arguments} in {}", self.mode);
        let outcome = Outcome::of(self.verdict(valid(tool, arguments)));
        assert_eq!(outcome.word, expect, "{shown}\n{outcome:#?}");
        outcome
    }

    #[track_caller]
    fn read(&self, path: &str, expect: &str) -> Outcome {
        self.expect("read_file", &json!({"path": path}), expect)
    }

    #[track_caller]
    fn write(&self, path: &str, expect: &str) -> Outcome {
        self.expect("write_file", &json!({"path": path, "content": "x"}), expect)
    }
}

#[derive(Debug)]
struct Outcome {
    word: String,
    reason: String,
    hint: String,
    rules: Vec<RuleRef>,
    retryable: bool,
}

impl Outcome {
    fn of(verdict: Verdict) -> Self {
        let plain = |word: &str, rules: Vec<RuleRef>| Outcome {
            word: word.to_owned(),
            reason: String::new(),
            hint: String::new(),
            rules,
            retryable: false,
        };
        match verdict {
            Verdict::Permit(permit) => plain("permit", permit.rules().to_vec()),
            Verdict::Question(question) => plain("ask", question.asked_by().to_vec()),
            Verdict::Denial(denial) => {
                let refusal = denial.refusal();
                assert_eq!(
                    denial.rules().last(),
                    refusal.rule.as_ref(),
                    "the last rule is the one that denied"
                );
                Outcome {
                    word: format!("{} {}", refusal.code, refusal.detail.as_deref().unwrap_or_default()),
                    reason: refusal.reason.clone(),
                    hint: refusal.hint.clone().unwrap_or_default(),
                    rules: denial.rules().to_vec(),
                    retryable: refusal.retryable,
                }
            }
        }
    }

    /// The deciding rule: its file, line and id.
    #[track_caller]
    fn by(&self, file: &str, line: u64, id: &str) -> &Self {
        let rule = self.rules.last().unwrap();
        assert!(rule.file.ends_with(file), "{rule:?}");
        assert_eq!((rule.line, rule.id.as_str()), (line, id), "{rule:?}");
        self
    }

    #[track_caller]
    fn says(&self, reason: &str) -> &Self {
        assert_eq!(self.reason, reason);
        self
    }

    #[track_caller]
    fn hints(&self, words: &str) -> &Self {
        assert!(self.hint.contains(words), "{}", self.hint);
        self
    }
}

/// The tools of these tests, by name.
fn definition(name: &str) -> ToolDefinition {
    let path = json!({"type": "string", "format": "path"});
    let (category, risk, properties) = match name {
        "read_file" | "slow_read" => (Category::READ_ONLY, RiskLevel::Low, json!({"path": path})),
        "write_file" => {
            (Category::SYSTEM_WRITE, RiskLevel::High, json!({"path": path, "content": {"type": "string"}}))
        }
        "copy_file" => {
            let source = json!({"type": "string", "format": "path", "x-sinew-access": "read"});
            (Category::SYSTEM_WRITE, RiskLevel::Medium, json!({"from": source, "to": path}))
        }
        "read_many" => {
            (Category::READ_ONLY, RiskLevel::Low, json!({"paths": {"type": "array", "items": path}}))
        }
        "search" => (Category::NETWORK, RiskLevel::Medium, json!({"query": {"type": "string"}})),
        "confined" | "gated" => (Category::READ_ONLY, RiskLevel::Low, json!({})),
        other => panic!("no test tool {other}"),
    };
    let mut spec = ToolSpec::new(name, "a test tool", category, risk);
    spec.input_schema = Some(json!({"type": "object", "properties": properties}));
    spec.requires_sandbox = name == "confined";
    spec.requires_approval = name == "gated";
    if name == "slow_read" {
        spec.allowed_modes = vec![Mode::Normal];
        spec.rate_limit_per_hour = Some(2);
        spec.timeout_seconds = 7;
    }
    spec.check().unwrap()
}

fn valid(name: &str, arguments: Value) -> ValidCall {
    let definition = Arc::new(definition(name));
    let schema = InputSchema::compile(definition.input_schema()).unwrap();
    guardrail::check(&definition, &schema, arguments).unwrap()
}

const NOTHING_LISTED: &str = "tools: {}\n";
const WRITE_MODES: &str = "tools:
  write_file:
    allowed_in_modes: [NORMAL, LOCKDOWN]
    requires_approval_in_modes: [ALERT, LOCKDOWN]
    forbidden_in_modes: [LOCKDOWN, ALERT]
";

#[test]
fn modes_forbidden_beats_approval_beats_allowed() {
    let tools = "tools:
  write_file:
    allowed_in_modes: [NORMAL, ALERT]
    requires_approval_in_modes: [ALERT, RECOVERY]
    forbidden_in_modes: [LOCKDOWN]
";
    let free = "modes: {NORMAL: {}, ALERT: {}, DEGRADED: {}, LOCKDOWN: {}, RECOVERY: {}}\n";
    let check = |mode: Mode, expect: &str| machine(tools).modes(free).mode(mode).write("a.txt", expect);
    check(Mode::Normal, "permit");
    check(Mode::Alert, "ask").by("tools.yaml", 4, "write_file.requires_approval_in_modes");
    check(Mode::Recovery, "ask").by("tools.yaml", 4, "write_file.requires_approval_in_modes");
    check(Mode::Degraded, "mode_denied not_listed").by("tools.yaml", 3, "write_file.allowed_in_modes");
    check(Mode::Lockdown, "mode_denied forbidden")
        .says("Permission denied: Tool not allowed in LOCKDOWN mode")
        .by("tools.yaml", 5, "write_file.forbidden_in_modes")
        .hints("it runs in NORMAL, ALERT, RECOVERY");
    for mode in [Mode::Alert, Mode::Lockdown] {
        machine(WRITE_MODES).modes(free).mode(mode).write("a.txt", "mode_denied forbidden");
    }
}

#[test]
fn a_tool_that_is_not_listed_has_its_definitions_modes() {
    let call = |mode, expect: &str| {
        machine(NOTHING_LISTED).mode(mode).expect("slow_read", &json!({"path": "a.txt"}), expect)
    };
    call(Mode::Normal, "permit").by("workspaces", 0, "workspaces");
    call(Mode::Alert, "mode_denied not_listed").by("tool definition", 0, "slow_read.allowed_modes");
    let silent = machine("tools: {slow_read: {rate_limit_per_hour: 9}}\n").mode(Mode::Alert);
    silent.expect("slow_read", &json!({"path": "a.txt"}), "mode_denied not_listed");
}

#[test]
fn a_mode_narrows_by_category_and_by_count() {
    let modes = "modes:
  NORMAL:
    allowed_tool_categories: [read_only, self_check]
  ALERT:
    max_concurrent_tasks: 0
";
    let machine = machine(NOTHING_LISTED).modes(modes);
    machine.read("a.txt", "permit");
    machine
        .write("a.txt", "mode_denied category")
        .says("Permission denied: Tool not allowed in NORMAL mode")
        .by("modes.yaml", 3, "NORMAL.allowed_tool_categories")
        .hints("read_only, self_check");
    let machine = machine.mode(Mode::Alert);
    machine.read("a.txt", "mode_denied no_tasks").by("modes.yaml", 5, "ALERT.max_concurrent_tasks");
    // A category of the file overrides the definition's.
    let moved = "tools: {write_file: {category: read_only}}\n";
    self::machine(moved).modes(modes).write("a.txt", "permit");
}

#[test]
fn a_mode_that_is_not_listed_keeps_its_built_in_rules() {
    let machine = machine(NOTHING_LISTED).mode(Mode::Lockdown);
    machine
        .write("a.txt", "mode_denied category")
        .says("Permission denied: Tool not allowed in LOCKDOWN mode");
    machine.read("a.txt", "permit");
}

#[test]
fn every_rule_that_asks_is_heard_and_named() {
    let approvals = |word: &str| format!("modes: {{NORMAL: {{require_approval_for: [{word}]}}}}\n");
    let check = |word: &str, tool: &str, arguments: &Value, expect: &str| {
        machine(NOTHING_LISTED).modes(&approvals(word)).expect(tool, arguments, expect);
    };
    let (read, write) = (json!({"path": "a.txt"}), json!({"path": "a.txt", "content": ""}));
    let copy = json!({"from": "a.txt", "to": "c.txt"});
    check("high_risk_tools", "read_file", &read, "permit");
    check("high_risk_tools", "write_file", &write, "ask");
    check("any_write_operation", "copy_file", &copy, "ask");
    check("any_write_operation", "read_file", &read, "permit");
    check("network", "search", &json!({"query": "x"}), "ask");
    check("network", "read_file", &read, "permit");
    check("all_actions", "read_file", &read, "ask");
    check("read_only", "read_file", &read, "ask");
    check("read_only", "copy_file", &copy, "permit");
    check("copy_file", "copy_file", &copy, "ask");
    machine(NOTHING_LISTED).expect("gated", &json!({}), "ask").by(
        "tool definition",
        0,
        "gated.requires_approval",
    );
    machine("tools: {read_file: {requires_approval: true}}\n").read("a.txt", "ask").by(
        "tools.yaml",
        1,
        "read_file.requires_approval",
    );
    machine("tools: {read_file: {requires_approval: false}}\n").read("a.txt", "permit");
    machine("tool_categories:\n  read_only:\n    requires_approval_in_modes: [NORMAL]\ntools: {}\n")
        .read("a.txt", "ask")
        .by("tools.yaml", 3, "tool_categories.read_only.requires_approval_in_modes");
    let safety = "human_approval:\n  rules:\n    - {risk_level: high, modes: [NORMAL]}\n";
    machine(NOTHING_LISTED).safety(safety).read("a.txt", "permit");
    machine(NOTHING_LISTED).safety(safety).write("a.txt", "ask").by("safety.yaml", 3, "human_approval.rules");
    // A category's risk raises its tools' risk.
    let raised = "tool_categories: {read_only: {risk_level: high}}\ntools: {}\n";
    machine(raised).safety(safety).read("a.txt", "ask");
    let all =
        "tools:\n  write_file:\n    requires_approval: true\n    requires_approval_in_modes: [NORMAL]\n";
    let outcome = machine(all).safety(safety).write("a.txt", "ask");
    assert_eq!(outcome.rules.iter().map(|rule| rule.line).collect::<Vec<_>>(), [3, 4, 3]);
}

#[test]
fn nobody_is_asked_about_a_call_that_would_be_denied() {
    let tools = "tools:\n  write_file:\n    requires_approval: true\n    max_file_size_mb: 0\n";
    machine(tools).write("/etc/x", "path_not_allowed outside_workspaces");
    machine(tools).write("a.txt", "too_large max_file_size");
    let modes = "modes: {NORMAL: {allowed_tool_categories: [network]}}\n";
    machine(tools).modes(modes).write("a.txt", "mode_denied category");
    let limited = format!("{tools}    rate_limit_per_hour: 1\n");
    machine(&limited).counts(1, 0).write("a.txt", "rate_limited tool_per_hour");
}

#[test]
fn an_unanswered_question_is_a_refusal_and_an_approved_one_a_permit() {
    let verdict = machine(NOTHING_LISTED).verdict(valid("gated", json!({})));
    let Verdict::Question(question) = verdict else { panic!("no question") };
    let refusal = question.unanswered();
    assert!(refusal.reason.starts_with("Permission denied: Approval"), "{}", refusal.reason);
    assert_eq!(refusal.rule.unwrap().id, "gated.requires_approval");
    let permit = question.approved();
    assert_eq!(permit.rules().last().unwrap().id, "gated.requires_approval");
}

#[test]
fn rates_compare_with_at_least_and_zero_is_none() {
    let tools = "tools:\n  read_file:\n    rate_limit_per_hour: 3\n  write_file: {rate_limit_per_hour: 0}\n";
    machine(tools).counts(2, 0).read("a.txt", "permit");
    let over = machine(tools).counts(3, 0).read("a.txt", "rate_limited tool_per_hour");
    over.says("Permission denied: Rate limit exceeded").by("tools.yaml", 3, "read_file.rate_limit_per_hour");
    assert!(over.retryable);
    let never = machine(tools).write("a.txt", "rate_limited tool_per_hour");
    assert!(!never.retryable);
    never.hints("is 0, which lets nothing run");
    machine(NOTHING_LISTED).counts(u32::MAX, u32::MAX).read("a.txt", "permit");
    let slow = |count, expect: &str| {
        machine(NOTHING_LISTED).counts(count, 0).expect("slow_read", &json!({"path": "a.txt"}), expect);
    };
    slow(1, "permit");
    slow(2, "rate_limited tool_per_hour");
    let safety = "rate_limits:\n  NORMAL: {tool_calls_per_minute: 5}\n  ALERT: {tool_calls_per_minute: 0}\n";
    let busy = |mode, count, expect: &str| {
        machine(NOTHING_LISTED).safety(safety).mode(mode).counts(0, count).read("a.txt", expect)
    };
    busy(Mode::Normal, 4, "permit");
    busy(Mode::Normal, 5, "rate_limited mode_per_minute").by(
        "safety.yaml",
        2,
        "rate_limits.NORMAL.tool_calls_per_minute",
    );
    busy(Mode::Alert, 0, "rate_limited mode_per_minute");
    busy(Mode::Degraded, 1000, "permit");
}

#[test]
fn a_permit_is_asked_again_with_fresh_counts() {
    let machine = machine("tools: {read_file: {rate_limit_per_hour: 3}}\n");
    let Verdict::Permit(permit) = machine.verdict(valid("read_file", json!({"path": "a.txt"}))) else {
        panic!("no permit")
    };
    let counts = |tool_last_hour| Counts { tool_last_hour, all_last_minute: 0 };
    permit.within_rates(counts(2)).unwrap();
    let denial = permit.within_rates(counts(3)).unwrap_err();
    assert_eq!(denial.refusal().code, tool::RefusalCode::RateLimited);
    assert_eq!(Value::Object(permit.remaining(counts(1))), json!({"tool_per_hour": 2}));
}

#[test]
fn absent_paths_mean_the_workspaces_and_empty_ones_mean_none() {
    let machine = machine(NOTHING_LISTED);
    for inside in [
        "a.txt",
        "$ROOT/ws/a.txt",
        "./a.txt",
        "sub/../a.txt",
        ".",
        "$ROOT/ws",
        "$ROOT/ws//sub/./b.txt",
        "new",
    ] {
        machine.read(inside, "permit").by("workspaces", 0, "workspaces");
    }
    for outside in
        ["$ROOT/ws-evil/x", "$ROOT/other/o.txt", "../other/o.txt", "/", "$ROOT", "sub/../../ws-evil/x"]
    {
        machine.read(outside, "path_not_allowed outside_workspaces").hints("sinew workspace add");
    }
    machine
        .read("/nowhere/x", "path_not_allowed outside_workspaces")
        .says("Permission denied: Path /nowhere/x not in allowed paths");
    let none = self::machine("tools:\n  read_file:\n    allowed_paths: []\n");
    none.read("a.txt", "path_not_allowed not_listed").by("tools.yaml", 3, "read_file.allowed_paths");
    let listed = self::machine("tools: {read_file: {allowed_paths: [\"$ROOT/other/**\"]}}\n");
    listed.read("a.txt", "path_not_allowed not_listed");
    listed.read("$ROOT/other/o.txt", "permit").by("tools.yaml", 1, "read_file.allowed_paths");
}

#[test]
fn sibling_prefixes_and_stars_stay_in_their_place() {
    for pattern in ["$ROOT/ws", "$ROOT/ws/", "$ROOT/ws/**"] {
        let machine = machine(&format!("tools: {{read_file: {{allowed_paths: [\"{pattern}\"]}}}}\n"));
        machine.read("$ROOT/ws-evil/x", "path_not_allowed not_listed");
        machine.read("$ROOT/ws", "permit");
    }
    let star = machine("tools: {read_file: {allowed_paths: [\"$ROOT/ws/*.txt\"]}}\n");
    star.read("a.txt", "permit");
    star.read("sub/b.txt", "path_not_allowed not_listed");
    let bare = machine("tools: {read_file: {allowed_paths: [\"$ROOT/ws\"]}}\n");
    bare.read("a.txt", "path_not_allowed not_listed").hints("/ws/**` would cover what is in it");
}

#[test]
fn a_read_only_workspace_is_read() {
    let machine = machine(NOTHING_LISTED).with(|m| {
        let read_only = Workspace::at(&m.path("other"), WorkspaceAccess::ReadOnly).unwrap();
        m.workspaces = Workspaces::new(vec![
            read_only,
            Workspace::at(&m.path("ws"), WorkspaceAccess::ReadWrite).unwrap(),
        ]);
    });
    machine.read("o.txt", "permit");
    machine
        .write("o.txt", "path_not_allowed read_only_workspace")
        .says("Permission denied: Path o.txt not in allowed paths")
        .hints("read-only");
    machine.write("new.txt", "path_not_allowed read_only_workspace");
    machine.write("$ROOT/ws/a.txt", "permit");
    machine.expect("copy_file", &json!({"from": "o.txt", "to": "$ROOT/ws/o.txt"}), "permit");
    machine.expect(
        "copy_file",
        &json!({"from": "$ROOT/ws/a.txt", "to": "a.txt"}),
        "path_not_allowed read_only_workspace",
    );
}

#[test]
fn without_a_workspace_nothing_relative_starts() {
    let machine = machine("tools: {read_file: {allowed_paths: [\"$ROOT/other/**\"]}}\n")
        .with(|m| m.workspaces = Workspaces::default());
    machine.read("o.txt", "path_not_allowed no_workspace").hints("sinew workspace add");
    machine.read("$ROOT/other/o.txt", "permit");
    machine.write("$ROOT/other/o.txt", "path_not_allowed outside_workspaces");
}

#[test]
fn a_callers_folder_selects_and_never_widens() {
    let machine = machine(NOTHING_LISTED);
    let base = |cwd: Option<PathBuf>| machine.workspaces.based_at(cwd.as_deref()).base().unwrap().to_owned();
    assert_eq!(base(None), machine.path("ws"));
    assert_eq!(base(Some(machine.path("ws/sub"))), machine.path("ws/sub"));
    assert_eq!(base(Some(PathBuf::from("sub"))), machine.path("ws"), "a relative folder is nowhere");
    for outside in ["/", "other", "ws-evil", "ws/../other", "."] {
        let cwd = machine.root.join(outside);
        let mut machine = self::machine(NOTHING_LISTED);
        machine.workspaces = machine.workspaces.based_at(Some(&cwd));
        machine.read("o.txt", "path_not_allowed outside_workspaces");
        machine.read("$ROOT/ws/a.txt", "permit");
    }
}

#[test]
fn forbidden_beats_allowed_in_every_spelling() {
    let tools = "tools:
  read_file:
    allowed_paths: [\"/**\"]
    forbidden_paths:
      - \"$ROOT/other\"
      - \"**/sub/**\"
      - ~/.ssh
";
    let machine = machine(tools);
    machine
        .read("$ROOT/other/o.txt", "path_forbidden forbidden_path")
        .says(&format!("Permission denied: Path {}/other/o.txt is forbidden", machine.root.display()))
        .by("tools.yaml", 5, "read_file.forbidden_paths");
    for spelling in
        ["$ROOT/other", "$ROOT/other/", "$ROOT//other/./", "$ROOT/ws/../other/o.txt", "../other/new"]
    {
        machine.read(spelling, "path_forbidden forbidden_path").by(
            "tools.yaml",
            5,
            "read_file.forbidden_paths",
        );
    }
    for spelling in ["sub", "sub/b.txt", "sub/deep/er", "$ROOT/ws/sub/.", "nothing/sub/x"] {
        machine.read(spelling, "path_forbidden forbidden_path").by(
            "tools.yaml",
            6,
            "read_file.forbidden_paths",
        );
    }
    machine.read("$ROOT/home/.ssh/id", "path_forbidden forbidden_path");
    machine.read("$ROOT/others", "permit");
    machine.read("subject", "permit");
    machine.read("~/.ssh", "permit"); // taken literally: a name in the workspace
}

#[test]
fn nothing_is_opened_for_a_name_that_is_forbidden() {
    let machine = machine(
        "tools: {write_file: {forbidden_paths: [\"$ROOT/other\"], forbidden_in_modes: [LOCKDOWN]}}\n",
    );
    let policy = machine.policy();
    let cleared = |path: &str, mode| {
        let situation = Situation { mode, workspaces: &machine.workspaces, counts: Counts::default() };
        clear(&policy, &situation, valid("write_file", json!({"path": path, "content": ""}))).map(|_| ())
    };
    let code = |path: &str, mode| cleared(path, mode).unwrap_err().refusal().code;
    assert_eq!(code("../other/o.txt", Mode::Normal), tool::RefusalCode::PathForbidden);
    assert_eq!(code(".git/config", Mode::Normal), tool::RefusalCode::PathForbidden);
    assert_eq!(code("../sinew/x", Mode::Normal), tool::RefusalCode::ControlPlane);
    assert_eq!(code("a.txt", Mode::Lockdown), tool::RefusalCode::ModeDenied);
    // Whether it is allowed is for the canonical name to say.
    cleared("/etc/hosts", Mode::Normal).unwrap();
}

#[test]
fn existing_and_missing_are_refused_alike() {
    let machine = machine("tools: {read_file: {forbidden_paths: [\"$ROOT/ws/sub\"]}}\n");
    let same = |a: &str, b: &str| {
        let texts = [a, b].map(|path| {
            let outcome = Outcome::of(machine.verdict(valid("read_file", json!({"path": path}))));
            (outcome.word, outcome.reason.replace(path, "…"), outcome.hint, outcome.rules)
        });
        assert_eq!(texts[0], texts[1]);
    };
    same("sub/b.txt", "sub/missing.txt");
    same("/etc/passwd", "/etc/missing-entirely");
    same("/etc/passwd", "/missing-entirely/passwd");
    same("/etc/passwd", "/etc/passwd/below-a-file");
    machine.read("missing.txt", "permit");
    machine.read("a.txt/below", "permit");
}

#[test]
fn links_are_judged_by_both_names() {
    let tools = "tools:\n  read_file:\n    forbidden_paths: [\"$ROOT/ws/link\", \"$ROOT/ws/target2\"]\n";
    let machine = machine(tools);
    fs::write(machine.path("ws/target"), "x").unwrap();
    fs::write(machine.path("ws/target2"), "x").unwrap();
    symlink("target", machine.path("ws/link")).unwrap();
    symlink("target2", machine.path("ws/link2")).unwrap();
    symlink(machine.path("other"), machine.path("ws/out")).unwrap();
    symlink(machine.path("other/new"), machine.path("ws/dangling")).unwrap();
    machine.read("link", "path_forbidden forbidden_path"); // the rule names the link, and so does the call
    machine.read("target", "path_forbidden forbidden_path"); // the rule names the link, the call its target
    machine.read("link2", "path_forbidden forbidden_path"); // the rule names the target, the call a link
    machine.read("target2", "path_forbidden forbidden_path");
    machine.read("out/o.txt", "path_not_allowed outside_workspaces");
    machine.read("out", "path_not_allowed outside_workspaces");
    machine.write("out/new.txt", "path_not_allowed outside_workspaces");
    machine.write("dangling", "path_not_allowed outside_workspaces");
    // What a link leads to is not told.
    let told = machine.read("out/o.txt", "path_not_allowed outside_workspaces");
    assert!(!format!("{told:?}").contains("other"), "{told:?}");
}

#[test]
fn a_link_of_the_agents_own_does_not_widen_what_is_allowed() {
    let tools = "tools: {read_file: {allowed_paths: [\"$ROOT/ws/out/**\"]}}\n";
    let machine = machine(tools);
    symlink(machine.path("other"), machine.path("ws/out")).unwrap();
    let owner = |uid| std::os::unix::fs::lchown(machine.path("ws/out"), Some(uid), None);
    if owner(12345).is_err() {
        return; // only root can give a link away
    }
    machine.read("$ROOT/other/o.txt", "path_not_allowed not_listed");
    let warning = machine.policy().warnings()[0].to_string();
    assert!(warning.contains("passes a symbolic link") && warning.contains("/other"), "{warning}");
    owner(0).unwrap();
    machine.read("$ROOT/other/o.txt", "permit");
    assert!(machine.policy().warnings().is_empty());
}

#[test]
fn the_floor_beats_every_file() {
    let tools = "tools: {read_file: {allowed_paths: [\"/**\"]}, write_file: {allowed_paths: [\"/**\"]}}\n";
    let machine = machine(tools);
    for own in
        ["$ROOT/sinew/config/f", "$ROOT/sinew", "$ROOT/sinew/state/not/there", "../sinew/x", "$ROOT/SINEW/x"]
    {
        machine.read(own, "control_plane floor").by("built-in floor", 0, "floor.sinew");
        machine.write(own, "control_plane floor").hints("no policy can allow this");
    }
    for path in [
        ".git/hooks/pre-commit",
        ".git/config",
        "deep/er/.git/config",
        ".bashrc",
        ".ZSHRC",
        ".mcp.json",
        ".vscode/settings.json",
    ] {
        machine.write(path, "path_forbidden floor");
        machine.read(path, "permit");
    }
    symlink(machine.path("sinew/config"), machine.path("ws/conf")).unwrap();
    symlink(machine.path("home/.ssh"), machine.path("ws/keys")).unwrap();
    machine.read("conf/f", "control_plane floor");
    machine.write("keys/authorized_keys", "path_forbidden floor");
    for secret in [
        "/proc/self/environ",
        "/proc/1/mem",
        "/proc/self/root/etc/passwd",
        "/proc/self/cwd",
        "/proc/self/fd/0",
        "/dev/fd/0",
    ] {
        machine.read(secret, "path_forbidden floor").by("built-in floor", 0, "floor.processes");
    }
    machine.read("/proc/loadavg", "permit");
}

#[test]
fn case_is_no_way_around_where_the_system_ignores_it() {
    let tools = "tools: {read_file: {forbidden_paths: [\"**/.env\"]}}\n";
    let strict = machine(tools);
    strict.read(".ENV", "permit");
    strict.read(".env", "path_forbidden forbidden_path");
    let folding = machine(tools).with(|m| m.names = FileNames::CaseInsensitive);
    folding.read(".ENV", "path_forbidden forbidden_path");
    folding.read("sub/.Env/x", "path_forbidden forbidden_path");
    folding.read(".envy", "permit");
    let folding = machine("tools: {read_file: {forbidden_paths: [\"**/.ssh\"]}}\n")
        .with(|m| m.names = FileNames::CaseInsensitive);
    folding.read(".\u{df}h/id", "path_forbidden forbidden_path");
    folding.write(".\u{df}h/id", "path_forbidden floor");
}

#[test]
fn a_second_name_is_refused() {
    let machine = machine(NOTHING_LISTED);
    fs::hard_link(machine.path("home/.ssh/id"), machine.path("ws/innocent")).unwrap();
    machine
        .read("innocent", "path_forbidden hardlink")
        .says("Permission denied: Path innocent is forbidden")
        .hints("hard_links: allow");
    machine.write("innocent", "path_forbidden hardlink");
    machine.read("sub", "permit"); // a directory's links are its own
    let allowed = self::machine("tools: {read_file: {hard_links: allow}}\n");
    fs::hard_link(allowed.path("home/.ssh/id"), allowed.path("ws/innocent")).unwrap();
    allowed.read("innocent", "permit");
}

#[test]
fn sizes_are_limits_from_both_sides() {
    let tools = "tools:\n  read_file: {max_file_size_mb: 1}\n  write_file:\n    max_file_size_mb: 1\n";
    let machine = machine(tools);
    let file = fs::File::create(machine.path("ws/big")).unwrap();
    file.set_len(1024 * 1024).unwrap();
    machine.read("big", "permit");
    file.set_len(1024 * 1024 + 1).unwrap();
    machine.read("big", "too_large max_file_size").by("tools.yaml", 2, "read_file.max_file_size_mb");
    let write = |bytes: usize, expect: &str| {
        machine.expect("write_file", &json!({"path": "w", "content": "x".repeat(bytes)}), expect)
    };
    write(1024 * 1024, "permit");
    write(1024 * 1024 + 1, "too_large max_file_size").by("tools.yaml", 4, "write_file.max_file_size_mb");
    machine.write("big", "permit"); // what is replaced may be of any size
}

#[test]
fn every_path_of_a_call_is_judged() {
    let machine = machine(NOTHING_LISTED);
    let many = |paths: Value, expect: &str| machine.expect("read_many", &json!({"paths": paths}), expect);
    many(json!(["a.txt", "sub/b.txt"]), "permit");
    many(json!([]), "permit");
    many(json!(["a.txt", "$ROOT/ws-evil/x", "sub/b.txt"]), "path_not_allowed outside_workspaces");
    machine.expect("copy_file", &json!({"from": "a.txt", "to": "/x"}), "path_not_allowed outside_workspaces");
    machine.expect("copy_file", &json!({"from": "a.txt", "to": ".git/config"}), "path_forbidden floor");
    machine.expect("copy_file", &json!({"from": ".git/config", "to": "a.txt"}), "permit");
}

#[test]
fn what_nothing_enforces_yet_is_refused() {
    machine(NOTHING_LISTED).expect("confined", &json!({}), "sandbox_unavailable no_sandbox");
    let check = |rule: &str, expect: &str| {
        machine(&format!("tools:\n  read_file:\n    {rule}\n")).read("a.txt", expect);
    };
    check("requires_sandbox: true", "sandbox_unavailable no_sandbox");
    check("min_isolation: full", "sandbox_unavailable no_sandbox");
    check("requires_sandbox: false", "permit");
    check("requires_sandbox: false\n    min_isolation: full", "permit");
    check("allowed_commands: [ls]", "command_not_allowed not_enforced");
    check("forbidden_commands: [sudo]", "command_not_allowed not_enforced");
    check("allowed_domains: [\"*.example.org\"]", "domain_not_allowed not_enforced");
}

#[test]
fn a_permit_carries_its_limits_and_facts() {
    let tools = "tools: {write_file: {timeout_seconds: 3, max_file_size_mb: 2, max_output_bytes: 99}}\n";
    let machine = machine(tools).counts(4, 5);
    let write = valid("write_file", json!({"path": "sub/../a.txt", "content": "héllo"}));
    let Verdict::Permit(permit) = machine.verdict(write) else { panic!("no permit") };
    assert_eq!(
        (permit.timeout().as_secs(), permit.max_file_bytes(), permit.max_output_bytes()),
        (3, Some(2 << 20), 99)
    );
    assert_eq!(permit.path("path").unwrap().canonical(), machine.path("ws/a.txt"));
    assert!(permit.path("other").is_none());
    let facts = permit.facts();
    assert_eq!(facts["counts"], json!({"tool_last_hour": 4, "all_last_minute": 5}));
    assert_eq!(facts["paths"][0]["canonical"], json!(machine.path("ws/a.txt")));
    assert_eq!((&facts["paths"][0]["size"], &facts["content_bytes"]), (&json!(5), &json!(6)));
    assert!(!facts.to_string().contains("llo"), "content is not a fact: {facts}");
    let read = valid("slow_read", json!({"path": "a.txt"}));
    let Verdict::Permit(permit) = machine.counts(0, 0).verdict(read) else { panic!("no permit") };
    assert_eq!(
        (permit.timeout().as_secs(), permit.max_file_bytes(), permit.max_output_bytes()),
        (7, None, 1 << 20)
    );
}

#[test]
fn a_call_that_was_cleared_is_judged_anew() {
    let machine = machine("tools: {write_file: {forbidden_in_modes: [LOCKDOWN]}}\n");
    let policy = machine.policy();
    let mut situation =
        Situation { mode: Mode::Normal, workspaces: &machine.workspaces, counts: Counts::default() };
    let cleared =
        clear(&policy, &situation, valid("write_file", json!({"path": "a.txt", "content": ""}))).unwrap();
    situation.mode = Mode::Lockdown;
    let outcome = Outcome::of(judge(&policy, &situation, resources::open(cleared).unwrap()));
    assert_eq!(outcome.word, "mode_denied forbidden");
}

#[test]
fn long_names_are_not_repeated_whole() {
    let machine = machine(NOTHING_LISTED).with(|m| m.workspaces = Workspaces::default());
    let outcome = machine.read(&"x".repeat(100_000), "path_not_allowed no_workspace");
    assert!(outcome.reason.len() < 400);
}
