//! What the walls stopped, as far as it can be told. The kernel tells a program and nobody else, so what there is to go by
//! is what the program says, and by which signal it ended. A guess, and shown as what the program said.

use std::path::Path;

use governance::{Network, Permit, WorkspaceAccess};
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
}

impl<'a> Granted<'a> {
    fn of(permit: &'a Permit) -> Granted<'a> {
        let of = |access| {
            let folders = permit.folders().iter().filter(move |folder| folder.access() == access);
            folders.map(|folder| folder.root()).collect()
        };
        let network = permit.confinement().network;
        Granted { writable: of(WorkspaceAccess::ReadWrite), readable: of(WorkspaceAccess::ReadOnly), network }
    }
}

/// What the walls stopped in a run.
pub(super) fn by_walls(permit: &Permit, report: &Report) -> Vec<Denied> {
    let text = [&report.stderr, &report.stdout].map(|output| {
        String::from_utf8_lossy(&[output.head.as_slice(), b"\n", &output.tail].concat()).into_owned()
    });
    found(report.end, &text.join("\n"), &Granted::of(permit))
}

fn found(end: End, said: &str, granted: &Granted<'_>) -> Vec<Denied> {
    let by_signal = match end {
        End::Signalled(24) => Some(("it used up its processor time", "`cpu_seconds` of tools.yaml")),
        End::Signalled(25) => {
            Some(("it wrote a file past the largest size", "`max_file_size_mb` of tools.yaml"))
        }
        End::Denied => Some((
            "it made a system call of another architecture",
            "nothing grants it: run a program of this machine's architecture",
        )),
        _ => None,
    };
    let mut all: Vec<Denied> = by_signal
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

/// How what this line complains of would be granted, if it complains of a wall.
fn way_out(line: &str, granted: &Granted<'_>) -> Option<String> {
    let lower = line.to_lowercase();
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
    if !says(&["permission denied", "read-only file system", "operation not permitted"]) {
        return None;
    }
    let path = path_in(line)?;
    let within = |folders: &[&Path]| folders.iter().any(|folder| path.starts_with(folder));
    Some(match (within(&granted.writable), within(&granted.readable)) {
        (true, _) => {
            "the name is forbidden (`forbidden_paths`), or one that others act on, which only you change"
                .to_owned()
        }
        (false, true) => format!("`sinew workspace add` for `{}`, not read-only", path.display()),
        (false, false) => format!("`sinew workspace add` for a folder above `{}`", path.display()),
    })
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
        check(failed, "error: /w/.git/config: Read-only file system", &[("config", "others act on")]);
        check(failed, "fatal: Could not resolve host: example.org", &[("resolve", "`network: loopback`")]);
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
        check(End::Signalled(9), "", &[]);
    }
}
