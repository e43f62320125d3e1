//! Attempts to change the ledger unnoticed: each one is detected and located.

use std::{
    fs,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use super::segments;
use crate::{Ledger, LedgerError, LedgerOptions, VerifyFinding, samples};

/// Closed ledger with a second anchor outside its folder, and the bytes of all its files.
struct TamperTarget {
    _home: tempfile::TempDir,
    folder: PathBuf,
    options: LedgerOptions,
    files: Vec<(PathBuf, Vec<u8>)>,
}

impl TamperTarget {
    fn new(records: usize) -> TamperTarget {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("ledger");
        let options =
            LedgerOptions { second_anchor: Some(home.path().join("witness")), ..LedgerOptions::default() };
        TamperTarget::write(&folder, &options, records);
        let names = [
            segments(&folder)[0].clone(),
            folder.join("anchor"),
            home.path().join("witness"),
            folder.join("key"),
        ];
        let files = names.into_iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect();
        TamperTarget { _home: home, folder, options, files }
    }

    fn write(folder: &Path, options: &LedgerOptions, records: usize) {
        let (ledger, _) = Ledger::open(folder, options).unwrap();
        for n in 0..records {
            ledger.append(&samples::note(&format!("note {n}"))).unwrap();
        }
    }

    fn segment(&self) -> &[u8] {
        &self.files[0].1
    }

    fn lines(&self) -> Vec<&[u8]> {
        self.segment().split_inclusive(|byte| *byte == b'\n').collect()
    }

    fn problems(&self) -> Result<Vec<VerifyFinding>, LedgerError> {
        crate::verify(&self.folder, &self.options).map(|report| report.problems)
    }

    fn restore(&self) {
        for (path, bytes) in &self.files {
            write_in_place(path, bytes);
        }
    }

    /// Asserts that this segment content is reported, and returns the first finding.
    fn check(&self, content: &[u8], why: &str) -> VerifyFinding {
        write_in_place(&self.files[0].0, content);
        let problems = self.problems().unwrap();
        assert!(!problems.is_empty(), "not noticed: {why}");
        self.restore();
        problems[0].clone()
    }

    /// Like `check`, and asserts that the finding is at this line.
    fn check_line(&self, content: &[u8], line: usize, why: &str) {
        let found = self.check(content, why);
        assert_eq!(found.line, Some(line as u64), "{why}: {found}");
        let offset =
            content.split_inclusive(|byte| *byte == b'\n').take(line - 1).map(<[u8]>::len).sum::<usize>();
        assert_eq!(found.offset, Some(offset as u64), "{why}: {found}");
    }
}

/// Writes a file in place, because truncating and refilling it makes some file systems wait for the disk.
fn write_in_place(path: &Path, content: &[u8]) {
    if !fs::read(path).is_ok_and(|found| found == content) {
        let file = fs::OpenOptions::new().write(true).create(true).truncate(false).open(path).unwrap();
        file.write_all_at(content, 0).unwrap();
        file.set_len(content.len() as u64).unwrap();
    }
}

#[test]
fn every_changed_byte_is_reported() {
    let victim = TamperTarget::new(2);
    assert_eq!(victim.problems().unwrap(), [], "untouched");
    for (place, byte) in victim.segment().iter().enumerate() {
        let mut changed = victim.segment().to_vec();
        changed[place] = byte ^ 1;
        let line = victim.segment()[..place].iter().filter(|byte| **byte == b'\n').count() + 1;
        victim.check_line(&changed, line, &format!("byte {place} changed"));
    }
    for (path, bytes) in &victim.files[1..] {
        // A bad anchor is read repeatedly, which is slow; each of its bytes is tested in the unit test of
        // `anchor`.
        for place in (0..bytes.len()).step_by(bytes.len() / 64) {
            let mut changed = bytes.clone();
            changed[place] ^= 1;
            write_in_place(path, &changed);
            let noticed = victim.problems().map_or(true, |problems| !problems.is_empty());
            assert!(noticed, "byte {place} of {}", path.display());
        }
        victim.restore();
    }
}

#[test]
fn removed_doubled_swapped_and_added_bytes_are_reported() {
    let victim = TamperTarget::new(1);
    let whole = victim.segment();
    for place in 0..whole.len() {
        let line = whole[..place].iter().filter(|byte| **byte == b'\n').count() + 1;
        let mut removed = whole.to_vec();
        removed.remove(place);
        victim.check_line(&removed, line, &format!("byte {place} removed"));
        let mut doubled = whole.to_vec();
        doubled.insert(place, whole[place]);
        // Doubling a newline leaves its line complete; the finding is the empty line after it.
        let too_much = if whole[place] == b'\n' { line + 1 } else { line };
        victim.check_line(&doubled, too_much, &format!("byte {place} doubled"));
        if whole.get(place + 1).is_some_and(|next| *next != whole[place]) {
            let mut swapped = whole.to_vec();
            swapped.swap(place, place + 1);
            victim.check_line(&swapped, line, &format!("bytes {place} and {} swapped", place + 1));
        }
    }
    let lines = victim.lines().len();
    for byte in 0..=u8::MAX {
        victim.check_line(&[whole, &[byte]].concat(), lines + 1, &format!("byte {byte:#x} appended"));
    }
}

#[test]
fn an_end_cut_off_anywhere_is_reported() {
    let victim = TamperTarget::new(3);
    for length in 0..victim.segment().len() {
        victim.check(&victim.segment()[..length], &format!("cut at {length}"));
    }
    // One anchor is enough to detect the cut.
    let last = victim.lines().last().unwrap().len();
    let cut = &victim.segment()[..victim.segment().len() - last];
    for spoilt in [1, 2] {
        fs::remove_file(&victim.files[spoilt].0).unwrap();
        fs::write(&victim.files[0].0, cut).unwrap();
        let problems = victim.problems().unwrap();
        assert!(
            problems.iter().any(|problem| problem.what.contains("records 4 to 4 are missing")),
            "{problems:?}"
        );
        victim.restore();
    }
}

#[test]
fn removed_moved_repeated_and_added_lines_are_reported() {
    let victim = TamperTarget::new(5);
    let lines = victim.lines();
    for n in 0..lines.len() {
        let mut removed = lines.clone();
        removed.remove(n);
        let why = format!("line {} removed", n + 1);
        if n + 1 < lines.len() {
            victim.check_line(&removed.concat(), n + 1, &why);
        } else {
            victim.check(&removed.concat(), &why);
        }
        for m in 0..n {
            let mut swapped = lines.clone();
            swapped.swap(n, m);
            victim.check_line(&swapped.concat(), m + 1, &format!("{} and {} swapped", m + 1, n + 1));
        }
        for m in 0..=lines.len() {
            let mut repeated = lines.clone();
            repeated.insert(m, lines[n]);
            let place = if m == n { n + 2 } else { m + 1 };
            victim.check_line(&repeated.concat(), place, &format!("{} repeated at {}", n + 1, m + 1));
        }
    }
    let whole = victim.segment();
    let end = lines.len() + 1;
    for added in ["\n", "x", "{}", "{}\n", "\0\0\0\0"] {
        victim.check_line(&[whole, added.as_bytes()].concat(), end, &format!("{added:?} added"));
        victim.check_line(&[added.as_bytes(), whole].concat(), 1, &format!("{added:?} put first"));
    }
    victim.check(&[], "emptied");
}

#[test]
fn forged_records_and_anchors_are_reported() {
    let victim = TamperTarget::new(3);
    // A well-formed next record, chained to the last one, but sealed with another key.
    let other = TamperTarget::new(3);
    let key = crate::key::LedgerKey::derive(&[3; 32]).unwrap();
    let last = crate::line::parse_line(victim.lines()[3].strip_suffix(b"\n").unwrap()).unwrap();
    let body = crate::line::EntryBody::new(&samples::note("all is well"), &key).unwrap();
    let forged = body.into_sealed_line(&key, 5, jiff::Timestamp::now(), &last.hash).bytes;
    victim.check_line(&[victim.segment(), &forged].concat(), 5, "a forged line");
    // The whole ledger rewritten, including anchors, with another key.
    victim.check_line(other.segment(), 1, "another ledger");
    for place in [0, 1, 2] {
        fs::write(&victim.files[place].0, &other.files[place].1).unwrap();
    }
    assert!(!victim.problems().unwrap().is_empty(), "all but the key replaced");
    victim.restore();
    // Cut off and continued by the daemon itself: the cut stays recorded.
    let cut = &victim.segment()[..victim.lines()[..2].concat().len()];
    fs::write(&victim.files[0].0, cut).unwrap();
    TamperTarget::write(&victim.folder, &victim.options, 5);
    let problems = victim.problems().unwrap();
    assert!(problems[0].what.contains("records 3 to 4 were missing"), "{problems:?}");
}

/// Changes of a ledger with several segments: bytes of each file, and each file as a whole.
#[test]
fn changed_removed_and_swapped_segments_are_reported() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("ledger");
    let options = LedgerOptions { segment_bytes: 4096, ..LedgerOptions::default() };
    TamperTarget::write(&folder, &options, 40);
    let files: Vec<(PathBuf, Vec<u8>)> =
        segments(&folder).into_iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect();
    assert!(files.len() >= 3, "{} segments", files.len());
    let problems = || crate::verify(&folder, &options).unwrap().problems;
    assert_eq!(problems(), [], "untouched");
    let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    for (path, bytes) in &files {
        // The finding names the changed file and line, because the lines after the change are intact. The
        // step is prime, so that the positions differ from line to line.
        for place in (0..bytes.len()).step_by(7) {
            let line = bytes[..place].iter().filter(|byte| **byte == b'\n').count() + 1;
            let mut changed = bytes.clone();
            changed[place] ^= 0x20;
            write_in_place(path, &changed);
            let found = problems();
            assert_eq!((found[0].file.as_str(), found[0].line), (&*name(path), Some(line as u64)), "{place}");
        }
        write_in_place(path, bytes);
        fs::remove_file(path).unwrap();
        assert!(!problems().is_empty(), "{} removed", name(path));
        write_in_place(path, bytes);
    }
    for pair in files.windows(2) {
        write_in_place(&pair[0].0, &pair[1].1);
        write_in_place(&pair[1].0, &pair[0].1);
        let found = problems();
        assert_eq!(found[0].file, name(&pair[0].0), "exchanged: {found:?}");
        pair.iter().for_each(|(path, bytes)| write_in_place(path, bytes));
    }
    // A copy of a whole segment at the end, under the next free name.
    let next = crate::segment::Segment::new(&folder, 1_000);
    fs::write(&next.path, &files[0].1).unwrap();
    assert_eq!(problems()[0].file, next.name());
    fs::remove_file(&next.path).unwrap();
    assert_eq!(problems(), [], "as it was");
}

#[test]
fn a_folder_restored_to_an_older_state_is_reported() {
    let victim = TamperTarget::new(3);
    TamperTarget::write(&victim.folder, &victim.options, 3);
    assert_eq!(victim.problems().unwrap(), []);
    for place in [0, 1] {
        fs::write(&victim.files[place].0, &victim.files[place].1).unwrap();
    }
    let problems = victim.problems().unwrap();
    assert_eq!(problems.len(), 1);
    assert!(problems[0].file.ends_with("witness") && problems[0].what.contains("old copy"), "{problems:?}");
}

#[test]
fn missing_and_unexpected_files_are_reported() {
    let victim = TamperTarget::new(3);
    for place in [0, 1, 2] {
        fs::remove_file(&victim.files[place].0).unwrap();
        assert!(!victim.problems().unwrap().is_empty(), "{}", victim.files[place].0.display());
        victim.restore();
    }
    fs::remove_file(&victim.files[3].0).unwrap();
    assert!(matches!(victim.problems(), Err(LedgerError::KeyMissing { .. })));
    let reopened = Ledger::open(&victim.folder, &victim.options);
    assert!(
        matches!(reopened, Err(LedgerError::KeyMissing { .. })),
        "a new key would orphan the old records"
    );
    victim.restore();
    let segment = &victim.files[0].0;
    fs::rename(segment, victim.folder.join("elsewhere")).unwrap();
    std::os::unix::fs::symlink("elsewhere", segment).unwrap();
    assert!(!victim.problems().unwrap().is_empty(), "a link in the place of a segment");
    fs::remove_file(segment).unwrap();
    fs::rename(victim.folder.join("elsewhere"), segment).unwrap();
    fs::write(victim.folder.join("segment-2.ndjson"), "").unwrap();
    assert!(!victim.problems().unwrap().is_empty(), "a strange name");
}
