//! Configuration reload: when a file changes, on SIGHUP, or when the operator requests it.
//!
//! A new configuration replaces the current one as a whole or not at all. Settings that take effect only at a
//! start are reported.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use execution::{Acceptance, Difference, Effect, ReloadReport, Reloaded, ToolExecutionLayer, World};
use tokio::signal::unix::Signal;

use crate::config_watch::ConfigWatch;
use crate::heap;
use crate::settings::Settings;
use crate::settings_file::ReloadMode;

/// Configuration as loaded from the files.
pub struct Fresh {
    /// Snapshot that calls are judged by.
    pub world: World,
    /// Settings of the daemon.
    pub settings: Settings,
    /// Callback that runs once the configuration is in effect.
    pub once_held: Box<dyn FnOnce() + Send>,
}

/// Relation of the configuration in effect at the start to the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// The configuration matches the files. They were watched before they were read, so nothing is to do
    /// until they change.
    AsRead,
    /// The configuration differs from the files, or may differ: they are read again, and changes that loosen
    /// the policy need acceptance.
    Otherwise,
}

/// Inputs for reloading the configuration.
pub struct Following {
    /// Loads the configuration again.
    pub source: Source,
    /// Reports changes of the files.
    pub watch: ConfigWatch,
    /// State of the configuration at the start.
    pub held: Held,
}

/// Loads the configuration. Blocking; an error names the file and the line.
pub type Source = Arc<dyn Fn() -> Result<Fresh, String> + Send + Sync>;

/// Delay after the start before memory is released: clients that waited for the daemon have their reply by
/// then.
const STARTED: Duration = Duration::from_secs(1);

/// Releases the memory that the start needed, once it is over.
pub(crate) async fn give_back_of_start() -> std::convert::Infallible {
    tokio::time::sleep(STARTED).await;
    tokio::task::spawn_blocking(heap::give_back);
    std::future::pending().await
}

/// Replaces the configuration in effect with the one in the files.
pub(crate) struct Reloader {
    layer: Arc<ToolExecutionLayer>,
    source: Source,
    /// Settings at the start; most of them stay in effect until the daemon ends.
    started_with: Settings,
    /// Current reload mode. An applied reload changes it; a change to `auto` counts as loosening and needs
    /// acceptance.
    mode: Mutex<ReloadMode>,
}

impl Reloader {
    pub(crate) fn new(layer: Arc<ToolExecutionLayer>, source: Source, settings: &Settings) -> Self {
        Reloader { layer, source, started_with: settings.clone(), mode: Mutex::new(settings.reload) }
    }

    /// Loads the configuration and applies it, as far as the acceptance allows.
    pub(crate) async fn reload(&self, acceptance: Acceptance) -> ReloadReport {
        let report = self.take(acceptance).await;
        // One of the two configurations was dropped; its memory is not needed until the next reload.
        tokio::task::spawn_blocking(heap::give_back);
        report
    }

    async fn take(&self, acceptance: Acceptance) -> ReloadReport {
        let source = Arc::clone(&self.source);
        let read = tokio::task::spawn_blocking(move || source()).await;
        let fresh = match read.unwrap_or_else(|_| Err("internal error in Sinew".to_owned())) {
            Ok(fresh) => fresh,
            Err(error) => return self.layer.reject_reload(error).await,
        };
        let (before, after) = (self.mode(), fresh.settings.reload);
        let acceptance = match before {
            ReloadMode::Auto => Acceptance::Always,
            ReloadMode::Ask => acceptance,
        };
        let mut differences = self.needs_restart(&fresh.settings);
        if before == ReloadMode::Ask && after == ReloadMode::Auto {
            let what = "reload: auto: changes that loosen the policy apply without acceptance".to_owned();
            differences.push(Difference { effect: Effect::Loosens, what, rule: None });
        }
        let report = self.layer.reload(fresh.world, differences, &acceptance).await;
        if matches!(report.result, Reloaded::Applied | Reloaded::Unchanged) {
            if tokio::task::spawn_blocking(fresh.once_held).await.is_err() {
                tracing::error!("internal error: the applied configuration could not be saved");
            }
            *self.mode.lock().unwrap_or_else(PoisonError::into_inner) = after;
        }
        report
    }

    /// Reloads on every file change and SIGHUP, until the future is dropped.
    pub(crate) async fn follow(
        &self,
        (mut watch, held): (ConfigWatch, Held),
        mut hangup: Signal,
    ) -> std::convert::Infallible {
        if held == Held::Otherwise || !watch.is_told() {
            self.reload(Acceptance::Ask).await;
        }
        loop {
            tokio::select! {
                () = watch.changed() => {}
                heard = hangup.recv() => match heard {
                    Some(()) => tracing::info!("SIGHUP received: reading the configuration again"),
                    // The signal stream has ended; file changes still count.
                    None => watch.changed().await,
                },
            }
            self.reload(Acceptance::Ask).await;
        }
    }

    fn mode(&self) -> ReloadMode {
        *self.mode.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lists the settings that differ from those at the start and take effect only at the next start.
    fn needs_restart(&self, now: &Settings) -> Vec<Difference> {
        let then = &self.started_with;
        let parts = [
            ("limits", then.limits != now.limits),
            ("ledger", then.ledger != now.ledger),
            ("log, otlp or capture_content", then.telemetry != now.telemetry),
        ];
        let changed = parts.into_iter().filter(|(_, changed)| *changed);
        let told = changed.map(|(part, _)| Difference {
            effect: Effect::Neutral,
            what: format!("{part} in sinew.yaml changed: the change takes effect at the next start"),
            rule: None,
        });
        told.collect()
    }
}
