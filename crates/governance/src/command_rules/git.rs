//! Knowledge of git that forbidding rules need, because the same git command can be written in several ways.
//!
//! An alias is a command under another name. A config option on the command line can define an alias or name
//! a program to run. Some git commands run the words that follow them. Files in the repository are not read
//! here.

use super::quiet::is_in;
use super::readings::{is_for_a_shell, last_name};
use crate::surroundings::FileNames;

/// Built-in commands of all git versions so far. Git does not let an alias replace one of them.
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

/// Built-in commands that run no program named by their words (`grep` only without `-O`). The words of all
/// other commands are searched.
const QUIET: &str = "add am annotate apply blame branch bundle cat-file check-attr check-ignore check-mailmap \
    check-ref-format checkout checkout-index cherry cherry-pick clean column commit commit-graph commit-tree count-objects \
    describe diff diff-files diff-index diff-pairs diff-tree fmt-merge-msg for-each-ref format-patch fsck gc \
    get-tar-commit-id grep hash-object index-pack init interpret-trailers last-modified log ls-files ls-tree mailinfo \
    mailsplit merge merge-base merge-file merge-tree mktag mktree multi-pack-index mv name-rev notes pack-objects pack-refs \
    patch-id prune prune-packed range-diff read-tree reflog refs repack replace replay rerere reset restore rev-list \
    rev-parse revert rm shortlog show show-branch show-index show-ref sparse-checkout stage stash status stripspace switch \
    symbolic-ref tag unpack-file unpack-objects update-index update-ref update-server-info var verify-commit verify-pack \
    verify-tag version whatchanged worktree write-tree";

/// Options before the command that take the next word as their value.
const WITH_A_WORD: &[&str] = &[
    "-C",
    "-c",
    "--git-dir",
    "--work-tree",
    "--namespace",
    "--super-prefix",
    "--config-env",
    "--attr-source",
    "--shallow-file",
];

/// Options before the command that can change which programs git runs.
const SETTINGS: &[&str] = &["-c", "--config-env", "--exec-path"];

/// Words after `git`, parsed into options, command and arguments.
#[derive(Debug, PartialEq, Eq)]
struct Line<'w> {
    /// True if a config option precedes the command.
    is_set: bool,
    command: Option<&'w str>,
    rest: &'w [String],
}

impl<'w> Line<'w> {
    fn of(words: &'w [String]) -> Self {
        let (mut is_set, mut at) = (false, 0);
        while let Some(word) = words.get(at) {
            if !word.starts_with('-') {
                return Line { is_set, command: Some(word), rest: words.get(at + 1..).unwrap_or_default() };
            }
            let name = word.split('=').next().unwrap_or_default();
            is_set |= SETTINGS.contains(&name);
            at += taken(word);
        }
        Line { is_set, command: None, rest: &[] }
    }
}

/// Returns the number of words that an option before the command takes, itself included.
fn taken(option: &str) -> usize {
    if WITH_A_WORD.contains(&option) { 2 } else { 1 }
}

/// Returns true if git, with these words, runs no program that one of them names.
pub(super) fn starts_nothing(words: &[String]) -> bool {
    let Line { is_set, command, rest } = Line::of(words);
    !is_set && command.is_none_or(|command| is_in(QUIET, command) && !(command == "grep" && opens(rest)))
}

/// Returns true if `git grep` opens its matches in a program: `-O`, also in a group of letters, or an
/// abbreviation of `--open-files-in-pager`.
fn opens(words: &[String]) -> bool {
    words.iter().any(|word| match word.strip_prefix("--") {
        Some(long) => long.starts_with("op"),
        None => word.starts_with('-') && word.contains('O'),
    })
}

/// Returns true if a git in this line gets a command that is not built in, which is an alias and may run
/// anything.
///
/// A word before the command that contains shell syntax counts as an alias too: it is a command line of its
/// own and may run git with any command.
pub(super) fn is_given_an_alias(line: &[String], is_git: impl Fn(&str) -> bool) -> bool {
    // Scans from the end, so that a long line is read once. `next` is the command of a git at the current
    // position, `second` the command of a git one word earlier.
    let (mut next, mut second, mut behind): (Option<&str>, Option<&str>, Option<&str>) = (None, None, None);
    for word in line.iter().rev().map(String::as_str) {
        if is_git(word) && next.is_some_and(|command| !is_in(OWN, command)) {
            return true;
        }
        let value = behind.filter(|_| taken(word) == 2);
        let several = [Some(word), value].into_iter().flatten().find(|word| word.contains(is_for_a_shell));
        let here = match (word.starts_with('-'), several) {
            (false, _) => Some(word),
            (true, Some(several)) => Some(several),
            (true, None) if value.is_some() => second,
            (true, None) => next,
        };
        (next, second, behind) = (here, next, Some(word));
    }
    false
}

/// Returns the line with programs such as `git-push` written as `git push`; `None` if it contains no such
/// program.
pub(super) fn spelt_out(line: &[String], names: FileNames) -> Option<Vec<String>> {
    let command = |word: &String| {
        let name = last_name(word, names);
        name.strip_prefix("git-").filter(|command| is_in(OWN, command)).map(str::to_owned)
    };
    line.iter().any(|word| command(word).is_some()).then(|| {
        let spelt = |word: &String| match command(word) {
            Some(command) => vec!["git".to_owned(), command],
            None => vec![word.clone()],
        };
        line.iter().flat_map(spelt).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn git_command_is_found_after_its_options() {
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
            let found = Line::of(&words);
            assert_eq!((found.is_set, found.command), (is_set, command), "{line}");
        }
    }

    #[test]
    fn command_that_is_not_built_into_git_is_an_alias() {
        for (line, expect) in [
            ("git push", false),
            ("git -C x status", false),
            ("git p", true),
            ("git psuh", true),
            ("git -c a=b x", true),
            ("git", false),
            ("git -C", false),
            ("git -C x", false),
            ("x git status git y", true),
            ("git -C git -C git status", false),
            ("git -C git -C git st", true),
            ("git -p -C git --git-dir=x log", false),
            ("git -C a;b log", true),
            ("git --git-dir=a;b log", true),
            ("git log a;b", false),
        ] {
            assert_eq!(is_given_an_alias(&words(line), |word| word == "git"), expect, "{line}");
        }
    }

    #[test]
    fn git_dash_program_is_expanded_to_git_and_command() {
        let check = |line: &str, expect: Option<&str>| {
            let found = spelt_out(&words(line), FileNames::CaseSensitive);
            assert_eq!(found, expect.map(words), "{line}");
        };
        check("git-push x", Some("git push x"));
        check("nice /usr/lib/git-core/git-push", Some("nice git push"));
        check("git-lfs push", None);
        check("git push", None);
    }

    #[test]
    fn non_executing_commands_are_all_built_into_git() {
        let strangers: Vec<_> = QUIET.split_whitespace().filter(|command| !is_in(OWN, command)).collect();
        assert_eq!(strangers, [""; 0]);
    }
}
