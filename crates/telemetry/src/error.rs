//! Errors of setting up telemetry and of reading the log. None of them can fail a call.

use std::path::PathBuf;

/// Error of a telemetry setup that cannot work, or of a log that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The log filter does not parse.
    #[error(
        "`{text}` is not a log filter: {cause}; write a level (`info`) or `target=level` pairs separated by commas"
    )]
    Filter {
        /// Filter text.
        text: String,
        /// Error of the parser.
        cause: String,
    },
    /// The log directory cannot be used.
    #[error("cannot write the log in `{}`: {cause}", .path.display())]
    LogDirectory {
        /// Directory or file.
        path: PathBuf,
        /// Error of the operating system.
        cause: std::io::Error,
    },
    /// The log cannot be read.
    #[error("cannot read the log `{}`: {cause}", .path.display())]
    LogRead {
        /// File.
        path: PathBuf,
        /// Error of the operating system.
        cause: std::io::Error,
    },
    /// A secret pattern of the configuration cannot be used.
    #[error("secret pattern `{name}` cannot be used: {cause}")]
    Pattern {
        /// Name of the pattern.
        name: String,
        /// Reason.
        cause: String,
    },
    /// A telemetry setting has a value that cannot work.
    #[error("telemetry setting `{key}` cannot be `{value}`: {cause}")]
    Setting {
        /// Key of the setting.
        key: &'static str,
        /// Rejected value; never the value of a header.
        value: String,
        /// Reason, with the accepted values.
        cause: String,
    },
    /// The process already has a subscriber.
    #[error("telemetry is already set up in this process: call `init` once and keep its guard")]
    AlreadyInitialised,
    /// A background thread could not be started.
    #[error("cannot start the {name} thread: {cause}")]
    Thread {
        /// Purpose of the thread.
        name: &'static str,
        /// Error of the operating system.
        cause: std::io::Error,
    },
    /// An exporter could not be built.
    #[error("cannot export {signal} to `{endpoint}`: {cause}")]
    Exporter {
        /// `traces`, `metrics` or `logs`.
        signal: &'static str,
        /// Endpoint URL, redacted.
        endpoint: String,
        /// Error of the exporter.
        cause: String,
    },
}
