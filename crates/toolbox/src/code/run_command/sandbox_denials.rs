//! Detects operations that the sandbox probably denied. The kernel reports a denial only to the program, so
//! the detection uses the program's output and its end signal. The result is a guess and quotes the program.

use std::path::{Path, PathBuf};

use governance::files::NetworkAccess;
use governance::{PathEntryKind, Permit, WorkspaceAccess, is_run_automatically};
use sandbox::{RunEnd, RunReport};
use schemars::JsonSchema;
use serde::Serialize;

/// Largest number of denials reported.
const MAX_DENIALS: usize = 5;
const MAX_LINE_CHARS: usize = 300;

/// Operation that the sandbox denied.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct SandboxDenial {
    /// Message of the program, or the limit that ended it.
    message: String,
    /// Instructions to grant it.
    grant: String,
}

/// Grants of a run.
struct RunGrants<'a> {
    writable: Vec<&'a Path>,
    readable: Vec<&'a Path>,
    network: NetworkAccess,
    /// Working directory.
    directory: PathBuf,
    shows: &'a dyn Fn(&Path) -> bool,
}

/// Returns the operations that the sandbox probably denied in a run.
pub(super) fn find_denials(permit: &Permit, report: &RunReport) -> Vec<SandboxDenial> {
    let text = [&report.stderr, &report.stdout].map(|output| {
        String::from_utf8_lossy(&[output.head.as_slice(), b"\n", &output.tail].concat()).into_owned()
    });
    let of = |access| {
        let folders = permit.sandbox_folders().iter().filter(move |folder| folder.access() == access);
        folders.map(|folder| folder.root()).collect()
    };
    let first = || permit.sandbox_folders().first().map(|folder| folder.root());
    let folder = permit.path("cwd").map(|folder| folder.canonical()).or_else(first);
    let granted = RunGrants {
        writable: of(WorkspaceAccess::ReadWrite),
        readable: of(WorkspaceAccess::ReadOnly),
        network: permit.confinement().network,
        directory: folder.unwrap_or(Path::new("/")).to_owned(),
        shows: &|path| permit.is_visible(path),
    };
    detect_denials(report.end, &text.join("\n"), &granted)
}

fn detect_denials(end: RunEnd, output_text: &str, granted: &RunGrants<'_>) -> Vec<SandboxDenial> {
    let mut all: Vec<SandboxDenial> = limit_for_end(end)
        .into_iter()
        .map(|(message, grant)| SandboxDenial { message: message.to_owned(), grant: grant.to_owned() })
        .collect();
    if end != RunEnd::Exited(0) {
        for line in output_text.lines() {
            let Some(grant) = grant_hint(line, granted) else { continue };
            let message: String = line.trim().chars().take(MAX_LINE_CHARS).collect();
            if all.len() < MAX_DENIALS && all.iter().all(|known| known.message != message) {
                all.push(SandboxDenial { message, grant });
            }
        }
    }
    all
}

/// Returns the limit that ended the program and the setting for it. This is certain, not a guess.
fn limit_for_end(end: RunEnd) -> Option<(&'static str, &'static str)> {
    Some(match end {
        RunEnd::Signalled(24) => ("it used up its CPU time", "`cpu_seconds` in tools.yaml"),
        RunEnd::Signalled(25) => ("it exceeded the largest file size", "`max_file_size_mb` in tools.yaml"),
        RunEnd::TimedOut => {
            ("it ran longer than its timeout", "`timeout_seconds` in tools.yaml, or of the call")
        }
        RunEnd::OutOfMemory => ("it exceeded its memory limit", "`memory_mb` in tools.yaml"),
        RunEnd::TooManyProcesses => ("it exceeded its limit of processes", "`max_processes` in tools.yaml"),
        RunEnd::Denied => (
            "it made a system call of another architecture, or ran a program without read permission",
            "cannot be granted: use readable programs of this machine's architecture",
        ),
        RunEnd::Exited(_) | RunEnd::Signalled(_) | RunEnd::Cancelled | RunEnd::Killed => return None,
    })
}

/// Phrases that programs print when they reach a limit, and the setting for the limit.
const LIMIT_PHRASES: &[(&str, &str)] = &[
    ("file too large", "`max_file_size_mb` in tools.yaml"),
    ("cannot allocate memory", "`memory_mb` in tools.yaml"),
    ("memoryerror", "`memory_mb` in tools.yaml"),
    ("out of memory", "`memory_mb` in tools.yaml"),
    ("resource temporarily unavailable", "`max_processes` in tools.yaml"),
    ("can't start new thread", "`max_processes` in tools.yaml"),
    ("too many open files", "cannot be raised: the program must close some"),
    (
        "function not implemented",
        "cannot be granted: the sandbox depends on this system call, or cannot limit its resources",
    ),
];

/// Returns how to grant the operation that this line reports as failed, if the sandbox probably denied it.
fn grant_hint(line: &str, granted: &RunGrants<'_>) -> Option<String> {
    let lower = line.to_ascii_lowercase();
    let contains_any = |phrases: &[&str]| phrases.iter().any(|word| lower.contains(word));
    let network = [
        "network is unreachable",
        "could not resolve host",
        "name resolution",
        "getaddrinfo",
        "connection refused",
        "socket: operation not permitted",
    ];
    if contains_any(&network) {
        return match granted.network {
            NetworkAccess::Off => Some("`network: loopback` or `network: full` in tools.yaml".to_owned()),
            NetworkAccess::Loopback => Some("`network: full` in tools.yaml".to_owned()),
            NetworkAccess::Full => None,
        };
    }
    if let Some((_, grant)) = LIMIT_PHRASES.iter().find(|(phrase, _)| lower.contains(phrase)) {
        return Some((*grant).to_owned());
    }
    if contains_any(&["no space left on device"])
        && first_absolute_path(line).is_some_and(|path| path.starts_with("/tmp"))
    {
        return Some("`memory_mb` in tools.yaml: /tmp is in memory".to_owned());
    }
    let complaint = DENIAL_PHRASES.iter().find_map(|phrase| lower.find(phrase))?;
    let path = match first_absolute_path(line) {
        Some(path) => path.to_owned(),
        None => granted.directory.join(name_near(line, complaint)?),
    };
    let within = |folders: &[&Path]| folders.iter().any(|folder| path.starts_with(folder));
    Some(match (within(&granted.writable), within(&granted.readable)) {
        _ if (within(&granted.writable) || within(&granted.readable)) && !(granted.shows)(&path) => {
            format!("`forbidden_paths` in tools.yaml has a rule for `{}`", path.display())
        }
        (true, _) if is_run_automatically(&path, PathEntryKind::Other) => {
            "cannot be granted: other programs execute files of this name, so only the operator changes them"
                .to_owned()
        }
        // The mode of the file or of a directory denies it, not the sandbox.
        (true, _) => return None,
        (false, true) => format!("run `sinew workspace add` for `{}` without read-only", path.display()),
        (false, false) => format!("run `sinew workspace add` for a directory above `{}`", path.display()),
    })
}

const DENIAL_PHRASES: &[&str] = &["permission denied", "read-only file system", "operation not permitted"];

/// Returns the name that a message is about: before the phrase, as in `cat: .env: `, or after it in quotes.
fn name_near(line: &str, complaint: usize) -> Option<&str> {
    let (before, after) = line.split_at_checked(complaint)?;
    let quoted = after.split_once(": '").and_then(|(_, rest)| rest.split('\'').next());
    let last_word = || before.trim_end().strip_suffix(':')?.rsplit(' ').next();
    let name = quoted.or_else(last_word)?.trim_matches(['\'', '"', '`']);
    (!name.is_empty()).then_some(name)
}

/// Returns the first absolute path in a line: in quotes, or up to a space or a colon.
fn first_absolute_path(line: &str) -> Option<&Path> {
    let begins = |at: usize| {
        at == 0 || line.get(..at).is_some_and(|before| before.ends_with([' ', '\'', '"', '`', ':', '(']))
    };
    let at = line.match_indices('/').map(|(at, _)| at).find(|at| begins(*at))?;
    let (before, rest) = line.split_at(at);
    let end = match before.chars().next_back() {
        Some(quote @ ('\'' | '"' | '`')) => rest.find(quote),
        _ => rest.find([' ', ':', ')', ',']),
    };
    let path = rest.get(..end.unwrap_or(rest.len()))?.trim_end();
    (path.len() > 1).then(|| Path::new(path))
}

/// Returns a note about the sandbox's grants if the output looks like a denial. A denial by the sandbox
/// resembles any other failure.
pub(super) fn denial_note(permit: &Permit, report: &RunReport) -> Option<String> {
    let outputs = [&report.stderr, &report.stdout].map(|output| {
        String::from_utf8_lossy(&[output.head.as_slice(), &output.tail].concat()).to_lowercase()
    });
    let phrases =
        ["permission denied", "operation not permitted", "read-only file system", "network is unreachable"];
    let looks_denied = phrases.iter().any(|phrase| outputs.iter().any(|output| output.contains(phrase)));
    if matches!(report.end, RunEnd::Exited(0)) || !looks_denied {
        return None;
    }
    let writable =
        permit.sandbox_folders().iter().filter(|folder| folder.access() == WorkspaceAccess::ReadWrite);
    let writable: Vec<String> = writable.map(|folder| folder.root().display().to_string()).collect();
    let network = match permit.confinement().network {
        NetworkAccess::Off => "off",
        NetworkAccess::Loopback => "loopback",
        NetworkAccess::Full => "full",
    };
    Some(format!(
        "the sandbox may have denied an operation: it can write to {} and its private /tmp; its network is {network}",
        if writable.is_empty() { "no directory".to_owned() } else { writable.join(", ") }
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(end: RunEnd, text: &str, expect: &[(&str, &str)]) {
        let granted = RunGrants {
            writable: vec![Path::new("/w")],
            readable: vec![Path::new("/r")],
            network: NetworkAccess::Off,
            directory: "/w".into(),
            shows: &|path| !path.ends_with(".env"),
        };
        let all = detect_denials(end, text, &granted);
        let matches = |denied: &SandboxDenial, (message, grant): &(&str, &str)| {
            denied.message.contains(message) && denied.grant.contains(grant)
        };
        let is_same = all.len() == expect.len() && all.iter().zip(expect).all(|(one, two)| matches(one, two));
        assert!(is_same, "{text}: {all:?}");
    }

    #[test]
    fn denial_messages_are_reported_with_a_grant() {
        let failed = RunEnd::Exited(1);
        check(RunEnd::Exited(0), "cat: /home/me/x: Permission denied", &[]);
        check(failed, "all is well in /home/me", &[]);
        check(
            failed,
            "cat: /home/me/x: Permission denied",
            &[("/home/me/x", "a directory above `/home/me/x`")],
        );
        check(
            failed,
            "PermissionError: [Errno 13] Permission denied: '/home/a b/x'",
            &[("PermissionError", "`/home/a b/x`")],
        );
        check(
            failed,
            "touch: cannot touch '/r/new': Read-only file system",
            &[("/r/new", "`/r/new` without read-only")],
        );
        check(
            failed,
            "error: /w/.git/config: Read-only file system",
            &[("config", "other programs execute")],
        );
        check(failed, "fatal: Could not resolve host: example.org", &[("resolve", "`network: loopback`")]);
        check(failed, "cat: .env: Permission denied", &[("cat", "a rule for `/w/.env`")]);
        check(
            failed,
            "PermissionError: [Errno 13] Permission denied: '.env'",
            &[("13", "a rule for `/w/.env`")],
        );
        check(
            failed,
            "sh: 1: cannot create .git/config: Read-only file system",
            &[("sh", "only the operator")],
        );
        check(
            failed,
            "tee: .git/config: Read-only file system",
            &[("tee", "only the operator changes them")],
        );
        check(failed, "cat: own: Permission denied", &[]);
        check(failed, "cat: /w/own: Permission denied", &[]);
        check(failed, "Permission denied", &[]);
        let twice = "cat: /x/y: Permission denied\ncat: /x/y: Permission denied";
        check(failed, twice, &[("/x/y", "`/x/y`")]);
        let many: String = (0..20).map(|n| format!("cat: /x/{n}: Permission denied\n")).collect();
        check(failed, &many, &[("", ""); MAX_DENIALS]);
    }

    #[test]
    fn signal_of_a_limit_names_the_setting() {
        check(RunEnd::Signalled(24), "", &[("CPU", "cpu_seconds")]);
        check(RunEnd::Signalled(25), "", &[("file", "max_file_size_mb")]);
        check(RunEnd::Denied, "", &[("architecture", "cannot be granted")]);
        check(RunEnd::TimedOut, "", &[("longer", "timeout_seconds")]);
        check(RunEnd::OutOfMemory, "", &[("memory", "memory_mb")]);
        check(RunEnd::TooManyProcesses, "", &[("processes", "max_processes")]);
        check(RunEnd::Signalled(9), "", &[]);
    }

    #[test]
    fn limit_messages_are_reported_with_their_setting() {
        for (text, grant) in [
            ("OSError: [Errno 27] File too large", "max_file_size_mb"),
            ("MemoryError", "memory_mb"),
            ("sh: 1: Cannot fork: Resource temporarily unavailable", "max_processes"),
            ("RuntimeError: can't start new thread", "max_processes"),
            ("OSError: [Errno 24] Too many open files: 'x'", "cannot be raised"),
            ("semget: Function not implemented", "cannot be granted"),
            ("tee: /tmp/x: No space left on device", "/tmp is in memory"),
        ] {
            check(RunEnd::Exited(1), text, &[("", grant)]);
        }
        check(RunEnd::Exited(1), "tee: /w/x: No space left on device", &[]);
    }
}
