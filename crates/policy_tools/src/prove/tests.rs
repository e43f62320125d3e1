//! Tests of the prover: against exhaustive judgement on small random policies, and on stated examples.

mod random_policy;

use std::path::Path;
use std::sync::Arc;

use governance::dry_run::dry_run;
use governance::files::VerdictKind;
use governance::policy_environment::{NameComparison, PathVariables, PolicyEnvironment, ProtectedFolders};
use governance::suggested_change::PolicyFile;
use governance::{Policy, RateCounts, Situation, Workspace, WorkspaceAccess, Workspaces};
use serde_json::{Value, json};
use tool::{Category, Mode, RiskLevel, ToolDefinition, ToolSpec};

use self::random_policy::{RandomPolicy, Rng};
use super::*;
use crate::compare::PolicyEffect;
use crate::judge_tests::{self, complete_safety_file, valid_call, whole_tools};

fn environment() -> PolicyEnvironment {
    PolicyEnvironment {
        variables: PathVariables::with_home(Path::new("/h")),
        protected: ProtectedFolders { folders: vec!["/h/.sinew".into()] },
        name_comparison: NameComparison::CaseSensitive,
    }
}

/// Builds a policy that replaces the built-in one.
fn policy(tools: &str, safety: &str) -> Policy {
    let environment = environment();
    let texts = [
        (PolicyFile::Modes, "modes: {NORMAL: {}}\n".to_owned()),
        (PolicyFile::Tools, whole_tools(tools)),
        (PolicyFile::Safety, complete_safety_file(safety)),
    ];
    texts.iter().fold(Policy::embedded(&environment).unwrap(), |policy, (file, text)| {
        let text = format!("extends: none\n{text}");
        policy
            .with_user_text(*file, &text, &environment)
            .unwrap_or_else(|error| panic!("{error}\n{text}"))
    })
}

fn workspaces(list: &[(&str, WorkspaceAccess)]) -> Workspaces {
    Workspaces::new(list.iter().map(|(root, access)| Workspace::hypothetical(root, *access)).collect())
}

fn one_workspace() -> Workspaces {
    workspaces(&[("/w", WorkspaceAccess::ReadWrite)])
}

fn question(text: &str) -> Question {
    Question::parse(&[text.to_owned()], Path::new("/"), &environment().variables)
        .unwrap_or_else(|error| panic!("{text}: {error:?}"))
}

fn definitions(names: &[&str]) -> Vec<Arc<ToolDefinition>> {
    names.iter().map(|name| Arc::new(judge_tests::definition(name))).collect()
}

/// A sandboxed tool that starts programs, which the shared fixture does not have.
fn sandboxed_runner() -> Arc<ToolDefinition> {
    let mut spec = ToolSpec::new("runner", "a test tool", Category::SYSTEM_WRITE, RiskLevel::High);
    let argv = json!({"type": "array", "format": "command", "items": {"type": "string"}});
    spec.input_schema = Some(json!({"type": "object", "properties": {"argv": argv}, "required": ["argv"]}));
    spec.requires_sandbox = true;
    Arc::new(spec.check().unwrap())
}

fn answer(policy: &Policy, folders: &Workspaces, tools: &[Arc<ToolDefinition>], text: &str) -> Proof {
    let context = ProofContext { policy, definitions: tools, workspaces: folders, services: &[] };
    prove(&context, &question(text))
}

/// Checks the witnesses: tool, mode, verdict and arguments of each.
#[track_caller]
fn check(tools: &str, text: &str, expect: &[&str]) {
    let policy = policy(tools, "outbound_gateway: {allowed_domains: [\"*\"]}\n");
    let definitions = definitions(&["read_file", "write_file", "remove_file", "run", "fetch", "search"]);
    let proof = answer(&policy, &one_workspace(), &definitions, text);
    assert_eq!(proof.undecided, [], "{text}");
    let shown: Vec<String> = proof.witnesses.iter().map(shown).collect();
    assert_eq!(shown, expect, "{text}\n{tools}");
}

fn shown(witness: &Witness) -> String {
    let effect = witness.effect.as_ref().map(|effect| format!(" ({effect})")).unwrap_or_default();
    format!("{} {} {} {}{effect}", witness.verdict, witness.tool, witness.mode, witness.arguments)
}

#[test]
fn paths_that_only_one_name_can_take_are_found() {
    let tools = |write: &str| {
        format!(
            "tools:\n  write_file: {{allowed_in_modes: [NORMAL], {write}}}\n  remove_file: {{allowed_in_modes: []}}\n"
        )
    };
    let plain = r#"allow write_file NORMAL {"path":"/w/src"}"#;
    check(&tools("allowed_paths: [/w/src/**]"), "write below /w", &[plain]);
    check(&tools("allowed_paths: [/w/src/**]"), "write below /w/docs", &[]);
    check(
        &tools("allowed_paths: [\"/w/[ab]\"], forbidden_paths: [/w/a]"),
        "write below /w",
        &[r#"allow write_file NORMAL {"path":"/w/b"}"#],
    );
    check(&tools("allowed_paths: [\"/w/[ab]\"], forbidden_paths: [/w/a, \"/*/b\"]"), "write below /w", &[]);
    // Everything below a forbidden name is forbidden too.
    check(&tools("allowed_paths: [\"/w/**\"], forbidden_paths: [\"**/x*\"]"), "write below /w/xa/b", &[]);
    check(&tools("allowed_paths: [\"/w/**\"]"), "write below /w/.git", &[]);
    check(
        &tools("allowed_paths: [\"/w/**\"]"),
        "write below '/w/**/*.pem'",
        &[r#"allow write_file NORMAL {"path":"/w/.pem"}"#],
    );
    check(&tools("allowed_paths: [\"/w/**\"]"), "write below '/**/.ssh'", &[]);
    check(&tools(""), "write below /h/.sinew", &[]);
}

#[test]
fn approvals_and_unattended_paths_are_told_apart() {
    let tools = "tools:\n  write_file: {allowed_in_modes: [NORMAL], requires_approval: true, unattended_paths: [/w/s/**]}\n  remove_file: {allowed_in_modes: []}\n";
    let (ask, allow) = (
        r#"ask write_file NORMAL {"path":"/w"}"#,
        r#"allow write_file NORMAL {"path":"/w/s"}"#,
    );
    check(tools, "write below /w", &[allow]);
    check(tools, "write below /w with human", &[ask]);
    check(tools, "write below /w without human", &[allow]);
    check(tools, "write below /w/other without human", &[]);
    check(tools, "write below /w in alert", &[]);
    check(tools, "write below /w by run", &[]);
}

#[test]
fn commands_beside_forbidden_ones_are_found() {
    let tools = "tools:\n  run: {allowed_in_modes: [NORMAL], allowed_commands: [ls, {argv: [git, [push, log]]}], forbidden_commands: [{argv: [git, push]}]}\n";
    check(tools, "run git", &[r#"allow run NORMAL {"argv":["git","log"]}"#]);
    check(tools, "run git push", &[]);
    check(tools, "run ls -l", &[r#"allow run NORMAL {"argv":["ls","-l"]}"#]);
    check(tools, "run rm", &[]);
    let any = "tools:\n  run: {allowed_in_modes: [NORMAL], allowed_commands: [\"*\"], forbidden_commands: [rm, {argv: [ls], exact: true}]}\n";
    check(any, "run rm", &[]);
    check(any, "run ls", &[r#"allow run NORMAL {"argv":["ls","x"]}"#]);
    let exact = "tools:\n  run: {allowed_in_modes: [NORMAL], allowed_commands: [{argv: [python3, --version], exact: true}]}\n";
    check(exact, "run python3 --version x", &[]);
    check(exact, "run python3", &[r#"allow run NORMAL {"argv":["python3","--version"]}"#]);
}

#[test]
fn hosts_beside_blocked_ones_are_found() {
    let tools = "tools:\n  fetch: {allowed_in_modes: [NORMAL], allowed_domains: [a.org, \"*.b.org\"]}\n  search: {allowed_in_modes: []}\n";
    check(tools, "reach a.org", &[r#"allow fetch NORMAL {"url":"https://a.org/"}"#]);
    check(tools, "reach b.org", &[]);
    check(tools, "reach '*.b.org'", &[r#"allow fetch NORMAL {"url":"https://x.b.org/"}"#]);
    check(tools, "reach 127.0.0.1", &[]);
    check(tools, "reach '*.c.org'", &[]);
}

#[test]
fn programs_count_with_what_their_sandbox_opens() {
    let tools = "tools:\n  runner: {allowed_in_modes: [NORMAL], allowed_commands: [make], forbidden_paths: [/w/keys]}\n";
    let policy = policy(tools, "").with_isolation(Some(governance::files::Isolation::Full));
    let folders = workspaces(&[("/w", WorkspaceAccess::ReadWrite), ("/r", WorkspaceAccess::ReadOnly)]);
    let ask = |text: &str| {
        let proof = answer(&policy, &folders, &[sandboxed_runner()], text);
        assert_eq!(proof.undecided, [], "{text}");
        proof.witnesses.iter().map(shown).collect::<Vec<_>>()
    };
    let makes = |effect: &str| vec![format!(r#"allow runner NORMAL {{"argv":["make"]}} (its program may {effect})"#)];
    assert_eq!(ask("write below /w/src"), makes("change /w/src"));
    assert_eq!(ask("read below /etc"), makes("read /etc"));
    assert_eq!(ask("read /r/x"), makes("read /r/x"));
    for none in ["write below /r", "write below /etc", "read below /w/keys", "write below /w/.vscode", "read below /h"] {
        assert_eq!(ask(none), Vec::<String>::new(), "{none}");
    }
    assert_eq!(ask("reach a.org"), Vec::<String>::new());
}

/// The number of policies for a test: few, or what `cargo xtask soak` asks for.
fn rounds(few: u64) -> (u64, u64) {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    (number("SINEW_PROVE_SEED").unwrap_or(1), number("SINEW_PROVE_POLICIES").unwrap_or(few))
}

/// Judges a call of the universe as the prover assumes it.
fn judged(policy: &Policy, folders: &Workspaces, mode: Mode, tool: &str, arguments: &Value) -> VerdictKind {
    let folders = folders.with_base(Some(Path::new("/")));
    let situation = Situation { mode, workspaces: &folders, counts: RateCounts::default() };
    dry_run(policy, &situation, &valid_call(tool, arguments.clone())).verdict
}

/// For each random policy and question: the prover finds a witness in a mode if exhaustive judgement finds one in a
/// small universe, and the judge confirms each witness.
#[test]
fn prover_equals_exhaustive_judgement() {
    let (seed, count) = rounds(1_500);
    let (mut found, mut none) = (0, 0);
    for number in 0..count {
        let mut rng = Rng::new(seed, number);
        let random = RandomPolicy::new(&mut rng);
        let (policy, folders) = (policy(&random.tools, &random.safety), random.workspaces());
        let (tool, text) = (random.tool, random.question.clone());
        let proof = answer(&policy, &folders, &definitions(&[tool]), &text);
        let context = format!("seed {seed}, policy {number}: {text}\n{}\n{}", random.tools, random.safety);
        assert_eq!(proof.undecided, [], "{context}");
        for witness in &proof.witnesses {
            let verdict = judged(&policy, &folders, witness.mode, tool, &witness.arguments);
            assert_eq!(verdict, witness.verdict, "{context}\n{witness:?}");
        }
        for mode in [Mode::Normal, Mode::Alert] {
            let verdicts = random.universe().map(|call| (judged(&policy, &folders, mode, tool, &call), call));
            let possible = verdicts.filter(|(verdict, _)| *verdict != VerdictKind::Deny);
            let best = possible.max_by_key(|(verdict, _)| *verdict == VerdictKind::Allow);
            let proven = proof.witnesses.iter().find(|witness| witness.mode == mode);
            match (best, proven) {
                (None, None) => none += 1,
                (None, Some(_)) => found += 1,
                (Some((verdict, call)), proven) => {
                    let proven = proven.unwrap_or_else(|| panic!("{context}\nmissed {call} in {mode}"));
                    let is_as_good = proven.verdict == verdict || proven.verdict == VerdictKind::Allow;
                    assert!(is_as_good, "{context}\n{call} in {mode}: {verdict}, but {proven:?}");
                    found += 1;
                }
            }
        }
    }
    assert!(found > count / 4 && none > count / 4, "{found} witnesses, {none} proofs of absence");
}

/// A difference between two random policies has a call as its witness if exhaustive judgement finds one, and the
/// comparison of rules, by which a reload is accepted, reports a loosening for each call that becomes possible.
#[test]
fn diff_agrees_with_the_judge_and_with_the_comparison() {
    let (seed, count) = rounds(400);
    let rank = |verdict: VerdictKind| match verdict {
        VerdictKind::Deny => 0,
        VerdictKind::Ask => 1,
        VerdictKind::Allow => 2,
    };
    let (mut loosened, mut tightened) = (0, 0);
    for number in 0..count {
        let mut rng = Rng::new(seed ^ 0x5eed, number);
        let random = RandomPolicy::new(&mut rng);
        let other = random.variant(&mut rng);
        let (before, after) =
            (policy(&random.tools, &random.safety), policy(&other.tools, &other.safety));
        let (tool, folders) = (random.tool, random.workspaces());
        let diff = diff_policies((&before, &after), &definitions(&[tool]), &folders);
        let context = format!("seed {seed}, pair {number}\n{}\n{}", random.tools, other.tools);
        assert_eq!(diff.undecided, [], "{context}");
        let rules = |effect| diff.differences.iter().any(|one| one.effect == effect);
        for change in &diff.changes {
            let verdict = |policy| judged(policy, &folders, change.mode, tool, &change.arguments);
            let (old, new) = (verdict(&before), verdict(&after));
            assert_eq!((old.to_string(), new.to_string()), (change.before.clone(), change.after.clone()), "{context}");
            match change.effect {
                PolicyEffect::Loosens => {
                    assert!(rank(new) > rank(old), "{context}");
                    assert!(rules(PolicyEffect::Loosens), "{context}\n{change:?}\n{:?}", diff.differences);
                    loosened += 1;
                }
                PolicyEffect::Tightens | PolicyEffect::Neutral => {
                    assert!(rank(new) < rank(old), "{context}");
                    assert!(!diff.differences.is_empty(), "{context}\n{change:?}");
                    tightened += 1;
                }
            }
        }
        for mode in [Mode::Normal, Mode::Alert] {
            for call in random.universe() {
                let verdict = |policy| judged(policy, &folders, mode, tool, &call);
                let (old, new) = (verdict(&before), verdict(&after));
                let is_known = |one: &VerdictChange| {
                    one.mode == mode && (&one.before, &one.after) == (&old.to_string(), &new.to_string())
                };
                assert!(old == new || diff.changes.iter().any(is_known), "{context}\nmissed {call} in {mode}");
            }
        }
    }
    assert!(loosened > count / 8 && tightened > count / 8, "{loosened} {tightened}");
}
