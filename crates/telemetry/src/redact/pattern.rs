//! Secret patterns of the configuration: checked once, then matched alongside the built-in detectors.

use regex::{Regex, RegexBuilder};
use regex_automata::{meta, nfa::thompson::NFA};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Compiled, Span};
use crate::TelemetryError;

/// Maximum memory of a compiled pattern in bytes, which nested counted repetitions exceed.
const SIZE_LIMIT: usize = 1 << 20;

/// Action for a text in which a pattern matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Action {
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
    pub action: Action,
}

#[derive(Debug, Default)]
pub(super) struct Extra {
    rows: Vec<Row>,
    /// Prefilter that matches if any of the patterns does. Most texts match none, and one search that can
    /// skip to the literal prefixes finds that out much faster than a `RegexSet`, which visits every byte.
    gate: Option<meta::Regex>,
    /// True if a pattern is anchored to the start or end of a text, so that several texts cannot be searched
    /// as one.
    anchored: bool,
}

#[derive(Debug)]
struct Row {
    name: String,
    action: Action,
    regex: Regex,
}

impl Extra {
    pub(super) fn compile(patterns: Vec<SecretPattern>) -> Result<Self, TelemetryError> {
        let rows = patterns.into_iter().map(Row::compile).collect::<Result<Vec<_>, _>>()?;
        let patterns: Vec<&str> = rows.iter().map(|row| row.regex.as_str()).collect();
        let limit = SIZE_LIMIT.saturating_mul(rows.len().max(1));
        let gate = meta::Builder::new()
            .configure(meta::Config::new().nfa_size_limit(Some(limit)))
            .build_many(&patterns)
            .map_err(|cause| refused("(all patterns combined)", cause.to_string()))?;
        let anchored = NFA::new_many(&patterns).map_or(true, |nfa| nfa.look_set_any().contains_anchor());
        Ok(Extra { gate: (!rows.is_empty()).then_some(gate), anchored, rows })
    }

    pub(super) fn name(&self, index: usize) -> &str {
        self.rows.get(index).map_or("secret", |row| &row.name)
    }

    /// Returns true if a pattern may match in these lines, each of which is a separate text.
    pub(super) fn hints(&self, lines: &str) -> bool {
        self.anchored || self.gate.as_ref().is_some_and(|gate| gate.is_match(lines))
    }

    pub(super) fn find(&self, text: &str, spans: &mut Vec<Span>) {
        for (index, row) in self.matching(text).filter(|(_, row)| row.action != Action::Warn) {
            let hits = row.regex.find_iter(text).filter(|hit| !hit.is_empty());
            let detector = Compiled::Extra(index);
            spans.extend(hits.map(|hit| Span { start: hit.start(), end: hit.end(), detector }));
        }
    }

    pub(super) fn first(&self, text: &str, action: Action) -> Option<&str> {
        let found = self.matching(text).find(|(_, row)| row.action == action)?;
        self.rows.get(found.0).map(|row| row.name.as_str())
    }

    fn matching<'a>(&'a self, text: &'a str) -> impl Iterator<Item = (usize, &'a Row)> {
        let any = self.gate.as_ref().is_some_and(|gate| gate.is_match(text));
        let rows: &[Row] = if any { &self.rows } else { &[] };
        rows.iter().enumerate().filter(move |(_, row)| row.regex.is_match(text))
    }
}

impl Row {
    fn compile(pattern: SecretPattern) -> Result<Self, TelemetryError> {
        let SecretPattern { name, pattern, action } = pattern;
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
        if name.is_empty() || name.len() > 64 || !name.bytes().all(plain) {
            return Err(refused(&name, "a name must have 1 to 64 characters of a-z, 0-9 and _".to_owned()));
        }
        let regex = RegexBuilder::new(&pattern)
            .size_limit(SIZE_LIMIT)
            .build()
            .map_err(|cause| refused(&name, cause.to_string()))?;
        if regex.is_match("") {
            return Err(refused(&name, "it matches the empty text, so it would match everywhere".to_owned()));
        }
        Ok(Row { name, action, regex })
    }
}

fn refused(name: &str, cause: String) -> TelemetryError {
    TelemetryError::Pattern { name: name.to_owned(), cause }
}
