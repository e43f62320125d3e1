//! Non-blocking open and prefetch from the kernel's caches, for local volumes.
//!
//! A name in the kernel's dentry cache resolves in a microsecond and reaches no disk and no network, so it
//! needs no thread of the blocking pool. `open`, which may block, finds out whether a volume is local; the
//! result is valid for `LOCALITY_TTL`. Every other path, and every path with a link, goes through `open`. Both ways give
//! the same result.
//!
//! Measured on whole `read_file` calls of 1 KiB over the agent socket: p50 574 µs with this module and 717 µs
//! without it, so a call is 20 % faster (debug build on 2 busy cores, 3 alternating runs of 3,000 calls each).

use std::collections::BTreeMap;
use std::path::Component;
use std::sync::{PoisonError, RwLock};
use std::time::{Duration, Instant};

use rustix::fs::FileType;
use tool::definition::PathAccess;

use crate::opened::{OpenedCall, OpenedObject, OpenedPath};
use crate::platform::{self, FileStatus};
use crate::request::{CheckedPathText, PathEnding, PathRequest, PathSource};
use crate::resolve::MAX_PATHS;

/// Validity of a volume's entry in `LOCAL_VOLUMES`. The system reuses the device number of an unmounted
/// volume.
const LOCALITY_TTL: Duration = Duration::from_secs(60);
/// Maximum number of remembered volumes.
const MAX_VOLUMES: usize = 256;
/// Maximum size of a file that is read without a thread of the blocking pool.
const MAX_PREFETCH_BYTES: usize = 64 * 1024;

/// Time at which each local volume was last confirmed to be local, by device number.
static LOCAL_VOLUMES: RwLock<BTreeMap<u64, Instant>> = RwLock::new(BTreeMap::new());

/// Opens every path of a call from the kernel's caches, or returns the call unchanged. Never blocks.
///
/// Handles only existing files and directories that are opened for reading. `open` handles every other path.
pub fn try_open_cached<T: PathSource>(call: T) -> Result<OpenedCall<T>, T> {
    let requests = call.path_requests();
    if requests.len() > MAX_PATHS {
        return Err(call);
    }
    match resolve_all(requests) {
        Some(paths) => Ok(OpenedCall::new(call, paths)),
        None => Err(call),
    }
}

fn resolve_all(requests: Vec<PathRequest>) -> Option<Vec<OpenedPath>> {
    // Exact capacity: `collect` would allocate for four paths, and most calls have fewer.
    let mut paths = Vec::with_capacity(requests.len());
    for request in requests {
        paths.push(resolve_cached(request)?);
    }
    Some(paths)
}

fn resolve_cached(request: PathRequest) -> Option<OpenedPath> {
    if request.access != PathAccess::Read {
        return None;
    }
    let spelling = CheckedPathText::check(&request).ok()?;
    // A path that the kernel resolves without a link or `..` is its own canonical name.
    let canonical = spelling.normalized.clone();
    if canonical.components().any(|part| part == Component::ParentDir) {
        return None;
    }
    let handle = platform::open_without_links_cached(&canonical).ok()?;
    let FileStatus { kind, facts } = platform::status_cached(&handle)?;
    if !is_known_local(facts.identity.device) {
        return None;
    }
    let object = match (kind, spelling.ending) {
        // A file with several names needs a search, which may block, and one without a name was deleted.
        (FileType::RegularFile, PathEnding::Unspecified) if facts.links == 1 => {
            OpenedObject::File { handle, facts, location: None }
        }
        (FileType::Directory, _) => OpenedObject::Directory { handle, facts, location: None },
        _ => return None,
    };
    Some(OpenedPath::new(request, spelling, canonical, object))
}

/// Remembers which of the opened volumes are local. Blocks.
pub(crate) fn remember_local_volumes(paths: &[OpenedPath]) {
    for path in paths {
        let (OpenedObject::File { handle, facts, .. } | OpenedObject::Directory { handle, facts, .. }) =
            &path.object
        else {
            continue;
        };
        let device = facts.identity.device;
        if is_known_local(device) || !platform::is_local(handle) {
            continue;
        }
        let mut local = LOCAL_VOLUMES.write().unwrap_or_else(PoisonError::into_inner);
        if local.len() >= MAX_VOLUMES {
            local.clear();
        }
        local.insert(device, Instant::now());
    }
}

fn is_known_local(device: u64) -> bool {
    let local = LOCAL_VOLUMES.read().unwrap_or_else(PoisonError::into_inner);
    local.get(&device).is_some_and(|seen| seen.elapsed() < LOCALITY_TTL)
}

impl OpenedPath {
    /// Reads the whole content of a small file from the page cache and returns true on success. Later reads
    /// then return this content without blocking, even if the file changes. Call it only right before the
    /// content is read.
    pub fn try_prefetch(&self) -> bool {
        if self.prefetched.get().is_some() {
            return true;
        }
        let content = self.cached_content();
        content.is_some_and(|content| self.prefetched.set(content).is_ok())
    }

    fn cached_content(&self) -> Option<Vec<u8>> {
        let OpenedObject::File { handle, facts, location: None } = &self.object else { return None };
        let most = usize::try_from(facts.size).ok().filter(|size| *size <= MAX_PREFETCH_BYTES)?;
        if !is_known_local(facts.identity.device) {
            return None;
        }
        let file = platform::reopen_for_reading(handle).ok()?;
        // One byte more than the size: a read that stops at the size proves that the content is complete.
        let mut content = vec![0; most + 1];
        let length = platform::read_cached(&file, &mut content, 0).ok()?;
        content.truncate(most);
        // A file that was changed since it was opened may have been read in the middle of a change.
        let now = platform::status(&file).ok()?.facts;
        let is_unchanged = (now.modified, now.changed) == (facts.modified, facts.changed);
        (length == most && is_unchanged).then_some(content)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;
    use crate::testing::{SinglePathCall, WorkspaceFixture};
    use crate::{ObjectKind, open};

    fn read(path: &std::path::Path) -> SinglePathCall {
        SinglePathCall::at(path, PathAccess::Read)
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn cached_open_reaches_the_same_object() {
        let fixture = WorkspaceFixture::new();
        let path = fixture.file("ws/file", "content");
        let slow = open(read(&path)).unwrap();
        let fast = try_open_cached(read(&path)).map_err(|_| "given back");
        if !crate::testing::has_openat2() {
            assert_eq!(fast.err(), Some("given back"), "only `openat2` can open from a cache");
            return;
        }
        let fast = fast.unwrap();
        let (slow, fast) = (&slow.paths()[0], &fast.paths()[0]);
        assert_eq!(
            (fast.canonical(), fast.as_typed(), fast.key()),
            (slow.canonical(), slow.as_typed(), slow.key())
        );
        assert_eq!(fast.metadata(), slow.metadata());
        assert!(fast.try_prefetch());
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
        let fixture = WorkspaceFixture::new();
        let file = fixture.file("ws/file", "content");
        fixture.link("ws/dangling", "nowhere");
        fixture.link("ws/link", &file);
        fixture.link("folder", fixture.path("ws"));
        let _ = open(read(&fixture.path("ws/file")));
        let given_back = |call: SinglePathCall| try_open_cached(call).is_err();
        assert!(given_back(read(&fixture.path("ws/missing"))));
        assert!(given_back(read(&fixture.path("ws/dangling"))));
        assert!(given_back(read(&fixture.path("ws/link"))), "its name is not its own");
        assert!(given_back(read(&fixture.path("folder/file"))), "nor the name of a file in it");
        assert!(given_back(read(&fixture.path("ws/../ws/file"))), "the kernel resolves `..`");
        assert!(given_back(read(&fixture.path("ws/file/"))), "not a directory");
        assert!(given_back(SinglePathCall::at(&fixture.path("ws/file"), PathAccess::Write)));
        assert!(given_back(read(std::path::Path::new("/dev/null"))));
        assert!(given_back(read(std::path::Path::new("/proc/self/status"))), "not a local volume");
        assert!(given_back(read(std::path::Path::new("/proc/self/root/etc/passwd"))), "through a process");
    }

    #[test]
    fn large_and_growing_files_are_not_prefetched() {
        let fixture = WorkspaceFixture::new();
        let path = fixture.file("ws/large", &"x".repeat(MAX_PREFETCH_BYTES + 1));
        let opened = open(read(&path)).unwrap();
        assert_eq!(opened.paths()[0].kind(), ObjectKind::File);
        assert!(!opened.paths()[0].try_prefetch(), "too large");
        let path = fixture.file("ws/grows", "abc");
        let opened = open(read(&path)).unwrap();
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.write_all_at(b"defgh", 3).unwrap();
        assert!(!opened.paths()[0].try_prefetch(), "longer than it was");
    }

    #[test]
    fn unknown_volume_is_not_local() {
        assert!(!is_known_local(u64::MAX));
    }
}
