//! Panic hook that logs a panic as an error, redacted. The default hook would print the message unredacted,
//! and a message may contain anything a caller sent.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::panic::PanicHookInfo;

use crate::redact;

/// Presence of log lines on standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StderrLog {
    Present,
    Absent,
}

/// Installs the panic hook of the process.
pub(crate) fn install_hook(stderr: StderrLog) {
    std::panic::set_hook(Box::new(move |panic| {
        let report = PanicReport::from_panic(panic);
        tracing::error!(target: "sinew::panic", thread = report.thread, location = report.location,
            backtrace = report.backtrace.as_deref(), "panic: {}", report.message);
        if stderr == StderrLog::Absent {
            // Another thread writes the log, and a dying process may not wait for it.
            let clean = redact::shared().redact_text(&report.message).escape_debug().to_string();
            eprintln!("sinew panicked at {} in thread {}: {clean}", report.location, report.thread);
        }
    }));
}

struct PanicReport {
    thread: String,
    location: String,
    message: String,
    /// Backtrace, if `RUST_BACKTRACE` enables it.
    backtrace: Option<String>,
}

impl PanicReport {
    fn from_panic(panic: &PanicHookInfo<'_>) -> Self {
        let thread = std::thread::current().name().unwrap_or("unnamed").to_owned();
        let location = panic.location().map_or_else(|| "an unknown location".to_owned(), ToString::to_string);
        let message = panic.payload_as_str().unwrap_or("a payload that is not text").to_owned();
        let taken = Backtrace::capture();
        let backtrace = (taken.status() == BacktraceStatus::Captured).then(|| taken.to_string());
        PanicReport { thread, location, message, backtrace }
    }
}
