//! What the walls stopped, as far as it can be told. The kernel tells a program and nobody else, so what there is to go by
//! is what the program says, and by which signal it ended. A guess, and shown as what the program said.

use std::path::{Path, PathBuf};

use governance::{Network, Permit, Stands, WorkspaceAccess, runs_by_itself};
use sandbox::{End, Report};
use schemars::JsonSchema;
use serde::Serialize;

/// More of them say nothing more.
const MOST: usize = 5;
const LONGEST_LINE: usize = 300;

/// One thing that a wall stopped.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct Denied {
    /// What the program said, or what ended it.
    what: String,
    /// How it would be granted.
    grant: String,
}

/// What a run was granted.
struct Granted<'a> {
    writable: Vec<&'a Path>,
    readable: Vec<&'a Path>,
    network: Network,
    /// Where it ran.
    folder: PathBuf,
    shows: &'a dyn Fn(&Path) -> bool,
}

/// What the walls stopped in a run.
pub(super) fn by_walls(permit: &Permit, report: &Report) -> Vec<Denied> {
    let text = [&report.stderr, &report.stdout].map(|output| {
        String::from_utf8_lossy(&[output.head.as_slice(), b"\n", &output.tail].concat()).into_owned()
    });
    let of = |access| {
        let folders = permit.folders().iter().filter(move |folder| folder.access() == access);
        folders.map(|folder| folder.root()).collect()
    };
    let first = || permit.folders().first().map(|folder| folder.root());
    let folder = permit.path("cwd").map(|folder| folder.canonical()).or_else(first);
    let granted = Granted {
        writable: of(WorkspaceAccess::ReadWrite),
        readable: of(WorkspaceAccess::ReadOnly),
        network: permit.confinement().network,
        folder: folder.unwrap_or(Path::new("/")).to_owned(),
        shows: &|path| permit.shows(path),
    };
    found(report.end, &text.join("\n"), &granted)
}

fn found(end: End, said: &str, granted: &Granted<'_>) -> Vec<Denied> {
    let mut all: Vec<Denied> = by_end(end)
        .into_iter()
        .map(|(what, grant)| Denied { what: what.to_owned(), grant: grant.to_owned() })
        .collect();
    if end != End::Exited(0) {
        for line in said.lines() {
            let Some(grant) = way_out(line, granted) else { continue };
            let what: String = line.trim().chars().take(LONGEST_LINE).collect();
            if all.len() < MOST && all.iter().all(|known| known.what != what) {
                all.push(Denied { what, grant });
            }
        }
    }
    all
}

/// What is known and not guessed: which limit ended it.
fn by_end(end: End) -> Option<(&'static str, &'static str)> {
    Some(match end {
        End::Signalled(24) => ("it used up its processor time", "`cpu_seconds` of tools.yaml"),
        End::Signalled(25) => ("it wrote a file past the largest size", "`max_file_size_mb` of tools.yaml"),
        End::TimedOut => ("it took longer than it may", "`timeout_seconds` of tools.yaml, or of the call"),
        End::OutOfMemory => ("it used more memory than it may", "`memory_mb` of tools.yaml"),
        End::TooManyProcesses => ("it had more processes than it may", "`max_processes` of tools.yaml"),
        End::Denied => (
            "it made a system call of another architecture, or ran a program that may not be read",
            "nothing grants it: run programs of this machine's architecture, which you may read",
        ),
        End::Exited(_) | End::Signalled(_) | End::Cancelled | End::Killed => return None,
    })
}

/// What programs say of a limit, and what sets it.
const LIMITS: &[(&str, &str)] = &[
    ("file too large", "`max_file_size_mb` of tools.yaml"),
    ("cannot allocate memory", "`memory_mb` of tools.yaml"),
    ("memoryerror", "`memory_mb` of tools.yaml"),
    ("out of memory", "`memory_mb` of tools.yaml"),
    ("resource temporarily unavailable", "`max_processes` of tools.yaml"),
    ("can't start new thread", "`max_processes` of tools.yaml"),
    ("too many open files", "nothing grants more: it must close some"),
    (
        "function not implemented",
        "nothing grants it: the walls are made of it, or nobody could count what it holds",
    ),
];

/// How what this line complains of would be granted, if it complains of a wall.
fn way_out(line: &str, granted: &Granted<'_>) -> Option<String> {
    let lower = line.to_ascii_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    let network = [
        "network is unreachable",
        "could not resolve host",
        "name resolution",
        "getaddrinfo",
        "connection refused",
        "socket: operation not permitted",
    ];
    if says(&network) {
        return match granted.network {
            Network::Off => Some("`network: loopback` or `network: full` of tools.yaml".to_owned()),
            Network::Loopback => Some("`network: full` of tools.yaml".to_owned()),
            Network::Full => None,
        };
    }
    if let Some((_, grant)) = LIMITS.iter().find(|(words, _)| lower.contains(words)) {
        return Some((*grant).to_owned());
    }
    if says(&["no space left on device"]) && path_in(line).is_some_and(|path| path.starts_with("/tmp")) {
        return Some("`memory_mb` of tools.yaml: what is in /tmp is memory".to_owned());
    }
    let complaint = COMPLAINTS.iter().find_map(|words| lower.find(words))?;
    let path = match path_in(line) {
        Some(path) => path.to_owned(),
        None => granted.folder.join(name_beside(line, complaint)?),
    };
    let within = |folders: &[&Path]| folders.iter().any(|folder| path.starts_with(folder));
    Some(match (within(&granted.writable), within(&granted.readable)) {
        _ if (within(&granted.writable) || within(&granted.readable)) && !(granted.shows)(&path) => {
            format!("`forbidden_paths` of tools.yaml, which has a rule for `{}`", path.display())
        }
        (true, _) if runs_by_itself(&path, Stands::Other) => {
            "nothing grants it: others act on what has that name, and only you change it".to_owned()
        }
        // The file's own mode says no, or a folder's.
        (true, _) => return None,
        (false, true) => format!("`sinew workspace add` for `{}`, not read-only", path.display()),
        (false, false) => format!("`sinew workspace add` for a folder above `{}`", path.display()),
    })
}

const COMPLAINTS: &[&str] = &["permission denied", "read-only file system", "operation not permitted"];

/// The name that a complaint is about: before it, as in `cat: .env: `, or after it in quotes.
fn name_beside(line: &str, complaint: usize) -> Option<&str> {
    let (before, after) = line.split_at_checked(complaint)?;
    let quoted = after.split_once(": '").and_then(|(_, rest)| rest.split('\'').next());
    let last_word = || before.trim_end().strip_suffix(':')?.rsplit(' ').next();
    let name = quoted.or_else(last_word)?.trim_matches(['\'', '"', '`']);
    (!name.is_empty()).then_some(name)
}

/// The first absolute path in a line: in quotes, or up to a space or a colon.
fn path_in(line: &str) -> Option<&Path> {
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

/// What a program says when a wall stopped it looks like any other failure, so the walls are named beside it.
pub(super) fn note(permit: &Permit, report: &Report) -> Option<String> {
    let said = [&report.stderr, &report.stdout].map(|output| {
        String::from_utf8_lossy(&[output.head.as_slice(), &output.tail].concat()).to_lowercase()
    });
    let walls =
        ["permission denied", "operation not permitted", "read-only file system", "network is unreachable"];
    let looks_denied = walls.iter().any(|words| said.iter().any(|said| said.contains(words)));
    if matches!(report.end, End::Exited(0)) || !looks_denied {
        return None;
    }
    let writable = permit.folders().iter().filter(|folder| folder.access() == WorkspaceAccess::ReadWrite);
    let writable: Vec<String> = writable.map(|folder| folder.root().display().to_string()).collect();
    let network = match permit.confinement().network {
        Network::Off => "off",
        Network::Loopback => "loopback",
        Network::Full => "full",
    };
    Some(format!(
        "the sandbox may have stopped it: it can write to {} and /tmp, which is its own; its network is {network}",
        if writable.is_empty() { "no folder".to_owned() } else { writable.join(", ") }
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(end: End, said: &str, expect: &[(&str, &str)]) {
        let granted = Granted {
            writable: vec![Path::new("/w")],
            readable: vec![Path::new("/r")],
            network: Network::Off,
            folder: "/w".into(),
            shows: &|path| !path.ends_with(".env"),
        };
        let all = found(end, said, &granted);
        let matches = |denied: &Denied, (what, grant): &(&str, &str)| {
            denied.what.contains(what) && denied.grant.contains(grant)
        };
        let is_same = all.len() == expect.len() && all.iter().zip(expect).all(|(one, two)| matches(one, two));
        assert!(is_same, "{said}: {all:?}");
    }

    #[test]
    fn what_a_program_says_of_a_wall_names_the_way_through() {
        let failed = End::Exited(1);
        check(End::Exited(0), "cat: /home/me/x: Permission denied", &[]);
        check(failed, "all is well in /home/me", &[]);
        check(failed, "cat: /home/me/x: Permission denied", &[("/home/me/x", "a folder above `/home/me/x`")]);
        check(
            failed,
            "PermissionError: [Errno 13] Permission denied: '/home/a b/x'",
            &[("PermissionError", "`/home/a b/x`")],
        );
        check(
            failed,
            "touch: cannot touch '/r/new': Read-only file system",
            &[("/r/new", "`/r/new`, not read-only")],
        );
        check(failed, "error: /w/.git/config: Read-only file system", &[("config", "others act on what")]);
        check(failed, "fatal: Could not resolve host: example.org", &[("resolve", "`network: loopback`")]);
        check(failed, "cat: .env: Permission denied", &[("cat", "a rule for `/w/.env`")]);
        check(
            failed,
            "PermissionError: [Errno 13] Permission denied: '.env'",
            &[("13", "a rule for `/w/.env`")],
        );
        check(failed, "sh: 1: cannot create .git/config: Read-only file system", &[("sh", "only you")]);
        check(failed, "tee: .git/config: Read-only file system", &[("tee", "only you change it")]);
        check(failed, "cat: own: Permission denied", &[]);
        check(failed, "cat: /w/own: Permission denied", &[]);
        check(failed, "Permission denied", &[]);
        let twice = "cat: /x/y: Permission denied\ncat: /x/y: Permission denied";
        check(failed, twice, &[("/x/y", "`/x/y`")]);
        let many: String = (0..20).map(|n| format!("cat: /x/{n}: Permission denied\n")).collect();
        check(failed, &many, &[("", ""); MOST]);
    }

    #[test]
    fn a_signal_of_a_limit_names_the_limit() {
        check(End::Signalled(24), "", &[("processor", "cpu_seconds")]);
        check(End::Signalled(25), "", &[("file", "max_file_size_mb")]);
        check(End::Denied, "", &[("architecture", "nothing")]);
        check(End::TimedOut, "", &[("longer", "timeout_seconds")]);
        check(End::OutOfMemory, "", &[("memory", "memory_mb")]);
        check(End::TooManyProcesses, "", &[("processes", "max_processes")]);
        check(End::Signalled(9), "", &[]);
    }

    #[test]
    fn what_a_program_says_of_a_limit_names_it() {
        for (said, grant) in [
            ("OSError: [Errno 27] File too large", "max_file_size_mb"),
            ("MemoryError", "memory_mb"),
            ("sh: 1: Cannot fork: Resource temporarily unavailable", "max_processes"),
            ("RuntimeError: can't start new thread", "max_processes"),
            ("OSError: [Errno 24] Too many open files: 'x'", "nothing grants more"),
            ("semget: Function not implemented", "nothing grants it"),
            ("tee: /tmp/x: No space left on device", "what is in /tmp is memory"),
        ] {
            check(End::Exited(1), said, &[("", grant)]);
        }
        check(End::Exited(1), "tee: /w/x: No space left on device", &[]);
    }
}
