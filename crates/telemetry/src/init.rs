//! Setup of telemetry, once per process, and shutdown within a deadline. Needs no async runtime.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tracing::Subscriber;
use tracing_subscriber::filter::{EnvFilter, filter_fn};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::{Registry, reload};

use crate::event;
use crate::log::{ColourMode, LineWriter, LogLayer, RotatingFile, RotationLimits, StderrSink};
use crate::otel::{self, ExportHealth, ExportPipelines};
use crate::panic::{self, StderrLog};
use crate::settings::{LogSettings, LoggedCalls, TelemetrySettings};
use crate::{TelemetryError, redact};

/// Environment variable that overrides the level of the settings.
const FILTER_VARIABLE: &str = "SINEW_LOG";

static INITIALISED: AtomicBool = AtomicBool::new(false);

/// Time that a dropped guard waits for the last lines.
const DROP_DEADLINE: Duration = Duration::from_secs(1);

/// Destination of log records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogTarget {
    /// JSON lines in rotating files in this directory.
    Directory(PathBuf),
    /// Short lines for a person on standard error.
    Stderr,
    /// Both, for a daemon in the foreground.
    DirectoryAndStderr(PathBuf),
}

/// Outcome of a flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum FlushOutcome {
    /// Everything was written before the deadline.
    Complete,
    /// The deadline passed first; the remaining records are lost.
    TimedOut,
}

/// Guard that keeps telemetry running; flushes when shut down or dropped.
pub struct TelemetryGuard {
    writers: Vec<LineWriter>,
    exports: Arc<ExportPipelines>,
    flushed: bool,
    settings: TelemetrySettings,
    filter: reload::Handle<EnvFilter, Registry>,
    logs_all_calls: Arc<AtomicBool>,
}

impl std::fmt::Debug for TelemetryGuard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guard").field("dropped_lines", &self.dropped_lines()).finish_non_exhaustive()
    }
}

/// Sets up logging, panic reports and, if an endpoint is configured, OpenTelemetry for the whole process.
pub fn init(settings: &TelemetrySettings, target: &LogTarget) -> Result<TelemetryGuard, TelemetryError> {
    if INITIALISED.swap(true, Ordering::AcqRel) {
        return Err(TelemetryError::AlreadyInitialised);
    }
    let guard = install(settings, target);
    INITIALISED.store(guard.is_ok(), Ordering::Release);
    guard
}

fn install(settings: &TelemetrySettings, target: &LogTarget) -> Result<TelemetryGuard, TelemetryError> {
    let configuration = otel::resolve(&settings.otlp, &|name| std::env::var(name).ok())?;
    let (subscriber, guard) = build_subscriber(settings, target, configuration.as_ref())?;
    // Fails if other code has already installed a subscriber.
    tracing::subscriber::set_global_default(subscriber).map_err(|_| TelemetryError::AlreadyInitialised)?;
    guard.install_exports();
    panic::install_hook(match target {
        LogTarget::Directory(_) => StderrLog::Absent,
        LogTarget::Stderr | LogTarget::DirectoryAndStderr(_) => StderrLog::Present,
    });
    event::set_content_capture(settings);
    // Compiles the patterns now rather than during the first call that logs.
    let _ = redact::shared().redact_text("");
    for warning in &guard.exports.warnings {
        tracing::warn!(target: "sinew::otlp", "{warning}");
    }
    Ok(guard)
}

/// Builds the subscriber without installing it, which a process can do only once.
pub(crate) fn build_subscriber(
    settings: &TelemetrySettings,
    target: &LogTarget,
    export: Option<&otel::ExportConfiguration>,
) -> Result<(impl Subscriber + Send + Sync + 'static, TelemetryGuard), TelemetryError> {
    let text = filter_variable().unwrap_or_else(|| settings.log.level.clone());
    let (filter, handle) = reload::Layer::new(parse_filter(&text)?);
    let limits = check_limits(&settings.log)?;
    let (directory, stderr) = match target {
        LogTarget::Directory(directory) => (Some(directory), None),
        LogTarget::Stderr => (None, Some(StderrSink(ColourMode::for_stderr()))),
        LogTarget::DirectoryAndStderr(directory) => {
            (Some(directory), StderrSink::unless_discarded(ColourMode::for_stderr()))
        }
    };
    let file = directory
        .map(|directory| LineWriter::start("sinew-log", RotatingFile::open(directory, limits)?))
        .transpose()?;
    let stderr = stderr.map(|stderr| LineWriter::start("sinew-stderr", stderr)).transpose()?;
    let writers = file.iter().chain(&stderr).cloned().collect();
    let exports = Arc::new(export.map(otel::build).transpose()?.unwrap_or_default());
    let logs_all_calls = Arc::new(AtomicBool::new(settings.log.calls == LoggedCalls::All));
    let layer =
        LogLayer { file, stderr, otlp: exports.logs.clone(), logs_all_calls: Arc::clone(&logs_all_calls) };
    let guard = TelemetryGuard {
        writers,
        exports,
        flushed: false,
        settings: settings.clone(),
        filter: handle,
        logs_all_calls,
    };
    Ok((Registry::default().with(filter).with(filter_fn(may_be_logged)).with(layer), guard))
}

impl TelemetryGuard {
    /// Sends spans and measurements of this process to these exporters from now on.
    pub(crate) fn install_exports(&self) {
        if !self.exports.is_empty() {
            otel::install(&self.exports);
        }
    }

    /// Number of log lines lost to a full or failing disk, or to a terminal that does not read.
    pub fn dropped_lines(&self) -> u64 {
        self.writers.iter().map(LineWriter::dropped).sum()
    }

    /// Health of the exports, one entry per exported signal.
    pub fn export_health(&self) -> Vec<ExportHealth> {
        self.exports.health()
    }

    /// Applies the settings that can change in a running process (level, logged calls and content capture), and returns the
    /// names of the changed settings that need a restart. `SINEW_LOG`, if set, stays in force.
    pub fn reload(&self, settings: &TelemetrySettings) -> Result<Vec<&'static str>, TelemetryError> {
        let filter = parse_filter(&settings.log.level)?;
        check_limits(&settings.log)?;
        otel::resolve(&settings.otlp, &|name| std::env::var(name).ok())?;
        if filter_variable().is_none() {
            let text = settings.log.level.clone();
            let failed = |cause: reload::Error| TelemetryError::Filter { text, cause: cause.to_string() };
            self.filter.reload(filter).map_err(failed)?;
        }
        self.logs_all_calls.store(settings.log.calls == LoggedCalls::All, Ordering::Relaxed);
        event::set_content_capture(settings);
        let changed = [
            ("log.max_bytes", settings.log.max_bytes != self.settings.log.max_bytes),
            ("log.files", settings.log.files != self.settings.log.files),
            ("otlp", settings.otlp != self.settings.otlp),
        ];
        Ok(changed.into_iter().filter_map(|(name, changed)| changed.then_some(name)).collect())
    }

    /// Writes and exports queued records for at most `deadline`. Blocks: do not call it on an async thread.
    pub fn shutdown(mut self, deadline: Duration) -> FlushOutcome {
        self.flush(Instant::now() + deadline)
    }

    fn flush(&mut self, deadline: Instant) -> FlushOutcome {
        self.flushed = true;
        // Exports come first, because their own messages still have to reach the log.
        let exported = self.exports.shutdown(deadline);
        let late = self.writers.iter().filter(|writer| !writer.flush(deadline)).count();
        if late == 0 { exported } else { FlushOutcome::TimedOut }
    }
}

impl Drop for TelemetryGuard {
    fn drop(&mut self) {
        if !self.flushed {
            let _ = self.flush(Instant::now() + DROP_DEADLINE);
        }
    }
}

/// Returns true if an event may be logged at any level. Below warnings, the libraries that talk to the
/// collector log connections and headers, including credentials, in forms that redaction cannot recognize.
fn may_be_logged(event: &tracing::Metadata<'_>) -> bool {
    const WIRE_LIBRARIES: [&str; 6] = ["hyper", "hyper_util", "h2", "reqwest", "rustls", "tower"];
    let library = event.target().split("::").next().unwrap_or_default();
    *event.level() <= tracing::Level::WARN || !WIRE_LIBRARIES.contains(&library)
}

fn filter_variable() -> Option<String> {
    std::env::var(FILTER_VARIABLE).ok().filter(|text| !text.trim().is_empty())
}

/// Parses a filter in the syntax of `EnvFilter`, but rejects a misspelt level, which `EnvFilter` would take
/// for a target name and so silence everything else.
fn parse_filter(text: &str) -> Result<EnvFilter, TelemetryError> {
    let refused = |cause: String| TelemetryError::Filter { text: text.to_owned(), cause };
    let bare = |word: &&str| !word.is_empty() && !word.contains(['=', '[', ']', '{', '}', ':']);
    let misspelt = text
        .split(',')
        .map(str::trim)
        .filter(bare)
        .find(|word| word.parse::<tracing::level_filters::LevelFilter>().is_err());
    if let Some(word) = misspelt {
        return Err(refused(format!("`{word}` is not one of error, warn, info, debug, trace, off")));
    }
    EnvFilter::builder().parse(text).map_err(|cause| refused(cause.to_string()))
}

fn check_limits(settings: &LogSettings) -> Result<RotationLimits, TelemetryError> {
    let refused = |key, value: String, cause: &str| {
        Err(TelemetryError::Setting { key, value, cause: cause.to_owned() })
    };
    if settings.max_bytes < 4096 {
        return refused("log.max_bytes", settings.max_bytes.to_string(), "it must be at least 4096");
    }
    if !(1..=1000).contains(&settings.files) {
        return refused("log.files", settings.files.to_string(), "it must be from 1 to 1000");
    }
    Ok(RotationLimits { max_bytes: settings.max_bytes, files: settings.files })
}

#[cfg(test)]
mod tests;
