//! Redaction: finds secrets in text and JSON and replaces them with `[redacted:NAME]`.
//!
//! It recognizes shapes and names; a secret without either (an ordinary word under an ordinary name) passes.
//! That is why content is kept out of logs in the first place, and redaction is only the second line of
//! defence.

mod assignment;
mod command_line;
mod detectors;
mod pattern;
mod sensitive;
mod value;

use std::borrow::Cow;
use std::sync::{Arc, LazyLock, OnceLock};

use aho_corasick::{AhoCorasick, AhoCorasickBuilder, AhoCorasickKind};
use arc_swap::ArcSwap;
use regex::Regex;

use crate::TelemetryError;
use detectors::{BUILT_IN, Detector};
use pattern::ConfiguredPatterns;
pub use pattern::{SecretPattern, SecretPatternAction};

static BUILT_IN_DETECTORS: LazyLock<BuiltInDetectors> = LazyLock::new(BuiltInDetectors::compile);
static SHARED_REDACTOR: LazyLock<ArcSwap<Redactor>> =
    LazyLock::new(|| ArcSwap::from_pointee(Redactor::built_in()));

/// Returns the redactor of this process, used for every log line and span; the built-in one until
/// `set_shared` is called.
pub fn shared() -> Arc<Redactor> {
    SHARED_REDACTOR.load_full()
}

/// Replaces the redactor of this process after the policy was loaded or reloaded.
pub fn set_shared(redactor: Redactor) {
    SHARED_REDACTOR.store(Arc::new(redactor));
}

/// Redactor with the built-in detectors and the patterns of the configuration.
#[derive(Debug, Default)]
pub struct Redactor {
    configured: ConfiguredPatterns,
}

/// Position of a secret and the detector that found it. The lowest detector has the most specific name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SecretSpan {
    start: usize,
    end: usize,
    detector: DetectorId,
}

/// Detector in order of precedence: patterns of the configuration, then the built-in ones, then assignments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum DetectorId {
    Configured(usize),
    BuiltIn(usize),
    Assignment,
}

struct BuiltInDetectors {
    prefilter: Option<AhoCorasick>,
    /// Detector of each needle of the prefilter.
    needle_detectors: Vec<DetectorId>,
    /// Compiled when one of its needles is first found: most texts contain none, and a process may be
    /// short-lived.
    patterns: Vec<OnceLock<Option<Regex>>>,
}

impl BuiltInDetectors {
    fn compile() -> Self {
        let rows = BUILT_IN.iter().enumerate();
        let needles = rows
            .flat_map(|(index, row)| {
                row.needles.iter().map(move |needle| (*needle, DetectorId::BuiltIn(index)))
            })
            .chain(
                assignment::NEEDLES
                    .iter()
                    .chain(&sensitive::FOREIGN_PASSWORD_STEMS)
                    .map(|needle| (*needle, DetectorId::Assignment)),
            );
        let (needles, owner): (Vec<&str>, Vec<DetectorId>) = needles.unzip();
        let prefilter = AhoCorasickBuilder::new()
            .ascii_case_insensitive(true)
            .kind(Some(AhoCorasickKind::DFA))
            .build(needles)
            .ok();
        BuiltInDetectors {
            prefilter,
            needle_detectors: owner,
            patterns: BUILT_IN.iter().map(|_| OnceLock::new()).collect(),
        }
    }

    /// Returns the detectors that can match at all, in one pass over the text.
    fn candidates(&self, text: &str) -> DetectorCandidates {
        let mut candidates = DetectorCandidates::default();
        let hits = self.prefilter.iter().flat_map(|gate| gate.find_overlapping_iter(text));
        for owner in hits.filter_map(|hit| self.needle_detectors.get(hit.pattern().as_usize())) {
            match owner {
                DetectorId::BuiltIn(index) => candidates.rows |= 1 << index,
                DetectorId::Assignment | DetectorId::Configured(_) => candidates.assignment = true,
            }
        }
        candidates
    }
}

#[derive(Clone, Copy, Default)]
struct DetectorCandidates {
    rows: u64,
    assignment: bool,
}

impl Redactor {
    /// Creates a redactor with the built-in detectors only.
    pub fn built_in() -> Self {
        Redactor::default()
    }

    /// Creates a redactor with the built-in detectors and these patterns.
    pub fn new(patterns: Vec<SecretPattern>) -> Result<Self, TelemetryError> {
        Ok(Redactor { configured: ConfiguredPatterns::compile(patterns)? })
    }

    /// Replaces every secret in a text; borrows the text if there is none.
    pub fn redact_text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut spans = Vec::new();
        self.configured.find(text, &mut spans);
        find_built_in(text, &mut spans);
        if spans.is_empty() { Cow::Borrowed(text) } else { Cow::Owned(self.replace(text, spans)) }
    }

    /// Like `redact_text`, for a text with a command line: its words are also redacted by position.
    pub fn redact_command_line(&self, text: &str) -> String {
        command_line::redact_line(&self.redact_text(text), command_line::MAX_NESTING)
    }

    /// Returns true if these lines may contain a secret. Never returns false for lines with one.
    fn may_contain_secret(&self, lines: &str) -> bool {
        BUILT_IN_DETECTORS.prefilter.as_ref().is_none_or(|gate| gate.is_match(lines))
            || self.configured.may_match(lines)
    }

    /// Returns the first pattern with the action `block` that matches the text.
    pub fn first_blocking_pattern(&self, text: &str) -> Option<&str> {
        self.configured.first_with_action(text, SecretPatternAction::Block)
    }

    /// Returns the first pattern with the action `warn` that matches the text. Such a pattern does not
    /// redact.
    pub fn first_warning_pattern(&self, text: &str) -> Option<&str> {
        self.configured.first_with_action(text, SecretPatternAction::Warn)
    }

    /// Returns the names of the secrets that a text contains by their shape. Values that are secret only by
    /// their name, such as a variable called `token`, are not included, because code is full of them.
    pub fn secret_names(&self, text: &str) -> Vec<&str> {
        let mut spans = Vec::new();
        self.configured.find(text, &mut spans);
        find_built_in(text, &mut spans);
        let by_shape =
            spans.iter().map(|span| span.detector).filter(|found| *found != DetectorId::Assignment);
        let mut names: Vec<&str> = by_shape
            .map(|detector| self.detector_name(detector))
            .chain(self.first_warning_pattern(text))
            .collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    fn replace(&self, text: &str, mut spans: Vec<SecretSpan>) -> String {
        spans.sort_unstable_by_key(|span| (span.start, span.detector));
        let mut out = String::with_capacity(text.len());
        let mut copied = 0;
        let mut rest = spans.into_iter().peekable();
        while let Some(mut merged) = rest.next() {
            while let Some(next) = rest.next_if(|next| next.start < merged.end) {
                merged.end = merged.end.max(next.end);
                merged.detector = merged.detector.min(next.detector);
            }
            out.push_str(text.get(copied..merged.start).unwrap_or_default());
            out.push_str("[redacted:");
            out.push_str(self.detector_name(merged.detector));
            out.push(']');
            copied = merged.end;
        }
        out.push_str(text.get(copied..).unwrap_or_default());
        out
    }

    fn detector_name(&self, detector: DetectorId) -> &str {
        match detector {
            DetectorId::Configured(index) => self.configured.name(index),
            DetectorId::BuiltIn(index) => BUILT_IN.get(index).map_or("secret", |row| row.name),
            DetectorId::Assignment => assignment::NAME,
        }
    }
}

fn find_built_in(text: &str, spans: &mut Vec<SecretSpan>) {
    let candidates = BUILT_IN_DETECTORS.candidates(text);
    for (index, (row, pattern)) in BUILT_IN.iter().zip(&BUILT_IN_DETECTORS.patterns).enumerate() {
        if candidates.rows >> index & 1 == 1
            && let Some(pattern) = pattern.get_or_init(|| Regex::new(row.pattern).ok())
        {
            find_with_detector(text, row, pattern, DetectorId::BuiltIn(index), spans);
        }
    }
    if candidates.assignment {
        assignment::find(text, DetectorId::Assignment, spans);
    }
}

fn find_with_detector(
    text: &str,
    row: &Detector,
    pattern: &Regex,
    detector: DetectorId,
    spans: &mut Vec<SecretSpan>,
) {
    if pattern.captures_len() == 1 {
        let hits = pattern.find_iter(text).filter(|hit| (row.accept)(hit.as_str()));
        spans.extend(hits.map(|hit| SecretSpan { start: hit.start(), end: hit.end(), detector }));
        return;
    }
    for found in pattern.captures_iter(text) {
        let secret = found.iter().skip(1).flatten().next().or_else(|| found.get(0));
        if let Some(secret) = secret.filter(|secret| (row.accept)(secret.as_str())) {
            spans.push(SecretSpan { start: secret.start(), end: secret.end(), detector });
        }
    }
}

#[cfg(test)]
mod tests;
