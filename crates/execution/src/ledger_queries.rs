//! Ledger functions for the endpoints. The queries block.

use ledger::entry::NoteEntry;
use ledger::{ExportPage, LedgerEntry, VerifyReport};
use serde_json::json;

pub use ledger::{ExportFormat, LedgerError, LedgerRecord, RecordFilter as LedgerFilter};

use crate::layer::ToolExecutionLayer;

pub use crate::modes::{ConditionPeak, RuleReaction, RuleRehearsal, RuleResponse};

impl ToolExecutionLayer {
    /// Counts the records of all calls in the ledger's anchor. An endpoint calls this before it sends replies.
    pub fn anchor_records(&self) {
        self.recorder.ledger.anchor_records();
    }

    /// Returns matching records, newest first.
    pub fn ledger_query(&self, filter: &LedgerFilter) -> Result<Vec<LedgerRecord>, LedgerError> {
        self.recorder.ledger.query(filter)
    }

    /// Returns the last record that a power failure cannot take back.
    pub fn ledger_synced(&self) -> u64 {
        self.recorder.ledger.health().synced
    }

    /// Returns a digest under the key of the ledger, which another ledger cannot have.
    pub fn ledger_digest(&self, content: &[u8]) -> String {
        self.recorder.ledger.keyed_digest(content)
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
        max_bytes: usize,
    ) -> Result<ExportPage, LedgerError> {
        self.recorder.ledger.reader().export_page(filter, format, max_bytes)
    }
}
