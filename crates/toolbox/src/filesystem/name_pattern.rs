//! Glob for names: without `/` it matches the last component of a path, with `/` the whole relative path.

use std::path::Path;

use globset::{GlobBuilder, GlobMatcher};
use tool::{Failure, FailureKind};

#[derive(Debug)]
pub(super) struct NamePattern {
    matcher: GlobMatcher,
    matches_whole_path: bool,
}

impl NamePattern {
    pub(super) fn new(text: &str) -> Result<Self, Failure> {
        let glob = GlobBuilder::new(text)
            .literal_separator(true)
            .backslash_escape(true)
            .empty_alternates(true)
            .build();
        let glob = glob.map_err(|error| {
            let message =
                format!("`{}` is not a valid glob: {}", tool::text::shorten(text, 80), error.kind());
            Failure::new(FailureKind::Conflict, message).with_hint(
                "`*` matches any part of a name, `**/` any directories, `[ab]` one of the characters",
            )
        })?;
        Ok(NamePattern { matcher: glob.compile_matcher(), matches_whole_path: text.contains('/') })
    }

    pub(super) fn matches(&self, path: &Path) -> bool {
        let name = path.file_name().map_or(path, Path::new);
        self.matcher.is_match(if self.matches_whole_path { path } else { name })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_match_the_last_component_or_whole_path() {
        for (pattern, path, expect) in [
            ("*.rs", "a.rs", true),
            ("*.rs", "src/deep/a.rs", true),
            ("src/*.rs", "src/a.rs", true),
            ("src/*.rs", "src/deep/a.rs", false),
            ("src/**/*.rs", "src/deep/er/a.rs", true),
            ("**/deep/*", "src/deep/a", true),
            ("a?", "ab", true),
            ("a?", "a/", false),
        ] {
            assert_eq!(
                NamePattern::new(pattern).unwrap().matches(Path::new(path)),
                expect,
                "{pattern} {path}"
            );
        }
        assert!(NamePattern::new("[").unwrap_err().message.contains("`[` is not a valid glob"));
    }
}
