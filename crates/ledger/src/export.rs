//! Export of the ledger for other programs: unchanged NDJSON, or CSV for spreadsheets.

use std::{borrow::Cow, io::Write, ops::ControlFlow};

use serde_json::Value;

use crate::{
    LedgerError, LedgerReader, RecordFilter, line,
    lines::SegmentLines,
    search_fields::SearchFields,
    segment::{self, Segment},
};

/// Export format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportFormat {
    /// Lines as they are stored, including seals.
    Ndjson,
    /// Header and one row per record, with the most commonly used fields.
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

/// JSON pointers to the text of a record, by kind.
const TEXT_POINTERS: [&str; 4] = ["/reason", "/message", "/text", "/event"];

/// Part of an export that fits into one message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportPage {
    /// Complete lines.
    pub text: String,
    /// Number of records in the page.
    pub records: u64,
    /// Sequence number after which the next page starts, if there is one.
    pub next_after_seq: Option<u64>,
}

impl LedgerReader {
    /// Writes matching records, oldest first, and returns their number.
    pub fn export(
        &self,
        filter: &RecordFilter,
        format: ExportFormat,
        mut out: impl Write,
    ) -> Result<u64, LedgerError> {
        out.write_all(heading(format).as_bytes()).map_err(LedgerError::Export)?;
        let limit = filter.limit.map_or(u64::MAX, |limit| u64::try_from(limit).unwrap_or(u64::MAX));
        let mut count = 0;
        self.for_each_line(filter, |_, line| {
            if count == limit {
                return Ok(ControlFlow::Break(()));
            }
            count += 1;
            out.write_all(&render_line(line, format)).map_err(LedgerError::Export)?;
            Ok(ControlFlow::Continue(()))
        })?;
        out.flush().map_err(LedgerError::Export)?;
        Ok(count)
    }

    /// Returns a page of matching records, oldest first, of about `most_bytes` and at least one record. A
    /// page that continues another starts after its last record ([`RecordFilter::after_seq`]) and has no heading.
    pub fn export_page(
        &self,
        filter: &RecordFilter,
        format: ExportFormat,
        most_bytes: usize,
    ) -> Result<ExportPage, LedgerError> {
        let heading = if filter.after_seq.is_none() { heading(format) } else { String::new() };
        let limit = filter.limit.map_or(u64::MAX, |limit| u64::try_from(limit).unwrap_or(u64::MAX));
        let mut page = ExportPage { text: heading, records: 0, next_after_seq: None };
        let mut last = None;
        self.for_each_line(filter, |seq, line| {
            let lines = render_line(line, format);
            if page.records == limit || (page.records > 0 && page.text.len() + lines.len() > most_bytes) {
                page.next_after_seq = last;
                return Ok(ControlFlow::Break(()));
            }
            page.text.push_str(&String::from_utf8_lossy(&lines));
            page.records += 1;
            last = Some(seq);
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(page)
    }

    /// Calls `take` for each matching line, including its newline, oldest first, until it returns `Break`.
    fn for_each_line(
        &self,
        filter: &RecordFilter,
        mut take: impl FnMut(u64, &[u8]) -> Result<ControlFlow<()>, LedgerError>,
    ) -> Result<(), LedgerError> {
        let (first, last) = filter.seq_range();
        let segments = segment::list(&self.folder)?;
        for (n, segment) in segments.iter().enumerate() {
            if segments.get(n + 1).is_some_and(|next| next.first <= first) || segment.first > last {
                continue;
            }
            if for_each_line_of(segment, filter, |fields, line| take(fields.seq, line))?.is_break() {
                return Ok(());
            }
        }
        Ok(())
    }
}

/// Calls `take` for each matching line of a segment, including its newline, oldest first, until it returns `Break`.
pub(crate) fn for_each_line_of(
    segment: &Segment,
    filter: &RecordFilter,
    mut take: impl FnMut(&SearchFields<'_>, &[u8]) -> Result<ControlFlow<()>, LedgerError>,
) -> Result<ControlFlow<()>, LedgerError> {
    let (first, last) = filter.seq_range();
    let failed = |error| LedgerError::io("read", &segment.path)(error);
    let mut lines = SegmentLines::open(segment).map_err(failed)?;
    while let Some(line) = lines.next_line().map_err(failed)? {
        let Some(text) = line.without_newline() else { break };
        let in_range = line::parse_seq(text).is_some_and(|seq| (first..=last).contains(&seq));
        let Some(fields) = in_range.then(|| SearchFields::parse(text)).flatten() else { continue };
        if filter.matches(&fields) && take(&fields, line.bytes)?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    Ok(ControlFlow::Continue(()))
}

fn heading(format: ExportFormat) -> String {
    match format {
        ExportFormat::Ndjson => String::new(),
        ExportFormat::Csv => COLUMNS.map(|(name, _)| name).join(",") + "\n",
    }
}

fn render_line(line: &[u8], format: ExportFormat) -> Cow<'_, [u8]> {
    match format {
        ExportFormat::Ndjson => Cow::Borrowed(line),
        ExportFormat::Csv => Cow::Owned(row(line).into_bytes()),
    }
}

fn row(line: &[u8]) -> String {
    let record: Value = serde_json::from_slice(line).unwrap_or_default();
    let text = TEXT_POINTERS.iter().find_map(|pointer| record.pointer(pointer));
    let cells = COLUMNS.iter().map(|(_, pointer)| match *pointer {
        "" => cell(text),
        pointer => cell(record.pointer(pointer)),
    });
    cells.collect::<Vec<_>>().join(",") + "\n"
}

/// Formats a cell so that it stays on one line and is never a formula, whatever text the caller chose.
fn cell(value: Option<&Value>) -> String {
    let text = match value {
        None | Some(Value::Null) => return String::new(),
        Some(Value::String(text)) => text.chars().flat_map(escape_hidden).collect::<String>(),
        Some(other) => other.to_string(),
    };
    let formula = text.starts_with(['=', '+', '-', '@', '\t']) && text.parse::<f64>().is_err();
    let text = if formula { format!("'{text}") } else { text };
    if text.contains(['"', ',', '\'', ' ']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
}

fn escape_hidden(c: char) -> Vec<char> {
    if tool::escaped_json::is_hidden(c) { c.escape_unicode().collect() } else { vec![c] }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn cells_are_one_line_and_never_a_formula() {
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
