//! Texts of project policies in the accepted copy. Without them a project policy that was loosened would apply at
//! the next start, because the files of projects are not in the configuration folder.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

use governance::Policy;

/// File of the copy that holds the texts. A copy without it was accepted by a version that read them from the
/// projects.
pub(crate) const PROJECTS_FILE: &str = "projects.json";

/// Accepted texts by the root of their project, with bytes that are not printable ASCII escaped.
pub(crate) struct AcceptedProjects(BTreeMap<String, String>);

impl AcceptedProjects {
    /// Collects the texts that a policy was loaded from.
    pub(crate) fn of_policy(policy: &Policy) -> Self {
        let texts = policy.project_policies().map(|(root, text)| (key(root), text.to_owned()));
        AcceptedProjects(texts.collect())
    }

    /// Reads the texts of a copy whose seal is valid. `None` for a copy of a version that did not store them.
    pub(crate) fn read(copy: &Path) -> io::Result<Option<Self>> {
        match fs::read(copy.join(PROJECTS_FILE)) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            text => Ok(Some(AcceptedProjects(serde_json::from_slice(&text?)?))),
        }
    }

    /// Returns the content of the file in the copy.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        serde_json::json!(self.0).to_string().into_bytes()
    }

    /// Returns the accepted policy of the project at `root`.
    pub(crate) fn text_of(&self, root: &Path) -> Option<&str> {
        self.0.get(&key(root)).map(String::as_str)
    }
}

fn key(root: &Path) -> String {
    root.as_os_str().as_encoded_bytes().escape_ascii().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copy_without_the_file_has_no_accepted_texts() {
        let copy = tempfile::tempdir().unwrap();
        assert!(AcceptedProjects::read(copy.path()).unwrap().is_none());
        let texts = BTreeMap::from([(key(Path::new("/w/ä")), "tools: {}\n".to_owned())]);
        fs::write(copy.path().join(PROJECTS_FILE), AcceptedProjects(texts).to_bytes()).unwrap();
        let accepted = AcceptedProjects::read(copy.path()).unwrap().unwrap();
        assert_eq!(accepted.text_of(Path::new("/w/ä")), Some("tools: {}\n"));
        assert_eq!(accepted.text_of(Path::new("/w")), None);
        fs::write(copy.path().join(PROJECTS_FILE), "{").unwrap();
        assert!(AcceptedProjects::read(copy.path()).is_err(), "a broken file is not an absent one");
    }
}
