//! Tests of the documentation: the blocks of the cookbook load, their examples hold, and the documented
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
fn every_cookbook_recipe_loads_and_keeps_its_examples() {
    let page = page("docs/cookbook.md");
    let recipes = blocks(&page, "yaml");
    assert!(recipes.len() >= 8, "{}", recipes.len());
    for recipe in recipes {
        let name =
            recipe.lines().next().and_then(|line| line.strip_prefix("# ")).expect("a block names its file");
        let home = Home::initialised();
        home.configure(name, &format!("{recipe}\n"));
        let checked = home.run(&["check", "--json"]);
        assert!(checked.output.status.success(), "{recipe}\n{checked}");
    }
}

#[test]
fn wrong_example_is_detected() {
    let page = page("docs/cookbook.md");
    let recipe = blocks(&page, "yaml").remove(0).replacen("expect: deny", "expect: allow", 1);
    let home = Home::initialised();
    home.configure("governance/tools.yaml", &format!("{recipe}\n"));
    home.run(&["check"]).must_exit(7);
}

#[test]
fn cookbook_commands_work_as_written() {
    let page = page("docs/cookbook.md");
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

/// Returns the expected exit code of a line of the tour: 3 for a call the remark calls refused, and for
/// `explain`, whose example is a denial.
fn expected_tour_exit(command: &str, remark: &str) -> i32 {
    match remark.starts_with("refused") || command.starts_with("sinew explain") {
        true => 3,
        false => 0,
    }
}

#[test]
fn readme_tour_works_as_written() {
    let readme = page("README.md");
    let tour =
        blocks(&readme, "sh").into_iter().find(|block| block.contains("sinew serve &")).expect("a tour");
    let (alone, served) = tour.split_once("sinew serve &").expect("the daemon");
    let home = Home::new();
    home.file("README.md", &readme);
    let mut typed = 0;
    let mut walk = |home: &Home, part: &str| {
        for (command, remark) in lines(part).filter(|(command, _)| !command.is_empty()) {
            // Skips the build, because the binary exists, and the watch, which needs a terminal. `CALL_ID`
            // stands for the newest call.
            if command.starts_with("cargo ") || command == "sinew approvals watch" {
                continue;
            }
            let call = || {
                home.records().iter().rev().find_map(|record| record["call_id"].as_str().map(str::to_owned))
            };
            let line = match command.contains("CALL_ID") {
                true => command.replace("CALL_ID", &call().expect("a call was made")),
                false => command.trim_end_matches(" -f").to_owned(),
            };
            run_in_shell(home, &line).must_exit(expected_tour_exit(command, remark));
            typed += 1;
        }
    };
    walk(&home, alone);
    let daemon = Daemon::start_in(home);
    walk(daemon.home(), served.split_once('\n').expect("a line ends").1);
    assert!(typed >= 20, "{typed}");
    let note = std::fs::read_to_string(daemon.home().user_home().join("notes/today.md"));
    assert_eq!(note.expect("the tour wrote it"), "hello");
}

#[test]
fn commands_of_other_pages_work_as_written() {
    for name in ["docs/connect.md", "docs/hooks.md"] {
        let (page, home) = (page(name), Home::initialised());
        let blocks = blocks(&page, "sh");
        assert!(!blocks.is_empty(), "{name}");
        for (command, _) in blocks.into_iter().flat_map(lines) {
            run_in_shell(&home, command).must_exit(0);
        }
    }
}

/// Returns the literal words of a command, up to the first placeholder.
fn plain_words(command: &str) -> Vec<&str> {
    let is_plain = |word: &&str| word.chars().all(|c| c.is_ascii_lowercase() || "-_.".contains(c));
    command.split_whitespace().take_while(is_plain).collect()
}

#[test]
fn every_command_named_on_a_page_exists() {
    let home = Home::new();
    let mut seen = std::collections::BTreeSet::new();
    let pages = ["README", "SECURITY", "docs/troubleshooting", "docs/connect", "docs/cookbook", "docs/hooks"];
    for name in pages.into_iter().chain(["docs/manifests", "docs/telemetry", "docs/control"]) {
        for quoted in page(&format!("{name}.md")).split('`').skip(1).step_by(2) {
            let Some(words) = quoted.strip_prefix("sinew ").map(plain_words) else { continue };
            if !words.is_empty() && seen.insert(words.join(" ")) {
                home.run(&[&words[..], &["--help"]].concat()).must_exit(0);
            }
        }
    }
    assert!(seen.len() >= 20, "{seen:?}");
}
