//! `control/events`: streams telemetry events as `control/event` notifications until the connection is
//! closed.
//!
//! A client that reads too slowly misses events; `control/events.missed` reports how many. No call waits for
//! a client.

use serde::Serialize;
use serde_json::json;
use telemetry::{Seen, Watch};

use super::Control;
use crate::notify::Notifier;
use crate::rpc::{self, RpcError};
use crate::service::{Answer, Call, Method};
use crate::session::Session;

pub(crate) const METHOD: Method<Control> = Method { name: "control/events", run };

#[derive(Serialize)]
struct Missed {
    /// Events missed since the previous notification.
    count: u64,
    /// Events missed since the stream began.
    total: u64,
}

fn run(_control: &Control, _session: &mut Session, call: Call) -> Result<Answer, RpcError> {
    let mut params = call.params;
    let wanted: Option<Vec<String>> = params.want("events")?;
    params.finish()?;
    // Subscribed before the reply, so that every event after the reply is reported.
    let watch = telemetry::watch();
    let answer = rpc::answer(&json!({"following": true}));
    Ok(Answer::Follow(answer, Box::new(move |notifier| Box::pin(follow(watch, wanted, notifier)))))
}

async fn follow(mut watch: Watch, wanted: Option<Vec<String>>, notifier: Notifier) {
    let wants = |event: &str| wanted.as_ref().is_none_or(|wanted| wanted.iter().any(|name| name == event));
    let mut total = 0;
    loop {
        match watch.next().await {
            Seen::Event(happened) if wants(happened.event) => {
                notifier.tell("control/event", &happened.record).await;
            }
            Seen::Event(_) => {}
            Seen::Missed(count) => {
                total += count;
                notifier.tell("control/events.missed", &Missed { count, total }).await;
            }
        }
    }
}
