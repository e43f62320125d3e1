//! Table of calls that run on every endpoint: each kind of verdict, in every mode. The table has no expected
//! results, because the endpoints are compared with each other.

mod calls;

use serde_json::Value;
use tests::Home;

/// One step of the table, on any endpoint.
pub(super) enum TableStep {
    Call(TableCase),
    /// The operator changes the mode.
    Mode(&'static str),
    /// The operator decides the request of the last call.
    Decide(&'static str),
}

/// One call of the table.
pub(super) struct TableCase {
    pub(super) tool: String,
    pub(super) arguments: Value,
    pub(super) key: Option<&'static str>,
    pub(super) approval_use: ApprovalUse,
}

/// Use of an earlier approval by a call.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ApprovalUse {
    /// No approval; the call does not wait for one either.
    NoApproval,
    /// The approval that the last call requested.
    LastRequested,
}

impl TableCase {
    pub(super) fn new(tool: &str, arguments: Value) -> TableCase {
        TableCase { tool: tool.to_owned(), arguments, key: None, approval_use: ApprovalUse::NoApproval }
    }
}

/// Configures the policy of the table: as shipped, with two tools that reach their rate limit.
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

/// Recreates the workspace of the table.
pub(super) fn create_workspace(home: &Home) {
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

/// Part of the table. The command line, which starts a process per call, runs them one by one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum TablePart {
    /// Reads of files.
    Reads,
    /// Listings and searches of folders.
    Listings,
    /// Writes of files, inside and outside.
    Writes,
    /// Special writes, and edits.
    Changes,
    /// Malformed calls.
    Malformed,
    /// Aliases of a tool, and unknown names.
    Names,
    /// Programs, hosts and idempotency keys.
    Programs,
    /// Calls that reach a rate limit, which is counted per process.
    Rates,
    /// Modes that require approval, and the use of approvals.
    ApprovalModes,
    /// Changing to LOCKDOWN and back.
    Lockdown,
}

pub(super) const ALL: [TablePart; 10] = [
    TablePart::Reads,
    TablePart::Listings,
    TablePart::Writes,
    TablePart::Changes,
    TablePart::Malformed,
    TablePart::Names,
    TablePart::Programs,
    TablePart::Rates,
    TablePart::ApprovalModes,
    TablePart::Lockdown,
];

/// Returns the steps in order.
pub(super) fn steps(home: &Home, parts: &[TablePart]) -> Vec<TableStep> {
    parts.iter().flat_map(|part| part.steps(home)).collect()
}

impl TablePart {
    fn steps(self, home: &Home) -> Vec<TableStep> {
        match self {
            TablePart::Reads => calls::reads(home),
            TablePart::Listings => calls::listings(),
            TablePart::Writes => calls::writes(home),
            TablePart::Changes => calls::changes(),
            TablePart::Malformed => calls::malformed(),
            TablePart::Names => calls::names(),
            TablePart::Programs => calls::programs().into_iter().chain(calls::repeats()).collect(),
            TablePart::Rates => calls::rates(),
            TablePart::ApprovalModes => in_modes(&["ALERT", "DEGRADED"]),
            TablePart::Lockdown => in_modes(&["LOCKDOWN", "RECOVERY", "NORMAL"]),
        }
    }
}

fn in_modes(modes: &[&'static str]) -> Vec<TableStep> {
    modes
        .iter()
        .flat_map(|mode| [TableStep::Mode(mode)].into_iter().chain(calls::in_another_mode(mode)))
        .collect()
}
