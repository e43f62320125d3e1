//! What is in a folder that would go, for the person who is asked: the first names, and a digest of all of them, so that a
//! yes is for these names and no others. Contents are not read: sizes and times of change stand for them.

use std::path::Path;
use std::time::SystemTime;

use resources::{EntryKind, Found, Next, OpenedPath};
use tool::{Failure, FailureKind, canonical};

/// Names that a person is shown one by one; the others are counted, and bound all the same.
const MOST_SHOWN: usize = 200;
/// Names that a yes can be bound to. Listing more takes longer than a person waits.
const MOST_BOUND: usize = 50_000;

/// Everything below the folder, as facts for a card.
pub(super) fn facts(folder: &OpenedPath) -> Result<Vec<(String, String)>, Failure> {
    let (mut listing, mut shown, mut count) = (Vec::new(), Vec::new(), 0_usize);
    let unseen = folder.visit(&mut |found| {
        count += 1;
        if count > MOST_BOUND {
            return Next::Stop;
        }
        bind(&mut listing, found);
        if count <= MOST_SHOWN {
            shown.push(("with".to_owned(), line(found)));
        }
        Next::Enter
    })?;
    if count > MOST_BOUND || unseen.cut || !unseen.unreadable.is_empty() {
        let message = format!("it holds more than {MOST_BOUND} names, or some that cannot be looked at");
        return Err(Failure::new(FailureKind::TooLarge, message).hint("delete what is in it part by part"));
    }
    if count > MOST_SHOWN {
        let text = format!("{} more names that are not shown here", count - MOST_SHOWN);
        shown.push(("with".to_owned(), text));
    }
    let digest = canonical::sha256_hex(&listing);
    shown.push(("listing".to_owned(), format!("sha256 {digest}, of all {count} names, sizes and times")));
    Ok(shown)
}

/// One name of the listing. Each part has its length before it, so that no two listings read the same.
fn bind(listing: &mut Vec<u8>, found: &Found<'_>) {
    let entry = found.entry;
    let since = entry.modified.and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok());
    let facts = format!("{:?} {:?} {:?}", entry.kind, entry.size, since);
    for part in [found.relative.as_os_str().as_encoded_bytes(), facts.as_bytes()] {
        listing.extend((part.len() as u64).to_be_bytes());
        listing.extend(part);
    }
}

fn line(found: &Found<'_>) -> String {
    let name = named(found.relative);
    match (&found.entry.kind, found.entry.size) {
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
