//! Environment of a confined program, built from scratch. The daemon's own environment reaches no program, so
//! neither a secret nor a variable that a loader or interpreter acts on can leak through an incomplete list.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use tool::result::SandboxTier;

/// Search path for programs, and value of `PATH`. Neither a caller nor a workspace can change it.
pub(crate) const SEARCH_PATH: &[&str] = if cfg!(target_os = "macos") {
    &["/opt/homebrew/bin", "/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin"]
} else {
    &["/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin"]
};

/// Folder for temporary files; on Linux private to the call and removed with it.
pub(crate) const SCRATCH_DIR: &str = "/tmp";

/// Returns the variables that every program has, each as `NAME=value`.
pub(crate) fn build(tier: SandboxTier) -> Vec<OsString> {
    [
        format!("PATH={}", SEARCH_PATH.join(":")),
        format!("HOME={SCRATCH_DIR}"),
        format!("TMPDIR={SCRATCH_DIR}"),
        "LANG=C.UTF-8".to_owned(),
        "TERM=dumb".to_owned(),
        "NO_COLOR=1".to_owned(),
        // A password prompt would wait for input that never comes.
        "GIT_TERMINAL_PROMPT=0".to_owned(),
        // Lets programs that would create their own sandbox detect this one.
        format!("SINEW_SANDBOX={}", tier.as_str()),
    ]
    .map(OsString::from)
    .to_vec()
}

/// Like `build`, with the variables that a tool adds or overrides.
pub(crate) fn with_overrides(tier: SandboxTier, own: &[(String, OsString)]) -> Vec<OsString> {
    let replaced = |word: &OsString| {
        let name = word.as_bytes().split(|byte| *byte == b'=').next().unwrap_or_default();
        own.iter().any(|(known, _)| known.as_bytes() == name)
    };
    let mut all: Vec<OsString> = build(tier).into_iter().filter(|word| !replaced(word)).collect();
    all.extend(own.iter().map(|(name, value)| {
        let mut word = OsString::from(format!("{name}="));
        word.push(value);
        word
    }));
    all
}

/// Returns the names of all variables of a program.
pub(crate) fn names(own: &[(String, OsString)]) -> Vec<String> {
    let name = |word: OsString| {
        let text = word.to_string_lossy().into_owned();
        text.split_once('=').map_or_else(|| text.clone(), |(name, _)| name.to_owned())
    };
    with_overrides(SandboxTier::Full, own).into_iter().map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn daemon_environment_does_not_reach_programs() {
        let built = build(SandboxTier::Full);
        let text = |word: &OsString| word.clone().into_string().unwrap();
        let names: Vec<String> =
            built.iter().map(|word| text(word).split_once('=').unwrap().0.to_owned()).collect();
        let expect =
            ["PATH", "HOME", "TMPDIR", "LANG", "TERM", "NO_COLOR", "GIT_TERMINAL_PROMPT", "SINEW_SANDBOX"];
        assert_eq!(names, expect);
        assert!(built.contains(&OsString::from("SINEW_SANDBOX=full")));
        let own = [("HOME".to_owned(), "/w".into()), ("EXTRA".to_owned(), "1=2".into())];
        let with = with_overrides(SandboxTier::Full, &own);
        assert_eq!(with.len(), built.len() + 1, "one is replaced, one is added");
        assert_eq!(super::names(&own).last().map(String::as_str), Some("EXTRA"));
        for word in ["HOME=/w", "EXTRA=1=2"] {
            assert!(with.contains(&OsString::from(word)), "{word}");
        }
        assert!(SEARCH_PATH.iter().all(|folder| folder.starts_with('/')), "no relative folder is searched");
    }
}
