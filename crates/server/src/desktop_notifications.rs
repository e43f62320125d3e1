//! Desktop notifications for new approval requests. Best effort: a notification that fails is dropped, and no
//! call waits for it. The notifier program gets its text as arguments, never through a shell; the text is
//! redacted and contains only visible characters.

use std::collections::HashSet;
use std::convert::Infallible;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use approvals::escape_for_display;
use execution::ToolExecutionLayer;

use crate::platform::Platform;
use crate::settings::NotifyMethod;

/// Longest run of the notifier program, and number of notifications queued for it. Further ones are dropped.
const NOTIFIER_TIMEOUT: Duration = Duration::from_secs(10);
const MAX_QUEUED: usize = 4;
/// Maximum length of the notification text, in characters.
const MAX_TEXT_CHARS: usize = 160;
const TITLE: &str = "Sinew: a call needs your approval";

/// Sends a notification for every new approval request while the daemon serves.
pub(crate) async fn notify_of_approval_requests(
    layer: &Arc<ToolExecutionLayer>,
    by: &NotifyMethod,
) -> Infallible {
    let Some(program) = notifier_command(by) else { return std::future::pending().await };
    let (sender, lines) = sync_channel(MAX_QUEUED);
    if std::thread::Builder::new()
        .name("notify".into())
        .spawn(move || run_notifier(&lines, &program))
        .is_err()
    {
        return std::future::pending().await;
    }
    watch_approval_requests(layer, sender).await
}

async fn watch_approval_requests(layer: &Arc<ToolExecutionLayer>, lines: SyncSender<String>) -> Infallible {
    let mut changes = layer.approvals().subscribe();
    let mut known = HashSet::new();
    loop {
        let open = layer.approvals().list().await;
        for listed in open.iter().filter(|listed| listed.state == "pending") {
            if known.insert(listed.request.id.clone()) {
                let line = format!("{} {}", listed.request.id, escape_for_display(&listed.request.summary));
                let _ = lines.try_send(line.chars().take(MAX_TEXT_CHARS).collect());
            }
        }
        known.retain(|id| open.iter().any(|listed| listed.request.id == *id));
        if changes.changed().await.is_err() {
            return std::future::pending().await;
        }
    }
}

/// Returns the notifier program with its leading arguments; title and text are appended. `None` if
/// notifications are off.
fn notifier_command(by: &NotifyMethod) -> Option<Vec<String>> {
    let words = |words: &[&str]| Some(words.iter().map(|word| (*word).to_owned()).collect());
    match (by, Platform::CURRENT) {
        (NotifyMethod::Off, _) => None,
        (NotifyMethod::Program(words), _) => Some(words.clone()),
        (NotifyMethod::Desktop, Platform::Linux) => words(&["notify-send", "--app-name=sinew", "--"]),
        (NotifyMethod::Desktop, Platform::MacOs) => words(&[
            "osascript",
            "-e",
            "on run argv",
            "-e",
            "display notification (item 2 of argv) with title (item 1 of argv)",
            "-e",
            "end run",
        ]),
    }
}

fn run_notifier(lines: &Receiver<String>, program: &[String]) {
    let Some((name, arguments)) = program.split_first() else { return };
    while let Ok(line) = lines.recv() {
        // A desktop may interpret markup in the text.
        let line = line.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        let mut command = Command::new(name);
        command.args(arguments).args([TITLE, &line]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        match command.spawn() {
            Ok(child) => wait_or_kill(child),
            Err(error) => tracing::debug!(%error, name, "notification_failed"),
        }
    }
}

fn wait_or_kill(mut child: Child) {
    let until = Instant::now() + NOTIFIER_TIMEOUT;
    while matches!(child.try_wait(), Ok(None)) {
        if Instant::now() >= until {
            let _ = child.kill();
            let _ = child.wait();
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}
