//! Verification of the whole chain, line by line. Pure: it takes lines and returns findings.

use crate::{
    Entry, Finding, Record, VerifyReport,
    chain::{Follower, Step},
    entry::{MissingCause, Recovered, Resumed},
    hash::Hash,
    key::Key,
    line::Parts,
    lines::Line,
    record::time_of,
    segment::Segment,
};

/// Maximum number of findings in a list; the first ones show where the damage is.
const MOST: usize = 100;

/// State of a verification pass along the chain.
pub(crate) struct Walk<'a> {
    key: &'a Key,
    report: VerifyReport,
    follower: Follower,
    segment: String,
    /// Problems of the previous segment that the next one may explain.
    undecided: Vec<Finding>,
    /// Number of the first record, and the previous hash that it contains.
    base: Option<(u64, Hash)>,
    /// First sequence numbers and previous hashes declared by retention entries.
    declared: Vec<(u64, String)>,
    wanted: Vec<u64>,
    marks: Vec<(u64, Hash)>,
}

impl<'a> Walk<'a> {
    /// `wanted`: sequence numbers whose seals `finish` returns.
    pub(crate) fn new(key: &'a Key, wanted: impl Iterator<Item = u64>) -> Walk<'a> {
        Walk {
            key,
            report: VerifyReport::default(),
            follower: Follower::new(0, None),
            segment: String::new(),
            undecided: Vec::new(),
            base: None,
            declared: Vec::new(),
            wanted: wanted.collect(),
            marks: Vec::new(),
        }
    }

    /// Adds a problem with a whole file.
    pub(crate) fn problem(&mut self, file: &str, what: &str) {
        let finding = Finding { file: file.into(), line: None, offset: None, seq: None, what: what.into() };
        push(&mut self.report.problems, finding);
    }

    /// Continues with the next segment.
    pub(crate) fn enter(&mut self, segment: &Segment) {
        self.segment = segment.name();
        self.report.segments += 1;
        let next = self.follower.next();
        if self.report.segments > 1 && next != segment.first {
            let what = if next < segment.first {
                format!("records {next} to {} are missing before this segment", segment.first - 1)
            } else {
                format!("this segment should begin at record {next}")
            };
            let finding = Finding { file: segment.name(), line: None, offset: None, seq: Some(next), what };
            self.undecided.push(finding);
        }
        if next != segment.first {
            self.follower = Follower::new(segment.first, None);
        }
    }

    /// Checks one line.
    pub(crate) fn line(&mut self, line: &Line<'_>) {
        self.report.bytes += u64::try_from(line.bytes.len()).unwrap_or_default();
        let Some(text) = line.whole() else {
            let what = "this line has no end: its writer was interrupted, or the end was cut off".to_owned();
            let finding = self.finding(line, Some(self.follower.next()), what);
            return push(&mut self.undecided, finding);
        };
        let expected = self.follower.next();
        let Step { parts, flaw } = self.follower.follow(text, self.key);
        if let Some(flaw) = flaw {
            let finding = self.finding(line, Some(flaw.seq().unwrap_or(expected)), flaw.to_string());
            push(&mut self.undecided, finding);
        }
        if let Some(parts) = parts {
            self.accept(&parts);
            if self.report.oldest.is_none() {
                self.report.oldest = time_of(text);
            }
            if matches!(parts.kind, "recovered" | "resumed" | "retention" | "checkpoint")
                && let Some(record) = Record::parse(text)
            {
                self.hear(line, &record);
            }
        }
        // Only the first two lines of a segment can explain the end of the previous one.
        if line.number == 2 {
            self.decide();
        }
    }

    fn notice(&mut self, line: &Line<'_>, seq: u64, what: String) {
        let finding = self.finding(line, Some(seq), what);
        push(&mut self.report.notices, finding);
    }

    fn trouble(&mut self, line: &Line<'_>, seq: u64, what: String) {
        let finding = self.finding(line, Some(seq), what);
        push(&mut self.report.problems, finding);
    }

    fn finding(&self, line: &Line<'_>, seq: Option<u64>, what: String) -> Finding {
        Finding { file: self.segment.clone(), line: Some(line.number), offset: Some(line.offset), seq, what }
    }

    fn accept(&mut self, parts: &Parts<'_>) {
        self.report.records += 1;
        self.base.get_or_insert((parts.seq, parts.prev));
        if self.wanted.contains(&parts.seq) {
            self.marks.push((parts.seq, parts.hash));
        }
    }

    /// Applies an entry that the ledger wrote about itself.
    fn hear(&mut self, line: &Line<'_>, record: &Record) {
        if let Entry::Recovered(recovered) = &record.entry {
            self.hear_recovered(line, record.seq, recovered);
        }
        if let Entry::Checkpoint(checkpoint) = &record.entry {
            self.report.removed = checkpoint.removed;
        }
        if let Entry::Resumed(resumed) = &record.entry {
            self.hear_resumed(line, record.seq, resumed);
        }
        if let Entry::Retention(retention) = &record.entry {
            let cause = match retention.under_pressure {
                0 => "none under pressure".to_owned(),
                young => format!("{young} of them under pressure: the size limit forced their removal"),
            };
            let (first, segments) = (retention.first, retention.segments);
            let what =
                format!("records before {first} were let go by retention ({segments} segments, {cause})");
            self.report.removed = retention.total;
            self.notice(line, record.seq, what);
            self.declared.push((retention.first, retention.base.clone()));
        }
    }

    fn hear_recovered(&mut self, line: &Line<'_>, seq: u64, recovered: &Recovered) {
        for torn in &recovered.torn {
            let what = format!("{} bytes were torn off {} at byte {}", torn.bytes, torn.segment, torn.offset);
            self.notice(line, seq, what);
        }
        if let Some(missing) = &recovered.missing {
            let range =
                format!("records {} to {} of that time were missing at a start", missing.from, missing.to);
            match missing.cause {
                MissingCause::PowerFailure => {
                    let what = format!("{range}: they were not yet on disk when the machine went down");
                    self.notice(line, seq, what);
                }
                MissingCause::Removed => {
                    let what = format!("{range}: they were removed, or the disk lost them");
                    self.trouble(line, seq, what);
                }
            }
        }
        if recovered.unrecorded_reads > 0 {
            let reads = recovered.unrecorded_reads;
            let what =
                format!("{reads} reads were answered while no record could be taken, and are not on record");
            self.notice(line, seq, what);
        }
        for damage in &recovered.damage {
            let what = format!("a start found: {damage}");
            self.trouble(line, seq, what);
        }
    }

    fn hear_resumed(&mut self, line: &Line<'_>, seq: u64, resumed: &Resumed) {
        let what = format!("the record went on in a new segment: {}", resumed.reason);
        self.notice(line, seq, what);
        if resumed.lost > 0 {
            let what = format!("{} records were lost: {}", resumed.lost, resumed.reason);
            self.trouble(line, seq, what);
        }
        let sealed = &resumed.sealed;
        // A failed write may have left bytes after the last record; the writer declared that and continued in
        // another segment.
        let rest = |finding: &Finding| {
            finding.file == sealed.segment && finding.offset.is_some_and(|offset| offset >= sealed.bytes)
        };
        for finding in self.undecided.extract_if(.., |finding| rest(finding)).collect::<Vec<_>>() {
            push(&mut self.report.notices, finding);
        }
    }

    /// Reports the undecided findings as problems, because nothing can explain them any more.
    fn decide(&mut self) {
        for finding in std::mem::take(&mut self.undecided) {
            push(&mut self.report.problems, finding);
        }
    }

    /// Returns the report and the requested seals.
    pub(crate) fn finish(mut self) -> Walked {
        self.decide();
        self.report.head = self.follower.place().head();
        if let Some((first, prev)) = self.base {
            self.report.first = first;
            let declared = |(at, base): &(u64, String)| *at == first && *base == prev.to_string();
            let beginning = first == 1 && prev == Hash::NONE;
            if !beginning && !self.declared.iter().any(declared) {
                let what = format!(
                    "the record begins at {first} and no retention entry says so: the beginning is missing"
                );
                self.problem("segments", &what);
            }
        }
        let reach = if self.report.segments == 0 { 0 } else { self.follower.reach() };
        Walked { report: self.report, marks: self.marks, reach }
    }
}

/// Result of a verification pass.
pub(crate) struct Walked {
    pub(crate) report: VerifyReport,
    /// Requested seals.
    pub(crate) marks: Vec<(u64, Hash)>,
    /// Highest sequence number that a line accounts for, damaged or not.
    pub(crate) reach: u64,
}

fn push(list: &mut Vec<Finding>, finding: Finding) {
    if list.len() < MOST {
        list.push(finding);
    }
}
