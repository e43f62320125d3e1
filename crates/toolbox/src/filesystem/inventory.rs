//! What is in a folder that would go, for the person who is asked: the first names, and a digest of all of them, so that a
//! yes is for these names and no others. Contents are not read: sizes and times of change stand for them.

use std::path::Path;
use std::time::SystemTime;

use resources::{Entry, EntryKind, Next, OpenedPath};
use tool::{Failure, FailureKind, canonical};

/// Names that a person is shown one by one; the others are counted, and bound all the same.
const MOST_SHOWN: usize = 200;
/// Names that a yes can be bound to. Listing more takes longer than a person waits.
const MOST_BOUND: usize = 50_000;

/// Everything below the folder, as facts for a card.
pub(super) fn facts(folder: &OpenedPath) -> Result<Vec<(String, String)>, Failure> {
    let mut inventory = Inventory::default();
    let unseen = folder.visit(&mut |found| inventory.take(found.relative, found.entry))?;
    inventory.is_cut |= unseen.cut || !unseen.unreadable.is_empty();
    inventory.facts()
}

#[derive(Default)]
struct Inventory {
    /// Every name with what is known of it.
    listing: Vec<u8>,
    shown: Vec<(String, String)>,
    count: usize,
    /// Whether some names are not in it.
    is_cut: bool,
}

impl Inventory {
    fn take(&mut self, relative: &Path, entry: &Entry) -> Next {
        if self.count == MOST_BOUND {
            self.is_cut = true;
            return Next::Stop;
        }
        self.count += 1;
        self.bind(relative, entry);
        if self.count <= MOST_SHOWN {
            self.shown.push(("with".to_owned(), line(relative, entry)));
        }
        Next::Enter
    }

    /// Each part has its length before it, so that no two listings read the same.
    fn bind(&mut self, relative: &Path, entry: &Entry) {
        let since = entry.modified.and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok());
        let facts = format!("{:?} {:?} {:?}", entry.kind, entry.size, since);
        for part in [relative.as_os_str().as_encoded_bytes(), facts.as_bytes()] {
            self.listing.extend((part.len() as u64).to_be_bytes());
            self.listing.extend(part);
        }
    }

    fn facts(mut self) -> Result<Vec<(String, String)>, Failure> {
        if self.is_cut {
            let message = format!("it holds more than {MOST_BOUND} names, or some that cannot be looked at");
            return Err(
                Failure::new(FailureKind::TooLarge, message).hint("delete what is in it part by part")
            );
        }
        let hidden = self.count.saturating_sub(MOST_SHOWN);
        if hidden > 0 {
            self.shown.push(("with".to_owned(), format!("{hidden} more names that are not shown here")));
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

/// A name on one line; one that is no text, or has lines, as an escaped string.
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
            assert_eq!(inventory.take(Path::new(name), entry), Next::Enter);
        }
        inventory.facts().unwrap()
    }

    #[test]
    fn any_other_name_kind_size_time_or_target_is_another_listing() {
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
    fn more_than_can_be_bound_is_refused_and_more_than_can_be_shown_is_counted() {
        let mut inventory = Inventory::default();
        let one = file(0, 0);
        for n in 0..MOST_BOUND {
            assert_eq!(inventory.take(Path::new(&n.to_string()), &one), Next::Enter);
        }
        assert_eq!(inventory.shown.len(), MOST_SHOWN);
        assert_eq!(inventory.take(Path::new("one more"), &one), Next::Stop);
        assert_eq!(inventory.facts().unwrap_err().kind, FailureKind::TooLarge);
        let names: Vec<String> = (0..MOST_SHOWN + 5).map(|n| n.to_string()).collect();
        let many: Vec<(&str, Entry)> = names.iter().map(|name| (name.as_str(), file(0, 0))).collect();
        let shown = facts(&many);
        assert_eq!(shown.len(), MOST_SHOWN + 2);
        assert_eq!(shown[MOST_SHOWN].1, "5 more names that are not shown here");
    }

    #[test]
    fn a_name_cannot_make_a_line_of_its_own() {
        assert_eq!(facts(&[("a\nwith b", file(1, 1))])[0].1, "\"a\\nwith b\" (1 bytes)");
    }
}
