//! What a caller may say to git: names of commits and of files, as types, so that no word of a caller can be an option,
//! a range, a pattern or a way out of the repository.

use std::ffi::OsString;

use schemars::JsonSchema;
use serde::Deserialize;
use tool::{Failure, FailureKind};

/// A commit, branch or tag, by one name.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(transparent)]
pub(crate) struct Revision(
    #[schemars(
        length(min = 1, max = 250),
        extend("pattern" = r"^[0-9A-Za-z_]([0-9A-Za-z_/@^~{}+-]|\.[0-9A-Za-z_/@^~{}+-])*$")
    )]
    String,
);

/// What every repository has from the beginning.
const EMPTY_TREE: &str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";

impl Revision {
    /// As git's argument. It comes after `--end-of-options`; that it cannot begin with a dash is the schema's.
    pub(crate) fn word(&self) -> OsString {
        OsString::from(&self.0)
    }

    /// The same as a commit: the id of a file's content would show it without its name, which the rules go by. The empty
    /// tree shows nothing.
    pub(crate) fn commit(&self) -> OsString {
        if self.0 == EMPTY_TREE {
            return self.word();
        }
        let mut word = self.word();
        word.push("^{commit}");
        word
    }
}

/// A file or folder of the repository, from where the call stands.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(transparent)]
pub(crate) struct RepoPath(
    #[schemars(length(min = 1, max = 4096), extend("pattern" = r"^[^:/\-\x00-\x1f][^\x00-\x1f]*$"))] String,
);

impl RepoPath {
    /// As git's pathspec, taken literally.
    pub(crate) fn pathspec(&self) -> Result<OsString, Failure> {
        let mut spec = OsString::from(":(literal)");
        spec.push(self.plain()?);
        Ok(spec)
    }

    /// As a word of another program, behind `--`.
    pub(crate) fn plain(&self) -> Result<OsString, Failure> {
        if self.0.split('/').any(|part| part == "..") {
            let message = format!("`{}` leads out of the folder it starts in", self.0);
            return Err(Failure::new(FailureKind::WrongKind, message).hint("name a file below `path`"));
        }
        Ok(OsString::from(&self.0))
    }
}

/// Everything but this file, which stands at this place in the repository.
pub(crate) fn all_but(path: &str) -> OsString {
    OsString::from(format!(":(top,exclude,literal){path}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_leads_out_is_no_file_of_the_repository() {
        let spec = |text: &str| serde_json::from_value::<RepoPath>(json!(text)).unwrap().pathspec();
        for text in ["..", "a/..", "../a", "a/../../b"] {
            assert_eq!(spec(text).unwrap_err().kind, FailureKind::WrongKind, "{text}");
        }
        assert_eq!(spec("a..b/c*").unwrap(), ":(literal)a..b/c*");
    }
}
