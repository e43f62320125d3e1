//! Web consoles of the operator. While one is open, its port is reserved, and the ledger has its opening and
//! its closing. The console itself is a client of the control socket and runs in another process.

use std::sync::Arc;

use governance::reserved_ports::ReservedPort;
use ledger::entry::NoteEntry;
use ledger::{Ledger, LedgerEntry, LedgerError};
use serde_json::json;
use tool::Caller;

use crate::layer::ToolExecutionLayer;

/// Open console. Dropping it records that the console was closed.
#[derive(Debug)]
pub struct OpenConsole {
    port: ReservedPort,
    by: String,
    ledger: Arc<Ledger>,
}

impl ToolExecutionLayer {
    /// Opens a console: no call can reach its port from now on. A console that cannot be recorded is not opened.
    pub fn open_console(&self, port: u16, by: &Caller) -> Result<OpenConsole, LedgerError> {
        let port = self.reserved_ports.reserve(port);
        let (by, ledger) = (by.display_name(), Arc::clone(&self.recorder.ledger));
        let text = format!("{by} opened the web console");
        ledger.append(&note("console_opened", text, port.port()))?;
        tracing::info!(port = port.port(), "console_opened");
        Ok(OpenConsole { port, by, ledger })
    }
}

impl Drop for OpenConsole {
    fn drop(&mut self) {
        let text = format!("the web console of {} was closed", self.by);
        tracing::info!(port = self.port.port(), "console_closed");
        if let Err(error) = self.ledger.append(&note("console_closed", text, self.port.port())) {
            tracing::warn!(%error, "the end of a console could not be recorded");
        }
    }
}

fn note(about: &str, text: String, port: u16) -> LedgerEntry {
    LedgerEntry::Note(NoteEntry { about: about.to_owned(), text, data: json!({"port": port}) })
}
