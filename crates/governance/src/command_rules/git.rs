//! What a rule that forbids must know of git: the same command can be given to it in other words.
//!
//! An alias is a command under another name, a setting on the line makes one or names a program to run, and some of its
//! commands run what follows them. What stands in the files of a repository is not seen here.

use super::last_name;
use crate::surroundings::FileNames;

/// Git's own commands, of all its versions so far: no alias takes their place.
const OWN: &str = "add am annotate apply archimport archive backfill bisect blame branch bugreport bundle cat-file \
    check-attr check-ignore check-mailmap check-ref-format checkout checkout--worker checkout-index cherry cherry-pick \
    citool clean clone column commit commit-graph commit-tree config count-objects credential credential-cache \
    credential-cache--daemon credential-store cvsexportcommit cvsimport cvsserver daemon describe diagnose diff \
    diff-files diff-index diff-pairs diff-tree difftool difftool--helper fast-export fast-import fetch fetch-pack \
    filter-branch fmt-merge-msg for-each-ref for-each-repo format-patch fsck fsck-objects fsmonitor--daemon gc \
    get-tar-commit-id gitk grep gui hash-object help hook http-backend http-fetch http-push imap-send index-pack init \
    init-db instaweb interpret-trailers last-modified log ls-files ls-remote ls-tree mailinfo mailsplit maintenance \
    merge merge-base merge-file merge-index merge-octopus merge-one-file merge-ours merge-recursive \
    merge-recursive-ours merge-recursive-theirs merge-resolve merge-subtree merge-tree mergetool mktag mktree \
    multi-pack-index mv name-rev notes p4 pack-objects pack-redundant pack-refs patch-id pickaxe prune prune-packed \
    pull push quiltimport range-diff read-tree rebase receive-pack reflog refs remote remote-ext remote-fd remote-ftp \
    remote-ftps remote-http remote-https repack replace replay repo request-pull rerere reset restore rev-list \
    rev-parse revert rm send-email send-pack sh-i18n--envsubst shell shortlog show show-branch show-index show-ref \
    sparse-checkout stage stash status stripspace submodule submodule--helper svn switch symbolic-ref tag unpack-file \
    unpack-objects update-index update-ref update-server-info upload-archive upload-archive--writer upload-pack var \
    verify-commit verify-pack verify-tag version web--browse whatchanged worktree write-tree";

/// Those that run what their words say, on this machine or on the other side.
const RUNNERS: &[&str] = &[
    "archive",
    "bisect",
    "clone",
    "difftool",
    "fetch",
    "fetch-pack",
    "filter-branch",
    "for-each-repo",
    "hook",
    "ls-remote",
    "mergetool",
    "pull",
    "push",
    "rebase",
    "remote-ext",
    "send-email",
    "send-pack",
    "submodule",
];

/// Options before the command that take the next word.
const WITH_A_WORD: &[&str] = &[
    "-C",
    "-c",
    "--git-dir",
    "--work-tree",
    "--namespace",
    "--super-prefix",
    "--config-env",
    "--attr-source",
];

/// Options before the command that change what it runs.
const SETTINGS: &[&str] = &["-c", "--config-env", "--exec-path"];

/// The words behind git, taken apart.
#[derive(Debug, PartialEq, Eq)]
struct Line<'w> {
    /// Whether settings stand before the command.
    is_set: bool,
    command: Option<&'w str>,
}

impl<'w> Line<'w> {
    fn of(words: &'w [String]) -> Self {
        let (mut is_set, mut words) = (false, words.iter().map(String::as_str));
        while let Some(word) = words.next() {
            if !word.starts_with('-') {
                return Line { is_set, command: Some(word) };
            }
            let name = word.split('=').next().unwrap_or_default();
            is_set |= SETTINGS.contains(&name);
            if WITH_A_WORD.contains(&word) {
                words.next();
            }
        }
        Line { is_set, command: None }
    }
}

/// Whether this line has git run what one of its words says.
pub(super) fn runs_its_words(line: &[String], names: FileNames) -> bool {
    let Some((program, words)) = line.split_first() else { return false };
    let program = last_name(program, names);
    let (is_set, command) = match program.strip_prefix("git-") {
        Some(command) => (false, Some(command)),
        None if program == "git" => {
            let Line { is_set, command } = Line::of(words);
            (is_set, command)
        }
        None => return false,
    };
    is_set || command.is_some_and(|command| RUNNERS.contains(&command))
}

/// Whether the words behind git give it a command that is not its own: an alias, which may stand for any.
pub(super) fn is_alias(words: &[String]) -> bool {
    Line::of(words).command.is_some_and(|command| !OWN.split_whitespace().any(|own| own == command))
}

/// The program `git-push` is `git push`.
pub(super) fn spelt_out(program: &str) -> Option<[String; 2]> {
    let command =
        program.strip_prefix("git-").filter(|command| OWN.split_whitespace().any(|own| own == *command))?;
    Some(["git".to_owned(), command.to_owned()])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn a_command_is_found_behind_its_options() {
        for (line, is_set, command) in [
            ("", false, None),
            ("--version", false, None),
            ("status -c x", false, Some("status")),
            ("-C push status", false, Some("status")),
            ("--git-dir=x push", false, Some("push")),
            ("--git-dir x push", false, Some("push")),
            ("-c a=b push", true, Some("push")),
            ("--config-env=a=B st", true, Some("st")),
            ("--config-env a=B st", true, Some("st")),
            ("--exec-path=/x st", true, Some("st")),
            ("-p --no-pager log", false, Some("log")),
            ("-c", true, None),
        ] {
            let words = words(line);
            assert_eq!(Line::of(&words), Line { is_set, command }, "{line}");
        }
    }

    #[test]
    fn an_alias_is_whatever_is_not_gits_own() {
        for (line, expect) in [
            ("push", false),
            ("-C x status", false),
            ("p", true),
            ("psuh", true),
            ("-c a=b x", true),
            ("", false),
        ] {
            assert_eq!(is_alias(&words(line)), expect, "{line}");
        }
        assert_eq!(spelt_out("git-push"), Some(["git".to_owned(), "push".to_owned()]));
        assert_eq!((spelt_out("git-lfs"), spelt_out("git")), (None, None));
    }
}
