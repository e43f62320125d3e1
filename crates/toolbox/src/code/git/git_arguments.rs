//! Types for the revisions and files that a caller passes to git, so that no value can be parsed as an
//! option, a range or a pattern, or leave the repository.

use std::ffi::OsString;

use schemars::JsonSchema;
use serde::Deserialize;
use tool::{Failure, FailureKind};

/// Commit, branch or tag, given by one name.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(transparent)]
pub(crate) struct Revision(
    #[schemars(
        length(min = 1, max = 250),
        extend("pattern" = r"^[0-9A-Za-z_]([0-9A-Za-z_/@^~{}+-]|\.[0-9A-Za-z_/@^~{}+-])*$")
    )]
    String,
);

/// Empty tree of SHA-1 repositories. It always exists.
const EMPTY_TREE: &str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";

impl Revision {
    /// Returns the argument for git. It follows `--end-of-options`; the schema excludes a leading dash.
    pub(crate) fn to_argument(&self) -> OsString {
        OsString::from(&self.0)
    }

    /// Returns the argument restricted to a commit. A blob id would show a file's content without its name,
    /// which the path rules need. The empty tree has no content.
    pub(crate) fn to_commit_argument(&self) -> OsString {
        if self.0 == EMPTY_TREE {
            return self.to_argument();
        }
        let mut word = self.to_argument();
        word.push("^{commit}");
        word
    }
}

/// File or directory of the repository, relative to the directory of the call.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(transparent)]
pub(crate) struct RepoPath(
    #[schemars(length(min = 1, max = 4096), extend("pattern" = r"^[^:/\-\x00-\x1f][^\x00-\x1f]*$"))] String,
);

impl RepoPath {
    /// Returns the literal pathspec for git.
    pub(crate) fn to_pathspec(&self) -> Result<OsString, Failure> {
        let mut spec = OsString::from(":(literal)");
        spec.push(self.to_argument()?);
        Ok(spec)
    }

    /// Returns the path without the node id of a test (`file.py::test`).
    pub(crate) fn file_name(&self) -> &str {
        self.0.split("::").next().unwrap_or_default()
    }

    /// Returns the path as an argument that follows `--`.
    pub(crate) fn to_argument(&self) -> Result<OsString, Failure> {
        if self.0.split('/').any(|part| part == "..") {
            let message = format!("`{}` leaves the directory given by `path`", self.0);
            return Err(Failure::new(FailureKind::WrongKind, message).with_hint("name a file inside `path`"));
        }
        Ok(OsString::from(&self.0))
    }
}

/// Returns the pathspec that excludes this file, given relative to the repository root.
pub(crate) fn exclude_pathspec(path: &str) -> OsString {
    OsString::from(format!(":(top,exclude,literal){path}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_that_leave_the_repository_are_refused() {
        let spec = |text: &str| serde_json::from_value::<RepoPath>(json!(text)).unwrap().to_pathspec();
        for text in ["..", "a/..", "../a", "a/../../b"] {
            assert_eq!(spec(text).unwrap_err().kind, FailureKind::WrongKind, "{text}");
        }
        assert_eq!(spec("a..b/c*").unwrap(), ":(literal)a..b/c*");
    }
}
