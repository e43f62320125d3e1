//! What must be known of a repository before git works in it: where its parts are, and which programs its configuration
//! names. The first decides whether it may be used at all; the second is what is switched off.

use std::path::{Path, PathBuf};

use tool::{Failure, FailureKind};

use crate::code::outcome;

/// Asks git itself, inside the walls. Nothing here reads the index, runs a hook or a filter, or goes anywhere.
pub(super) const SCRIPT: &str = "git --version && printf '\\0' && \
    { git rev-parse --is-bare-repository --show-object-format && \
      git rev-parse --path-format=absolute --absolute-git-dir --git-common-dir --show-toplevel || \
      { { [ -e .git ] || [ -L .git ]; } && echo 'a .git is here' >&2; exit 128; }; } && printf '\\0' && \
    git count-objects -v && printf '\\0' && \
    git config --null --name-only --list";

/// What the script says of a `.git` that git cannot use.
pub(super) const UNUSABLE: &str = "a .git is here";

/// A repository as git sees it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Survey {
    pub(super) version: String,
    /// The hash of a tree without files, in the repository's own format.
    pub(super) empty_tree: &'static str,
    pub(super) top: PathBuf,
    /// Folders that git reads besides its working tree.
    pub(super) parts: Vec<PathBuf>,
    /// Settings that name a program, by their keys.
    pub(super) programs: Vec<String>,
}

impl Survey {
    /// Reads what the script wrote.
    pub(super) fn read(text: &str) -> Option<Survey> {
        let mut sections = text.splitn(4, '\0');
        let version = sections.next()?.trim().strip_prefix("git version ")?.to_owned();
        let places: Vec<&str> = sections.next()?.lines().collect();
        // A name with a line break makes more lines than there are answers, and is refused so.
        let [bare, format, folder, shared, top] = places.as_slice() else { return None };
        let empty_tree = match *format {
            "sha1" => "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
            "sha256" => "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321",
            _ => return None,
        };
        let others = sections.next()?.lines().filter_map(|line| line.strip_prefix("alternate: "));
        let parts = [*folder, *shared].into_iter().chain(others).map(PathBuf::from).collect();
        let programs = sections.next()?.split('\0').filter(|key| names_program(key)).map(str::to_owned);
        (*bare == "false").then(|| Survey {
            version,
            empty_tree,
            top: PathBuf::from(top),
            parts,
            programs: programs.collect(),
        })
    }

    /// Whether everything git would read is inside the folders that were granted, and may be seen.
    pub(super) fn check(&self, may_read: impl Fn(&Path) -> bool) -> Result<(), Failure> {
        let outside = [&self.top].into_iter().chain(&self.parts).find(|part| !may_read(part));
        match outside {
            None => Ok(()),
            Some(part) => Err(not_allowed(&format!("git would read `{}`", part.display()))),
        }
    }
}

/// Whether a setting makes git start something while it converts or shows a file.
fn names_program(key: &str) -> bool {
    let (first, last) = (key.split('.').next(), key.rsplit('.').next());
    match first {
        Some("filter") => matches!(last, Some("clean" | "smudge" | "process" | "required")),
        Some("diff") => key.matches('.').count() > 1 && matches!(last, Some("command" | "textconv")),
        _ => false,
    }
}

/// A repository that is refused.
pub(super) fn not_allowed(why: &str) -> Failure {
    let message = format!("this repository is not used: {why}, which is outside what the call was granted");
    let hint = "use a repository whose `.git`, working tree and alternates are inside the workspaces";
    outcome(Failure::new(FailureKind::Unreadable, message).hint(hint), "repo_not_allowed")
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
    fn places_and_programs_are_found() {
        let config =
            "core.bare\0filter.a=b.c.clean\0filter.lfs.required\0diff.external\0diff.pdf.textconv\0alias.x\0";
        let survey = Survey::read(&text("alternate: /other/objects\n", config)).unwrap();
        assert_eq!(survey.version, "2.47.3");
        assert_eq!(survey.programs, ["filter.a=b.c.clean", "filter.lfs.required", "diff.pdf.textconv"]);
        let inside = |path: &Path| path.starts_with("/w");
        let refused = survey.check(inside).unwrap_err();
        assert!(refused.message.contains("`/other/objects`"), "{refused}");
        assert_eq!(refused.output.unwrap()["outcome"], "repo_not_allowed");
        Survey::read(&text("", "")).unwrap().check(inside).unwrap();
        Survey::read(&text("", "")).unwrap().check(|path| path != Path::new("/w/r")).unwrap_err();
    }

    #[test]
    fn what_is_not_understood_is_no_repository() {
        let good = text("", "");
        for bad in [
            good.replace("false", "true"),
            good.replace("sha1", "md5"),
            good.replace("/w/r\n", "/w/r\nx\n"),
            good.replace("git version", "hub version"),
            String::new(),
        ] {
            assert_eq!(Survey::read(&bad), None, "{bad}");
        }
    }
}
