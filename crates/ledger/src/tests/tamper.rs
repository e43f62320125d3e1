//! Every way to change the record unseen is tried, and seen, with its place.

use std::{
    fs,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use super::segments;
use crate::{Finding, Ledger, LedgerError, Options, samples};

/// A closed ledger with a second anchor outside its folder, and the bytes of all its files.
struct Victim {
    _home: tempfile::TempDir,
    folder: PathBuf,
    options: Options,
    files: Vec<(PathBuf, Vec<u8>)>,
}

impl Victim {
    fn new(records: usize) -> Victim {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("ledger");
        let options = Options { witness: Some(home.path().join("witness")), ..Options::default() };
        Victim::write(&folder, &options, records);
        let names = [
            segments(&folder)[0].clone(),
            folder.join("anchor"),
            home.path().join("witness"),
            folder.join("key"),
        ];
        let files = names.into_iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect();
        Victim { _home: home, folder, options, files }
    }

    fn write(folder: &Path, options: &Options, records: usize) {
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

    fn problems(&self) -> Result<Vec<Finding>, LedgerError> {
        crate::verify(&self.folder, &self.options).map(|report| report.problems)
    }

    fn restore(&self) {
        for (path, bytes) in &self.files {
            put(path, bytes);
        }
    }

    /// The segment with this content must be found out; returns what is said first.
    fn check(&self, content: &[u8], why: &str) -> Finding {
        put(&self.files[0].0, content);
        let problems = self.problems().unwrap();
        assert!(!problems.is_empty(), "not noticed: {why}");
        self.restore();
        problems[0].clone()
    }

    /// The same, and the place must be this line.
    fn check_line(&self, content: &[u8], line: usize, why: &str) {
        let found = self.check(content, why);
        assert_eq!(found.line, Some(line as u64), "{why}: {found}");
        let offset =
            content.split_inclusive(|byte| *byte == b'\n').take(line - 1).map(<[u8]>::len).sum::<usize>();
        assert_eq!(found.offset, Some(offset as u64), "{why}: {found}");
    }
}

/// In place: emptying a file and filling it again makes some file systems wait for the disk.
fn put(path: &Path, content: &[u8]) {
    if !fs::read(path).is_ok_and(|found| found == content) {
        let file = fs::OpenOptions::new().write(true).create(true).truncate(false).open(path).unwrap();
        file.write_all_at(content, 0).unwrap();
        file.set_len(content.len() as u64).unwrap();
    }
}

#[test]
fn each_byte_counts() {
    let victim = Victim::new(2);
    assert_eq!(victim.problems().unwrap(), [], "untouched");
    for (place, byte) in victim.segment().iter().enumerate() {
        let mut changed = victim.segment().to_vec();
        changed[place] = byte ^ 1;
        let line = victim.segment()[..place].iter().filter(|byte| **byte == b'\n').count() + 1;
        victim.check_line(&changed, line, &format!("byte {place} changed"));
    }
    for (path, bytes) in &victim.files[1..] {
        for place in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[place] ^= 1;
            put(path, &changed);
            let noticed = victim.problems().map_or(true, |problems| !problems.is_empty());
            assert!(noticed, "byte {place} of {}", path.display());
        }
        victim.restore();
    }
}

#[test]
fn the_end_cut_off_anywhere() {
    let victim = Victim::new(3);
    for length in 0..victim.segment().len() {
        victim.check(&victim.segment()[..length], &format!("cut at {length}"));
    }
    // One anchor is enough.
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
fn lines_removed_moved_repeated_and_added() {
    let victim = Victim::new(5);
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
fn forged_with_care() {
    let victim = Victim::new(3);
    // A well-formed next record, chained to the last one, sealed by somebody else's key.
    let other = Victim::new(3);
    let key = crate::key::Key::derive(&[3; 32]).unwrap();
    let last = crate::line::parts(victim.lines()[3].strip_suffix(b"\n").unwrap()).unwrap();
    let mut forged = Vec::new();
    let body = crate::line::Body::new(&samples::note("all is well"), &key).unwrap();
    crate::line::write(&mut forged, &key, 5, jiff::Timestamp::now(), &body, &last.hash);
    victim.check_line(&[victim.segment(), &forged].concat(), 5, "a forged line");
    // The whole record rewritten, anchors included, with another key.
    victim.check_line(other.segment(), 1, "another ledger");
    for place in [0, 1, 2] {
        fs::write(&victim.files[place].0, &other.files[place].1).unwrap();
    }
    assert!(!victim.problems().unwrap().is_empty(), "all but the key replaced");
    victim.restore();
    // Cut and grown again by the daemon itself: the cut is remembered.
    let cut = &victim.segment()[..victim.lines()[..2].concat().len()];
    fs::write(&victim.files[0].0, cut).unwrap();
    Victim::write(&victim.folder, &victim.options, 5);
    let problems = victim.problems().unwrap();
    assert!(problems[0].what.contains("records 3 to 4 of that time were missing"), "{problems:?}");
}

#[test]
fn the_folder_put_back_to_an_older_state() {
    let victim = Victim::new(3);
    Victim::write(&victim.folder, &victim.options, 3);
    assert_eq!(victim.problems().unwrap(), []);
    for place in [0, 1] {
        fs::write(&victim.files[place].0, &victim.files[place].1).unwrap();
    }
    let problems = victim.problems().unwrap();
    assert_eq!(problems.len(), 1);
    assert!(problems[0].file.ends_with("witness") && problems[0].what.contains("old copy"), "{problems:?}");
}

#[test]
fn files_missing_or_strange() {
    let victim = Victim::new(3);
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
