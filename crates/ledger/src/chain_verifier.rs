//! Verification of the whole chain, line by line. Pure: it takes lines and returns findings.

use crate::{
    LedgerEntry, LedgerRecord, VerifyFinding, VerifyReport,
    chain::{ChainChecker, CheckedLine},
    entry::{MissingCause, RecoveryEntry, ResumptionEntry},
    hash::SealHash,
    key::LedgerKey,
    line::ParsedLine,
    lines::SegmentLine,
    record::parse_time,
    segment::Segment,
};

/// Maximum number of findings in a list; the first ones show where the damage is.
const MAX_FINDINGS: usize = 100;

/// State of a verification pass along the chain.
pub(crate) struct ChainVerifier<'a> {
    key: &'a LedgerKey,
    report: VerifyReport,
    follower: ChainChecker,
    segment: String,
    /// Problems of the previous segment that the next one may explain.
    undecided: Vec<VerifyFinding>,
    /// Number of the first record, and the previous hash that it contains.
    first_link: Option<(u64, SealHash)>,
    /// First sequence numbers and previous hashes declared by retention entries.
    declared_starts: Vec<(u64, String)>,
    requested_seqs: Vec<u64>,
    requested_seals: Vec<(u64, SealHash)>,
}

impl<'a> ChainVerifier<'a> {
    /// `wanted`: sequence numbers whose seals `finish` returns.
    pub(crate) fn new(key: &'a LedgerKey, wanted: impl Iterator<Item = u64>) -> ChainVerifier<'a> {
        ChainVerifier {
            key,
            report: VerifyReport::default(),
            follower: ChainChecker::new(0, None),
            segment: String::new(),
            undecided: Vec::new(),
            first_link: None,
            declared_starts: Vec::new(),
            requested_seqs: wanted.collect(),
            requested_seals: Vec::new(),
        }
    }

    /// Adds a problem with a whole file.
    pub(crate) fn add_file_problem(&mut self, file: &str, what: &str) {
        let finding =
            VerifyFinding { file: file.into(), line: None, offset: None, seq: None, what: what.into() };
        push_bounded(&mut self.report.problems, finding);
    }

    /// Continues with the next segment.
    pub(crate) fn enter_segment(&mut self, segment: &Segment) {
        self.segment = segment.name();
        self.report.segments += 1;
        let next = self.follower.next();
        if self.report.segments > 1 && next != segment.first {
            let what = if next < segment.first {
                format!("records {next} to {} are missing before this segment", segment.first - 1)
            } else {
                format!("this segment should begin at record {next}")
            };
            let finding =
                VerifyFinding { file: segment.name(), line: None, offset: None, seq: Some(next), what };
            self.undecided.push(finding);
        }
        if next != segment.first {
            self.follower = ChainChecker::new(segment.first, None);
        }
    }

    /// Checks one line.
    pub(crate) fn check_line(&mut self, line: &SegmentLine<'_>) {
        self.report.bytes += u64::try_from(line.bytes.len()).unwrap_or_default();
        let Some(text) = line.without_newline() else {
            let what =
                "this line is incomplete: its writer was interrupted, or its end was cut off".to_owned();
            let finding = self.finding(line, Some(self.follower.next()), what);
            return push_bounded(&mut self.undecided, finding);
        };
        let expected = self.follower.next();
        let CheckedLine { parts, flaw } = self.follower.check_line(text, self.key);
        if let Some(flaw) = flaw {
            let finding = self.finding(line, Some(flaw.seq().unwrap_or(expected)), flaw.to_string());
            push_bounded(&mut self.undecided, finding);
        }
        if let Some(parts) = parts {
            self.accept(&parts);
            if self.report.oldest.is_none() {
                self.report.oldest = parse_time(text);
            }
            if matches!(parts.kind, "recovered" | "resumed" | "retention" | "checkpoint")
                && let Some(record) = LedgerRecord::parse(text)
            {
                self.apply_own_entry(line, &record);
            }
        }
        // Only the first two lines of a segment can explain the end of the previous one.
        if line.number == 2 {
            self.report_undecided();
        }
    }

    fn add_notice(&mut self, line: &SegmentLine<'_>, seq: u64, what: String) {
        let finding = self.finding(line, Some(seq), what);
        push_bounded(&mut self.report.notices, finding);
    }

    fn add_problem(&mut self, line: &SegmentLine<'_>, seq: u64, what: String) {
        let finding = self.finding(line, Some(seq), what);
        push_bounded(&mut self.report.problems, finding);
    }

    fn finding(&self, line: &SegmentLine<'_>, seq: Option<u64>, what: String) -> VerifyFinding {
        VerifyFinding {
            file: self.segment.clone(),
            line: Some(line.number),
            offset: Some(line.offset),
            seq,
            what,
        }
    }

    fn accept(&mut self, parts: &ParsedLine<'_>) {
        self.report.records += 1;
        self.first_link.get_or_insert((parts.seq, parts.prev));
        if self.requested_seqs.contains(&parts.seq) {
            self.requested_seals.push((parts.seq, parts.hash));
        }
    }

    /// Applies an entry that the ledger wrote about itself.
    fn apply_own_entry(&mut self, line: &SegmentLine<'_>, record: &LedgerRecord) {
        if let LedgerEntry::Recovered(recovered) = &record.entry {
            self.apply_recovery(line, record.seq, recovered);
        }
        if let LedgerEntry::Checkpoint(checkpoint) = &record.entry {
            self.report.removed = checkpoint.removed;
        }
        if let LedgerEntry::Resumed(resumed) = &record.entry {
            self.apply_resumption(line, record.seq, resumed);
        }
        if let LedgerEntry::Retention(retention) = &record.entry {
            let cause = match retention.under_pressure {
                0 => "none under pressure".to_owned(),
                young => format!("{young} of them under pressure: the size limit forced their removal"),
            };
            let (first, segments) = (retention.first, retention.segments);
            let what =
                format!("records before {first} were removed by retention ({segments} segments, {cause})");
            self.report.removed = retention.total;
            self.add_notice(line, record.seq, what);
            self.declared_starts.push((retention.first, retention.base.clone()));
        }
    }

    fn apply_recovery(&mut self, line: &SegmentLine<'_>, seq: u64, recovered: &RecoveryEntry) {
        for torn in &recovered.torn {
            let what = format!(
                "{} bytes of an incomplete record were removed from {} at byte {}",
                torn.bytes, torn.segment, torn.offset
            );
            self.add_notice(line, seq, what);
        }
        if let Some(missing) = &recovered.missing {
            let range = format!("records {} to {} were missing at a start", missing.from, missing.to);
            match missing.cause {
                MissingCause::PowerFailure => {
                    let what = format!("{range}: they were not yet on disk when the machine went down");
                    self.add_notice(line, seq, what);
                }
                MissingCause::Removed => {
                    let what = format!("{range}: they were removed, or the disk lost them");
                    self.add_problem(line, seq, what);
                }
            }
        }
        if recovered.unrecorded_reads > 0 {
            let reads = recovered.unrecorded_reads;
            let what =
                format!("{reads} reads were answered while no record could be written, and have no record");
            self.add_notice(line, seq, what);
        }
        for damage in &recovered.damage {
            let what = format!("a start found: {damage}");
            self.add_problem(line, seq, what);
        }
    }

    fn apply_resumption(&mut self, line: &SegmentLine<'_>, seq: u64, resumed: &ResumptionEntry) {
        let what = format!("the ledger continued in a new segment: {}", resumed.reason);
        self.add_notice(line, seq, what);
        if resumed.lost > 0 {
            let what = format!("{} records were lost: {}", resumed.lost, resumed.reason);
            self.add_problem(line, seq, what);
        }
        let sealed = &resumed.sealed;
        // A failed write may have left bytes after the last record; the writer declared that and continued in
        // another segment.
        let rest = |finding: &VerifyFinding| {
            finding.file == sealed.segment && finding.offset.is_some_and(|offset| offset >= sealed.bytes)
        };
        for finding in self.undecided.extract_if(.., |finding| rest(finding)).collect::<Vec<_>>() {
            push_bounded(&mut self.report.notices, finding);
        }
    }

    /// Reports the undecided findings as problems, because nothing can explain them any more.
    fn report_undecided(&mut self) {
        for finding in std::mem::take(&mut self.undecided) {
            push_bounded(&mut self.report.problems, finding);
        }
    }

    /// Returns the report and the requested seals.
    pub(crate) fn finish(mut self) -> ChainVerification {
        self.report_undecided();
        self.report.head = self.follower.position().head();
        if let Some((first, prev)) = self.first_link {
            self.report.first = first;
            let declared = |(at, base): &(u64, String)| *at == first && *base == prev.to_string();
            let beginning = first == 1 && prev == SealHash::NONE;
            if !beginning && !self.declared_starts.iter().any(declared) {
                let what = format!(
                    "the ledger begins at record {first}, and no retention entry explains that: earlier records are missing"
                );
                self.add_file_problem("segments", &what);
            }
        }
        let reach = if self.report.segments == 0 { 0 } else { self.follower.highest_accounted() };
        ChainVerification {
            report: self.report,
            requested_seals: self.requested_seals,
            highest_accounted: reach,
        }
    }
}

/// Result of a verification pass.
pub(crate) struct ChainVerification {
    pub(crate) report: VerifyReport,
    /// Requested seals.
    pub(crate) requested_seals: Vec<(u64, SealHash)>,
    /// Highest sequence number that a line accounts for, damaged or not.
    pub(crate) highest_accounted: u64,
}

fn push_bounded(list: &mut Vec<VerifyFinding>, finding: VerifyFinding) {
    if list.len() < MAX_FINDINGS {
        list.push(finding);
    }
}
