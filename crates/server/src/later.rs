//! One answer that takes its time: it is written when its reply is there, unless the client took the request back.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;

use crate::in_flight::Ticket;
use crate::outbox::Outbox;
use crate::rpc::{self, Reply, RpcError};

/// Waits for a reply and sends it, as a line of at most `limit` bytes; `held` is kept until it is there.
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
        // First: what was taken back before it began is begun all the same, so that it is on record; and for one that
        // is answered without waiting, nobody has to be told of a withdrawal.
        reply = reply => reply.unwrap_or_else(|_| Err(RpcError::internal())),
        // A call is told to end, and its end is recorded; nothing more is said of it here.
        () = ticket.withdrawn().cancelled() => return,
        () = outbox.gone() => return,
    };
    let line = rpc::write(Some(ticket.id()), &reply, limit);
    drop((reply, held));
    // Closed before it is sent: whoever has the answer may use the id again.
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
    async fn an_id_is_free_before_its_answer_is_out() {
        let (server, _client) = tokio::io::duplex(16);
        let (outbox, _writer) = Outbox::open(server, Duration::from_secs(600));
        // Nobody reads, and this fills the queue: the answer below cannot be sent.
        outbox.send(vec![b'x'; 8 * 1024 * 1024]).await;
        let (open, id) = (InFlight::default(), Id::read(json!(1)).unwrap());
        let ticket = open.open(id.clone()).unwrap();
        let answer = answer_later(ticket, async { rpc::answer(&json!({})) }, outbox, 1000, ());
        tokio::pin!(answer);
        assert!(timeout(Duration::from_millis(50), &mut answer).await.is_err(), "it was sent");
        assert!(open.open(id).is_ok(), "the id is taken while its answer waits");
    }

    #[tokio::test]
    async fn what_was_taken_back_before_it_began_is_begun_and_not_answered() {
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
