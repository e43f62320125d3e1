//! Ledger queries for the control socket. All functions block.

use ledger::entry::NoteEntry;
use ledger::{ExportPage, LedgerEntry, VerifyReport};
use serde_json::json;

pub use ledger::{ExportFormat, LedgerError, LedgerRecord, RecordFilter as LedgerFilter};

use crate::layer::ToolExecutionLayer;

pub use crate::modes::{ConditionPeak, RuleReaction, RuleRehearsal, RuleResponse};

impl ToolExecutionLayer {
    /// Returns matching records, newest first.
    pub fn ledger_query(&self, filter: &LedgerFilter) -> Result<Vec<LedgerRecord>, LedgerError> {
        self.recorder.ledger.query(filter)
    }

    /// Verifies every byte of the ledger. If it finds damage, it records that in the ledger.
    pub fn ledger_verify(&self) -> Result<VerifyReport, LedgerError> {
        let report = self.recorder.ledger.verify()?;
        if !report.is_intact() {
            let problems = report.problems.len();
            let text = format!("ledger verification found {problems} problems");
            let note = NoteEntry { about: "ledger_verify".to_owned(), text, data: json!(report) };
            if let Err(error) = self.recorder.ledger.append(&LedgerEntry::Note(note)) {
                tracing::error!(%error, problems, "the ledger is damaged, and the damage could not be recorded");
            }
        }
        Ok(report)
    }

    /// Returns a page of matching records in an export format, oldest first.
    pub fn ledger_export(
        &self,
        filter: &LedgerFilter,
        format: ExportFormat,
        most_bytes: usize,
    ) -> Result<ExportPage, LedgerError> {
        self.recorder.ledger.reader().export_page(filter, format, most_bytes)
    }
}
