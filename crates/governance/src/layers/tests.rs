//! Layers of the policy files: what a user's file changes, where its errors are, and that the shipped files
//! mean what they meant before they used sets.

use std::path::Path;
use std::sync::Arc;

use guardrail::{InputSchema, KnownTool};
use serde_json::{Value, json};
use tool::{Category, Mode, RiskLevel, ToolDefinition, ToolName, ToolSpec};

use super::*;
use crate::Policy;
use crate::dry_run::dry_run_workspaces;
use crate::policy_environment::{NameComparison, PathVariables, PolicyEnvironment, ProtectedFolders};

fn environment() -> PolicyEnvironment {
    PolicyEnvironment {
        variables: PathVariables::with_home(Path::new("/home/ada")),
        protected: ProtectedFolders::default(),
        name_comparison: NameComparison::CaseSensitive,
    }
}

fn with_tools(text: &str) -> Result<Policy, PolicyError> {
    let tools = Some(Document::from_text("tools.yaml", text).unwrap());
    Policy::from_user_files(UserFiles { tools, ..UserFiles::default() }, LayerDefault::Extend, &environment())
}

fn tool_definition(name: &str, category: Category) -> Arc<ToolDefinition> {
    let risk = if category == Category::SYSTEM_WRITE { RiskLevel::High } else { RiskLevel::Low };
    let mut spec = ToolSpec::new(name, "a test tool", category, risk);
    spec.requires_sandbox = name.starts_with("run_") || name.starts_with("git_");
    let path = json!({"type": "string", "format": "path"});
    let argv = json!({"type": "array", "format": "command", "items": {"type": "string"}});
    let url = json!({"type": "string", "format": "uri"});
    let properties = json!({"path": path, "command": argv, "url": url});
    spec.input_schema = Some(json!({"type": "object", "properties": properties}));
    Arc::new(spec.check().unwrap())
}

fn verdict(policy: &Policy, tool: &str, arguments: Value, mode: Mode) -> String {
    let tool = tool_definition(tool, Category::SYSTEM_WRITE);
    let Value::Object(arguments) = arguments else { panic!() };
    policy.dry_run_arguments(&tool, &arguments, mode, &dry_run_workspaces()).unwrap().summary()
}

#[test]
fn user_file_changes_only_what_it_names() {
    let policy =
        with_tools("tools:\n  run_command:\n    allowed_commands: {add: [cargo], remove: [jq]}\n").unwrap();
    let sandbox = Some(crate::files::Isolation::Full);
    let policy = policy.with_isolation(sandbox);
    let run = |program: &str| verdict(&policy, "run_command", json!({"command": [program]}), Mode::Normal);
    assert_eq!((run("cargo"), run("ls")), ("allow".into(), "allow".into()));
    assert!(run("jq").starts_with("deny") && run("git").starts_with("deny"), "{} {}", run("jq"), run("git"));
    let entry = &policy.tools[&ToolName::new("run_command").unwrap()];
    assert_eq!(
        (entry.confinement.memory_mb, entry.timeout.map(|time| time.as_secs())),
        (Some(2048), Some(120))
    );
    assert!(policy.tools.contains_key(&ToolName::new("fetch_url").unwrap()));
}

#[test]
fn rules_name_the_layer_they_come_from() {
    let policy = with_tools("tools:\n  write_file:\n    forbidden_paths: {add: [$HOME/x]}\n").unwrap();
    let entry = &policy.tools[&ToolName::new("write_file").unwrap()];
    let place = |text: &str| {
        let found = entry.forbidden_paths.patterns().iter().find(|one| one.text == text).unwrap();
        (found.rule.file.to_string(), found.rule.line)
    };
    assert_eq!(place("$HOME/x"), ("tools.yaml".to_owned(), 3));
    let (file, line) = place("/usr");
    assert_eq!(file, "built-in/tools.yaml");
    let written = PolicyFile::Tools.built_in_text().lines().nth(line as usize - 1).unwrap();
    assert!(
        written.trim_start().starts_with("system:"),
        "an item of a set has the line of the set: {written}"
    );
}

#[test]
fn extends_none_replaces_the_file() {
    let policy = with_tools("extends: none\ntools:\n  read_file: {}\n").unwrap();
    assert_eq!(policy.tools.len(), 1);
    let error = with_tools("extends: nothing\ntools: {}\n").unwrap_err().to_string();
    assert!(error.contains("tools.yaml:1:10") && error.contains("`none` or `built_in`"), "{error}");
}

#[track_caller]
fn check_error(text: &str, place: &str, words: &[&str]) {
    let error = with_tools(text).map(drop).unwrap_err().to_string();
    assert!(error.contains(place) && words.iter().all(|word| error.contains(word)), "{text}\n{error}");
}

#[test]
fn change_that_cannot_apply_is_an_error() {
    check_error(
        "tools: {run_command: {allowed_commands: {remove: [sed]}}}\n",
        "tools.yaml:1:51",
        &["`sed` is not in the list below", "config show --effective"],
    );
    check_error(
        "tools: {write_file: {allowed_paths: {add: [/x/**]}}}\n",
        "tools.yaml:1:37",
        &["no list `allowed_paths`", "workspaces", "write the whole list"],
    );
    check_error(
        "tools: {write_file: {forbidden_paths: [\"@sytem\"]}}\n",
        "tools.yaml:1:40",
        &["no set `sytem` in `path_sets`", "did you mean `@system`?"],
    );
    check_error("path_sets: {a: [/x], b: [\"@a\"]}\n", "tools.yaml:1:26", &["cannot contain another set"]);
    check_error("tools: {write_file: {forbiden_paths: []}}\n", "tools.yaml:1:22", &["did you mean"]);
}

#[test]
fn user_can_define_and_extend_sets() {
    let text = "path_sets:\n  system: {add: [/opt]}\n  mine: [$HOME/private]\n\
                tools:\n  read_file: {forbidden_paths: [\"@mine\"]}\n";
    let policy = with_tools(text).unwrap();
    let forbidden = |tool: &str, pattern: &str| {
        let entry = &policy.tools[&ToolName::new(tool).unwrap()];
        entry.forbidden_paths.patterns().iter().any(|one| one.text == pattern)
    };
    assert!(forbidden("read_file", "$HOME/private") && !forbidden("write_file", "$HOME/private"));
    assert!(forbidden("write_file", "/opt") && forbidden("delete_file", "/opt"));
}

#[test]
fn command_and_host_sets_hold_in_every_list_of_their_kind() {
    let text = "command_sets:\n  builders: [make, {argv: [npm, test]}]\n  readers: {add: [tree]}\n\
                host_sets:\n  docs: [docs.rs, \"*.python.org\"]\n\
                tools:\n  run_command: {allowed_commands: {add: [\"@builders\"]}, forbidden_commands: [curl]}\n  \
                fetch_url: {allowed_domains: [\"@docs\"]}\n";
    let policy = with_tools(text).unwrap().with_isolation(Some(crate::files::Isolation::Full));
    let run = |words: Value| verdict(&policy, "run_command", json!({"command": words}), Mode::Normal);
    for words in [json!(["make"]), json!(["npm", "test"]), json!(["tree"]), json!(["ls"])] {
        assert_eq!(run(words.clone()), "allow", "{words}");
    }
    assert!(run(json!(["npm", "install"])).starts_with("deny"));
    let fetch = |url: &str| verdict(&policy, "fetch_url", json!({"url": url}), Mode::Normal);
    assert_eq!(
        (fetch("https://docs.rs/"), fetch("https://docs.python.org/")),
        ("allow".into(), "allow".into())
    );
    assert!(fetch("https://example.org/").starts_with("deny"));
}

#[test]
fn shipped_examples_do_not_block_an_edit() {
    // The built-in example expects that `git status` is denied.
    let text = "tools:\n  run_command:\n    allowed_commands: {add: [git]}\n";
    let policy = with_tools(text).unwrap();
    assert!(policy.tools.values().all(|tool| tool.examples.is_empty()));
    let own = format!(
        "{text}    examples:\n      - {{arguments: {{command: [git, push]}}, mode: NORMAL, expect: deny}}\n"
    );
    assert_eq!(with_tools(&own).unwrap().tools[&ToolName::new("run_command").unwrap()].examples.len(), 1);
    let copied = PolicyFile::Tools.built_in_text();
    let whole = with_tools(&format!("{copied}\nextends: none\n")).unwrap();
    assert!(
        whole.tools.values().all(|tool| tool.examples.is_empty()),
        "a written-out file has the shipped ones"
    );
    assert!(!Policy::embedded(&environment()).unwrap().tools.values().all(|tool| tool.examples.is_empty()));
}

#[test]
fn shipped_tools_file_stays_short() {
    assert!(PolicyFile::Tools.built_in_text().lines().count() <= 250);
}

/// Source of random calls.
struct CallRng(u64);

impl CallRng {
    fn pick<'t, T>(&mut self, from: &'t [T]) -> &'t T {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        &from[((self.0 >> 33) % from.len() as u64) as usize]
    }

    fn arguments(&mut self, folders: &[String]) -> serde_json::Map<String, Value> {
        let names =
            ["", "/a", "/.env", "/.env.x/y", "/id_rsa", "/x/id_rsa.pub", "/.git/hooks/z", "/../w", "x"];
        let programs = ["ls", "jq", "true", "git", "sudo", "/bin/cat", "./ls", "python3", "sort"];
        let urls =
            ["https://example.org/", "http://x.onion/", "http://127.0.0.1/", "ftp://a.b/", "https://a.b.c/"];
        let mut all = serde_json::Map::new();
        let path = format!("{}{}", self.pick(folders), self.pick(&names));
        for (key, value) in [
            ("path", json!(path)),
            ("command", json!([self.pick(&programs), "x"])),
            ("url", json!(self.pick(&urls))),
        ] {
            if *self.pick(&[true, false, key == "path"]) {
                all.insert(key.to_owned(), value);
            }
        }
        all
    }
}

/// Judges random calls by the file that shipped before sets and by the one that ships now. `SINEW_POLICY_CALLS`
/// sets their number; a million takes minutes without optimisation.
#[test]
fn sets_do_not_change_any_verdict() {
    let before = include_str!("../../tests/fixtures/tools-before-sets.yaml");
    let before = with_tools(&format!("{before}\nextends: none\n")).unwrap();
    let now = Policy::embedded(&environment()).unwrap();
    let [before, now] = [before, now].map(|one| one.with_isolation(Some(crate::files::Isolation::Full)));
    let names = before.tools.keys().map(|name| name.as_str().to_owned()).chain(["unlisted".to_owned()]);
    let tools: Vec<_> = names
        .flat_map(|name| {
            [Category::READ_ONLY, Category::SYSTEM_WRITE, Category::NETWORK]
                .map(|kind| tool_definition(&name, kind))
        })
        .map(|tool| (InputSchema::compile(tool.input_schema()).unwrap(), tool))
        .collect();
    // Every folder that either file names, and some that none does.
    let mut folders: Vec<String> =
        ["/workspace", "/workspace/src", "/tmp", "/home/ada", "/var/log", "rel"].map(str::to_owned).to_vec();
    for tool in before.tools.values().chain(now.tools.values()) {
        let written = tool.forbidden_paths.patterns().iter();
        folders
            .extend(written.map(|one| one.text.replace("$HOME", "/home/ada").replace("**/", "/workspace/")));
    }
    folders.sort();
    folders.dedup();
    let count = std::env::var("SINEW_POLICY_CALLS").ok().and_then(|text| text.parse().ok()).unwrap_or(20_000);
    let (mut dice, workspaces) = (CallRng(25), dry_run_workspaces());
    let mut verdicts = std::collections::BTreeMap::<String, usize>::new();
    for _ in 0..count {
        let (schema, tool) = dice.pick(&tools);
        let (arguments, mode) = (dice.arguments(&folders), *dice.pick(&Mode::ALL));
        let judge = |policy: &Policy| {
            let known = KnownTool { definition: tool, schema };
            let found = policy.dry_run_with_schema(known, &arguments, mode, &workspaces);
            found.map(|found| {
                let refusal = found.refusal.map(|refusal| (refusal.code, refusal.detail));
                let rules: Vec<_> = found.approval_rules.iter().map(|rule| rule.id.clone()).collect();
                (found.verdict, refusal, rules)
            })
        };
        let (old, new) = (judge(&before), judge(&now));
        *verdicts.entry(format!("{:?}", new.as_ref().map(|found| found.0))).or_default() += 1;
        assert_eq!(old, new, "{} {arguments:?} in {mode}", tool.name());
    }
    assert!(verdicts.len() >= 3, "calls of every kind: {verdicts:?}");
}

#[test]
fn list_that_replaces_the_credentials_is_warned_about() {
    let check = |text: &str, expect: Option<u64>| {
        let found = with_tools(text).unwrap();
        let warning = found.warnings().iter().find(|one| one.message.contains("keys and credentials"));
        assert_eq!(warning.map(|one| one.line), expect, "{text}");
        let fix = warning.and_then(|one| one.suggestion.clone()).unwrap_or_default();
        assert_eq!(fix.contains("{add: [...]}"), expect.is_some(), "{fix}");
    };
    check("tools: {}\nforbidden_paths: [/srv/private]\n", Some(2));
    check("tools: {}\nforbidden_paths: {add: [/srv/private]}\n", None);
    let sets = "\"@credentials\", \"@project_secrets\", \"@system_secrets\"";
    check(&format!("tools: {{}}\nforbidden_paths: [/srv/private, {sets}]\n"), None);
    check("extends: none\ntools: {}\nforbidden_paths: [/srv/private]\n", None);
}
