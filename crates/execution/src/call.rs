//! Call request as received from an endpoint, and the call state that the pipeline carries.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use governance::{Counts, Denial, Situation, Workspaces};
use ledger::Ledger;
use serde_json::{Value, json};
use telemetry::{CallSpan, Stage, Subject, redact};
use tokio_util::sync::CancellationToken;
use tool::{
    Arguments, CallId, Caller, Mode, Progress, Refusal, RefusalCode, SharedText, ToolDefinition,
    TraceContext, canonical,
};

use crate::World;
use crate::approvals::{Asking, Hand};
use crate::calls::{Stop, StoppedBy, Track};
use crate::repeats::Claim;
use crate::sessions::WorkerSession;

/// One call as parsed by an endpoint. None of its content is checked yet.
#[derive(Clone, Debug)]
pub struct Request {
    /// Tool name as the caller spelled it.
    pub tool_name: String,
    /// Arguments; any JSON value.
    pub arguments: Value,
    /// Caller, as identified by the endpoint.
    pub caller: Caller,
    /// Trace context of the call.
    pub trace: TraceContext,
    /// Total time the caller will wait. It can only shorten the timeout that policy allows.
    pub deadline: Option<Duration>,
    /// Base for relative paths. It grants no additional access.
    pub cwd: Option<PathBuf>,
    /// Receiver of progress notifications.
    pub progress: Progress,
    /// Time the request arrived.
    pub started: Instant,
    /// Use of the curated map for this call.
    pub curated_map: CuratedMap,
    /// Idempotency key given by the caller.
    pub idempotency_key: Option<String>,
    /// Cancelled when the caller cancels the call.
    pub withdrawn: CancellationToken,
    /// Behaviour when operator approval is required.
    pub asking: Asking,
    /// Id of an approval that the caller presents.
    pub approval_id: Option<String>,
}

/// Selects if a call is checked against the curated map in addition to the tool's schema.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CuratedMap {
    /// The curated map is checked.
    #[default]
    Asked,
    /// The operator skips the curated map to send a call unchanged. An event and the ledger record that.
    LeftOut,
}

/// Origin of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MadeBy {
    /// The caller, through an endpoint.
    Caller,
    /// A tool that runs for its caller and already holds a run slot.
    Tool,
}

/// One call in the pipeline: its identity and the configuration snapshot that judges it.
pub(crate) struct Call {
    pub(crate) id: CallId,
    pub(crate) tool_name: SharedText,
    pub(crate) caller: Arc<Caller>,
    pub(crate) made_by: MadeBy,
    pub(crate) trace: TraceContext,
    pub(crate) started: Instant,
    pub(crate) deadline: Option<Instant>,
    /// Digest used wherever the arguments themselves must not appear.
    pub(crate) arguments_digest: SharedText,
    /// Snapshot for the whole pass through the pipeline; a reload meanwhile does not change it.
    pub(crate) world: Arc<World>,
    pub(crate) mode: Mode,
    pub(crate) workspaces: Workspaces,
    pub(crate) progress: Progress,
    pub(crate) span: CallSpan,
    /// State in the list of active calls, and the stop request.
    pub(crate) track: Arc<Track>,
    pub(crate) curated_map: CuratedMap,
    /// Idempotency key given by the caller.
    pub(crate) key: Option<Key>,
    /// Exclusive claim on that key, held until the outcome is recorded.
    pub(crate) claim: OnceLock<Claim>,
    /// Worker session that admitted the call.
    pub(crate) worker: OnceLock<Arc<WorkerSession>>,
    /// Facts reported by the host, for a host call that is only judged.
    pub(crate) host: Option<Value>,
    /// Facts of the decision that denied the call.
    saw: OnceLock<Value>,
    intended: AtomicBool,
    pub(crate) asking: Asking,
    /// Approval that the call refers to, once there is one.
    pub(crate) hand: Option<Hand>,
    /// Arguments that the operator put in place of the original ones.
    pub(crate) edited: Option<Arguments>,
}

impl Call {
    /// Splits a request into the call and its arguments, and starts the call's span.
    pub(crate) fn admit(request: Request, ledger: &Ledger, world: Arc<World>, mode: Mode) -> (Call, Value) {
        let id = CallId::fresh();
        let span = CallSpan::start(&Subject {
            tool: &request.tool_name,
            call_id: id,
            trace: &request.trace,
            mode,
            session: request.caller.session.as_deref(),
        });
        Self::spanned(request, Some(ledger), world, mode, (id, span))
    }

    /// Like `receive`, for a call that is only judged: its span is not exported.
    pub(crate) fn suppose(request: Request, ledger: &Ledger, world: Arc<World>, mode: Mode) -> (Call, Value) {
        Self::spanned(request, Some(ledger), world, mode, (CallId::fresh(), CallSpan::unexported()))
    }

    /// Like `judge_only`, for a call that is never recorded: it needs no ledger.
    pub(crate) fn glance(request: Request, world: Arc<World>, mode: Mode) -> (Call, Value) {
        Self::spanned(request, None, world, mode, (CallId::fresh(), CallSpan::unexported()))
    }

    fn spanned(
        mut request: Request,
        ledger: Option<&Ledger>,
        world: Arc<World>,
        mode: Mode,
        (id, span): (CallId, CallSpan),
    ) -> (Call, Value) {
        let workspaces = world.workspaces.based_at(request.cwd.as_deref());
        let tool = name_on_record(&world, &request.tool_name);
        // The client name is normalised once, before it is compared or stored. A name that is cut in one
        // place and whole in another would count as two callers.
        request.caller = nameable(request.caller);
        let key = match (ledger, &request.idempotency_key) {
            (Some(ledger), Some(key)) => Some(Key::of(key, &request, ledger)),
            _ => None,
        };
        let (caller, stop) = (Arc::new(request.caller), Stop::with(request.withdrawn));
        let call = Call {
            id,
            tool_name: if tool == *request.tool_name { tool.clone() } else { request.tool_name.into() },
            track: Track::new(id, tool, Arc::clone(&caller), request.started, stop),
            span,
            key,
            claim: OnceLock::new(),
            curated_map: request.curated_map,
            worker: OnceLock::new(),
            host: None,
            saw: OnceLock::new(),
            intended: AtomicBool::new(false),
            made_by: MadeBy::Caller,
            asking: request.asking,
            hand: request.approval_id.map(|id| Hand { id, own: false }),
            edited: None,
            caller,
            progress: request.progress,
            trace: request.trace,
            started: request.started,
            deadline: request.deadline.and_then(|wait| request.started.checked_add(wait)),
            arguments_digest: ledger.map_or_else(SharedText::default, |ledger| {
                ledger.keyed_digest(&canonical::bytes(&request.arguments)).into()
            }),
            world,
            mode,
            workspaces,
        };
        (call, request.arguments)
    }

    /// Sets the origin of the call.
    pub(crate) fn made_by(self, made_by: MadeBy) -> Call {
        Call { made_by, ..self }
    }

    /// Attaches the host's facts, which are recorded with a refusal.
    pub(crate) fn of_host(self, facts: Value) -> Call {
        Call { host: Some(facts), ..self }
    }

    /// Moves the call to the current snapshot and mode, to be judged again.
    pub(crate) fn renewed(self, world: Arc<World>, mode: Mode, hand: Option<Hand>) -> Call {
        let workspaces = world.workspaces.based_at(self.workspaces.base());
        // The previous decision, if one was recorded, also has its outcome in the ledger.
        Call { workspaces, world, mode, hand, intended: AtomicBool::new(false), ..self }
    }

    /// Replaces the arguments by those the operator edited.
    pub(crate) fn edited(self, ledger: &Ledger, arguments: &Arguments) -> Call {
        let digest = ledger.keyed_digest(&canonical::bytes(&Value::Object(arguments.clone())));
        Call { arguments_digest: digest.into(), edited: Some(arguments.clone()), ..self }
    }

    /// Awaits a stage until the caller's deadline passes or the call is stopped.
    pub(crate) async fn in_time<T>(&self, part: impl Future<Output = T>) -> Result<T, Box<Refusal>> {
        let part = self.unless_stopped(part);
        let Some(deadline) = self.deadline else { return part.await };
        tokio::time::timeout_at(deadline.into(), part).await.unwrap_or_else(|_| {
            let reason = "the deadline passed before the tool was started";
            let refusal = Refusal::new(&self.tool_name, RefusalCode::Busy, reason).detail("deadline_passed");
            Err(Box::new(refusal.hint("nothing was run; allow more time")))
        })
    }

    /// Awaits a stage unless the call is stopped. The tool must not have been started yet.
    pub(crate) async fn unless_stopped<T>(&self, part: impl Future<Output = T>) -> Result<T, Box<Refusal>> {
        tokio::select! {
            biased;
            done = part => Ok(done),
            by = self.track.stop().given() => Err(by.refusal(&self.tool_name, self.mode)),
        }
    }

    /// Originator of the stop request, if there is one.
    pub(crate) fn stopped(&self) -> Option<StoppedBy> {
        self.track.stop().by()
    }

    /// Keeps the decision facts for the ledger record of the refusal. The caller does not see them.
    pub(crate) fn keep_facts(&self, facts: &Value) {
        // The first denial is the one that refuses the call.
        let _ = self.saw.set(redact::shared().redact_value(facts));
    }

    /// Turns a denial into a refusal and keeps its decision facts.
    pub(crate) fn denied(&self, denial: Denial) -> Box<Refusal> {
        self.keep_facts(denial.facts());
        denial.into()
    }

    /// Decision facts of the denial, if the call was denied.
    pub(crate) fn facts(&self) -> Option<&Value> {
        self.saw.get()
    }

    /// Marks the decision as recorded. From here on the ledger needs an outcome.
    pub(crate) fn mark_intended(&self) {
        self.intended.store(true, Ordering::Release);
    }

    /// Returns true if the decision is recorded in the ledger.
    pub(crate) fn is_intended(&self) -> bool {
        self.intended.load(Ordering::Acquire)
    }

    /// Runs a stage and records its duration in the span.
    pub(crate) fn timed<T>(&self, stage: Stage, work: impl FnOnce() -> T) -> T {
        let _timing = self.span.stage(stage);
        work()
    }

    /// Call description that starts every ledger record of this call.
    pub(crate) fn on_record(&self, tool: &str) -> Arc<ledger::Call> {
        self.on_record_as(&name_on_record(&self.world, tool))
    }

    /// Like `ledger_call`, for a tool that is in the registry.
    pub(crate) fn on_record_of(&self, definition: &ToolDefinition) -> Arc<ledger::Call> {
        self.on_record_as(definition.name().as_str())
    }

    fn on_record_as(&self, tool: &str) -> Arc<ledger::Call> {
        Arc::new(ledger::Call {
            call_id: self.id,
            tool: tool.to_owned(),
            mode: self.mode,
            caller: Caller::clone(&self.caller),
            trace: self.trace.clone(),
        })
    }

    /// Mode, workspaces and counts for the judge.
    pub(crate) fn situation(&self, counts: Counts) -> Situation<'_> {
        Situation { mode: self.mode, workspaces: &self.workspaces, counts }
    }

    /// Time until the caller's deadline, at most `limit`.
    pub(crate) fn time_left(&self, limit: Duration) -> Duration {
        let left = self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        left.map_or(limit, |left| left.min(limit))
    }

    /// Milliseconds since the request arrived.
    pub(crate) fn latency_ms(&self) -> f64 {
        self.started.elapsed().as_secs_f64() * 1000.0
    }
}

/// Digests that identify a repeated call.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    /// Digest of the key and its party. The same key in another session or under another client name is a
    /// different key.
    pub(crate) scoped: String,
    /// Digest of the arguments as the caller sent them, before any edit by the operator, and of the working
    /// directory.
    pub(crate) request: String,
}

impl Key {
    fn of(key: &str, request: &Request, ledger: &Ledger) -> Key {
        let scoped = json!({"party": request.caller.party(), "idempotency_key": key});
        let sent =
            json!({"arguments": request.arguments, "cwd": request.cwd.as_deref().map(Path::to_string_lossy)});
        let digest = |value: &Value| ledger.keyed_digest(&canonical::bytes(value));
        Key { scoped: digest(&scoped), request: digest(&sent) }
    }
}

/// Redacts and shortens the client name, which the client chooses freely and which may contain a secret.
pub(crate) fn nameable(caller: Caller) -> Caller {
    let fit = |name: String| match recordable(&name) {
        Cow::Owned(shown) if shown != name => tool::shortened(&shown, LONGEST_NAME, &name),
        Cow::Owned(_) | Cow::Borrowed(_) => name,
    };
    Caller { client: caller.client.map(fit), ..caller }
}

/// Tool name for the ledger. The name of a registered tool is recorded unchanged; any other name is redacted.
fn name_on_record(world: &World, name: &str) -> SharedText {
    match world.definition(name) {
        Some(definition) if definition.name().as_str() == name => definition.name().shared(),
        _ => recordable(name).into_owned().into(),
    }
}

/// Redacts and shortens an unchecked name, like every other text that a caller controls.
fn recordable(name: &str) -> Cow<'_, str> {
    match redact::shared().redact_text(name) {
        Cow::Borrowed(name) if name.len() <= LONGEST_NAME => Cow::Borrowed(name),
        name => Cow::Owned(name.chars().take(LONGEST_NAME).collect()),
    }
}

const LONGEST_NAME: usize = 128;
