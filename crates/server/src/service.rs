//! Service of one socket: a table of methods, and the dispatch of requests to them. The methods are in
//! `methods/`, `mcp/` and `control/`, one file per noun.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::time::Instant;

use execution::RequestSlots;
use serde::Serialize;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use tool::caller::CallerKey;

use crate::connection_state::{ConnectionState, WorkerIdentity};
use crate::notify::{NotificationTask, Notifier};
use crate::rpc::{self, Params, RequestId, RpcError, RpcReply};

/// Name under which requests of unknown methods are counted.
const UNKNOWN: &str = "(unknown)";

/// Methods of one socket and their shared context.
pub(crate) struct SocketService<C: 'static> {
    /// Name of the socket, for messages.
    pub(crate) socket: &'static str,
    pub(crate) methods: &'static [RpcMethod<C>],
    pub(crate) notifications: &'static [NotificationHandler],
    /// Name of the other socket and a test for its methods, for messages.
    pub(crate) other_socket: (&'static str, fn(&str) -> bool),
    /// Worker session that every request on this socket belongs to.
    pub(crate) worker: Option<WorkerIdentity>,
    /// Builds the error for a line that is not a valid message, and records it as a refusal.
    pub(crate) on_malformed: fn(&C, &ConnectionState, Option<&RequestId>, RpcError) -> RpcError,
    /// Admits a request to a method, or refuses it because its caller is over a limit.
    pub(crate) admit: fn(&C, &ConnectionState, &'static str) -> Result<(), RpcError>,
    /// Charges the bytes of a reply or notification to its caller.
    pub(crate) charge_line: fn(&C, CallerKey, usize),
    /// Called before replies are written to a connection.
    pub(crate) before_write: fn(&C),
    /// Slots in which requests are handled; `None` for the operator, whose requests never wait for those of agents.
    pub(crate) request_slots: Option<RequestSlots>,
    pub(crate) context: C,
}

/// Method that handles requests.
pub(crate) struct RpcMethod<C> {
    pub(crate) name: &'static str,
    pub(crate) run: fn(&C, &mut ConnectionState, MethodCall) -> MethodResult,
}

/// Reply of a method, or the error that is sent instead.
pub(crate) type MethodResult = Result<MethodReply, RpcError>;

/// Request passed to a method.
pub(crate) struct MethodCall {
    pub(crate) id: RequestId,
    pub(crate) params: Params,
    /// Arrival time of the first byte of the request.
    pub(crate) received_at: Instant,
    /// Cancelled when the client cancels the request.
    pub(crate) cancellation: CancellationToken,
}

/// Future of a deferred reply.
pub(crate) type PendingReply = Pin<Box<dyn Future<Output = RpcReply> + Send>>;

/// Way in which a method replies.
pub(crate) enum MethodReply {
    /// Sent immediately, before the next line is read: for methods that change the connection state or are
    /// cheap.
    Immediate(RpcReply),
    /// Sent when the result is ready, concurrently with other requests; started in the order of the lines.
    Deferred(PendingReply),
    /// Sent immediately, followed by notifications until the client closes the connection.
    ThenNotify(RpcReply, NotificationTask),
    /// No reply, only notifications until the request is cancelled or the connection ends.
    NotifyOnly(NotificationTask),
}

/// Handler of a known notification.
pub(crate) struct NotificationHandler {
    pub(crate) name: &'static str,
    pub(crate) run: fn(Params) -> NotificationEffect,
}

/// Effect of a notification on its connection.
pub(crate) enum NotificationEffect {
    /// No effect.
    Nothing,
    /// Cancels this request.
    Cancel(RequestId),
}

impl MethodReply {
    pub(crate) fn now(result: &impl Serialize) -> Self {
        MethodReply::Immediate(rpc::encode_result(result))
    }

    pub(crate) fn deferred(reply: impl Future<Output = RpcReply> + Send + 'static) -> Self {
        MethodReply::Deferred(Box::pin(reply))
    }

    /// Confirms a subscription and sends its notifications.
    pub(crate) fn follow<F>(notify: impl FnOnce(Notifier) -> F + Send + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let confirmed = rpc::encode_result(&json!({"following": true}));
        MethodReply::ThenNotify(confirmed, Box::new(|notifier| Box::pin(notify(notifier))))
    }
}

impl<C> SocketService<C> {
    /// Runs the method of a request. A panic of the method becomes an internal error.
    pub(crate) fn dispatch(
        &self,
        session: &mut ConnectionState,
        method: &str,
        call: MethodCall,
    ) -> MethodReply {
        let known = self.methods.iter().find(|known| known.name == method);
        if let Err(refused) = (self.admit)(&self.context, session, known.map_or(UNKNOWN, |known| known.name))
        {
            return MethodReply::Immediate(Err(refused));
        }
        let Some(method) = known else {
            return MethodReply::Immediate(Err(self.unknown_method_error(method)));
        };
        let run = AssertUnwindSafe(|| (method.run)(&self.context, session, call));
        match catch_unwind(run) {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => MethodReply::Immediate(Err(error)),
            Err(_) => MethodReply::Immediate(Err(RpcError::internal())),
        }
    }

    /// Handles a notification. An unknown one is ignored, and so is a method sent without an id: a call whose
    /// outcome cannot be reported must not run.
    pub(crate) fn handle_notification(&self, method: &str, params: Params) -> NotificationEffect {
        match self.notifications.iter().find(|known| known.name == method) {
            Some(notice) => (notice.run)(params),
            None => NotificationEffect::Nothing,
        }
    }

    fn unknown_method_error(&self, method: &str) -> RpcError {
        let (socket, knows) = self.other_socket;
        if knows(method) {
            return RpcError::wrong_socket(method, self.socket, socket);
        }
        if let Some(notice) = self.notifications.iter().find(|notice| notice.name == method) {
            let message = format!("`{}` is a notification: send it without an id", notice.name);
            return RpcError::invalid_request(&message);
        }
        RpcError::unknown_method(method, self.methods.iter().map(|known| known.name))
    }
}
