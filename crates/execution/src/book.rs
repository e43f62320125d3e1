//! Reading the record, for whoever may: the human's door. Everything here is blocking work.

use ledger::entry::Note;
use ledger::{Entry, ExportFormat, ExportPage, Filter, LedgerError, Record, VerifyReport};
use serde_json::json;

use crate::layer::ToolExecutionLayer;

impl ToolExecutionLayer {
    /// Matching records, newest first.
    pub fn ledger_query(&self, filter: &Filter) -> Result<Vec<Record>, LedgerError> {
        self.ledger.query(filter)
    }

    /// Checks every byte of the record. One that is not as it was written says so itself from then on.
    pub fn ledger_verify(&self) -> Result<VerifyReport, LedgerError> {
        let report = self.ledger.verify()?;
        if !report.is_intact() {
            let problems = report.problems.len();
            let text = format!("a check found {problems} places that are not as they were written");
            let note = Note { about: "ledger_verify".to_owned(), text, data: json!(report) };
            if let Err(error) = self.ledger.append(&Entry::Note(note)) {
                tracing::error!(%error, problems, "the record is damaged, and that could not be recorded");
            }
        }
        Ok(report)
    }

    /// A page of matching records in a form for other programs, oldest first.
    pub fn ledger_export(
        &self,
        filter: &Filter,
        format: ExportFormat,
        most_bytes: usize,
    ) -> Result<ExportPage, LedgerError> {
        self.ledger.reader().export_page(filter, format, most_bytes)
    }
}
