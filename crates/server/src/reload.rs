//! Configuration reload: when a file changes, on SIGHUP, or when the operator requests it.
//!
//! A new configuration replaces the current one as a whole or not at all. Settings that take effect only at a
//! start are reported.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use execution::reload::{Acceptance, PolicyDifference, PolicyEffect, ReloadOutcome, ReloadReport};
use execution::{ConfigSnapshot, ToolExecutionLayer};
use tokio::signal::unix::Signal;

use crate::config_watch::ConfigWatch;
use crate::heap;
use crate::settings::Settings;
use crate::settings_file::ReloadMode;

/// Configuration as loaded from the files.
pub struct LoadedConfig {
    /// Snapshot that calls are judged by.
    pub snapshot: ConfigSnapshot,
    /// Settings of the daemon.
    pub settings: Settings,
    /// Callback that runs once the configuration is in effect.
    pub on_applied: Box<dyn FnOnce() + Send>,
}

/// Relation of the configuration in effect at the start to the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InitialConfigState {
    /// The configuration matches the files. They were watched before they were read, so nothing is to do
    /// until they change.
    MatchesFiles,
    /// The configuration differs from the files, or may differ: they are read again, and changes that loosen
    /// the policy need acceptance.
    MayDiffer,
}

/// Inputs for reloading the configuration.
pub struct ReloadInputs {
    /// Loads the configuration again.
    pub loader: ConfigLoader,
    /// Reports changes of the files.
    pub watch: ConfigWatch,
    /// State of the configuration at the start.
    pub initial: InitialConfigState,
}

/// Loads the configuration. Blocking; an error names the file and the line.
pub type ConfigLoader = Arc<dyn Fn() -> Result<LoadedConfig, String> + Send + Sync>;

/// Delay after the start before memory is released: clients that waited for the daemon have their reply by
/// then.
const RELEASE_DELAY_AFTER_START: Duration = Duration::from_secs(1);

/// Releases the memory that the start needed, once it is over.
pub(crate) async fn release_memory_after_start() -> std::convert::Infallible {
    tokio::time::sleep(RELEASE_DELAY_AFTER_START).await;
    tokio::task::spawn_blocking(heap::trim_heap);
    std::future::pending().await
}

/// Replaces the configuration in effect with the one in the files.
pub(crate) struct ConfigReloader {
    layer: Arc<ToolExecutionLayer>,
    loader: ConfigLoader,
    /// Settings at the start; most of them stay in effect until the daemon ends.
    started_with: Settings,
    /// Current reload mode. An applied reload changes it; a change to `auto` counts as loosening and needs
    /// acceptance.
    mode: Mutex<ReloadMode>,
}

impl ConfigReloader {
    pub(crate) fn new(layer: Arc<ToolExecutionLayer>, source: ConfigLoader, settings: &Settings) -> Self {
        ConfigReloader {
            layer,
            loader: source,
            started_with: settings.clone(),
            mode: Mutex::new(settings.reload),
        }
    }

    /// Loads the configuration and applies it, as far as the acceptance allows.
    pub(crate) async fn reload(&self, acceptance: Acceptance) -> ReloadReport {
        let report = self.load_and_apply(acceptance).await;
        // One of the two configurations was dropped; its memory is not needed until the next reload.
        tokio::task::spawn_blocking(heap::trim_heap);
        report
    }

    async fn load_and_apply(&self, acceptance: Acceptance) -> ReloadReport {
        let source = Arc::clone(&self.loader);
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
        let mut differences = self.changes_needing_restart(&fresh.settings);
        if before == ReloadMode::Ask && after == ReloadMode::Auto {
            let description =
                "reload: auto: changes that loosen the policy apply without acceptance".to_owned();
            differences.push(PolicyDifference { effect: PolicyEffect::Loosens, description, rule: None });
        }
        let report = self.layer.reload(fresh.snapshot, differences, &acceptance).await;
        if matches!(report.result, ReloadOutcome::Applied | ReloadOutcome::Unchanged) {
            if tokio::task::spawn_blocking(fresh.on_applied).await.is_err() {
                tracing::error!("internal error: the applied configuration could not be saved");
            }
            *self.mode.lock().unwrap_or_else(PoisonError::into_inner) = after;
        }
        report
    }

    /// Reloads on every file change and SIGHUP, until the future is dropped.
    pub(crate) async fn reload_on_change(
        &self,
        (mut watch, held): (ConfigWatch, InitialConfigState),
        mut hangup: Signal,
    ) -> std::convert::Infallible {
        if held == InitialConfigState::MayDiffer || !watch.is_watching_all() {
            self.reload(Acceptance::Ask).await;
        }
        loop {
            tokio::select! {
                () = watch.changed() => {}
                received = hangup.recv() => match received {
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
    fn changes_needing_restart(&self, now: &Settings) -> Vec<PolicyDifference> {
        let then = &self.started_with;
        let parts = [
            ("limits", then.limits != now.limits),
            ("ledger", then.ledger != now.ledger),
            ("log, otlp or capture_content", then.telemetry != now.telemetry),
            ("fleet", then.fleet != now.fleet),
        ];
        let changed = parts.into_iter().filter(|(_, changed)| *changed);
        let reported = changed.map(|(part, _)| PolicyDifference {
            effect: PolicyEffect::Neutral,
            description: format!("{part} in sinew.yaml changed: the change takes effect at the next start"),
            rule: None,
        });
        reported.collect()
    }
}
