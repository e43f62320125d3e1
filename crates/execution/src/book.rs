//! Reading the record, for whoever may: the human's door. Everything here is blocking work.

use ledger::{ExportFormat, ExportPage, Filter, LedgerError, Record, VerifyReport};

use crate::layer::ToolExecutionLayer;

impl ToolExecutionLayer {
    /// Matching records, newest first.
    pub fn ledger_query(&self, filter: &Filter) -> Result<Vec<Record>, LedgerError> {
        self.ledger.query(filter)
    }

    /// Checks every byte of the record.
    pub fn ledger_verify(&self) -> Result<VerifyReport, LedgerError> {
        self.ledger.verify()
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
