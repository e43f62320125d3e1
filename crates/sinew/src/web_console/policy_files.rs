//! Candidate policy: a temporary copy of the policy files with one text replaced. The policy in effect is not touched.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::command_context::CommandContext;

/// Files of a policy.
const FILES: [&str; 4] = ["tools.yaml", "modes.yaml", "safety.yaml", "guardrails.yaml"];

/// Copy of the policy files, removed when it is dropped.
pub(super) struct CandidatePolicy(TempDir);

impl CandidatePolicy {
    /// Returns the folder of the policy files of this home.
    pub(super) fn folder(context: &CommandContext) -> PathBuf {
        context.home().config_dir().join("governance")
    }

    /// Returns the texts of the files. A missing file has the built-in content, so its text is empty.
    pub(super) fn files(folder: &Path) -> Value {
        let file = |name: &str| {
            let text = std::fs::read_to_string(folder.join(name)).ok();
            json!({"name": name, "exists": text.is_some(), "text": text.unwrap_or_default()})
        };
        json!({"folder": folder.display().to_string(), "files": FILES.map(file)})
    }

    /// Writes the copy with this text for one file. An empty text leaves the file out, which means the built-in one.
    pub(super) fn write(folder: &Path, name: &str, text: &str) -> std::io::Result<CandidatePolicy> {
        let invalid = || std::io::Error::other(format!("`{name}` is no policy file"));
        let name = FILES.into_iter().find(|known| *known == name).ok_or_else(invalid)?;
        let copy = tempfile::Builder::new().prefix("sinew-candidate-").tempdir()?;
        for file in FILES.into_iter().filter(|file| *file != name) {
            if let Ok(content) = std::fs::read(folder.join(file)) {
                std::fs::write(copy.path().join(file), content)?;
            }
        }
        if !text.trim().is_empty() {
            std::fs::write(copy.path().join(name), text)?;
        }
        Ok(CandidatePolicy(copy))
    }

    pub(super) fn path(&self) -> &Path {
        self.0.path()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn candidate_is_a_copy_with_one_text_replaced() {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("tools.yaml"), "tools: {}").unwrap();
        std::fs::write(home.path().join("safety.yaml"), "a").unwrap();
        let candidate = CandidatePolicy::write(home.path(), "tools.yaml", "tools: {x: {}}").unwrap();
        let read = |name: &str| std::fs::read_to_string(candidate.path().join(name)).ok();
        assert_eq!(read("tools.yaml").as_deref(), Some("tools: {x: {}}"));
        assert_eq!((read("safety.yaml").as_deref(), read("modes.yaml")), (Some("a"), None));
        assert_eq!(std::fs::read_to_string(home.path().join("tools.yaml")).unwrap(), "tools: {}");
        for outside in ["../tools.yaml", "sinew.yaml", ""] {
            assert!(CandidatePolicy::write(home.path(), outside, "x").is_err(), "{outside}");
        }
    }
}
