//! Tests of the documentation: the blocks of the policy page load, their examples hold, and the documented
//! commands work.

use std::path::Path;
use std::process::{Command, Stdio};

use tests::{Daemon, Home, SinewRun, sinew};

fn page(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the fenced blocks of one language.
fn blocks<'a>(page: &'a str, language: &str) -> Vec<&'a str> {
    let fence = format!("```{language}\n");
    page.split(&fence).skip(1).filter_map(|rest| rest.split_once("\n```").map(|(block, _)| block)).collect()
}

#[test]
fn every_policy_recipe_loads_and_keeps_its_examples() {
    let page = page("docs/policy.md");
    let recipes = blocks(&page, "yaml");
    assert!(recipes.len() >= 8, "{}", recipes.len());
    for recipe in recipes {
        let name =
            recipe.lines().next().and_then(|line| line.strip_prefix("# ")).expect("a block names its file");
        let home = Home::initialised();
        match name.starts_with(".sinew/") {
            true => write_project_policy(&home, recipe),
            false => home.configure_layer(name, &format!("{recipe}\n")),
        }
        let checked = home.run(&["check", "--json"]);
        assert!(checked.output.status.success(), "{recipe}\n{checked}");
    }
}

fn write_project_policy(home: &Home, text: &str) {
    let folder = home.workspace().join(".sinew");
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join("policy.yaml"), format!("{text}\n")).expect("a policy");
}

/// The first recipe of the page, followed as a new user would.
#[test]
fn one_short_file_guards_a_project() {
    let recipe = project_recipe();
    assert!(recipe.lines().count() <= 20, "{recipe}");
    let home = Home::new();
    home.run(&["workspace", "add", &home.workspace().display().to_string()]).must_exit(0);
    // The page: programs that the project may run must be permitted by your own policy first.
    for (key, value) in [
        ("tools.run_command.allowed_commands", "{add: [pytest, ruff, touch]}"),
        ("tools.run_command.network", "off"),
    ] {
        home.run(&["config", "set", key, value]).must_exit(0);
    }
    write_project_policy(&home, &recipe.replace("[pytest, ruff]", "[pytest, ruff, touch]"));
    std::fs::create_dir(home.workspace().join("src")).unwrap();
    home.file("README.md", "x");
    home.file(".env", "KEY=1");
    home.run(&["check"]).must_exit(0);
    let call = |words: &[&str]| home.run(&[&["call"], words].concat()).output.status.code();
    let explain = |words: &[&str]| home.run(&[&["explain"], words].concat()).output.status.code();
    for (words, expect) in [
        (&["read_file", "path=README.md"][..], 0),
        (&["read_file", "path=.env"], 3),
        (&["write_file", "path=src/a.py", "content=x"], 0),
        (&["write_file", "path=README.md", "content=x"], 3),
        (&["write_file", "path=.sinew/policy.yaml", "content=x"], 3),
        (&["run_command", "command:=[\"ls\"]"], 3),
    ] {
        assert_eq!(explain(words), Some(expect), "explain {words:?}");
        assert_eq!(call(words), Some(expect), "call {words:?}");
    }
    assert_eq!(explain(&["run_command", "command:=[\"pytest\"]"]), Some(0));
    assert_eq!(explain(&["fetch_url", "url=https://docs.python.org/3/"]), Some(0));
    assert_eq!(explain(&["fetch_url", "url=https://example.org/"]), Some(3));
    // What a program writes: only below src/.
    call(&["run_command", "command:=[\"touch\",\"outside.txt\"]"]);
    assert!(!home.workspace().join("outside.txt").exists(), "a program wrote outside of src/");
    call(&["run_command", "command:=[\"touch\",\"src/inside.txt\"]"]);
    assert!(home.workspace().join("src/inside.txt").exists(), "a program may write in src/");
}

/// Returns the project policy that the page shows first.
pub(crate) fn project_recipe() -> String {
    let page = page("docs/policy.md");
    let recipe = blocks(&page, "yaml").into_iter().find(|block| block.starts_with("# .sinew/policy.yaml"));
    recipe.expect("the page shows a project policy").to_owned()
}

/// Tests of a project that write into the project, and the results of their attempts.
const WRITING_TESTS: &str = "\
import pathlib, unittest
class Writes(unittest.TestCase):
    def test_inside(self):
        pathlib.Path('src/inside.txt').write_text('x')
    def test_outside(self):
        for name in ['outside.txt', 'tests/outside.txt', '.sinew/policy.yaml', 'src/../outside.txt']:
            with self.assertRaises(OSError, msg=name):
                pathlib.Path(name).write_text('x')
";

/// A real test run under the recipe: it can write below src/ and nowhere else in the project, wherever it is started.
#[test]
fn test_run_writes_only_below_src() {
    let recipe = project_recipe();
    let home = Home::new();
    home.run(&["workspace", "add", &home.workspace().display().to_string()]).must_exit(0);
    let other = home.user_home().canonicalize().unwrap().join("other");
    std::fs::create_dir(&other).unwrap();
    home.run(&["workspace", "add", other.to_str().unwrap()]).must_exit(0);
    home.run(&[
        "config",
        "set",
        "tools.run_command.allowed_commands",
        "{add: [pytest, ruff, python3, touch]}",
    ])
    .must_exit(0);
    write_project_policy(&home, &recipe.replace("[pytest, ruff]", "[pytest, ruff, python3]"));
    for folder in ["src", "tests"] {
        std::fs::create_dir(home.workspace().join(folder)).unwrap();
    }
    home.file("tests/test_writes.py", WRITING_TESTS);
    let policy = std::fs::read_to_string(home.workspace().join(".sinew/policy.yaml")).unwrap();
    let command = r#"command:=["python3","-B","-m","unittest","discover","-v","tests"]"#;
    let run = home.run(&["call", "run_command", command]);
    let said = run.stdout();
    assert!(run.output.status.success() && said.contains("Ran 2 tests") && said.contains("OK"), "{run}");
    assert!(home.workspace().join("src/inside.txt").exists());
    for name in ["outside.txt", "tests/outside.txt"] {
        assert!(!home.workspace().join(name).exists(), "{name}");
    }
    assert_eq!(std::fs::read_to_string(home.workspace().join(".sinew/policy.yaml")).unwrap(), policy);
    // A program that the project does not list, started elsewhere: it is refused if it names the project, and
    // finds the project read-only if it does not.
    let inside = home.workspace().canonicalize().unwrap().join("src/touched.txt");
    let named = format!("command:=[\"touch\",\"{}\"]", inside.display());
    home.run_in(&other, &["call", "run_command", &named]).must_exit(3);
    std::os::unix::fs::symlink(inside.parent().unwrap(), other.join("link")).unwrap();
    home.run_in(&other, &["call", "run_command", "command:=[\"touch\",\"link/touched.txt\"]"]);
    assert!(!inside.exists(), "a program wrote to the project");
    let cwd = format!("cwd={}", other.display());
    home.run_in(&other, &["call", "run_command", "command:=[\"touch\",\"own.txt\"]", &cwd]).must_exit(0);
    assert!(other.join("own.txt").exists(), "its own folder stays writable");
}

#[test]
fn wrong_example_is_detected() {
    let page = page("docs/policy.md");
    let recipe = blocks(&page, "yaml").into_iter().find(|block| block.contains("expect: deny"));
    let recipe = recipe.expect("a recipe for tools.yaml").replacen("expect: deny", "expect: allow", 1);
    let home = Home::initialised();
    home.configure("governance/tools.yaml", &format!("{recipe}\n"));
    home.run(&["check"]).must_exit(7);
}

#[test]
fn policy_commands_work_as_written() {
    let page = page("docs/policy.md");
    let home = Home::initialised();
    for line in blocks(&page, "sh").iter().flat_map(|block| block.lines()) {
        let (command, remark) = line.split_once('#').unwrap_or((line, ""));
        let Some(words) = command.trim().strip_prefix("sinew ") else {
            panic!("not a command of ours: {line}")
        };
        let code = remark.split("exit code ").nth(1).and_then(|rest| rest.get(..1));
        let expect = code.map_or(0, |code| code.parse().expect("a code is a number"));
        home.run(&words.split_whitespace().collect::<Vec<_>>()).must_exit(expect);
    }
}

/// Runs a line in a shell, in the workspace.
fn run_in_shell(home: &Home, line: &str) -> SinewRun {
    let programs = home.user_home().join("programs");
    if !programs.exists() {
        std::fs::create_dir(&programs).expect("a folder");
        std::os::unix::fs::symlink(sinew().get_program(), programs.join("sinew")).expect("a link");
    }
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", line]).env_clear().current_dir(home.workspace()).stdin(Stdio::null());
    shell.env("HOME", home.user_home()).env("SINEW_HOME", home.root());
    shell.env("PATH", format!("{}:/usr/bin:/bin", programs.display()));
    SinewRun { arguments: line.to_owned(), output: shell.output().expect("a shell") }
}

/// Returns the lines of a block of commands, each with its remark.
fn lines(block: &str) -> impl Iterator<Item = (&str, &str)> {
    let lines = block.lines().filter(|line| !line.is_empty());
    lines.map(|line| {
        line.split_once(" #").map_or((line, ""), |(command, remark)| (command.trim(), remark.trim()))
    })
}

/// Blocks of the tour in the README: the first works with and without a daemon, the second needs one.
fn tour(readme: &str) -> [&str; 2] {
    let mut tour = blocks(readme, "sh").into_iter().filter(|block| block.contains("sinew call"));
    let parts = [tour.next().expect("a first part"), tour.next().expect("a second part")];
    assert_eq!(tour.next(), None);
    assert!(parts.into_iter().flat_map(lines).count() >= 20);
    parts
}

/// Runs the lines of a part of the tour in turn, and compares the exit code of each with its remark.
fn run_tour(home: &Home, part: &str, daemon_runs: bool) {
    let mut approval = String::new();
    for (command, remark) in lines(part) {
        // The test starts the daemon itself, and each line starts in the folder of the tour.
        if command.starts_with("sinew serve &") {
            continue;
        }
        let call =
            || home.records().iter().rev().find_map(|record| record["call_id"].as_str().map(str::to_owned));
        let mut line = command.replace("APPROVAL_ID", &approval);
        if line.contains("CALL_ID") {
            line = line.replace("CALL_ID", &call().expect("a call was made"));
        }
        let folder = if command.starts_with("mkdir") { "" } else { "cd ~/notes && " };
        let run = run_in_shell(home, &format!("{folder}{line}"));
        if let Some((_, id)) = run.stderr().split_once("waiting for approval ") {
            approval = id.split_whitespace().next().unwrap_or_default().to_owned();
        }
        run.must_exit(expected_tour_exit(remark, daemon_runs));
    }
}

/// Returns the expected exit code of a line of the tour: 3 for a call that its remark calls refused, else the
/// code that the remark names.
fn expected_tour_exit(remark: &str, daemon_runs: bool) -> i32 {
    match remark.split_once("exit code ") {
        Some((condition, _)) if condition.contains("without a daemon") && daemon_runs => 0,
        Some((_, code)) => code.parse().expect("the code ends the remark"),
        None if remark.starts_with("refused") => 3,
        None => 0,
    }
}

fn assert_tour_results(home: &Home) {
    let notes = home.user_home().join("notes");
    assert_eq!(std::fs::read_to_string(notes.join("today.md")).expect("the tour wrote it"), "hello");
    assert!(!notes.join("plan.md").exists(), "the tour takes it back");
}

#[test]
fn readme_tour_works_without_a_daemon() {
    let readme = page("README.md");
    let [first, second] = tour(&readme);
    let home = Home::new();
    run_tour(&home, first, false);
    let daemon = Daemon::start_in(home);
    run_tour(daemon.home(), second, true);
    assert_tour_results(daemon.home());
}

#[test]
fn readme_tour_works_with_a_running_daemon() {
    let readme = page("README.md");
    let daemon = Daemon::start_in(Home::new());
    for part in tour(&readme) {
        run_tour(daemon.home(), part, true);
    }
    assert_tour_results(daemon.home());
}

#[test]
fn commands_of_other_pages_work_as_written() {
    for name in ["docs/connect.md", "docs/hooks.md", "docs/approvals.md"] {
        let (page, home) = (page(name), Home::initialised());
        let blocks = blocks(&page, "sh");
        assert!(!blocks.is_empty(), "{name}");
        for (command, _) in blocks.into_iter().flat_map(lines) {
            // A line for a program of others registers a command of Sinew behind `--`.
            let own = command.split_once(" -- ").map(|(_, registered)| format!("{registered} --help"));
            run_in_shell(&home, own.as_deref().unwrap_or(command)).must_exit(0);
        }
    }
}

/// Returns the literal words of a command, up to the first placeholder or the option that takes it.
fn plain_words(command: &str) -> Vec<&str> {
    let is_plain = |word: &&str| word.chars().all(|c| c.is_ascii_lowercase() || "-_.".contains(c));
    let mut words: Vec<&str> = command.split_whitespace().take_while(is_plain).collect();
    let has_value = command.split_whitespace().nth(words.len()).is_some();
    words.pop_if(|last| has_value && last.starts_with('-'));
    words
}

#[test]
fn every_command_named_on_a_page_exists() {
    let home = Home::new();
    let mut seen = std::collections::BTreeSet::new();
    let pages = ["README", "SECURITY", "docs/operations", "docs/connect", "docs/policy", "docs/hooks"];
    for name in pages.into_iter().chain(["docs/manifests", "docs/telemetry", "docs/approvals"]) {
        for quoted in page(&format!("{name}.md")).split('`').skip(1).step_by(2) {
            let Some(words) = quoted.strip_prefix("sinew ").map(plain_words) else { continue };
            if !words.is_empty() && seen.insert(words.join(" ")) {
                home.run(&[&words[..], &["--help"]].concat()).must_exit(0);
            }
        }
    }
    assert!(seen.len() >= 20, "{seen:?}");
}
