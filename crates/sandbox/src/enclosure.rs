//! Whether a program that was started earlier stands behind the walls that it would get now.
//!
//! What is hidden is hidden by a mount on a file. Whoever puts another file in its place under the same name takes the mount
//! away with the old one, and a program that still runs sees the new one bare. So walls are the same only while the very
//! files that were hidden are those that have the names. A name alone does not tell that, and neither does the number of a
//! file: it is given out again, to the second next save of an editor.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use sha2::{Digest, Sha256};
use tool::canonical;

use crate::identity;
use crate::spec::{Limits, Spec};

/// What the walls of a program that changes nothing let through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Enclosure {
    grants: String,
    hidden: String,
}

impl Enclosure {
    /// Of a program that is not started yet. Blocks on the disk.
    pub(crate) fn of(spec: &Spec) -> Enclosure {
        let mut hidden = Sha256::new();
        for held in &spec.hidden {
            hidden.update(held.path.as_os_str().as_bytes());
            hidden.update(b"\0");
            hidden.update(stamp(&held.path));
        }
        let limits = Limits { time: Duration::ZERO, ..spec.limits };
        // What is held in place matters to who could move it.
        let (words, none) = (vec!["".into()], Vec::new());
        let grants = Spec {
            limits,
            words,
            variables: Vec::new(),
            program: Default::default(),
            device: 0,
            inode: 0,
            hidden: none.clone(),
            kept: none,
            pinned: Vec::new(),
            ..spec.clone()
        };
        Enclosure {
            grants: canonical::hex(&Sha256::digest(grants.framed())),
            hidden: canonical::hex(&hidden.finalize()),
        }
    }

    /// Whether this one was granted the same, and something else is to be hidden by now.
    pub fn is_outdated_by(&self, now: &Enclosure) -> bool {
        self.grants == now.grants && self.hidden != now.hidden
    }
}

/// Tells the file of this name from every other that ever has it. One that is gone has a stamp too.
fn stamp(path: &Path) -> [u8; 32] {
    let mut stamp = [0; 32];
    if let Ok(facts) = identity::facts_of(path) {
        let numbers = [facts.file.0, facts.file.1, facts.made.0, facts.made.1];
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
    use crate::identity::Held;

    fn enclosure(hidden: &[&Path]) -> Enclosure {
        let held = |path: &&Path| Held { path: path.to_path_buf(), file: (0, 0) };
        Enclosure::of(&Spec { hidden: hidden.iter().map(held).collect(), ..crate::spec::tests::spec() })
    }

    #[test]
    fn another_file_of_the_same_name_makes_other_walls() {
        let folder = tempfile::tempdir().unwrap();
        let (secret, draft) = (folder.path().join(".env"), folder.path().join("draft"));
        let save = |text: &str| {
            let before = stamp(&secret);
            // The clock of files goes in steps: until the next one a number that is free again has the same time.
            loop {
                fs::write(&draft, text).unwrap();
                if stamp(&draft)[16..] != before[16..] {
                    break;
                }
                fs::remove_file(&draft).unwrap();
            }
            fs::rename(&draft, &secret).unwrap();
        };
        save("one");
        let first = enclosure(&[&secret]);
        assert_eq!(enclosure(&[&secret]), first, "the same file");
        let mut seen = vec![first.clone()];
        // The number of the first file is free again after the second save.
        for text in ["two", "three", "four"] {
            save(text);
            let now = enclosure(&[&secret]);
            assert!(!seen.contains(&now), "{text}");
            assert!(first.is_outdated_by(&now), "{text}");
            seen.push(now);
        }
        let more = enclosure(&[&secret, folder.path()]);
        assert!(first.is_outdated_by(&more), "what came to be hidden");
        assert!(!first.is_outdated_by(&first.clone()));
    }
}
