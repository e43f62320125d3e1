//! What the tools of a project have in common: the variables they all run with, and how their programs complain.

use std::ffi::OsString;

use governance::Permit;

/// What cargo and rustup call their own folders, by the name each has in a home. A policy that names one as a folder of
/// programs means it as that.
const HOMES: [(&str, &str); 2] = [(".cargo", "CARGO_HOME"), (".rustup", "RUSTUP_HOME")];

/// Why a program says that it did not do its work: what it calls an error, and its last words.
pub(super) fn reason(said: &str) -> String {
    let mut lines = said.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.clone().find(|line| line.starts_with("error"));
    match (first, lines.next_back()) {
        (Some(first), Some(last)) if first != last => format!("{first}: {last}"),
        (_, Some(last)) => last.to_owned(),
        (_, None) => "it gave no reason".to_owned(),
    }
}

/// Nothing is fetched, nothing is asked, nothing is left behind in the project that it does not make itself.
pub(super) fn variables(permit: &Permit) -> Vec<(String, OsString)> {
    let homes = permit.program_folders().iter().filter_map(|folder| {
        let (_, variable) = HOMES.iter().find(|(name, _)| folder.ends_with(name))?;
        Some(((*variable).to_owned(), folder.clone().into_os_string()))
    });
    let fixed = [
        ("PYTHONDONTWRITEBYTECODE", "1"),
        ("PYTHONNOUSERSITE", "1"),
        ("CARGO_TARGET_DIR", "/tmp/target"),
        ("CARGO_NET_OFFLINE", "true"),
        ("CARGO_TERM_COLOR", "never"),
        ("npm_config_offline", "true"),
        ("npm_config_update_notifier", "false"),
        ("CI", "1"),
    ]
    .map(|(name, value)| (name.to_owned(), OsString::from(value)));
    fixed.into_iter().chain(homes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_what_is_called_an_error_and_what_was_said_last() {
        let check = |said: &str, expect: &str| assert_eq!(reason(said), expect, "{said:?}");
        check("", "it gave no reason");
        check("warning: x\n\nno such file\n\n", "no such file");
        check("error: no lock\n\nCaused by:\n  read-only\n", "error: no lock: read-only");
        check("error: only this\n", "error: only this");
    }
}
