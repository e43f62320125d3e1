//! The record in a form for other programs: NDJSON byte for byte, or CSV for a spreadsheet.

use std::io::Write;

use serde_json::Value;

use crate::{Filter, LedgerError, Reader, facets::Facets, lines::Lines, segment};

/// A form to export in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportFormat {
    /// The lines as they are stored, seals included.
    Ndjson,
    /// A header and one row per record, with what most people look for.
    Csv,
}

const COLUMNS: [(&str, &str); 14] = [
    ("seq", "/seq"),
    ("time", "/time"),
    ("kind", "/kind"),
    ("call_id", "/call_id"),
    ("tool", "/tool"),
    ("outcome", "/outcome"),
    ("code", "/code"),
    ("mode", "/mode"),
    ("client", "/caller/client"),
    ("uid", "/caller/uid"),
    ("session", "/caller/session"),
    ("trace_id", "/trace/trace_id"),
    ("latency_us", "/latency_us"),
    ("text", ""),
];

/// Where the sentence of a record is, whatever its kind.
const TEXTS: [&str; 4] = ["/reason", "/message", "/text", "/event"];

impl Reader {
    /// Writes matching records, oldest first, and returns how many.
    pub fn export(
        &self,
        filter: &Filter,
        format: ExportFormat,
        mut out: impl Write,
    ) -> Result<u64, LedgerError> {
        let mut count = 0;
        if format == ExportFormat::Csv {
            let names: Vec<&str> = COLUMNS.iter().map(|(name, _)| *name).collect();
            writeln!(out, "{}", names.join(",")).map_err(LedgerError::Export)?;
        }
        let limit = filter.limit.map_or(u64::MAX, |limit| u64::try_from(limit).unwrap_or(u64::MAX));
        for segment in segment::list(self.folder())? {
            let failed = |error| LedgerError::io("read", &segment.path)(error);
            let mut lines = Lines::open(&segment).map_err(failed)?;
            while count < limit
                && let Some(line) = lines.next_line().map_err(failed)?
            {
                let Some(text) = line.whole() else { break };
                if !Facets::parse(text).is_some_and(|facets| filter.matches(&facets)) {
                    continue;
                }
                match format {
                    ExportFormat::Ndjson => out.write_all(line.bytes),
                    ExportFormat::Csv => out.write_all(row(text).as_bytes()),
                }
                .map_err(LedgerError::Export)?;
                count += 1;
            }
        }
        out.flush().map_err(LedgerError::Export)?;
        Ok(count)
    }
}

fn row(line: &[u8]) -> String {
    let record: Value = serde_json::from_slice(line).unwrap_or_default();
    let text = TEXTS.iter().find_map(|pointer| record.pointer(pointer));
    let cells = COLUMNS.iter().map(|(_, pointer)| match *pointer {
        "" => cell(text),
        pointer => cell(record.pointer(pointer)),
    });
    cells.collect::<Vec<_>>().join(",") + "\n"
}

/// One cell: always on one line, and never a formula, whoever chose the text.
fn cell(value: Option<&Value>) -> String {
    let text = match value {
        None | Some(Value::Null) => return String::new(),
        Some(Value::String(text)) => text.chars().flat_map(visible).collect::<String>(),
        Some(other) => other.to_string(),
    };
    let formula = text.starts_with(['=', '+', '-', '@', '\t']) && text.parse::<f64>().is_err();
    let text = if formula { format!("'{text}") } else { text };
    if text.contains(['"', ',', '\'', ' ']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
}

fn visible(c: char) -> Vec<char> {
    if crate::line::is_hidden(c) { c.escape_unicode().collect() } else { vec![c] }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn cells_are_one_line_and_no_formula() {
        let check = |value: Value, expect: &str| assert_eq!(cell(Some(&value)), expect);
        check(json!("plain"), "plain");
        check(json!("two words, \"quoted\""), "\"two words, \"\"quoted\"\"\"");
        check(json!("a\nb\u{1b}[2J"), "a\\u{a}b\\u{1b}[2J");
        check(json!("=HYPERLINK(1)"), "\"'=HYPERLINK(1)\"");
        check(json!("@x"), "\"'@x\"");
        check(json!("-12"), "-12");
        check(json!(12), "12");
        check(json!(null), "");
        assert_eq!(cell(None), "");
    }
}
