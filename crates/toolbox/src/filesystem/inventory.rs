//! Content of a directory that would be deleted, for the approval request: every name, and a digest over all
//! of them, so that an approval covers exactly these entries. File contents are not read: inodes, sizes and
//! times represent them.

use std::path::Path;
use std::time::SystemTime;

use file_access::{DirectoryEntry, EntryKind, OpenedPath, VisitAction};
use tool::{Failure, FailureKind, canonical};

/// Largest number of names that an operator can be expected to review. A directory with more cannot be
/// approved, because an approval covers only what was shown.
const MAX_ENTRIES: usize = 200;

/// Device, inode and change time of an object. A process that rewrites a file can restore its size and
/// modification time, but not these.
type ObjectVersion = (u64, u64, SystemTime);

/// Lists everything below the directory as facts for the approval request.
pub(super) fn directory_facts(folder: &OpenedPath) -> Result<Vec<(String, String)>, Failure> {
    let mut inventory = DirectoryInventory::default();
    let unvisited = folder.visit(&mut |found| {
        let object = found.facts().map(|facts| (facts.identity.device, facts.identity.inode, facts.changed));
        inventory.add(found.relative, found.entry, object)
    })?;
    inventory.is_incomplete |= unvisited.truncated || !unvisited.unreadable.is_empty();
    inventory.into_facts()
}

#[derive(Default)]
struct DirectoryInventory {
    /// Every name with its metadata, as input of the digest.
    listing: Vec<u8>,
    shown: Vec<(String, String)>,
    count: usize,
    /// True if some names are missing.
    is_incomplete: bool,
}

impl DirectoryInventory {
    fn add(&mut self, relative: &Path, entry: &DirectoryEntry, object: Option<ObjectVersion>) -> VisitAction {
        if self.count == MAX_ENTRIES {
            self.is_incomplete = true;
            return VisitAction::Stop;
        }
        self.count += 1;
        self.extend_listing(relative, entry, object);
        self.shown.push(("with".to_owned(), display_entry(relative, entry)));
        VisitAction::Enter
    }

    /// Adds an entry to the listing. Each part is prefixed with its length, so that no two listings encode
    /// the same.
    fn extend_listing(&mut self, relative: &Path, entry: &DirectoryEntry, object: Option<ObjectVersion>) {
        let since = entry.modified.and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok());
        let facts = format!("{:?} {:?} {since:?} {object:?}", entry.kind, entry.size);
        for part in [relative.as_os_str().as_encoded_bytes(), facts.as_bytes()] {
            self.listing.extend((part.len() as u64).to_be_bytes());
            self.listing.extend(part);
        }
    }

    fn into_facts(mut self) -> Result<Vec<(String, String)>, Failure> {
        if self.is_incomplete {
            let message =
                format!("the directory has more than {MAX_ENTRIES} entries, or some that cannot be read");
            let hint = format!("delete its content part by part, with at most {MAX_ENTRIES} entries each");
            return Err(Failure::new(FailureKind::TooLarge, message).with_hint(hint));
        }
        let digest = canonical::sha256_hex(&self.listing);
        let text = format!("sha256 {digest}, of all {} names, sizes and times", self.count);
        self.shown.push(("listing".to_owned(), text));
        Ok(self.shown)
    }
}

fn display_entry(relative: &Path, entry: &DirectoryEntry) -> String {
    let name = display_name(relative);
    match (&entry.kind, entry.size) {
        (EntryKind::File, Some(size)) => format!("{name} ({size} bytes)"),
        (EntryKind::Directory, _) => format!("{name}/"),
        (EntryKind::Symlink(target), _) => format!("{name} -> {}", display_name(Path::new(target))),
        (EntryKind::Special(kind), _) => format!("{name} ({kind})"),
        (EntryKind::File | EntryKind::Unreadable, _) => name,
    }
}

/// Formats a name on one line. A name that is not UTF-8 or has line breaks becomes an escaped string.
fn display_name(path: &Path) -> String {
    match path.to_str() {
        Some(text) if !text.contains('\n') => text.to_owned(),
        _ => format!("{path:?}"),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn entry(kind: EntryKind, size: u64, second: u64) -> DirectoryEntry {
        let modified = Some(SystemTime::UNIX_EPOCH + Duration::from_secs(second));
        DirectoryEntry { name: "n".into(), kind, size: Some(size), modified }
    }

    fn file(size: u64, second: u64) -> DirectoryEntry {
        entry(EntryKind::File, size, second)
    }

    fn directory_facts(entries: &[(&str, DirectoryEntry)]) -> Vec<(String, String)> {
        let mut inventory = DirectoryInventory::default();
        for (name, entry) in entries {
            assert_eq!(inventory.add(Path::new(name), entry, None), VisitAction::Enter);
        }
        inventory.into_facts().unwrap()
    }

    #[test]
    fn any_changed_metadata_changes_the_digest() {
        let link = |target: &str| entry(EntryKind::Symlink(target.into()), 1, 1);
        let listings = [
            directory_facts(&[("a", file(1, 1)), ("b", file(2, 2))]),
            directory_facts(&[("a", file(1, 1)), ("c", file(2, 2))]),
            directory_facts(&[("a", file(2, 1)), ("b", file(1, 2))]),
            directory_facts(&[("a", file(1, 1)), ("b", file(2, 3))]),
            directory_facts(&[("a", file(1, 1)), ("b", entry(EntryKind::Directory, 2, 2))]),
            directory_facts(&[("a", file(1, 1))]),
            directory_facts(&[("a", link("x"))]),
            directory_facts(&[("a", link("y"))]),
        ];
        let digest = |facts: &Vec<(String, String)>| facts.last().unwrap().1.clone();
        for (at, one) in listings.iter().enumerate() {
            assert!(listings.iter().skip(at + 1).all(|other| digest(one) != digest(other)), "{one:?}");
        }
    }

    #[test]
    fn replaced_or_changed_object_changes_the_digest() {
        let digest = |object: ObjectVersion| {
            let mut inventory = DirectoryInventory::default();
            inventory.add(Path::new("a"), &file(1, 1), Some(object));
            inventory.into_facts().unwrap().pop()
        };
        let (then, later) = (SystemTime::UNIX_EPOCH, SystemTime::UNIX_EPOCH + Duration::from_nanos(1));
        assert_ne!(digest((1, 1, then)), digest((1, 2, then)));
        assert_ne!(digest((1, 1, then)), digest((1, 1, later)));
        assert_eq!(digest((1, 1, then)), digest((1, 1, then)));
    }

    #[test]
    fn more_entries_than_can_be_shown_are_refused() {
        let mut inventory = DirectoryInventory::default();
        let one = file(0, 0);
        for n in 0..MAX_ENTRIES {
            assert_eq!(inventory.add(Path::new(&n.to_string()), &one, None), VisitAction::Enter);
        }
        assert_eq!(inventory.shown.len(), MAX_ENTRIES);
        assert_eq!(inventory.add(Path::new("one more"), &one, None), VisitAction::Stop);
        let refused = inventory.into_facts().unwrap_err();
        assert_eq!(refused.kind, FailureKind::TooLarge);
        assert!(refused.hint.unwrap().contains("part by part"));
    }

    #[test]
    fn line_break_in_a_name_is_escaped() {
        assert_eq!(directory_facts(&[("a\nwith b", file(1, 1))])[0].1, "\"a\\nwith b\" (1 bytes)");
    }
}
