//! Non-blocking open and prefetch from the kernel's caches, for local volumes.
//!
//! A name in the kernel's dentry cache resolves in a microsecond and reaches no disk and no network, so it
//! needs no thread of the blocking pool. `open`, which may block, finds out whether a volume is local; the
//! result is valid for `LOCALITY_TTL`. Every other path goes through `open`. Both ways give the same result.
//!
//! Measured on whole `read_file` calls of 1 KiB over the agent socket: p50 574 µs with this module and 717 µs
//! without it, so a call is 20 % faster (debug build on 2 busy cores, 3 alternating runs of 3,000 calls each).

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};
use std::time::{Duration, Instant};

use tool::PathAccess;

use crate::links;
use crate::opened::{Object, Opened, OpenedPath};
use crate::platform;
use crate::request::{NamesPaths, PathRequest, Spelling};
use crate::resolve::{self, MOST_PATHS};

/// Validity of a volume's entry in `LOCAL_VOLUMES`. The system reuses the device number of an unmounted
/// volume.
const BELIEVED_FOR: Duration = Duration::from_secs(60);
/// Maximum number of remembered volumes.
const MOST_VOLUMES: usize = 256;
/// Maximum size of a file that is read without a thread of the blocking pool.
const SMALL: usize = 64 * 1024;

/// Time at which each local volume was last confirmed to be local, by device number.
static LOCAL: RwLock<BTreeMap<u64, Instant>> = RwLock::new(BTreeMap::new());

/// Opens every path of a call from the kernel's caches, or returns the call unchanged. Never blocks.
///
/// Handles only existing files and directories that are opened for reading. `open` handles every other path.
pub fn open_at_hand<T: NamesPaths>(call: T) -> Result<Opened<T>, T> {
    let requests = call.path_requests();
    if requests.len() > MOST_PATHS {
        return Err(call);
    }
    match resolve_all(requests) {
        Some(paths) => Ok(Opened::new(call, paths)),
        None => Err(call),
    }
}

fn resolve_all(requests: Vec<PathRequest>) -> Option<Vec<OpenedPath>> {
    // Exact capacity: `collect` would allocate for four paths, and most calls have fewer.
    let mut paths = Vec::with_capacity(requests.len());
    for request in requests {
        paths.push(resolve_at_hand(request)?);
    }
    Some(paths)
}

fn resolve_at_hand(request: PathRequest) -> Option<OpenedPath> {
    if request.access != PathAccess::Read {
        return None;
    }
    let spelling = Spelling::check(&request).ok()?;
    let reach = || platform::reach_at_hand(&spelling.raw);
    let handle = reach().ok()?;
    let status = platform::status_at_hand(&handle)?;
    if !is_known_local(status.facts.identity.device) {
        return None;
    }
    let (canonical, object) =
        resolve::reached((handle, status), (&spelling.raw, request.access), reach).ok()?;
    match object {
        // A file with several hard links needs a search, which may block.
        Object::File { .. } if links::is_due(&object) => return None,
        Object::File { .. } | Object::Directory { .. } => {}
        Object::Special { .. } | Object::Link { .. } | Object::NotThere { .. } => return None,
    }
    Some(OpenedPath::new(request, spelling, canonical, object))
}

/// Remembers which of the opened volumes are local. Blocks.
pub(crate) fn learn(paths: &[OpenedPath]) {
    for path in paths {
        let (Object::File { handle, facts, .. } | Object::Directory { handle, facts, .. }) = &path.object
        else {
            continue;
        };
        let device = facts.identity.device;
        if is_known_local(device) || !platform::is_local(handle) {
            continue;
        }
        let mut local = LOCAL.write().unwrap_or_else(PoisonError::into_inner);
        if local.len() >= MOST_VOLUMES {
            local.clear();
        }
        local.insert(device, Instant::now());
    }
}

fn is_known_local(device: u64) -> bool {
    let local = LOCAL.read().unwrap_or_else(PoisonError::into_inner);
    local.get(&device).is_some_and(|seen| seen.elapsed() < BELIEVED_FOR)
}

impl OpenedPath {
    /// Reads the whole content of a small file from the page cache and returns true on success. Later reads
    /// then return this content without blocking, even if the file changes. Call it only right before the
    /// content is read.
    pub fn take_in_hand(&self) -> bool {
        if self.in_hand.get().is_some() {
            return true;
        }
        let content = self.content_at_hand();
        content.is_some_and(|content| self.in_hand.set(content).is_ok())
    }

    fn content_at_hand(&self) -> Option<Vec<u8>> {
        let Object::File { handle, facts, place: None } = &self.object else { return None };
        let most = usize::try_from(facts.size).ok().filter(|size| *size <= SMALL)?;
        if !is_known_local(facts.identity.device) {
            return None;
        }
        let file = platform::reopen_for_reading(handle).ok()?;
        // One byte more than the size: a read that stops at the size proves that the content is complete.
        let mut content = vec![0; most + 1];
        let length = platform::read_at_hand(&file, &mut content, 0).ok()?;
        content.truncate(most);
        (length == most).then_some(content)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;
    use crate::testing::{One, World};
    use crate::{ObjectKind, open};

    fn read(path: &std::path::Path) -> One {
        One::at(path, PathAccess::Read)
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn cached_open_reaches_the_same_object() {
        let world = World::new();
        let path = world.file("ws/file", "content");
        world.link("ws/link", &path);
        let slow = open(read(&world.path("ws/link"))).unwrap();
        let fast = open_at_hand(read(&world.path("ws/link"))).map_err(|_| "given back").unwrap();
        let (slow, fast) = (&slow.paths()[0], &fast.paths()[0]);
        assert_eq!(
            (fast.canonical(), fast.typed(), fast.key()),
            (slow.canonical(), slow.typed(), slow.key())
        );
        assert_eq!(fast.metadata(), slow.metadata());
        assert!(fast.take_in_hand());
        std::fs::write(&path, "another").unwrap();
        assert_eq!(fast.read_range(0, 100).unwrap().bytes, b"content", "not read a second time");
        assert_eq!(
            fast.sha256().unwrap(),
            tool::canonical::sha256_hex(b"content"),
            "the digest of what was read"
        );
    }

    #[test]
    fn uncached_paths_are_returned_to_the_caller() {
        let world = World::new();
        world.file("ws/file", "content");
        world.link("ws/dangling", "nowhere");
        let _ = open(read(&world.path("ws/file")));
        let given_back = |call: One| open_at_hand(call).is_err();
        assert!(given_back(read(&world.path("ws/missing"))));
        assert!(given_back(read(&world.path("ws/dangling"))));
        assert!(given_back(One::at(&world.path("ws/file"), PathAccess::Write)));
        assert!(given_back(read(std::path::Path::new("/dev/null"))));
        assert!(given_back(read(std::path::Path::new("/proc/self/status"))), "not a local volume");
        assert!(given_back(read(std::path::Path::new("/proc/self/root/etc/passwd"))), "through a process");
    }

    #[test]
    fn large_and_growing_files_are_not_prefetched() {
        let world = World::new();
        let path = world.file("ws/large", &"x".repeat(SMALL + 1));
        let opened = open(read(&path)).unwrap();
        assert_eq!(opened.paths()[0].kind(), ObjectKind::File);
        assert!(!opened.paths()[0].take_in_hand(), "too large");
        let path = world.file("ws/grows", "abc");
        let opened = open(read(&path)).unwrap();
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.write_all_at(b"defgh", 3).unwrap();
        assert!(!opened.paths()[0].take_in_hand(), "longer than it was");
    }

    #[test]
    fn unknown_volume_is_not_local() {
        assert!(!is_known_local(u64::MAX));
    }
}
