//! The calls that every door is asked: each kind of verdict, in every mode. What becomes of them is not said here: the
//! doors are compared with each other.

mod calls;

use serde_json::Value;
use tests::Home;

/// One thing that is done, at whichever door.
pub(super) enum Step {
    /// A call.
    Call(Case),
    /// The operator changes the mode.
    Mode(&'static str),
    /// The operator answers what the last call asked.
    Decide(&'static str),
}

/// One call.
pub(super) struct Case {
    pub(super) tool: String,
    pub(super) arguments: Value,
    pub(super) key: Option<&'static str>,
    pub(super) brings: Brings,
}

/// What a call has to say of a human's answer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Brings {
    /// Nothing; it does not wait for one either.
    Nothing,
    /// The answer to what was asked last.
    TheAnswer,
}

impl Case {
    pub(super) fn new(tool: &str, arguments: Value) -> Case {
        Case { tool: tool.to_owned(), arguments, key: None, brings: Brings::Nothing }
    }
}

/// The policy of the table: as shipped, with two tools that run out.
pub(super) fn configure(home: &Home) {
    let file = home.root().join("config/governance/tools.yaml");
    let shipped = std::fs::read_to_string(file).expect("the shipped policy");
    let limited =
        [("  read_output:\n", 0), ("  delete_file:\n", 3)].iter().fold(shipped, |text, (tool, rate)| {
            assert!(text.contains(tool), "{tool}");
            text.replacen(tool, &format!("{tool}    rate_limit_per_hour: {rate}\n"), 1)
        });
    let small = limited.replacen("max_file_size_mb: 10", "max_file_size_mb: 1", 1);
    home.configure("governance/tools.yaml", &small);
}

/// The workspace of the table, made anew.
pub(super) fn furnish(home: &Home) {
    let work = home.workspace();
    std::fs::remove_dir_all(&work).expect("the old one goes");
    for folder in ["", "src", "deep/a/b", ".git/hooks", "empty"] {
        std::fs::create_dir_all(work.join(folder)).expect("a folder");
    }
    let long = "all work and no play\n".repeat(5_000);
    for (name, content) in [
        ("README.md", "# Hello\n"),
        ("notes.txt", "milk\nbread\nmilk\n"),
        ("with space.txt", "spaced\n"),
        ("é.txt", "accented\n"),
        ("src/main.rs", "fn main() {}\n"),
        ("src/lib.rs", "//! TODO\n"),
        ("deep/a/b/c.txt", "deep\n"),
        ("nothing.txt", ""),
        ("long.txt", &long),
        (".env", "TOKEN=x\n"),
        (".git/config", "[core]\n"),
        (".git/hooks/pre-commit", "#!/bin/sh\n"),
        ("d1.txt", "1"),
        ("d2.txt", "2"),
        ("d3.txt", "3"),
        ("d4.txt", "4"),
    ] {
        home.file(name, content);
    }
    std::fs::write(work.join("binary.bin"), [0xff, 0, 0xfe]).expect("a file");
    for (target, name) in [
        ("README.md", "link"),
        ("/etc", "way-out"),
        ("nowhere", "dangling"),
        ("loop", "loop"),
        (".env", "to-env"),
    ] {
        std::os::unix::fs::symlink(target, work.join(name)).expect("a link");
    }
}

/// A part of the table. A door that takes a process for each call is asked them one by one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// Files that are read.
    Reads,
    /// Folders that are looked through.
    Looks,
    /// Files that are written, wherever they are.
    Writes,
    /// Files that are written in special ways, and edited.
    Changes,
    /// Calls that cannot be meant so.
    Malformed,
    /// One tool by many names, and names of no tool.
    Names,
    /// Programs, hosts, keys and rates.
    Programs,
    /// The modes in which a human is asked, and what becomes of the answers.
    Careful,
    /// The way through LOCKDOWN and back.
    Locked,
}

pub(super) const ALL: [Part; 9] = [
    Part::Reads,
    Part::Looks,
    Part::Writes,
    Part::Changes,
    Part::Malformed,
    Part::Names,
    Part::Programs,
    Part::Careful,
    Part::Locked,
];

/// What is done, in order.
pub(super) fn steps(home: &Home, parts: &[Part]) -> Vec<Step> {
    parts.iter().flat_map(|part| part.steps(home)).collect()
}

impl Part {
    fn steps(self, home: &Home) -> Vec<Step> {
        match self {
            Part::Reads => calls::reads(home),
            Part::Looks => calls::looks(),
            Part::Writes => calls::writes(home),
            Part::Changes => calls::changes(),
            Part::Malformed => calls::malformed(),
            Part::Names => calls::names(),
            Part::Programs => calls::programs().into_iter().chain(calls::repeats_and_rates()).collect(),
            Part::Careful => in_modes(&["ALERT", "DEGRADED"]),
            Part::Locked => in_modes(&["LOCKDOWN", "RECOVERY", "NORMAL"]),
        }
    }
}

fn in_modes(modes: &[&'static str]) -> Vec<Step> {
    modes.iter().flat_map(|mode| [Step::Mode(mode)].into_iter().chain(calls::in_another_mode(mode))).collect()
}
