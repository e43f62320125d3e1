//! What the documentation says is tried: the blocks of the cookbook load, their examples hold, and commands do what is said.

use std::path::Path;
use std::process::{Command, Stdio};

use tests::{Daemon, Home, Run, sinew};

fn page(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The fenced blocks of a language.
fn blocks<'a>(page: &'a str, language: &str) -> Vec<&'a str> {
    let fence = format!("```{language}\n");
    page.split(&fence).skip(1).filter_map(|rest| rest.split_once("\n```").map(|(block, _)| block)).collect()
}

#[test]
fn every_recipe_of_the_cookbook_loads_and_keeps_its_examples() {
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
fn an_example_that_does_not_hold_is_found() {
    let page = page("docs/cookbook.md");
    let recipe = blocks(&page, "yaml").remove(0).replacen("expect: deny", "expect: allow", 1);
    let home = Home::initialised();
    home.configure("governance/tools.yaml", &format!("{recipe}\n"));
    home.run(&["check"]).must_exit(7);
}

#[test]
fn the_commands_of_the_cookbook_work_as_they_stand() {
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

/// Types a line into a shell, in the workspace.
fn type_in(home: &Home, line: &str) -> Run {
    let programs = home.user().join("programs");
    if !programs.exists() {
        std::fs::create_dir(&programs).expect("a folder");
        std::os::unix::fs::symlink(sinew().get_program(), programs.join("sinew")).expect("a link");
    }
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", line]).env_clear().current_dir(home.workspace()).stdin(Stdio::null());
    shell.env("HOME", home.user()).env("SINEW_HOME", home.root());
    shell.env("PATH", format!("{}:/usr/bin:/bin", programs.display()));
    Run { words: line.to_owned(), output: shell.output().expect("a shell") }
}

/// The lines of a block of commands, each with what is said of it.
fn lines(block: &str) -> impl Iterator<Item = (&str, &str)> {
    let lines = block.lines().filter(|line| !line.is_empty());
    lines.map(|line| {
        line.split_once(" #").map_or((line, ""), |(command, remark)| (command.trim(), remark.trim()))
    })
}

/// What a line of the tour ends with: a refusal is said to be one, and the verdict of `explain` is what it is asked for.
fn expected_of_the_tour(command: &str, remark: &str) -> i32 {
    match remark.starts_with("refused") || command.starts_with("sinew explain") {
        true => 3,
        false => 0,
    }
}

#[test]
fn the_tour_of_the_readme_works_as_it_stands() {
    let readme = page("README.md");
    let tour =
        blocks(&readme, "sh").into_iter().find(|block| block.contains("sinew serve &")).expect("a tour");
    let (alone, served) = tour.split_once("sinew serve &").expect("the daemon");
    let home = Home::new();
    home.file("README.md", &readme);
    let mut typed = 0;
    let mut walk = |home: &Home, part: &str| {
        for (command, remark) in lines(part).filter(|(command, _)| !command.is_empty()) {
            // The program is there already; two of them need a person who looks at them; and a call has a name.
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
            type_in(home, &line).must_exit(expected_of_the_tour(command, remark));
            typed += 1;
        }
    };
    walk(&home, alone);
    let daemon = Daemon::start_in(home);
    walk(daemon.home(), served.split_once('\n').expect("a line ends").1);
    assert!(typed >= 20, "{typed}");
    let note = std::fs::read_to_string(daemon.home().user().join("notes/today.md"));
    assert_eq!(note.expect("the tour wrote it"), "hello");
}

#[test]
fn the_commands_of_other_pages_work_as_they_stand() {
    for name in ["docs/connect.md", "docs/hooks.md"] {
        let (page, home) = (page(name), Home::initialised());
        let blocks = blocks(&page, "sh");
        assert!(!blocks.is_empty(), "{name}");
        for (command, _) in blocks.into_iter().flat_map(lines) {
            type_in(&home, command).must_exit(0);
        }
    }
}

/// The words of a command that stand for themselves: up to the first that stands for something else.
fn plain_words(command: &str) -> Vec<&str> {
    let is_plain = |word: &&str| word.chars().all(|c| c.is_ascii_lowercase() || "-_.".contains(c));
    command.split_whitespace().take_while(is_plain).collect()
}

#[test]
fn every_command_that_a_page_names_is_one() {
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
