//! Cost of the kernel alone in a governed read: makes the system calls of a read for each line and answers
//! it. It parses no message, evaluates no rule, builds no record and seals nothing, so no governed read can
//! be faster.

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::Result;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, StatxFlags};
use rustix::io::ReadWriteFlags;

/// Stand-ins with the sizes of the two records and the anchor of a read.
const DECISION: [u8; 1400] = [b'd'; 1400];
const END: [u8; 1000] = [b'e'; 1000];
const ANCHOR: [u8; 400] = [b'a'; 400];

/// Answers each line with `reply` bytes after the system calls of a read of `file`.
pub(crate) fn serve_replies(reply: usize, file: &Path, folder: &Path) -> Result<()> {
    let mut reads = Reads::begin(file, folder)?;
    serve(std::io::stdin().lock(), std::io::stdout().lock(), reply, || reads.make())
}

/// Files that stay open between reads.
struct Reads<'a> {
    file: &'a Path,
    segment: File,
    anchor: File,
    table: File,
}

impl<'a> Reads<'a> {
    fn begin(file: &'a Path, folder: &Path) -> Result<Self> {
        let segment = File::options().append(true).create(true).open(folder.join("record"))?;
        let anchor = File::create(folder.join("anchor"))?;
        Ok(Reads { file, segment, anchor, table: File::open("/proc/self/fd")? })
    }

    /// Makes the system calls of one read, in the order of the pipeline.
    fn make(&mut self) -> Result<()> {
        let resolve = ResolveFlags::NO_MAGICLINKS | ResolveFlags::CACHED;
        let handle =
            rustix::fs::openat2(CWD, self.file, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), resolve)?;
        let how = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        rustix::fs::statx(&handle, "", how, StatxFlags::BASIC_STATS)?;
        let number = handle.as_raw_fd().to_string();
        rustix::fs::readlinkat(self.table.as_fd(), &*number, Vec::new())?;
        self.segment.write_all(&DECISION)?;
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let content = rustix::fs::openat(self.table.as_fd(), &*number, flags, Mode::empty())?;
        let mut bytes = [0; 1025];
        let mut parts = [std::io::IoSliceMut::new(&mut bytes)];
        rustix::io::preadv2(&content, &mut parts, 0, ReadWriteFlags::NOWAIT)?;
        drop((content, handle));
        self.segment.write_all(&END)?;
        Ok(self.anchor.write_all_at(&ANCHOR, 0)?)
    }
}

/// Answers lines. Lines that arrive together are answered with one write, which is the least possible work.
fn serve(from: impl Read, to: impl Write, reply: usize, mut work: impl FnMut() -> Result<()>) -> Result<()> {
    let (mut from, mut to) = (BufReader::with_capacity(64 * 1024, from), BufWriter::new(to));
    let mut line = Vec::with_capacity(reply + 1);
    while from.read_until(b'\n', &mut line)? > 0 {
        work()?;
        line.pop();
        line.resize(reply.max(line.len()), b'x');
        line.push(b'\n');
        to.write_all(&line)?;
        line.clear();
        if from.buffer().is_empty() {
            to.flush()?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_causes_a_recorded_read_and_an_answer() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "x".repeat(1024)).unwrap();
        let mut reads = Reads::begin(&file, folder.path()).unwrap();
        let mut written = Vec::new();
        serve("one\ntwo\n".as_bytes(), &mut written, 5, || reads.make()).unwrap();
        assert_eq!(String::from_utf8(written).unwrap(), "onexx\ntwoxx\n");
        let recorded = std::fs::read(folder.path().join("record")).unwrap();
        let written = [&DECISION[..], &END, &DECISION, &END].concat();
        assert_eq!(recorded, written);
        assert_eq!(std::fs::read(folder.path().join("anchor")).unwrap(), ANCHOR);
    }
}
