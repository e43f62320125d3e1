//! Deferred reply: waits for the result of one request and sends it, unless the client cancelled the request.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;

use crate::in_flight::Ticket;
use crate::outbox::Outbox;
use crate::rpc::{self, Reply, RpcError};

/// Waits for a reply and sends it as a line of at most `limit` bytes. `share` is held until the reply is
/// encoded.
pub(crate) async fn answer_later(
    ticket: Ticket,
    reply: impl Future<Output = Reply>,
    outbox: Outbox,
    limit: usize,
    held: impl Send,
) {
    let reply = AssertUnwindSafe(reply).catch_unwind();
    let reply = tokio::select! {
        biased;
        // Polled first: a request that was cancelled before it started is still started, so that it is
        // recorded in the ledger; and a reply that is ready at once registers no waiter for the cancellation.
        reply = reply => reply.unwrap_or_else(|_| Err(RpcError::internal())),
        // The pipeline ends the call and records its outcome; no reply is sent.
        () = ticket.withdrawn().cancelled() => return,
        () = outbox.gone() => return,
    };
    let line = rpc::write(Some(ticket.id()), &reply, limit);
    drop((reply, held));
    // Closed before the reply is sent: a client that has received it may reuse the id.
    if ticket.close() {
        outbox.send(line).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use serde_json::json;
    use tokio::io::AsyncReadExt;
    use tokio::time::timeout;

    use super::*;
    use crate::in_flight::InFlight;
    use crate::rpc::Id;

    #[tokio::test]
    async fn id_is_free_before_its_reply_is_sent() {
        let (server, _client) = tokio::io::duplex(16);
        let (outbox, _writer) = Outbox::open(server, Duration::from_secs(600));
        // The client does not read and this fills the queue, so the reply below cannot be sent.
        outbox.send(vec![b'x'; 8 * 1024 * 1024]).await;
        let (open, id) = (InFlight::default(), Id::read(json!(1)).unwrap());
        let ticket = open.open(id.clone()).unwrap();
        let answer = answer_later(ticket, async { rpc::answer(&json!({})) }, outbox, 1000, ());
        tokio::pin!(answer);
        assert!(timeout(Duration::from_millis(50), &mut answer).await.is_err(), "it was sent");
        assert!(open.open(id).is_ok(), "the id is still in use while its reply waits");
    }

    #[tokio::test]
    async fn request_cancelled_early_starts_but_gets_no_reply() {
        let (server, mut client) = tokio::io::duplex(1000);
        let (outbox, writer) = Outbox::open(server, Duration::from_secs(600));
        let (open, id) = (InFlight::default(), Id::read(json!(1)).unwrap());
        let begun = AtomicUsize::new(0);
        let endless = async {
            begun.fetch_add(1, Ordering::Relaxed);
            std::future::pending().await
        };
        let at_once = async {
            begun.fetch_add(1, Ordering::Relaxed);
            rpc::answer(&json!({}))
        };
        let ticket = || {
            let ticket = open.open(id.clone()).unwrap();
            open.withdraw(&id);
            ticket
        };
        answer_later(ticket(), endless, outbox.clone(), 1000, ()).await;
        answer_later(ticket(), at_once, outbox, 1000, ()).await;
        assert_eq!(begun.into_inner(), 2);
        writer.await.unwrap();
        let mut said = String::new();
        client.read_to_string(&mut said).await.unwrap();
        assert_eq!(said, "");
    }
}
