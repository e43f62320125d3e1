//! Secret patterns of the configuration: checked once, then matched alongside the built-in detectors.

use regex::{Regex, RegexBuilder};
use regex_automata::{meta, nfa::thompson::NFA};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{DetectorId, SecretSpan};
use crate::TelemetryError;

/// Maximum memory of a compiled pattern in bytes, which nested counted repetitions exceed.
const SIZE_LIMIT: usize = 1 << 20;

/// Action for a text in which a pattern matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SecretPatternAction {
    /// The call is refused; records and logs show the text redacted.
    Block,
    /// The text is redacted in records, logs and spans.
    Redact,
    /// The match is reported and the text is unchanged.
    Warn,
}

/// One secret pattern of the configuration.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SecretPattern {
    /// Name in `[redacted:NAME]`: 1 to 64 of `a-z 0-9 _`.
    pub name: String,
    /// Regular expression in the syntax of the Rust `regex` crate: linear time, no look-around.
    pub pattern: String,
    /// Action on a match.
    pub action: SecretPatternAction,
}

#[derive(Debug, Default)]
pub(super) struct ConfiguredPatterns {
    patterns: Vec<CompiledPattern>,
    /// Prefilter that matches if any of the patterns does. Most texts match none, and one search that can
    /// skip to the literal prefixes finds that out much faster than a `RegexSet`, which visits every byte.
    prefilter: Option<meta::Regex>,
    /// True if a pattern is anchored to the start or end of a text, so that several texts cannot be searched
    /// as one.
    is_anchored: bool,
}

#[derive(Debug)]
struct CompiledPattern {
    name: String,
    action: SecretPatternAction,
    regex: Regex,
}

impl ConfiguredPatterns {
    pub(super) fn compile(patterns: Vec<SecretPattern>) -> Result<Self, TelemetryError> {
        let rows = patterns.into_iter().map(CompiledPattern::compile).collect::<Result<Vec<_>, _>>()?;
        let patterns: Vec<&str> = rows.iter().map(|row| row.regex.as_str()).collect();
        let limit = SIZE_LIMIT.saturating_mul(rows.len().max(1));
        let gate = meta::Builder::new()
            .configure(meta::Config::new().nfa_size_limit(Some(limit)))
            .build_many(&patterns)
            .map_err(|cause| pattern_error("(all patterns combined)", cause.to_string()))?;
        let anchored = NFA::new_many(&patterns).map_or(true, |nfa| nfa.look_set_any().contains_anchor());
        Ok(ConfiguredPatterns {
            prefilter: (!rows.is_empty()).then_some(gate),
            is_anchored: anchored,
            patterns: rows,
        })
    }

    pub(super) fn name(&self, index: usize) -> &str {
        self.patterns.get(index).map_or("secret", |row| &row.name)
    }

    /// Returns true if a pattern may match in these lines, each of which is a separate text.
    pub(super) fn may_match(&self, lines: &str) -> bool {
        self.is_anchored || self.prefilter.as_ref().is_some_and(|gate| gate.is_match(lines))
    }

    pub(super) fn find(&self, text: &str, spans: &mut Vec<SecretSpan>) {
        for (index, row) in self.matching(text).filter(|(_, row)| row.action != SecretPatternAction::Warn) {
            let hits = row.regex.find_iter(text).filter(|hit| !hit.is_empty());
            let detector = DetectorId::Configured(index);
            spans.extend(hits.map(|hit| SecretSpan { start: hit.start(), end: hit.end(), detector }));
        }
    }

    pub(super) fn first_with_action(&self, text: &str, action: SecretPatternAction) -> Option<&str> {
        let found = self.matching(text).find(|(_, row)| row.action == action)?;
        self.patterns.get(found.0).map(|row| row.name.as_str())
    }

    fn matching<'a>(&'a self, text: &'a str) -> impl Iterator<Item = (usize, &'a CompiledPattern)> {
        let any = self.prefilter.as_ref().is_some_and(|gate| gate.is_match(text));
        let rows: &[CompiledPattern] = if any { &self.patterns } else { &[] };
        rows.iter().enumerate().filter(move |(_, row)| row.regex.is_match(text))
    }
}

impl CompiledPattern {
    fn compile(pattern: SecretPattern) -> Result<Self, TelemetryError> {
        let SecretPattern { name, pattern, action } = pattern;
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
        if name.is_empty() || name.len() > 64 || !name.bytes().all(plain) {
            return Err(pattern_error(
                &name,
                "a name must have 1 to 64 characters of a-z, 0-9 and _".to_owned(),
            ));
        }
        let regex = RegexBuilder::new(&pattern)
            .size_limit(SIZE_LIMIT)
            .build()
            .map_err(|cause| pattern_error(&name, cause.to_string()))?;
        if regex.is_match("") {
            return Err(pattern_error(
                &name,
                "it matches the empty text, so it would match everywhere".to_owned(),
            ));
        }
        Ok(CompiledPattern { name, action, regex })
    }
}

fn pattern_error(name: &str, cause: String) -> TelemetryError {
    TelemetryError::Pattern { name: name.to_owned(), cause }
}
