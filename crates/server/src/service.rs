//! Service of one socket: a table of methods, and the dispatch of requests to them. The methods are in
//! `methods/`, `mcp/` and `control/`, one file per noun.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use serde::Serialize;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::notify::{Following, Notifier};
use crate::rpc::{self, Id, Params, Reply, RpcError};
use crate::session::Session;

/// Stands for a method that there is none of.
const UNKNOWN: &str = "(unknown)";

/// Methods of one socket and their shared context.
pub(crate) struct Service<C: 'static> {
    /// Name of the socket, for messages.
    pub(crate) socket: &'static str,
    pub(crate) methods: &'static [Method<C>],
    pub(crate) notices: &'static [Notice],
    /// Name of the other socket and a test for its methods, for messages.
    pub(crate) elsewhere: (&'static str, fn(&str) -> bool),
    /// Worker session that every request on this socket belongs to.
    pub(crate) worker: Option<Arc<str>>,
    /// Builds the error for a line that is not a valid message.
    pub(crate) malformed: fn(&C, &Session, RpcError) -> RpcError,
    /// Admits a request to a method, or refuses it because its caller is over a limit.
    pub(crate) admit: fn(&C, &Session, &'static str) -> Result<(), RpcError>,
    pub(crate) context: C,
}

/// Method that handles requests.
pub(crate) struct Method<C> {
    pub(crate) name: &'static str,
    pub(crate) run: fn(&C, &mut Session, Call) -> Result<Answer, RpcError>,
}

/// Request passed to a method.
pub(crate) struct Call {
    pub(crate) id: Id,
    pub(crate) params: Params,
    /// Arrival time of the first byte of the request.
    pub(crate) began: Instant,
    /// Cancelled when the client cancels the request.
    pub(crate) withdrawn: CancellationToken,
}

/// Future of a deferred reply.
pub(crate) type Replying = Pin<Box<dyn Future<Output = Reply> + Send>>;

/// Way in which a method replies.
pub(crate) enum Answer {
    /// Sent immediately, before the next line is read: for methods that change the connection state or are
    /// cheap.
    Now(Reply),
    /// Sent when the result is ready, concurrently with other requests; started in the order of the lines.
    Later(Replying),
    /// Like `Deferred`, without an order: if more lines are buffered, any idle worker thread may start it.
    Shared(Replying),
    /// Sent immediately, followed by notifications until the client closes the connection.
    Follow(Reply, Following),
    /// No reply, only notifications until the request is cancelled or the connection ends.
    Listen(Following),
}

/// Handler of a known notification.
pub(crate) struct Notice {
    pub(crate) name: &'static str,
    pub(crate) run: fn(Params) -> Effect,
}

/// Effect of a notification on its connection.
pub(crate) enum Effect {
    /// No effect.
    Nothing,
    /// Cancels this request.
    Withdraw(Id),
}

impl Answer {
    pub(crate) fn now(result: &impl Serialize) -> Self {
        Answer::Now(rpc::answer(result))
    }

    pub(crate) fn later(reply: impl Future<Output = Reply> + Send + 'static) -> Self {
        Answer::Later(Box::pin(reply))
    }

    pub(crate) fn shared(reply: impl Future<Output = Reply> + Send + 'static) -> Self {
        Answer::Shared(Box::pin(reply))
    }

    /// Confirms a subscription and sends its notifications.
    pub(crate) fn follow<F>(notify: impl FnOnce(Notifier) -> F + Send + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let confirmed = rpc::answer(&json!({"following": true}));
        Answer::Follow(confirmed, Box::new(|notifier| Box::pin(notify(notifier))))
    }
}

impl<C> Service<C> {
    /// Runs the method of a request. A panic of the method becomes an internal error.
    pub(crate) fn request(&self, session: &mut Session, method: &str, call: Call) -> Answer {
        let known = self.methods.iter().find(|known| known.name == method);
        if let Err(refused) = (self.admit)(&self.context, session, known.map_or(UNKNOWN, |known| known.name))
        {
            return Answer::Now(Err(refused));
        }
        let Some(method) = known else { return Answer::Now(Err(self.unknown(method))) };
        let run = AssertUnwindSafe(|| (method.run)(&self.context, session, call));
        match catch_unwind(run) {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => Answer::Now(Err(error)),
            Err(_) => Answer::Now(Err(RpcError::internal())),
        }
    }

    /// Handles a notification. An unknown one is ignored, and so is a method sent without an id: a call whose
    /// outcome cannot be reported must not run.
    pub(crate) fn notice(&self, method: &str, params: Params) -> Effect {
        match self.notices.iter().find(|known| known.name == method) {
            Some(notice) => (notice.run)(params),
            None => Effect::Nothing,
        }
    }

    fn unknown(&self, method: &str) -> RpcError {
        let (socket, knows) = self.elsewhere;
        if knows(method) {
            return RpcError::method_elsewhere(method, self.socket, socket);
        }
        if let Some(notice) = self.notices.iter().find(|notice| notice.name == method) {
            let message = format!("`{}` is a notification: send it without an id", notice.name);
            return RpcError::invalid_request(&message);
        }
        RpcError::unknown_method(method, self.methods.iter().map(|known| known.name))
    }
}
