//! Content of a directory that would be deleted, for the approval request: every name, and a digest over all
//! of them, so that an approval covers exactly these entries. File contents are not read: inodes, sizes and
//! times represent them.

use std::path::Path;
use std::time::SystemTime;

use file_access::{Entry, EntryKind, Next, OpenedPath};
use tool::{Failure, FailureKind, canonical};

/// Largest number of names that an operator can be expected to review. A directory with more cannot be
/// approved, because an approval covers only what was shown.
const MOST_SHOWN: usize = 200;

/// Device, inode and change time of an object. A process that rewrites a file can restore its size and
/// modification time, but not these.
type Object = (u64, u64, SystemTime);

/// Lists everything below the directory as facts for the approval request.
pub(super) fn facts(folder: &OpenedPath) -> Result<Vec<(String, String)>, Failure> {
    let mut inventory = Inventory::default();
    let unvisited = folder.visit(&mut |found| {
        let object = found.facts().map(|facts| (facts.identity.device, facts.identity.inode, facts.changed));
        inventory.take(found.relative, found.entry, object)
    })?;
    inventory.is_cut |= unvisited.cut || !unvisited.unreadable.is_empty();
    inventory.facts()
}

#[derive(Default)]
struct Inventory {
    /// Every name with its metadata, as input of the digest.
    listing: Vec<u8>,
    shown: Vec<(String, String)>,
    count: usize,
    /// True if some names are missing.
    is_cut: bool,
}

impl Inventory {
    fn take(&mut self, relative: &Path, entry: &Entry, object: Option<Object>) -> Next {
        if self.count == MOST_SHOWN {
            self.is_cut = true;
            return Next::Stop;
        }
        self.count += 1;
        self.bind(relative, entry, object);
        self.shown.push(("with".to_owned(), line(relative, entry)));
        Next::Enter
    }

    /// Adds an entry to the listing. Each part is prefixed with its length, so that no two listings encode
    /// the same.
    fn bind(&mut self, relative: &Path, entry: &Entry, object: Option<Object>) {
        let since = entry.modified.and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok());
        let facts = format!("{:?} {:?} {since:?} {object:?}", entry.kind, entry.size);
        for part in [relative.as_os_str().as_encoded_bytes(), facts.as_bytes()] {
            self.listing.extend((part.len() as u64).to_be_bytes());
            self.listing.extend(part);
        }
    }

    fn facts(mut self) -> Result<Vec<(String, String)>, Failure> {
        if self.is_cut {
            let message =
                format!("the directory has more than {MOST_SHOWN} entries, or some that cannot be read");
            let hint = format!("delete its content part by part, with at most {MOST_SHOWN} entries each");
            return Err(Failure::new(FailureKind::TooLarge, message).hint(hint));
        }
        let digest = canonical::sha256_hex(&self.listing);
        let text = format!("sha256 {digest}, of all {} names, sizes and times", self.count);
        self.shown.push(("listing".to_owned(), text));
        Ok(self.shown)
    }
}

fn line(relative: &Path, entry: &Entry) -> String {
    let name = named(relative);
    match (&entry.kind, entry.size) {
        (EntryKind::File, Some(size)) => format!("{name} ({size} bytes)"),
        (EntryKind::Directory, _) => format!("{name}/"),
        (EntryKind::Symlink(target), _) => format!("{name} -> {}", named(Path::new(target))),
        (EntryKind::Special(kind), _) => format!("{name} ({kind})"),
        (EntryKind::File | EntryKind::Unreadable, _) => name,
    }
}

/// Formats a name on one line. A name that is not UTF-8 or has line breaks becomes an escaped string.
fn named(path: &Path) -> String {
    match path.to_str() {
        Some(text) if !text.contains('\n') => text.to_owned(),
        _ => format!("{path:?}"),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn entry(kind: EntryKind, size: u64, second: u64) -> Entry {
        let modified = Some(SystemTime::UNIX_EPOCH + Duration::from_secs(second));
        Entry { name: "n".into(), kind, size: Some(size), modified }
    }

    fn file(size: u64, second: u64) -> Entry {
        entry(EntryKind::File, size, second)
    }

    fn facts(entries: &[(&str, Entry)]) -> Vec<(String, String)> {
        let mut inventory = Inventory::default();
        for (name, entry) in entries {
            assert_eq!(inventory.take(Path::new(name), entry, None), Next::Enter);
        }
        inventory.facts().unwrap()
    }

    #[test]
    fn any_changed_metadata_changes_the_digest() {
        let link = |target: &str| entry(EntryKind::Symlink(target.into()), 1, 1);
        let listings = [
            facts(&[("a", file(1, 1)), ("b", file(2, 2))]),
            facts(&[("a", file(1, 1)), ("c", file(2, 2))]),
            facts(&[("a", file(2, 1)), ("b", file(1, 2))]),
            facts(&[("a", file(1, 1)), ("b", file(2, 3))]),
            facts(&[("a", file(1, 1)), ("b", entry(EntryKind::Directory, 2, 2))]),
            facts(&[("a", file(1, 1))]),
            facts(&[("a", link("x"))]),
            facts(&[("a", link("y"))]),
        ];
        let digest = |facts: &Vec<(String, String)>| facts.last().unwrap().1.clone();
        for (at, one) in listings.iter().enumerate() {
            assert!(listings.iter().skip(at + 1).all(|other| digest(one) != digest(other)), "{one:?}");
        }
    }

    #[test]
    fn replaced_or_changed_object_changes_the_digest() {
        let digest = |object: Object| {
            let mut inventory = Inventory::default();
            inventory.take(Path::new("a"), &file(1, 1), Some(object));
            inventory.facts().unwrap().pop()
        };
        let (then, later) = (SystemTime::UNIX_EPOCH, SystemTime::UNIX_EPOCH + Duration::from_nanos(1));
        assert_ne!(digest((1, 1, then)), digest((1, 2, then)));
        assert_ne!(digest((1, 1, then)), digest((1, 1, later)));
        assert_eq!(digest((1, 1, then)), digest((1, 1, then)));
    }

    #[test]
    fn more_entries_than_can_be_shown_are_refused() {
        let mut inventory = Inventory::default();
        let one = file(0, 0);
        for n in 0..MOST_SHOWN {
            assert_eq!(inventory.take(Path::new(&n.to_string()), &one, None), Next::Enter);
        }
        assert_eq!(inventory.shown.len(), MOST_SHOWN);
        assert_eq!(inventory.take(Path::new("one more"), &one, None), Next::Stop);
        let refused = inventory.facts().unwrap_err();
        assert_eq!(refused.kind, FailureKind::TooLarge);
        assert!(refused.hint.unwrap().contains("part by part"));
    }

    #[test]
    fn line_break_in_a_name_is_escaped() {
        assert_eq!(facts(&[("a\nwith b", file(1, 1))])[0].1, "\"a\\nwith b\" (1 bytes)");
    }
}
