//! Fingerprint of a sandbox, to decide if a process started earlier still has the sandbox that it would get
//! now.
//!
//! A hidden file is hidden by a mount on it. Replacing the file under the same path removes the mount
//! together with the old file, and a process that is still running sees the new one. So a sandbox is
//! unchanged only while the same files are at the hidden paths. The path alone does not show that, and
//! neither does the inode number, which the file system reuses: an editor gets the same one again with its
//! second next save.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use sha2::{Digest, Sha256};
use tool::canonical;

use crate::launch::spec::{RunLimits, RunSpec};
use crate::scan::file_identity;

/// Access that the sandbox of a read-only program allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxFingerprint {
    grants: String,
    hidden: String,
}

impl SandboxFingerprint {
    /// Computes the fingerprint of a program that is not started yet. Blocks on the disk.
    pub(crate) fn of(spec: &RunSpec) -> SandboxFingerprint {
        let mut hidden = Sha256::new();
        for expected in &spec.hidden {
            hidden.update(expected.path.as_os_str().as_bytes());
            hidden.update(b"\0");
            hidden.update(identity_bytes(&expected.path));
        }
        let limits = RunLimits { time: Duration::ZERO, ..spec.limits };
        // Protected and pinned paths matter only to programs that could change them.
        let grants = RunSpec {
            tier: spec.tier,
            network: spec.network,
            arguments: vec!["".into()],
            folder: spec.folder.clone(),
            writable: spec.writable.clone(),
            readable: spec.readable.clone(),
            limits,
            ..RunSpec::empty()
        };
        SandboxFingerprint {
            grants: canonical::hex(&Sha256::digest(grants.to_frame())),
            hidden: canonical::hex(&hidden.finalize()),
        }
    }

    /// Returns true if `now` has the same grants but other files to hide.
    pub fn is_outdated_by(&self, now: &SandboxFingerprint) -> bool {
        self.grants == now.grants && self.hidden != now.hidden
    }
}

/// Returns bytes that identify the file at this path, now and later. A missing file has a value too.
fn identity_bytes(path: &Path) -> [u8; 32] {
    let mut stamp = [0; 32];
    if let Ok(facts) = file_identity::facts_of(path) {
        let numbers = [facts.file.0, facts.file.1, facts.created.0, facts.created.1];
        stamp
            .chunks_exact_mut(8)
            .zip(numbers)
            .for_each(|(part, number)| part.copy_from_slice(&number.to_le_bytes()));
    }
    stamp
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::scan::file_identity::ExpectedFile;

    fn enclosure(hidden: &[&Path]) -> SandboxFingerprint {
        let expected = |path: &&Path| ExpectedFile { path: path.to_path_buf(), file: (0, 0) };
        SandboxFingerprint::of(&RunSpec {
            hidden: hidden.iter().map(expected).collect(),
            ..crate::launch::spec::tests::spec()
        })
    }

    #[test]
    fn replaced_file_changes_the_fingerprint() {
        let folder = tempfile::tempdir().unwrap();
        let (secret, draft) = (folder.path().join(".env"), folder.path().join("draft"));
        let save = |text: &str| {
            let before = identity_bytes(&secret);
            // File timestamps advance in steps. Until the next step, a reused inode number would have the
            // same timestamp.
            loop {
                fs::write(&draft, text).unwrap();
                if identity_bytes(&draft)[16..] != before[16..] {
                    break;
                }
                fs::remove_file(&draft).unwrap();
            }
            fs::rename(&draft, &secret).unwrap();
        };
        save("one");
        let first = enclosure(&[&secret]);
        assert_eq!(enclosure(&[&secret]), first, "same file");
        let mut seen = vec![first.clone()];
        // The inode number of the first file is free again after the second save.
        for text in ["two", "three", "four"] {
            save(text);
            let now = enclosure(&[&secret]);
            assert!(!seen.contains(&now), "{text}");
            assert!(first.is_outdated_by(&now), "{text}");
            seen.push(now);
        }
        let more = enclosure(&[&secret, folder.path()]);
        assert!(first.is_outdated_by(&more), "another hidden path");
        assert!(!first.is_outdated_by(&first.clone()));
    }
}
