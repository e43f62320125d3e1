//! What one socket offers: a table of methods, and how a request finds its own. The methods themselves live in
//! `methods/`, `mcp/` and `control/`, one file each.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use tokio_util::sync::CancellationToken;

use crate::notify::Following;
use crate::rpc::{Id, Params, Reply, RpcError};
use crate::session::Session;

/// One socket's methods, and what they work on.
pub(crate) struct Service<C: 'static> {
    /// The socket's name, for messages.
    pub(crate) socket: &'static str,
    pub(crate) methods: &'static [Method<C>],
    pub(crate) notices: &'static [Notice],
    /// The other socket, and whether a method is there, for messages.
    pub(crate) elsewhere: (&'static str, fn(&str) -> bool),
    /// The worker session that everything said here is in.
    pub(crate) worker: Option<Arc<str>>,
    /// What a peer is told of a line that is no message.
    pub(crate) malformed: fn(&C, &Session, RpcError) -> RpcError,
    pub(crate) context: C,
}

/// A method that answers requests.
pub(crate) struct Method<C> {
    pub(crate) name: &'static str,
    pub(crate) run: fn(&C, &mut Session, Call) -> Result<Answer, RpcError>,
}

/// What a method is given.
pub(crate) struct Call {
    pub(crate) id: Id,
    pub(crate) params: Params,
    /// When the first byte of the request came.
    pub(crate) began: Instant,
    /// Fired when the client takes the request back.
    pub(crate) withdrawn: CancellationToken,
}

/// A reply that is still to come.
pub(crate) type Replying = Pin<Box<dyn Future<Output = Reply> + Send>>;

/// How a method answers.
pub(crate) enum Answer {
    /// At once, before the next line is read: what changes the session, or costs nothing.
    Now(Reply),
    /// When it is done, beside whatever else the connection asks; begun in the order of the lines.
    Later(Replying),
    /// The same for what has no order: of several that came together, each is begun by whichever worker is free.
    Shared(Replying),
    /// At once, and then again and again, until the client closes its side.
    Follow(Reply, Following),
    /// Never, as long as both sides are there: what is said meanwhile is what was asked for.
    Listen(Following),
}

/// A notification that means something.
pub(crate) struct Notice {
    pub(crate) name: &'static str,
    pub(crate) run: fn(Params) -> Effect,
}

/// What a notification does to its connection.
pub(crate) enum Effect {
    /// Nothing.
    Nothing,
    /// The client takes this request back.
    Withdraw(Id),
}

impl Answer {
    pub(crate) fn later(reply: impl Future<Output = Reply> + Send + 'static) -> Self {
        Answer::Later(Box::pin(reply))
    }

    pub(crate) fn shared(reply: impl Future<Output = Reply> + Send + 'static) -> Self {
        Answer::Shared(Box::pin(reply))
    }
}

impl<C> Service<C> {
    /// Starts the answer to a request. A method that panics has answered with an error.
    pub(crate) fn request(&self, session: &mut Session, method: &str, call: Call) -> Answer {
        let Some(method) = self.methods.iter().find(|known| known.name == method) else {
            return Answer::Now(Err(self.unknown(method)));
        };
        let run = AssertUnwindSafe(|| (method.run)(&self.context, session, call));
        match catch_unwind(run) {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => Answer::Now(Err(error)),
            Err(_) => Answer::Now(Err(RpcError::internal())),
        }
    }

    /// Takes note of a notification. An unknown one is passed over, and so is a method sent without an id: a call
    /// whose end nobody could be told must not run.
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
