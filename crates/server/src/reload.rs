//! Reading the configuration again: when a file changes, when a human or SIGHUP asks.
//!
//! What is read replaces what holds as a whole, or not at all. Settings that only a start can change are named.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use execution::{Acceptance, Difference, Effect, ReloadReport, Reloaded, ToolExecutionLayer, World};
use tokio::signal::unix::Signal;

use crate::config_watch::ConfigWatch;
use crate::settings::Settings;
use crate::settings_file::ReloadMode;
use crate::{code, heap};

/// What the configuration says now.
pub struct Fresh {
    /// What calls are judged by.
    pub world: World,
    /// The settings.
    pub settings: Settings,
    /// What to do once it holds.
    pub once_held: Box<dyn FnOnce() + Send>,
}

/// Whether what holds is what the files say, as far as they were read before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// It is: they were watched before they were read, so there is nothing to do until they change.
    AsRead,
    /// Not all of it, or nobody knows: they are read once more, and what is in them is asked about.
    Otherwise,
}

/// What a daemon follows.
pub struct Following {
    /// Where the configuration is read again.
    pub source: Source,
    /// What tells when.
    pub watch: ConfigWatch,
    /// What was made of it so far.
    pub held: Held,
}

/// Reads the configuration. Blocking; an error names the file and the line.
pub type Source = Arc<dyn Fn() -> Result<Fresh, String> + Send + Sync>;

/// How long after a start its room is given back: whoever waited for the daemon has been answered by then.
const STARTED: Duration = Duration::from_secs(1);

/// Gives back what reading a configuration needed, and nothing else does. Code that a call is running through stays.
fn give_back(layer: &ToolExecutionLayer) {
    heap::give_back();
    if layer.status().calls.running == 0 {
        code::let_go();
    }
}

/// Gives back what a start needed, once it is over.
pub(crate) async fn give_back_of_start(layer: Arc<ToolExecutionLayer>) -> std::convert::Infallible {
    tokio::time::sleep(STARTED).await;
    tokio::task::spawn_blocking(move || give_back(&layer));
    std::future::pending().await
}

/// Replaces what holds by what the files say.
pub(crate) struct Reloader {
    layer: Arc<ToolExecutionLayer>,
    source: Source,
    /// The settings the daemon was started with: most of them hold until it ends.
    started_with: Settings,
    /// Whether a human is asked. Changed only by a reload that a human has seen.
    mode: Mutex<ReloadMode>,
}

impl Reloader {
    pub(crate) fn new(layer: Arc<ToolExecutionLayer>, source: Source, settings: &Settings) -> Self {
        Reloader { layer, source, started_with: settings.clone(), mode: Mutex::new(settings.reload) }
    }

    /// Reads the configuration and takes it, as far as it may be taken.
    pub(crate) async fn reload(&self, acceptance: Acceptance) -> ReloadReport {
        let report = self.take(acceptance).await;
        // Whichever of the two configurations was let go, its room is not needed until the next time.
        let layer = Arc::clone(&self.layer);
        tokio::task::spawn_blocking(move || give_back(&layer));
        report
    }

    async fn take(&self, acceptance: Acceptance) -> ReloadReport {
        let source = Arc::clone(&self.source);
        let read = tokio::task::spawn_blocking(move || source()).await;
        let fresh = match read.unwrap_or_else(|_| Err("a fault inside Sinew".to_owned())) {
            Ok(fresh) => fresh,
            Err(error) => return self.layer.reject_reload(error).await,
        };
        let (before, after) = (self.mode(), fresh.settings.reload);
        let acceptance = match before {
            ReloadMode::Auto => Acceptance::Always,
            ReloadMode::Ask => acceptance,
        };
        let mut beside = self.needs_restart(&fresh.settings);
        if before == ReloadMode::Ask && after == ReloadMode::Auto {
            let what = "reload: auto: changes that loosen are no longer asked about".to_owned();
            beside.push(Difference { effect: Effect::Loosens, what, rule: None });
        }
        let report = self.layer.reload(fresh.world, beside, &acceptance).await;
        if matches!(report.result, Reloaded::Applied | Reloaded::Unchanged) {
            if tokio::task::spawn_blocking(fresh.once_held).await.is_err() {
                tracing::error!("what was taken could not be kept: a fault inside Sinew");
            }
            *self.mode.lock().unwrap_or_else(PoisonError::into_inner) = after;
        }
        report
    }

    /// Reloads whenever a file changes or SIGHUP comes, until it is dropped.
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
                    // No more signals will come; the files still change.
                    None => watch.changed().await,
                },
            }
            self.reload(Acceptance::Ask).await;
        }
    }

    fn mode(&self) -> ReloadMode {
        *self.mode.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the file says otherwise than at the start, and only a start can change.
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
            what: format!("{part} in sinew.yaml changed: that takes effect at the next start"),
            rule: None,
        });
        told.collect()
    }
}
