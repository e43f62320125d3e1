//! JavaScript engine: a context with limits, in which one function runs at a time.
//!
//! Each process creates one context. After every run its memory is restored to the state before the first, so
//! that nothing a function did, left or broke is visible to the next.
//!
//! The limits here are the first line of defence: a function that exceeds them ends with an exception. Some
//! native functions never check the clock, and the memory limit can crash the engine; in those cases the
//! process is killed from outside. Nothing is ever loaded as compiled code: each run parses its source text.

use std::cell::Cell;
use std::io::{self, Read, Write};
use std::rc::Rc;
use std::time::{Duration, Instant};

use rquickjs::context::intrinsic;
use rquickjs::{Context, Ctx, Error, Exception, Function, Module, Object, Persistent, Runtime, Value};

use crate::function::MEMORY_LIMIT;
use crate::heap::{EngineHeap, HeapImage};
use crate::worker_protocol::{self, ScriptTask, WorkerReply, WorkerRequest};

const MAX_STACK: usize = 256 * 1024;
/// Maximum number of reported errors. Further ones are dropped, and longer ones are cut.
const MAX_ERRORS: usize = 16;
const MAX_ERROR_CHARS: usize = 400;
/// Number of lines that the engine adds before a text that it compiles as a function.
const WRAPPER_LINES: usize = 2;

/// Script that prepares a context before any function runs in it.
const HARNESS: &str = include_str!("harness.js");

/// Excludes the real clock, randomness, proxies, which can disguise an object, and weak references, which
/// reveal garbage collection.
type AllowedIntrinsics = (
    intrinsic::Date,
    intrinsic::Eval,
    intrinsic::RegExpCompiler,
    intrinsic::RegExp,
    intrinsic::Json,
    intrinsic::MapSet,
    intrinsic::TypedArrays,
    intrinsic::Promise,
);

/// Context ready to run a function, with an image of its initial memory.
pub(crate) struct ScriptEngine {
    /// Declared before the context, because nothing of a context may outlive it.
    harness: Persistent<Object<'static>>,
    context: Context,
    deadline: Rc<Cell<Option<Instant>>>,
    timed_out: Rc<Cell<bool>>,
    initial_image: HeapImage,
    heap: EngineHeap,
}

impl ScriptEngine {
    pub(crate) fn new() -> Result<Self, String> {
        let report_text = |error: Error| error.to_string();
        let heap = EngineHeap::new().ok_or("not enough memory for the engine")?;
        let runtime = Runtime::new_with_alloc(heap.clone_handle()).map_err(report_text)?;
        runtime.set_memory_limit(MEMORY_LIMIT);
        runtime.set_max_stack_size(MAX_STACK);
        // The engine can crash in a collection during a failed allocation; within 8 MB no collection is
        // needed.
        runtime.set_gc_threshold(usize::MAX);
        let deadline: Rc<Cell<Option<Instant>>> = Rc::default();
        let timed_out: Rc<Cell<bool>> = Rc::default();
        let (until, over) = (Rc::clone(&deadline), Rc::clone(&timed_out));
        runtime.set_interrupt_handler(Some(Box::new(move || {
            let late = until.get().is_some_and(|deadline| Instant::now() >= deadline);
            over.set(over.get() || late);
            late
        })));
        let context = Context::custom::<AllowedIntrinsics>(&runtime).map_err(report_text)?;
        let harness = context.with(|ctx| {
            let harness = run_harness(&ctx).map_err(|_| exception_message(&ctx))?;
            Ok::<_, String>(Persistent::save(&ctx, harness))
        })?;
        let initial_image = heap.image();
        Ok(ScriptEngine { harness, context, deadline, timed_out, initial_image, heap })
    }

    /// Runs a function in the initial context. Its effects remain until `restore`.
    pub(crate) fn run(&mut self, request: &WorkerRequest<'_>) -> WorkerReply {
        self.timed_out.set(false);
        self.deadline.set(Some(Instant::now() + Duration::from_millis(request.time_ms)));
        let harness = self.harness.clone();
        let reply = self.context.with(|ctx| {
            let attempt = harness.restore(&ctx).and_then(|harness| run_request(&ctx, &harness, request));
            attempt.unwrap_or_else(|error| error_reply(&ctx, &error, request.task))
        });
        if self.timed_out.get() { WorkerReply::TimedOut } else { reply }
    }

    /// Restores the memory of the context to its initial state.
    #[allow(unsafe_code, reason = "the engine's memory is changed behind its back")]
    pub(crate) fn restore(&mut self) {
        // SAFETY: the image is of this heap. The only references into it from outside are the runtime, the
        // context and the harness, which existed when it was taken; everything else that a run created was
        // dropped when the run ended.
        unsafe { self.heap.restore(&self.initial_image) }
    }
}

/// Answers requests until the peer closes the connection. The worker process has one thread, no async runtime and
/// no files. For each request it sends a reply and then discards all effects of the function.
pub fn serve(mut from: impl Read, mut to: impl Write) -> io::Result<()> {
    let mut engine = ScriptEngine::new();
    worker_protocol::write(&mut to, &WorkerReply::Ready)?;
    while let Some(request) = worker_protocol::read::<WorkerRequest<'_>>(&mut from)? {
        let reply = match &mut engine {
            Ok(engine) => engine.run(&request),
            Err(message) => WorkerReply::Broken(message.clone()),
        };
        worker_protocol::write(&mut to, &reply)?;
        // Restoring after the reply is sent, and before the next request is read, keeps it off the caller's
        // time.
        if let Ok(engine) = &mut engine {
            engine.restore();
        }
    }
    Ok(())
}

/// Runs the harness script in an unused context, and returns the object through which the engine works.
fn run_harness<'js>(ctx: &Ctx<'js>) -> Result<Object<'js>, Error> {
    let (module, done) = Module::declare(ctx.clone(), "harness", HARNESS)?.eval()?;
    // The script awaits nothing, so it has completed; an exception it threw is returned here.
    done.result::<()>().unwrap_or(Ok(()))?;
    module.get("default")
}

fn run_request<'js>(
    ctx: &Ctx<'js>,
    harness: &Object<'js>,
    request: &WorkerRequest<'_>,
) -> Result<WorkerReply, Error> {
    let call = |name: &str| harness.get::<_, Function<'js>>(name);
    if request.task == ScriptTask::Parse {
        call("parse")?.call::<_, ()>((request.source.as_ref(),))?;
        return Ok(WorkerReply::Parsed);
    }
    if !request.helpers.is_empty() {
        call("helpers")?.call::<_, ()>(())?;
        for (id, source) in &request.helpers {
            call("define")?.call::<_, ()>((id.as_ref(), source.as_ref()))?;
        }
    }
    let argument = ctx.json_parse(request.argument.as_bytes())?;
    let returned: Value<'js> = call("run")?.call((request.source.as_ref(), argument))?;
    match request.task {
        ScriptTask::Validate => verdict_reply(&call("own")?, &returned),
        ScriptTask::Compute | ScriptTask::Parse => computed_reply(ctx, returned),
    }
}

fn computed_reply<'js>(ctx: &Ctx<'js>, returned: Value<'js>) -> Result<WorkerReply, Error> {
    let shape = |message: &str| Ok(WorkerReply::Shape(message.to_owned()));
    if returned.is_promise() {
        return shape("a promise; a function must return synchronously");
    }
    match ctx.json_stringify(returned)? {
        Some(text) => Ok(WorkerReply::Value(text.to_string()?)),
        None => shape("a value that JSON cannot represent"),
    }
}

/// Reads the verdict from the own data properties of the returned object. Nothing is coerced: `1` is not
/// `true`.
fn verdict_reply<'js>(own: &Function<'js>, returned: &Value<'js>) -> Result<WorkerReply, Error> {
    let shape = |message: &str| {
        Ok(WorkerReply::Shape(format!("{message}; expected {{valid: boolean, errors: string[]}}")))
    };
    if returned.is_promise() {
        return shape("a promise");
    }
    let Some(object) = returned.as_object().filter(|_| !returned.is_array() && !returned.is_function())
    else {
        return shape(returned.type_name());
    };
    let valid: Value<'js> = own.call((object.clone(), "valid"))?;
    let Some(valid) = valid.as_bool() else {
        return shape("`valid` is not a boolean");
    };
    let list: Value<'js> = own.call((object.clone(), "errors"))?;
    if !list.is_array() {
        return shape("`errors` is not a list");
    }
    let length: Value<'js> = own.call((list.clone(), "length"))?;
    let length = length.as_number().unwrap_or_default();
    let mut errors = Vec::new();
    for index in (0..MAX_ERRORS).take_while(|index| (*index as f64) < length) {
        let error: Value<'js> = own.call((list.clone(), index.to_string()))?;
        let Some(text) = error.as_string() else {
            return shape("`errors` contains a value that is not a string");
        };
        errors.push(text.to_string()?.chars().take(MAX_ERROR_CHARS).collect());
    }
    Ok(WorkerReply::Verdict { valid, errors })
}

/// Converts an engine error into a reply.
fn error_reply(ctx: &Ctx<'_>, error: &Error, task: ScriptTask) -> WorkerReply {
    if !error.is_exception() {
        return match error {
            Error::Allocation => WorkerReply::OutOfMemory,
            other => WorkerReply::Threw(bounded(&other.to_string())),
        };
    }
    let thrown = ctx.catch();
    // The engine has no memory left to create an error object.
    if thrown.is_null() || thrown.is_undefined() {
        return WorkerReply::OutOfMemory;
    }
    let Some(exception) = thrown.as_object().cloned().and_then(Exception::from_object) else {
        return WorkerReply::Threw("a value that is not an Error was thrown".to_owned());
    };
    let message = exception.message().unwrap_or_default();
    if message.contains("out of memory") {
        return WorkerReply::OutOfMemory;
    }
    let message = bounded(&message);
    match task {
        ScriptTask::Parse => {
            let (line, column) = error_position(&exception.stack().unwrap_or_default());
            WorkerReply::Syntax { line, column, message }
        }
        ScriptTask::Compute | ScriptTask::Validate => WorkerReply::Threw(message),
    }
}

/// Returns the position of a syntax error from the first line of the stack: `    at <input>:LINE:COLUMN`.
/// Subtracts the lines that the engine adds before the text.
fn error_position(stack: &str) -> (usize, usize) {
    let first = stack.lines().next().unwrap_or_default().trim_end_matches(')');
    let mut numbers = first.rsplit(':').map_while(|part| part.parse::<usize>().ok());
    let (column, line) = (numbers.next().unwrap_or(1), numbers.next().unwrap_or(1));
    (line.saturating_sub(WRAPPER_LINES).max(1), column.max(1))
}

fn bounded(message: &str) -> String {
    message.chars().take(MAX_ERROR_CHARS).collect()
}

fn exception_message(ctx: &Ctx<'_>) -> String {
    let thrown = ctx.catch().into_object().and_then(Exception::from_object);
    thrown
        .and_then(|exception| exception.message())
        .unwrap_or_else(|| "the context cannot be initialised".to_owned())
}

#[cfg(test)]
mod tests;
