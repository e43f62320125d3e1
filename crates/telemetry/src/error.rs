//! What can go wrong while telemetry is set up or read. Nothing here can fail a call.

use std::path::PathBuf;

/// A telemetry set-up that cannot work, or a log that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The log filter does not parse.
    #[error(
        "`{text}` is not a log filter: {cause}; write a level (`info`) or `target=level` pairs separated by commas"
    )]
    Filter {
        /// What was given.
        text: String,
        /// What the parser says.
        cause: String,
    },
    /// The log directory cannot be used.
    #[error("cannot write the log in `{}`: {cause}", .path.display())]
    LogDirectory {
        /// The directory or file.
        path: PathBuf,
        /// What the operating system says.
        cause: std::io::Error,
    },
    /// The log cannot be read.
    #[error("cannot read the log `{}`: {cause}", .path.display())]
    LogRead {
        /// The file.
        path: PathBuf,
        /// What the operating system says.
        cause: std::io::Error,
    },
    /// A secret pattern of the configuration cannot be used.
    #[error("secret pattern `{name}` cannot be used: {cause}")]
    Pattern {
        /// The pattern's name.
        name: String,
        /// Why not.
        cause: String,
    },
    /// A telemetry setting has a value that cannot work.
    #[error("telemetry setting `{key}` cannot be `{value}`: {cause}")]
    Setting {
        /// The setting.
        key: &'static str,
        /// What was given; never a header's value.
        value: String,
        /// What would be accepted.
        cause: String,
    },
    /// The process already has a subscriber.
    #[error("telemetry is already set up in this process: call `init` once and keep its guard")]
    AlreadyInitialised,
    /// A background thread could not be started.
    #[error("cannot start the {name} thread: {cause}")]
    Thread {
        /// What it is for.
        name: &'static str,
        /// What the operating system says.
        cause: std::io::Error,
    },
    /// An exporter could not be built.
    #[error("cannot export {signal} to `{endpoint}`: {cause}")]
    Exporter {
        /// `traces`, `metrics` or `logs`.
        signal: &'static str,
        /// Where to.
        endpoint: String,
        /// What the exporter says.
        cause: String,
    },
}
