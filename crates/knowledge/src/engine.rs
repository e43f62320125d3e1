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

use crate::function::MEMORY;
use crate::heap::{Heap, Image};
use crate::wire::{self, Reply, Request, Task};

const STACK: usize = 256 * 1024;
/// Maximum number of reported errors. Further ones are dropped, and longer ones are cut.
const MOST_ERRORS: usize = 16;
const LONGEST_ERROR: usize = 400;
/// Lines that the engine puts before a text that it compiles as a function.
const HEAD_LINES: usize = 2;

/// Script that prepares a context before any function runs in it.
const HARNESS: &str = include_str!("harness.js");

/// Excludes the real clock, randomness, proxies, which can disguise an object, and weak references, which
/// reveal garbage collection.
type Intrinsics = (
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
pub(crate) struct Engine {
    /// Declared before the context, because nothing of a context may outlive it.
    harness: Persistent<Object<'static>>,
    context: Context,
    deadline: Rc<Cell<Option<Instant>>>,
    overdue: Rc<Cell<bool>>,
    untouched: Image,
    heap: Heap,
}

impl Engine {
    pub(crate) fn new() -> Result<Self, String> {
        let told = |error: Error| error.to_string();
        let heap = Heap::new().ok_or("not enough memory for the engine")?;
        let runtime = Runtime::new_with_alloc(heap.share()).map_err(told)?;
        runtime.set_memory_limit(MEMORY);
        runtime.set_max_stack_size(STACK);
        // The engine can crash in a collection during a failed allocation; within 8 MB no collection is
        // needed.
        runtime.set_gc_threshold(usize::MAX);
        let deadline: Rc<Cell<Option<Instant>>> = Rc::default();
        let overdue: Rc<Cell<bool>> = Rc::default();
        let (until, over) = (Rc::clone(&deadline), Rc::clone(&overdue));
        runtime.set_interrupt_handler(Some(Box::new(move || {
            let late = until.get().is_some_and(|deadline| Instant::now() >= deadline);
            over.set(over.get() || late);
            late
        })));
        let context = Context::custom::<Intrinsics>(&runtime).map_err(told)?;
        let harness = context.with(|ctx| {
            let harness = set_up(&ctx).map_err(|_| thrown(&ctx))?;
            Ok::<_, String>(Persistent::save(&ctx, harness))
        })?;
        let untouched = heap.image();
        Ok(Engine { harness, context, deadline, overdue, untouched, heap })
    }

    /// Runs a function in the initial context. Its effects remain until `restore`.
    pub(crate) fn run(&mut self, request: &Request<'_>) -> Reply {
        self.overdue.set(false);
        self.deadline.set(Some(Instant::now() + Duration::from_millis(request.time_ms)));
        let harness = self.harness.clone();
        let reply = self.context.with(|ctx| {
            let attempt = harness.restore(&ctx).and_then(|harness| attempt(&ctx, &harness, request));
            attempt.unwrap_or_else(|error| failed(&ctx, &error, request.task))
        });
        if self.overdue.get() { Reply::TimedOut } else { reply }
    }

    /// Restores the memory of the context to its initial state.
    #[allow(unsafe_code, reason = "the engine's memory is changed behind its back")]
    pub(crate) fn forget(&mut self) {
        // SAFETY: the image is of this heap. The only references into it from outside are the runtime, the
        // context and the harness, which existed when it was taken; everything else that a run created was
        // dropped when the run ended.
        unsafe { self.heap.put_back(&self.untouched) }
    }
}

/// Answers requests until the peer closes the connection. The worker process has one thread, no async runtime and
/// no files. For each request it sends a reply and then discards all effects of the function.
pub fn serve(mut from: impl Read, mut to: impl Write) -> io::Result<()> {
    let mut engine = Engine::new();
    wire::write(&mut to, &Reply::Ready)?;
    while let Some(request) = wire::read::<Request<'_>>(&mut from)? {
        let reply = match &mut engine {
            Ok(engine) => engine.run(&request),
            Err(message) => Reply::Broken(message.clone()),
        };
        wire::write(&mut to, &reply)?;
        // Restoring after the reply is sent, and before the next request is read, keeps it off the caller's
        // time.
        if let Ok(engine) = &mut engine {
            engine.forget();
        }
    }
    Ok(())
}

/// Runs the harness script in an unused context, and returns the object through which the engine works.
fn set_up<'js>(ctx: &Ctx<'js>) -> Result<Object<'js>, Error> {
    let (module, done) = Module::declare(ctx.clone(), "harness", HARNESS)?.eval()?;
    // The script awaits nothing, so it has completed; an exception it threw is returned here.
    done.result::<()>().unwrap_or(Ok(()))?;
    module.get("default")
}

fn attempt<'js>(ctx: &Ctx<'js>, harness: &Object<'js>, request: &Request<'_>) -> Result<Reply, Error> {
    let call = |name: &str| harness.get::<_, Function<'js>>(name);
    if request.task == Task::Parse {
        call("parse")?.call::<_, ()>((request.source.as_ref(),))?;
        return Ok(Reply::Parsed);
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
        Task::Validate => verdict(&call("own")?, &returned),
        Task::Compute | Task::Parse => computed(ctx, returned),
    }
}

fn computed<'js>(ctx: &Ctx<'js>, returned: Value<'js>) -> Result<Reply, Error> {
    let shape = |message: &str| Ok(Reply::Shape(message.to_owned()));
    if returned.is_promise() {
        return shape("a promise; a function must return synchronously");
    }
    match ctx.json_stringify(returned)? {
        Some(text) => Ok(Reply::Value(text.to_string()?)),
        None => shape("a value that JSON cannot represent"),
    }
}

/// Reads the verdict from the own data properties of the returned object. Nothing is coerced: `1` is not
/// `true`.
fn verdict<'js>(own: &Function<'js>, returned: &Value<'js>) -> Result<Reply, Error> {
    let shape =
        |message: &str| Ok(Reply::Shape(format!("{message}; expected {{valid: boolean, errors: string[]}}")));
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
    for index in (0..MOST_ERRORS).take_while(|index| (*index as f64) < length) {
        let error: Value<'js> = own.call((list.clone(), index.to_string()))?;
        let Some(text) = error.as_string() else {
            return shape("`errors` contains a value that is not a string");
        };
        errors.push(text.to_string()?.chars().take(LONGEST_ERROR).collect());
    }
    Ok(Reply::Verdict { valid, errors })
}

/// Converts an engine error into a reply.
fn failed(ctx: &Ctx<'_>, error: &Error, task: Task) -> Reply {
    if !error.is_exception() {
        return match error {
            Error::Allocation => Reply::OutOfMemory,
            other => Reply::Threw(bounded(&other.to_string())),
        };
    }
    let thrown = ctx.catch();
    // The engine has no memory left to create an error object.
    if thrown.is_null() || thrown.is_undefined() {
        return Reply::OutOfMemory;
    }
    let Some(exception) = thrown.as_object().cloned().and_then(Exception::from_object) else {
        return Reply::Threw("a value that is not an Error was thrown".to_owned());
    };
    let message = exception.message().unwrap_or_default();
    if message.contains("out of memory") {
        return Reply::OutOfMemory;
    }
    let message = bounded(&message);
    match task {
        Task::Parse => {
            let (line, column) = place(&exception.stack().unwrap_or_default());
            Reply::Syntax { line, column, message }
        }
        Task::Compute | Task::Validate => Reply::Threw(message),
    }
}

/// Returns the position of a syntax error from the first line of the stack: `    at <input>:LINE:COLUMN`.
/// Subtracts the lines that the engine puts before the text.
fn place(stack: &str) -> (usize, usize) {
    let first = stack.lines().next().unwrap_or_default().trim_end_matches(')');
    let mut numbers = first.rsplit(':').map_while(|part| part.parse::<usize>().ok());
    let (column, line) = (numbers.next().unwrap_or(1), numbers.next().unwrap_or(1));
    (line.saturating_sub(HEAD_LINES).max(1), column.max(1))
}

fn bounded(message: &str) -> String {
    message.chars().take(LONGEST_ERROR).collect()
}

fn thrown(ctx: &Ctx<'_>) -> String {
    let thrown = ctx.catch().into_object().and_then(Exception::from_object);
    thrown
        .and_then(|exception| exception.message())
        .unwrap_or_else(|| "the context cannot be initialised".to_owned())
}

#[cfg(test)]
mod tests;
