//! Survey of a repository before git works in it: the location of its parts, which decides whether it may be
//! used, and the programs that its configuration names, which are disabled.

use std::path::{Path, PathBuf};

use tool::{Failure, FailureKind};

use crate::code::with_outcome;

/// Queries git itself, in the sandbox. The commands do not read the index, run hooks or filters, or use the
/// network.
pub(super) const SURVEY_SCRIPT: &str = "git --version && printf '\\0' && \
    { git rev-parse --is-bare-repository --show-object-format && \
      git rev-parse --path-format=absolute --absolute-git-dir --git-common-dir --show-toplevel || \
      { { [ -e .git ] || [ -L .git ]; } && echo 'a .git is here' >&2; exit 128; }; } && printf '\\0' && \
    git count-objects -v && printf '\\0' && \
    git config --null --name-only --list";

/// Marker that the script prints if git cannot use an existing `.git`.
pub(super) const UNUSABLE_MARKER: &str = "a .git is here";

/// Repository as reported by git.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RepositorySurvey {
    pub(super) version: String,
    /// Hash of the empty tree, in the object format of the repository.
    pub(super) empty_tree: &'static str,
    pub(super) worktree_root: PathBuf,
    /// Directories that git reads besides its working tree.
    pub(super) git_dirs: Vec<PathBuf>,
    /// Keys of settings that name a program.
    pub(super) program_keys: Vec<String>,
}

impl RepositorySurvey {
    /// Parses the output of the script.
    pub(super) fn parse(text: &str) -> Option<RepositorySurvey> {
        let mut sections = text.splitn(4, '\0');
        let version = sections.next()?.trim().strip_prefix("git version ")?.to_owned();
        let lines: Vec<&str> = sections.next()?.lines().collect();
        // A path with a line break produces extra lines, and is refused by this match.
        let [bare, format, folder, shared, top] = lines.as_slice() else { return None };
        let empty_tree = match *format {
            "sha1" => "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
            "sha256" => "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321",
            _ => return None,
        };
        let others = sections.next()?.lines().filter_map(|line| line.strip_prefix("alternate: "));
        let parts = [*folder, *shared].into_iter().chain(others).map(PathBuf::from).collect();
        let programs = sections.next()?.split('\0').filter(|key| names_program(key)).map(str::to_owned);
        (*bare == "false").then(|| RepositorySurvey {
            version,
            empty_tree,
            worktree_root: PathBuf::from(top),
            git_dirs: parts,
            program_keys: programs.collect(),
        })
    }

    /// Checks that everything git would read is inside the granted directories and visible to the call.
    pub(super) fn check_access(&self, may_read: impl Fn(&Path) -> bool) -> Result<(), Failure> {
        let outside = [&self.worktree_root].into_iter().chain(&self.git_dirs).find(|part| !may_read(part));
        match outside {
            None => Ok(()),
            Some(part) => Err(repository_not_allowed(&format!(
                "git would read `{}`, outside the granted directories",
                part.display()
            ))),
        }
    }
}

/// Returns true if a setting makes git start a program while it converts or shows a file.
fn names_program(key: &str) -> bool {
    let (first, last) = (key.split('.').next(), key.rsplit('.').next());
    match first {
        Some("filter") => matches!(last, Some("clean" | "smudge" | "process" | "required")),
        Some("diff") => key.matches('.').count() > 1 && matches!(last, Some("command" | "textconv")),
        _ => false,
    }
}

/// Failure for a repository that must not be used.
pub(super) fn repository_not_allowed(reason: &str) -> Failure {
    let message = format!("this repository is not allowed: {reason}");
    let hint = "use a repository whose `.git`, working tree and alternates are inside the workspaces";
    with_outcome(Failure::new(FailureKind::Unreadable, message).with_hint(hint), "repo_not_allowed")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(alternates: &str, config: &str) -> String {
        format!(
            "git version 2.47.3\n\0false\nsha1\n/w/r/.git\n/w/r/.git\n/w/r\n\0count: 0\n{alternates}size: 0\n\0{config}"
        )
    }

    #[test]
    fn locations_and_programs_are_parsed() {
        let config =
            "core.bare\0filter.a=b.c.clean\0filter.lfs.required\0diff.external\0diff.pdf.textconv\0alias.x\0";
        let survey = RepositorySurvey::parse(&text("alternate: /other/objects\n", config)).unwrap();
        assert_eq!(survey.version, "2.47.3");
        assert_eq!(survey.program_keys, ["filter.a=b.c.clean", "filter.lfs.required", "diff.pdf.textconv"]);
        let inside = |path: &Path| path.starts_with("/w");
        let refused = survey.check_access(inside).unwrap_err();
        assert!(refused.message.contains("`/other/objects`"), "{refused}");
        assert_eq!(refused.output.unwrap()["outcome"], "repo_not_allowed");
        RepositorySurvey::parse(&text("", "")).unwrap().check_access(inside).unwrap();
        RepositorySurvey::parse(&text("", ""))
            .unwrap()
            .check_access(|path| path != Path::new("/w/r"))
            .unwrap_err();
    }

    #[test]
    fn unknown_survey_output_is_rejected() {
        let good = text("", "");
        for bad in [
            good.replace("false", "true"),
            good.replace("sha1", "md5"),
            good.replace("/w/r\n", "/w/r\nx\n"),
            good.replace("git version", "hub version"),
            String::new(),
        ] {
            assert_eq!(RepositorySurvey::parse(&bad), None, "{bad}");
        }
    }
}
