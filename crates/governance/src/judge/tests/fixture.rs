//! Test fixture: a policy folder and a workspace per test, calls validated by the guardrail, verdicts as
//! short texts.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use guardrail::{InputSchema, ValidCall};
use serde_json::{Value, json};
use tempfile::TempDir;
use tool::{Category, Mode, RiskLevel, RuleRef, ToolDefinition, ToolSpec};

use crate::files::LayerDefault;
use crate::policy_environment::{NameComparison, PathVariables, PolicyEnvironment, ProtectedFolders};
use crate::rule_trace::RuleTrace;
use crate::{
    Policy, RateCounts, Situation, Verdict, Workspace, WorkspaceAccess, Workspaces, judge_traced,
    precheck_traced,
};

/// Test machine: `$ROOT/ws` is the workspace, `$ROOT/home` the home folder, `$ROOT/sinew` Sinew's own folder.
pub(crate) struct TestMachine {
    pub(crate) root: PathBuf,
    pub(crate) workspaces: Workspaces,
    pub(crate) files: [(&'static str, String); 3],
    pub(crate) file_names: NameComparison,
    pub(crate) mode: Mode,
    pub(crate) counts: RateCounts,
    _folder: TempDir,
}

pub(crate) fn machine(tools: &str) -> TestMachine {
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
        ("tools.yaml", whole_tools(tools)),
        ("safety.yaml", complete_safety_file("")),
    ];
    let workspace = Workspace::open(&root.join("ws"), WorkspaceAccess::ReadWrite).unwrap();
    TestMachine {
        root,
        workspaces: Workspaces::new(vec![workspace]),
        files,
        file_names: NameComparison::CaseSensitive,
        mode: Mode::Normal,
        counts: RateCounts::default(),
        _folder: folder,
    }
}

/// Returns a `tools.yaml` with an empty list of paths that are forbidden to every tool, unless the text has one.
pub(crate) fn whole_tools(text: &str) -> String {
    let is_stated = text.lines().any(|line| line.starts_with("forbidden_paths:"));
    let line_end = if text.ends_with('\n') { "" } else { "\n" };
    if is_stated { text.to_owned() } else { format!("{text}{line_end}forbidden_paths: []\n") }
}

/// Adds the required sections that a test does not set to a `safety.yaml`.
pub(crate) fn complete_safety_file(text: &str) -> String {
    let missing = ["content_filtering", "rate_limits", "human_approval"].into_iter();
    let missing = missing.filter(|section| !text.lines().any(|line| line.starts_with(section)));
    missing.fold(text.to_owned(), |text, section| format!("{text}{section}: {{}}\n"))
}

impl TestMachine {
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    pub(crate) fn with(mut self, change: impl FnOnce(&mut TestMachine)) -> Self {
        change(&mut self);
        self
    }

    pub(crate) fn modes(self, text: &str) -> Self {
        self.with(|m| m.files[0].1 = text.to_owned())
    }

    pub(crate) fn safety(self, text: &str) -> Self {
        self.with(|m| m.files[2].1 = complete_safety_file(text))
    }

    pub(crate) fn mode(self, mode: Mode) -> Self {
        self.with(|m| m.mode = mode)
    }

    pub(crate) fn counts(self, tool_last_hour: u32, all_last_minute: u32) -> Self {
        self.with(|m| m.counts = RateCounts { tool_last_hour, all_last_minute, outbound_last_hour: 0 })
    }

    pub(crate) fn policy(&self) -> Policy {
        self.policy_with_own_folder("sinew")
    }

    /// Loads the policy with another folder as Sinew's own.
    pub(crate) fn policy_with_own_folder(&self, own: &str) -> Policy {
        let folder = self.path("policy");
        for (name, text) in &self.files {
            let text = text.replace("$ROOT", &self.root.display().to_string());
            fs::write(folder.join(name), text).unwrap();
        }
        let around = PolicyEnvironment {
            variables: PathVariables::with_home(&self.path("home")),
            protected: ProtectedFolders { folders: vec![self.path(own)] },
            name_comparison: self.file_names,
        };
        Policy::load_with(&folder, LayerDefault::Replace, &around).unwrap_or_else(|error| panic!("{error}"))
    }

    pub(crate) fn verdict(&self, call: ValidCall) -> Verdict {
        self.verdict_traced(call, &mut RuleTrace::disabled())
    }

    pub(crate) fn verdict_traced(&self, call: ValidCall, trace: &mut RuleTrace) -> Verdict {
        let policy = self.policy();
        let situation = Situation { mode: self.mode, workspaces: &self.workspaces, counts: self.counts };
        match precheck_traced(&policy, &situation, call, trace) {
            Ok(prechecked) => {
                judge_traced(&policy, &situation, file_access::open(prechecked).unwrap(), trace)
            }
            Err(denial) => Verdict::Denial(denial),
        }
    }

    /// Checks the verdict: `permit`, `ask`, or the code and detail of a denial.
    #[track_caller]
    pub(crate) fn expect(&self, tool: &str, arguments: &Value, expect: &str) -> VerdictSummary {
        let arguments = arguments.to_string().replace("$ROOT", &self.root.display().to_string());
        let arguments: Value = serde_json::from_str(&arguments).unwrap();
        let shown = format!("{tool} {arguments} in {}", self.mode);
        let outcome = VerdictSummary::of(self.verdict(valid_call(tool, arguments)));
        assert_eq!(outcome.verdict, expect, "{shown}\n{outcome:#?}");
        outcome
    }

    #[track_caller]
    pub(crate) fn read(&self, path: &str, expect: &str) -> VerdictSummary {
        self.expect("read_file", &json!({"path": path}), expect)
    }

    #[track_caller]
    pub(crate) fn write(&self, path: &str, expect: &str) -> VerdictSummary {
        self.expect("write_file", &json!({"path": path, "content": "x"}), expect)
    }
}

#[derive(Debug)]
pub(crate) struct VerdictSummary {
    pub(crate) verdict: String,
    pub(crate) reason: String,
    pub(crate) hint: String,
    pub(crate) rules: Vec<RuleRef>,
    pub(crate) retryable: bool,
}

impl VerdictSummary {
    pub(crate) fn of(verdict: Verdict) -> Self {
        let plain = |word: &str, rules: Vec<RuleRef>| VerdictSummary {
            verdict: word.to_owned(),
            reason: String::new(),
            hint: String::new(),
            rules,
            retryable: false,
        };
        match verdict {
            Verdict::Permit(permit) => plain("permit", permit.rules().to_vec()),
            Verdict::ApprovalRequired(question) => plain("ask", question.approval_rules().to_vec()),
            Verdict::Denial(denial) => {
                let refusal = denial.refusal();
                assert_eq!(
                    denial.rules().last(),
                    refusal.rule.as_ref(),
                    "the last rule is the one that denied"
                );
                VerdictSummary {
                    verdict: format!("{} {}", refusal.code, refusal.detail.as_deref().unwrap_or_default()),
                    reason: refusal.reason.clone(),
                    hint: refusal.hint.clone().unwrap_or_default(),
                    rules: denial.rules().to_vec(),
                    retryable: refusal.retryable,
                }
            }
        }
    }

    /// Checks the file, line and id of the deciding rule.
    #[track_caller]
    pub(crate) fn decided_by(&self, file: &str, line: u64, id: &str) -> &Self {
        let rule = self.rules.last().unwrap();
        assert!(rule.file.ends_with(file), "{rule:?}");
        assert_eq!((rule.line, &*rule.id), (line, id), "{rule:?}");
        self
    }

    #[track_caller]
    pub(crate) fn has_reason(&self, reason: &str) -> &Self {
        assert_eq!(self.reason, reason);
        self
    }

    #[track_caller]
    pub(crate) fn has_hint(&self, words: &str) -> &Self {
        assert!(self.hint.contains(words), "{}", self.hint);
        self
    }
}

/// Returns the definition of a test tool.
pub(crate) fn definition(name: &str) -> ToolDefinition {
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
        "run" => {
            let argv = json!({"type": "array", "format": "command", "items": {"type": "string"}});
            let line = json!({"type": "string", "format": "command"});
            (Category::SYSTEM_WRITE, RiskLevel::Medium, json!({"argv": argv, "line": line}))
        }
        "fetch" => {
            let url = json!({"type": "string", "format": "uri"});
            let urls = json!({"type": "array", "items": url});
            (Category::NETWORK, RiskLevel::Medium, json!({"url": url, "urls": urls}))
        }
        "remove_file" => {
            let gone = json!({"type": "string", "format": "path", "x-sinew-access": "remove"});
            (Category::SYSTEM_WRITE, RiskLevel::High, json!({"path": gone}))
        }
        // Their arguments, and not their category, show that they write, run a program or access the network.
        "note" => {
            let written = json!({"type": "string", "format": "path", "x-sinew-access": "write"});
            (Category::READ_ONLY, RiskLevel::Low, json!({"path": written}))
        }
        "probe" => {
            (Category::READ_ONLY, RiskLevel::Low, json!({"line": {"type": "string", "format": "command"}}))
        }
        "peek" => (Category::READ_ONLY, RiskLevel::Low, json!({"url": {"type": "string", "format": "uri"}})),
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

pub(crate) fn valid_call(name: &str, arguments: Value) -> ValidCall {
    let definition = Arc::new(definition(name));
    let schema = InputSchema::compile(definition.input_schema()).unwrap();
    guardrail::check(&definition, &schema, arguments).unwrap()
}

/// `tools.yaml` without an entry for any tool.
pub(crate) const NO_TOOL_ENTRIES: &str = "tools: {}\n";
