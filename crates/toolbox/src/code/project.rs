//! Environment variables for the programs of a project, and extraction of their error messages.

use std::ffi::OsString;

use governance::Permit;

/// Home directories of cargo and rustup: name of the directory, and the variable that points to it. Set if
/// the policy lists such a directory as a program directory.
const HOMES: [(&str, &str); 2] = [(".cargo", "CARGO_HOME"), (".rustup", "RUSTUP_HOME")];

/// Returns why a program failed, from its stderr: the first error line and the last line.
pub(super) fn reason(stderr: &str) -> String {
    let mut lines = stderr.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.clone().find(|line| line.starts_with("error"));
    match (first, lines.next_back()) {
        (Some(first), Some(last)) if first != last => format!("{first}: {last}"),
        (_, Some(last)) => last.to_owned(),
        (_, None) => "it gave no reason".to_owned(),
    }
}

/// Returns the environment variables for programs of a project: offline, non-interactive, without extra files
/// in the project.
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
    fn reason_has_the_first_error_and_the_last_line() {
        let check = |stderr: &str, expect: &str| assert_eq!(reason(stderr), expect, "{stderr:?}");
        check("", "it gave no reason");
        check("warning: x\n\nno such file\n\n", "no such file");
        check("error: no lock\n\nCaused by:\n  read-only\n", "error: no lock: read-only");
        check("error: only this\n", "error: only this");
    }
}
