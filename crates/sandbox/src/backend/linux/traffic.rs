//! What a run reads and writes. The kernel adds what a process did to its parent's account when it is reaped, so in the
//! end the launcher has everybody's.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// The two accounts of this process. Opened before the mounts, which show another `/proc`.
#[derive(Debug)]
pub(crate) struct Traffic {
    /// Its own and that of everybody it reaped.
    all: File,
    /// Its own.
    own: File,
}

impl Traffic {
    pub(crate) fn open() -> io::Result<Traffic> {
        Ok(Traffic { all: File::open("/proc/self/io")?, own: File::open("/proc/thread-self/io")? })
    }

    /// Bytes read and written by everybody who was reaped; 0 where the kernel does not count.
    pub(crate) fn of_descendants(&self) -> (u64, u64) {
        let (all, own) = (counts(&self.all), counts(&self.own));
        (all.0.saturating_sub(own.0), all.1.saturating_sub(own.1))
    }
}

fn counts(account: &File) -> (u64, u64) {
    let mut bytes = [0; 512];
    let read = account.read_at(&mut bytes, 0).unwrap_or(0);
    let text = String::from_utf8_lossy(bytes.get(..read).unwrap_or_default()).into_owned();
    let count = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|value| value.trim().parse().ok()).unwrap_or(0)
    };
    (count("rchar:"), count("wchar:"))
}
