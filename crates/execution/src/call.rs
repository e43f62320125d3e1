//! What a door hands in, and what the road carries along.

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

/// One call, as a door understood it. Nothing in it has been checked.
#[derive(Clone, Debug)]
pub struct Request {
    /// The tool, as the caller spelt it.
    pub tool_name: String,
    /// The arguments, whatever they are.
    pub arguments: Value,
    /// Who calls, as the door knows it.
    pub caller: Caller,
    /// Where the call stands in a trace.
    pub trace: TraceContext,
    /// How long the caller will wait, for everything together. It can only shorten what policy allows.
    pub deadline: Option<Duration>,
    /// Where relative paths start. It widens nothing.
    pub cwd: Option<PathBuf>,
    /// Who hears how far the call has come.
    pub progress: Progress,
    /// When the request arrived.
    pub started: Instant,
    /// Whether the curated map is asked.
    pub curated_map: CuratedMap,
    /// What makes a repeat of this call the same call, by the caller's word.
    pub idempotency_key: Option<String>,
    /// Fired when the caller takes the call back.
    pub withdrawn: CancellationToken,
    /// How it goes about a human, where one must be asked.
    pub asking: Asking,
    /// The answer of a human that it brings along.
    pub approval_id: Option<String>,
}

/// Whether a call is checked by the curated map, beside its tool's schema.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CuratedMap {
    /// It is.
    #[default]
    Asked,
    /// A human has it left out, to have a call as it is. That is announced and on record.
    LeftOut,
}

/// Who made a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MadeBy {
    /// Its caller, through a door.
    Caller,
    /// A tool at work for its caller, which holds a place already.
    Tool,
}

/// One call on the road: its identity and the world it is judged in.
pub(crate) struct Call {
    pub(crate) id: CallId,
    pub(crate) tool_name: SharedText,
    pub(crate) caller: Arc<Caller>,
    pub(crate) made_by: MadeBy,
    pub(crate) trace: TraceContext,
    pub(crate) started: Instant,
    pub(crate) deadline: Option<Instant>,
    /// Stands for the arguments wherever they must not be repeated.
    pub(crate) arguments_digest: SharedText,
    /// One snapshot for the whole call, whatever is reloaded meanwhile.
    pub(crate) world: Arc<World>,
    pub(crate) mode: Mode,
    pub(crate) workspaces: Workspaces,
    pub(crate) progress: Progress,
    pub(crate) span: CallSpan,
    /// Where it stands, and whether it must end.
    pub(crate) track: Arc<Track>,
    pub(crate) curated_map: CuratedMap,
    /// What its caller marked it with.
    pub(crate) key: Option<Key>,
    /// Its hold on that key.
    pub(crate) claim: OnceLock<Claim>,
    /// The worker session it was let in for.
    pub(crate) worker: OnceLock<Arc<WorkerSession>>,
    /// What the host said of it, where it is a host's and only judged.
    pub(crate) host: Option<Value>,
    /// What the judge saw of a call that is not run.
    saw: OnceLock<Value>,
    intended: AtomicBool,
    pub(crate) asking: Asking,
    /// The question it is about, once there is one.
    pub(crate) hand: Option<Hand>,
    /// The arguments that a human put in the place of its own.
    pub(crate) edited: Option<Arguments>,
}

impl Call {
    /// Splits a request into what identifies the call and what it says.
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

    /// The same for a call that is only judged: nobody collects a span of what never ran.
    pub(crate) fn suppose(request: Request, ledger: &Ledger, world: Arc<World>, mode: Mode) -> (Call, Value) {
        Self::spanned(request, Some(ledger), world, mode, (CallId::fresh(), CallSpan::unexported()))
    }

    /// The same for one that will have no record either.
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
        // Once, before anything is compared or kept: a name that is cut in one place and whole in another is two.
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
                ledger.keyed_digest(&canonical::bytes_for_now(&request.arguments)).into()
            }),
            world,
            mode,
            workspaces,
        };
        (call, request.arguments)
    }

    /// The same call, made by somebody else than its caller.
    pub(crate) fn made_by(self, made_by: MadeBy) -> Call {
        Call { made_by, ..self }
    }

    /// The same call, with what the host says of it for the record.
    pub(crate) fn of_host(self, facts: Value) -> Call {
        Call { host: Some(facts), ..self }
    }

    /// The same call under the mode and the rules of now.
    pub(crate) fn renewed(self, world: Arc<World>, mode: Mode, hand: Option<Hand>) -> Call {
        let workspaces = world.workspaces.based_at(self.workspaces.base());
        // A decision that was on record has its end there too.
        Call { workspaces, world, mode, hand, intended: AtomicBool::new(false), ..self }
    }

    /// The same call with the arguments that a human gave it.
    pub(crate) fn edited(self, ledger: &Ledger, arguments: &Arguments) -> Call {
        let digest = ledger.keyed_digest(&canonical::bytes(&Value::Object(arguments.clone())));
        Call { arguments_digest: digest.into(), edited: Some(arguments.clone()), ..self }
    }

    /// Waits for a part of the road, but not past the caller's deadline, nor once the call must end.
    pub(crate) async fn in_time<T>(&self, part: impl Future<Output = T>) -> Result<T, Box<Refusal>> {
        let part = self.unless_stopped(part);
        let Some(deadline) = self.deadline else { return part.await };
        tokio::time::timeout_at(deadline.into(), part).await.unwrap_or_else(|_| {
            let reason = "the deadline passed before the tool was started";
            let refusal = Refusal::new(&self.tool_name, RefusalCode::Busy, reason).detail("deadline_passed");
            Err(Box::new(refusal.hint("nothing was run; allow more time")))
        })
    }

    /// Waits for a part of the road unless somebody ends the call. Nothing of it may have run yet.
    pub(crate) async fn unless_stopped<T>(&self, part: impl Future<Output = T>) -> Result<T, Box<Refusal>> {
        tokio::select! {
            biased;
            done = part => Ok(done),
            by = self.track.stop().given() => Err(by.refusal(&self.tool_name, self.mode)),
        }
    }

    /// Who ended it, if anybody did.
    pub(crate) fn stopped(&self) -> Option<StoppedBy> {
        self.track.stop().by()
    }

    /// Keeps what the judge saw, for the record of the refusal; the caller is told no more than before.
    pub(crate) fn keep_facts(&self, facts: &Value) {
        // The first answer is the one that refused.
        let _ = self.saw.set(redact::shared().redact_value(facts));
    }

    /// The refusal of a denied call, once what the judge saw is kept.
    pub(crate) fn denied(&self, denial: Denial) -> Box<Refusal> {
        self.keep_facts(denial.facts());
        denial.into()
    }

    /// What the judge saw, where it refused.
    pub(crate) fn facts(&self) -> Option<&Value> {
        self.saw.get()
    }

    /// Its decision is on record: from here on the call needs an outcome.
    pub(crate) fn mark_intended(&self) {
        self.intended.store(true, Ordering::Release);
    }

    /// Whether its decision is on record.
    pub(crate) fn is_intended(&self) -> bool {
        self.intended.load(Ordering::Acquire)
    }

    /// Does a part of the road and notes how long it took.
    pub(crate) fn timed<T>(&self, stage: Stage, work: impl FnOnce() -> T) -> T {
        let _timing = self.span.stage(stage);
        work()
    }

    /// What every record of this call says first.
    pub(crate) fn on_record(&self, tool: &str) -> Arc<ledger::Call> {
        self.on_record_as(&name_on_record(&self.world, tool))
    }

    /// The same where the tool was found.
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

    /// What the judge is told of the moment.
    pub(crate) fn situation(&self, counts: Counts) -> Situation<'_> {
        Situation { mode: self.mode, workspaces: &self.workspaces, counts }
    }

    /// What is left of the caller's patience, at most `limit`.
    pub(crate) fn time_left(&self, limit: Duration) -> Duration {
        let left = self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        left.map_or(limit, |left| left.min(limit))
    }

    /// Since the request arrived.
    pub(crate) fn latency_ms(&self) -> f64 {
        self.started.elapsed().as_secs_f64() * 1000.0
    }
}

/// What makes a repeat of a call the same call.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    /// The key and whose it is, in one: who calls itself otherwise, or is in another session, has another.
    pub(crate) scoped: String,
    /// What was sent with it: the arguments as the caller gave them, whatever a human made of them, and the folder.
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

/// A client may call itself anything, a secret included.
pub(crate) fn nameable(caller: Caller) -> Caller {
    let fit = |name: String| match recordable(&name) {
        Cow::Owned(shown) if shown != name => tool::shortened(&shown, LONGEST_NAME, &name),
        Cow::Owned(_) | Cow::Borrowed(_) => name,
    };
    Caller { client: caller.client.map(fit), ..caller }
}

/// The name of a tool for the record. That of one there is is no secret of anybody's.
fn name_on_record(world: &World, name: &str) -> SharedText {
    match world.definition(name) {
        Some(definition) if definition.name().as_str() == name => definition.name().shared(),
        _ => recordable(name).into_owned().into(),
    }
}

/// A name that nobody checked can be anything a caller wrote: it is redacted and cut like every other text.
fn recordable(name: &str) -> Cow<'_, str> {
    match redact::shared().redact_text(name) {
        Cow::Borrowed(name) if name.len() <= LONGEST_NAME => Cow::Borrowed(name),
        name => Cow::Owned(name.chars().take(LONGEST_NAME).collect()),
    }
}

const LONGEST_NAME: usize = 128;
