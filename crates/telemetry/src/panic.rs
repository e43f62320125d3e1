//! What a panic says: an error in the log, redacted. The default report would print its message as it stands, and
//! a message may hold whatever a caller sent.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::panic::PanicHookInfo;

use crate::redact;

/// Whether a person reads standard error through the log already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StderrLog {
    Present,
    Absent,
}

/// Reports panics of the whole process from here on.
pub(crate) fn install(stderr: StderrLog) {
    std::panic::set_hook(Box::new(move |panic| {
        let report = Report::of(panic);
        tracing::error!(target: "sinew::panic", thread = report.thread, location = report.location,
            backtrace = report.backtrace.as_deref(), "panic: {}", report.message);
        if stderr == StderrLog::Absent {
            // The log is written by another thread, which a dying process may not wait for.
            let clean = redact::shared().redact_text(&report.message).escape_debug().to_string();
            eprintln!("sinew panicked at {} in thread {}: {clean}", report.location, report.thread);
        }
    }));
}

struct Report {
    thread: String,
    location: String,
    message: String,
    /// Only where `RUST_BACKTRACE` asks for it.
    backtrace: Option<String>,
}

impl Report {
    fn of(panic: &PanicHookInfo<'_>) -> Self {
        let thread = std::thread::current().name().unwrap_or("unnamed").to_owned();
        let location = panic.location().map_or_else(|| "an unknown place".to_owned(), ToString::to_string);
        let message = panic.payload_as_str().unwrap_or("a value that is no text").to_owned();
        let taken = Backtrace::capture();
        let backtrace = (taken.status() == BacktraceStatus::Captured).then(|| taken.to_string());
        Report { thread, location, message, backtrace }
    }
}
