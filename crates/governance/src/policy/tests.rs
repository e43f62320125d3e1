//! Loading of policy files: valid files, invalid files, and the locations in the report.

mod schemas;

use std::fs;
use std::os::unix::fs::PermissionsExt;

use tool::{RiskLevel, ToolSpec};

use super::*;
use crate::judge_tests::complete_safety_file;
use crate::policy_environment::{NameComparison, PathVariables, ProtectedFolders};

fn environment() -> PolicyEnvironment {
    PolicyEnvironment {
        variables: PathVariables::with_home(Path::new("/home/ada")),
        protected: ProtectedFolders::default(),
        name_comparison: NameComparison::CaseSensitive,
    }
}

const MODES_TEXT: &str = "modes: {NORMAL: {}}\n";
const TOOLS_TEXT: &str = "tools: {}\n";
const SAFETY_TEXT: &str = "content_filtering: {}\nrate_limits: {}\nhuman_approval: {}\n";

fn load(modes: &str, tools: &str, safety: &str) -> Result<Policy, PolicyError> {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [("modes.yaml", modes), ("tools.yaml", tools), ("safety.yaml", safety)] {
        fs::write(folder.path().join(name), text).unwrap();
    }
    Policy::load_with(folder.path(), LayerDefault::Replace, &environment())
}

fn load_one(file: &str, text: &str) -> Result<Policy, PolicyError> {
    let pick = |name, usual| if file == name { text } else { usual };
    let safety = match file {
        "safety.yaml" if text.contains(": ") => complete_safety_file(text),
        _ => pick("safety.yaml", SAFETY_TEXT).to_owned(),
    };
    load(pick("modes.yaml", MODES_TEXT), pick("tools.yaml", TOOLS_TEXT), &safety)
}

/// Checks that the file does not load, and the location, message and suggestion of the report.
#[track_caller]
fn check(file: &str, text: &str, place: (u64, u64), message: &str, help: &str) {
    let error = load_one(file, text).map(|_| ()).expect_err(text);
    let [problem] = error.problems() else { panic!("{text}\nexpected one problem:\n{error}") };
    assert!(problem.file.ends_with(file), "{problem}");
    assert!(problem.message.contains(message), "{text}\n{problem}");
    assert!(problem.suggestion.as_deref().unwrap_or_default().contains(help), "{text}\n{problem}");
    assert_eq!((problem.line, problem.column), place, "{text}\n{problem}");
}

#[test]
fn shipped_files_load_without_warnings() {
    let policy = Policy::embedded(&environment()).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(policy.warnings(), []);
    assert_eq!(policy.hash().len(), 64);
    assert_eq!(policy.max_concurrent_tasks(Mode::Normal), Some(64));
    assert_eq!(policy.approval_timeout().as_secs(), 300);
    for mode in Mode::ALL {
        assert!(policy.max_concurrent_tasks(mode).is_some_and(|most| most > 0), "{mode}");
        assert!(policy.safety.calls_per_minute.get(mode).is_some(), "{mode}");
    }
}

#[test]
fn documented_snippets_load_unchanged() {
    let seed = r#"tools:
  write_file:
    category: "system_write"
    allowed_in_modes: ["NORMAL"]
    requires_approval_in_modes: ["ALERT", "DEGRADED", "RECOVERY"]
    forbidden_in_modes: ["LOCKDOWN"]
    allowed_paths:
      - "$HOME/Dev/personal_agent/**"
      - "$HOME/Documents/agent_workspace/**"
    forbidden_paths:
      - "/System/**"
      - "/Library/**"
      - "$HOME/.ssh/**"
    max_file_size_mb: 10
"#;
    let policy = load_one("tools.yaml", seed).unwrap_or_else(|error| panic!("{error}"));
    let name = ToolName::new("write_file").unwrap();
    let rules = &policy.tools[&name];
    assert_eq!(rules.max_file_bytes.as_ref().map(|(most, rule)| (*most, rule.line)), Some((10 << 20, 14)));
    let modes = include_str!("../../tests/snippets/modes.yaml");
    let tools = include_str!("../../tests/snippets/tools.yaml");
    let safety = include_str!("../../tests/snippets/safety.yaml");
    let policy = load(modes, tools, safety).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(policy.warnings(), []);
    assert_eq!(policy.files().safety.sessions.hop_budget, Some(2));
    assert_eq!(policy.files().tools.tools.iter().count(), 1);
}

#[test]
fn missing_safety_sections_are_reported() {
    let missing = |text: &str| match load(MODES_TEXT, TOOLS_TEXT, text) {
        Ok(_) => Vec::new(),
        Err(error) => error.problems().iter().map(ToString::to_string).collect(),
    };
    let all = missing("{}\n");
    assert_eq!(all.len(), 3, "{all:?}");
    for section in ["content_filtering", "rate_limits", "human_approval"] {
        let without: String =
            SAFETY_TEXT.lines().filter(|line| !line.starts_with(section)).collect::<Vec<_>>().join("\n");
        let [problem] = missing(&without).try_into().unwrap_or_else(|all| panic!("{all:?}"));
        for words in
            ["safety.yaml:1:1", &format!("the section `{section}` is missing"), &format!("`{section}: {{")]
        {
            assert!(problem.contains(words), "{problem}");
        }
    }
    assert_eq!(missing(SAFETY_TEXT), Vec::<String>::new());
}

#[test]
fn policy_files_are_strict_yaml() {
    check("tools.yaml", "", (1, 1), "the file is empty", "");
    check("safety.yaml", "# nothing\n", (1, 1), "the file is empty", "");
    check("modes.yaml", "modes:\n", (1, 6), "`modes` has no value", "");
    check("tools.yaml", "tools:\n  a: {}\n  b: {}\n  a: {}\n", (4, 3), "`a` occurs twice", "");
    check("tools.yaml", "tools: {}\n---\ntools: {}\n", (2, 1), "second document", "");
    check("tools.yaml", "tools: !!map {}\n", (1, 8), "tags", "");
    check("tools.yaml", "a: &a [x]\ntools: *a\n", (1, 7), "anchors", "");
    check(
        "tools.yaml",
        "tools:\n  a:\n    forbiden_paths: [/x]\n",
        (3, 5),
        "unknown key `forbiden_paths`",
        "`forbidden_paths`",
    );
    check("tools.yaml", "tools:\n  a:\n    allowed_paths: /x\n", (3, 20), "expected", "");
    check(
        "tools.yaml",
        "tools:\n  a:\n    network: on\n",
        (3, 14),
        "unknown word `on`",
        "off, loopback, full",
    );
    check("tools.yaml", "tool_categories: {}\n", (1, 1), "`tools` is missing", "");
    check(
        "modes.yaml",
        "modes: {NORMAL: {background_monitoring_enabled: yes}}\n",
        (1, 49),
        "`true` or `false`",
        "",
    );
    check(
        "safety.yaml",
        "sessions: {cost_cap: {mode: loud}}\n",
        (1, 29),
        "unknown word `loud`",
        "warn, enforce, off",
    );
    check("tools.yaml", "tools:\n  a:\n    rate_limit_per_hour: -1\n", (3, 26), "", "");
    check(
        "tools.yaml",
        "tools:\n  a:\n    allowed_commands: [{arv: [x]}]\n",
        (3, 25),
        "unknown key `arv`",
        "`argv`",
    );
}

#[test]
fn unknown_words_are_located_and_explained() {
    check(
        "tools.yaml",
        "tools:\n  a:\n    allowed_in_modes: [NORMAL, NORMALL]\n",
        (3, 32),
        "unknown mode `NORMALL`",
        "`NORMAL`",
    );
    check(
        "tools.yaml",
        "tools:\n  a:\n    forbidden_in_modes:\n      - Safe\n",
        (4, 9),
        "unknown mode `Safe`",
        "the modes are",
    );
    check("modes.yaml", "modes:\n  LOCKDWN: {}\n", (2, 3), "unknown mode `LOCKDWN`", "`LOCKDOWN`");
    check("safety.yaml", "rate_limits: {normal: {}}\n", (1, 15), "unknown mode `normal`", "`NORMAL`");
    check(
        "tools.yaml",
        "tools:\n  a: {category: sytem_write}\n",
        (2, 17),
        "unknown category `sytem_write`",
        "`system_write`",
    );
    check(
        "modes.yaml",
        "modes: {NORMAL: {allowed_tool_categories: [essential]}}\n",
        (1, 44),
        "unknown category",
        "tool_categories",
    );
    check("tools.yaml", "tool_categories: {Bad-Name: {}}\ntools: {}\n", (1, 19), "not a category name", "");
    check("tools.yaml", "tools:\n  \"bad name\": {}\n", (2, 3), "not a tool name", "");
    check("tools.yaml", "tools:\n  read_file: {}\n  Read_File: {}\n", (3, 3), "defined twice", "merge");
    check(
        "tools.yaml",
        "tools:\n  a: {examples: [{arguments: {}, mode: NORMA, expect: deny}]}\n",
        (2, 18),
        "unknown mode `NORMA`",
        "`NORMAL`",
    );
    load_one("tools.yaml", "tool_categories: {mine: {}}\ntools: {a: {category: mine}}\n").unwrap();
}

#[test]
fn bad_patterns_are_located_and_explained() {
    let bad = |pattern: &str, message: &str, help: &str| {
        for key in ["allowed_paths", "forbidden_paths", "unattended_paths"] {
            let text = format!("tools:\n  a:\n    {key}:\n      - \"{pattern}\"\n");
            check("tools.yaml", &text, (4, 9), message, help);
        }
    };
    bad("$HOEM/x", "unknown variable `$HOEM`", "`$HOME`");
    bad("/data/$USER/x", "unknown variable `$USER`", "$XDG_*");
    bad("${XDG_NOTHING}/x", "unknown variable `$XDG_NOTHING`", "");
    bad("~root/x", "home folder of another user", "absolute");
    bad("relative/**", "is not absolute", "`**/`");
    bad("*.md", "is not absolute", "");
    bad("/a/../b", "has a `..` part", "");
    bad("/a/./b", "has a `.` part", "");
    bad("/a//b", "empty part", "");
    bad("/a/b**", "has `**` beside other characters", "`*` is any part");
    bad("/a/{b/c,d}", "spans a `/`", "one pattern for each");
    bad("/a/[b", "the pattern is not valid", "");
    bad("", "a pattern is empty", "remove");
    bad(" ", "a pattern is empty", "remove");
}

#[test]
fn contradictions_do_not_load() {
    check(
        "tools.yaml",
        "tools:\n  a: {allowed_in_modes: [ALERT, ALERT]}\n",
        (2, 33),
        "`ALERT` appears twice",
        "",
    );
    check("tools.yaml", "tools:\n  a: {timeout_seconds: 0}\n", (2, 24), "must be between 1 and 86400", "");
    let cost = "tools:\n  a: {cost_per_call: -0.5}\n";
    check("tools.yaml", cost, (2, 22), "must be a number, 0 or more", "");
    for no_number in [".nan", ".inf"] {
        let text = format!("tools:\n  a: {{cost_per_call: {no_number}}}\n");
        check("tools.yaml", &text, (2, 22), "expected a number", "write decimal digits only");
    }
    check(
        "tools.yaml",
        "tools:\n  a: {forbidden_commands: [rm -rf]}\n",
        (2, 28),
        "would never match",
        "{argv: [rm, -rf]}",
    );
    check(
        "tools.yaml",
        "tools:\n  a: {allowed_commands: [{argv: []}]}\n",
        (2, 26),
        "`argv` has no words",
        "",
    );
    for class in ["[!x]", "[^x]", "[!]x]", "[.-z]", "[ab--0]", "[!!]"] {
        for list in ["allowed_paths", "forbidden_paths", "unattended_paths"] {
            let text = format!("tools:\n  a:\n    {list}: ['/w/[[]/o?t{class}f']\n");
            let place = (3, list.chars().count() as u64 + 8);
            check("tools.yaml", &text, place, &format!("`{class}` in"), "`[a-z0-9]`");
        }
    }
    for fine in ["[ab]", "[]a]", "[a-z0-9_-]", "[0-9]", "[$]", "\\[!x"] {
        let text = format!("tools:\n  a:\n    allowed_paths: ['/w/o{fine}f']\n");
        load_one("tools.yaml", &text).unwrap_or_else(|error| panic!("{fine}: {error}"));
    }
    check(
        "tools.yaml",
        "tools:\n  a: {allowed_domains: [\"exa mple.org\"]}\n",
        (2, 25),
        "not a host name",
        "",
    );
    check(
        "safety.yaml",
        "outbound_gateway: {blocked_domains: [\"*.*.org\"]}\n",
        (1, 38),
        "not a host name",
        "",
    );
    check(
        "safety.yaml",
        "human_approval: {rules: [{modes: [NORMAL]}]}\n",
        (1, 26),
        "neither a risk nor a category",
        "",
    );
    check("safety.yaml", "human_approval: {timeout_seconds: 0}\n", (1, 35), "must be between", "");
    let secret = |p: &str| {
        format!(
            "content_filtering:\n  secret_patterns:\n    - {{name: k, pattern: \"{p}\", action: block}}\n"
        )
    };
    check("safety.yaml", &secret("("), (3, 26), "the pattern of `k` cannot be used: unclosed group", "");
    check("safety.yaml", &secret("(((a{99}){99}){99}){99}"), (3, 26), "cannot be used", "");
    load_one("tools.yaml", "tools: {a: {shadow: false}}\n").unwrap();
}

#[test]
fn transitions_follow_the_edges() {
    let rule = |name: &str, rest: &str| {
        format!(
            "modes: {{NORMAL: {{}}}}\ntransition_rules:\n  {name}: {{conditions: [{{metric: cpu_load_percent, operator: \">\", value: 5}}]{rest}}}\n"
        )
    };
    let bad = |name: &str, message: &str| check("modes.yaml", &rule(name, ""), (3, 3), message, "");
    bad("NORMAL_to_RECOVERY", "no rule may lead from NORMAL to RECOVERY");
    bad("NORMAL_to_LOCKDOWN", "no rule may lead");
    bad("NORMAL_to_NORMAL", "no rule may lead");
    bad("NORMAL", "does not name two modes");
    bad("NORMAL_to_HIGH", "unknown mode `HIGH`");
    bad("LOCKDOWN_to_RECOVERY", "leaving LOCKDOWN requires human approval");
    load_one("modes.yaml", &rule("LOCKDOWN_to_RECOVERY", ", requires_human_approval: true")).unwrap();
    load_one("modes.yaml", &rule("NORMAL_to_ALERT", ", logic: all")).unwrap();
    let negative = rule("NORMAL_to_ALERT", "").replace("value: 5", "value: -5");
    check("modes.yaml", &negative, (3, 34), "at least 0", "");
}

#[test]
fn all_problems_are_reported_at_once() {
    let tools = "tools:\n  a: {allowed_in_modes: [X], category: y}\n  b: {allowed_paths: [z]}\n";
    let error = load("modes: {Q: {}}\n", tools, &complete_safety_file("rate_limits: {R: {}}\n")).unwrap_err();
    let found: Vec<_> = error.problems().iter().map(|p| (p.line, p.message.as_str())).collect();
    assert_eq!(
        found,
        [
            (1, "unknown mode `Q`"),
            (2, "unknown mode `X`"),
            (2, "unknown category `y`"),
            (3, "the pattern `z` is not absolute"),
            (1, "unknown mode `R`"),
        ]
    );
    let error = load("modes: [\n", "tools:\n", "").unwrap_err();
    assert_eq!(error.problems().len(), 3, "each file's own: {error}");
}

#[test]
fn policy_files_are_optional_and_owner_only() {
    let folder = tempfile::tempdir().unwrap();
    let missing = Policy::load(&folder.path().join("none"), &environment()).unwrap_err();
    assert!(missing.to_string().contains("is not a folder of policy files"), "{missing}");
    fs::write(folder.path().join("modes.yaml"), MODES_TEXT).unwrap();
    fs::write(folder.path().join("tools.yaml"), TOOLS_TEXT).unwrap();
    let without = Policy::load(folder.path(), &environment()).unwrap();
    assert_eq!(without.approval_timeout().as_secs(), 300, "the built-in file applies");
    let safety = folder.path().join("safety.yaml");
    fs::write(&safety, SAFETY_TEXT).unwrap();
    Policy::load(folder.path(), &environment()).unwrap();
    fs::set_permissions(&safety, fs::Permissions::from_mode(0o666)).unwrap();
    let error = Policy::load(folder.path(), &environment()).unwrap_err().to_string();
    assert!(error.contains("mode 0666") && error.contains("chmod go-w"), "{error}");
}

#[test]
fn probable_mistakes_are_warned_about() {
    let warnings = |tools: &str| {
        let policy = load_one("tools.yaml", tools).unwrap();
        policy.warnings().iter().map(|w| format!("{} {}", w.line, w.message)).collect::<Vec<_>>().join("\n")
    };
    for all in ["/**", "**", "/", "/**/*"] {
        let list = format!("tools:\n  a:\n    allowed_paths: [\"$HOME/x\", \"{all}\"]\n");
        // A pattern that allows everything does not load by mistake; a deliberate one is still warned about
        // at each start.
        check("tools.yaml", &list, (3, 32), "would allow every path", "allow_every_path: true");
        let text = warnings(&format!("{list}    allow_every_path: true\n"));
        assert!(text.contains("3 ") && text.contains("allows every path"), "{all}: {text}");
    }
    let overlap = warnings("tools:\n  a: {allowed_in_modes: [NORMAL], forbidden_in_modes: [NORMAL]}\n");
    assert!(overlap.contains("both allowed and forbidden in NORMAL"), "{overlap}");
    assert_eq!(warnings("tools:\n  a: {forbidden_paths: [\"/**\"]}\n"), "");
}

#[test]
fn tool_names_are_checked_against_the_registry() {
    let tool = |name: &str, alias: &str| {
        let mut spec = ToolSpec::new(name, "d", Category::READ_ONLY, RiskLevel::Low);
        spec.aliases = vec![alias.to_owned()];
        spec.check().unwrap()
    };
    let tools = [tool("read_file", "view"), tool("list_directory", "ls")];
    let policy = load_one("tools.yaml", "tools:\n  read_file: {}\n  run_tests: {}\n").unwrap();
    let warnings = policy.check_tools(&tools).unwrap();
    assert_eq!(
        warnings.iter().map(|w| (w.line, w.message.as_str())).collect::<Vec<_>>(),
        [(3, "no tool is called `run_tests`")]
    );
    let bad = |policy: Policy, line: u64, message: &str, help: &str| {
        let error = policy.check_tools(&tools).unwrap_err();
        let problem = &error.problems()[0];
        assert_eq!(problem.line, line, "{error}");
        assert!(
            problem.message.contains(message) && problem.suggestion.as_deref().unwrap().contains(help),
            "{error}"
        );
    };
    bad(
        load_one("tools.yaml", "tools:\n  raed_file: {}\n").unwrap(),
        2,
        "no tool is called `raed_file`",
        "`read_file`",
    );
    bad(
        load_one("tools.yaml", "tools:\n  view: {}\n").unwrap(),
        2,
        "an alias of `read_file`",
        "write `read_file`",
    );
    let modes = "modes:\n  NORMAL:\n    require_approval_for: [read_file, all_action]\n";
    bad(load_one("modes.yaml", modes).unwrap(), 3, "`all_action` is not a keyword", "`all_actions`");
    let modes = "modes: {NORMAL: {require_approval_for: [everything]}}\n";
    bad(load_one("modes.yaml", modes).unwrap(), 1, "`everything` is not a keyword", "all_actions");
}

#[test]
fn policy_hash_depends_on_every_file() {
    let hash = |tools: &str, safety: &str| load(MODES_TEXT, tools, safety).unwrap().hash().to_owned();
    assert_eq!(hash(TOOLS_TEXT, SAFETY_TEXT), hash(TOOLS_TEXT, SAFETY_TEXT));
    assert_ne!(hash(TOOLS_TEXT, SAFETY_TEXT), hash("tools: {} # x\n", SAFETY_TEXT));
    assert_ne!(
        hash("tools: {}\n\n", SAFETY_TEXT),
        hash(TOOLS_TEXT, &format!("\n{SAFETY_TEXT}")),
        "where a text ends counts"
    );
}

#[test]
fn policy_that_breaks_its_own_example_does_not_load() {
    let example = |path: &str, mode: &str, expect: &str| {
        let tools = format!(
            "tools:\n  read_file:\n    allowed_in_modes: [NORMAL]\n    forbidden_paths: [~/.ssh]\n    examples:\n      - {{arguments: {{path: \"{path}\"}}, mode: {mode}, expect: {expect}}}\n"
        );
        let policy = load(MODES_TEXT, &tools, SAFETY_TEXT).unwrap();
        let definition = crate::judge_tests::definition("read_file");
        policy.check_tools([&definition]).map(|_| ()).map_err(|error| error.problems()[0].clone())
    };
    for (path, mode, expect) in [
        ("$HOME/.ssh/id", "NORMAL", "deny"),
        ("notes.txt", "NORMAL", "allow"),
        ("sub/../notes.txt", "NORMAL", "allow"),
        ("/etc/passwd", "NORMAL", "deny"),
        ("notes.txt", "ALERT", "deny"),
    ] {
        example(path, mode, expect).unwrap_or_else(|error| panic!("{error}"));
    }
    for (path, expect, message) in [
        ("~/.ssh/id", "allow", "expects allow; the rules say deny: Permission denied: Path"),
        ("notes.txt", "ask", "expects ask; the rules say allow"),
    ] {
        let error = example(path, "NORMAL", expect).unwrap_err();
        assert_eq!((error.line, error.column), (6, 9), "{error}");
        assert!(error.message.contains(message), "{error}");
    }
    let wrong =
        "tools:\n  read_file:\n    examples:\n      - {arguments: {path: 7}, mode: NORMAL, expect: deny}\n";
    let policy = load("modes: {NORMAL: {}}\n", wrong, SAFETY_TEXT).unwrap();
    let error = policy.check_tools([&crate::judge_tests::definition("read_file")]).unwrap_err();
    assert!(error.to_string().contains("is not a valid call of `read_file`"), "{error}");
    let unknown =
        "tools:\n  a:\n    examples:\n      - {arguments: {path: $NO/x}, mode: NORMAL, expect: deny}\n";
    check("tools.yaml", unknown, (4, 9), "unknown variable `$NO`", "");
}
