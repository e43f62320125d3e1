//! The engine: a context with limits that no function has touched, and one function run in it.
//!
//! A context is made once in each process. After a run its memory is put back as it was before any, so the next one
//! meets the same bytes as the first: nothing that a function did, left or broke is there any more.
//!
//! The limits in here are the first line, and polite: a function that minds them ends with an exception. Some natives
//! never look at the clock, and the memory limit can crash the engine itself; for those the process is killed from
//! outside. Nothing is ever loaded as compiled code: each run parses its text.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use rquickjs::context::intrinsic;
use rquickjs::{Context, Ctx, Error, Exception, Function, Module, Object, Persistent, Runtime, Value};

use crate::function::MEMORY;
use crate::heap::{Heap, Image};
use crate::wire::{Reply, Request, Task};

const STACK: usize = 256 * 1024;
/// More errors than this, or longer ones, are not told.
const MOST_ERRORS: usize = 16;
const LONGEST_ERROR: usize = 400;
/// What the engine puts before a text that it compiles as a function.
const HEAD_LINES: usize = 2;

/// Our own script, which sets a context up before any function runs in it.
const HARNESS: &str = include_str!("harness.js");

/// No clock but the fixed one, no randomness, no proxies that lie about what they are, no references that tell when
/// memory is reclaimed.
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

/// A context that waits for a function, and what its memory was before the first.
pub(crate) struct Engine {
    /// Before the context: nothing of a context may outlive it.
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
        let heap = Heap::new().ok_or("there is no memory for it")?;
        let runtime = Runtime::new_with_alloc(heap.share()).map_err(told)?;
        runtime.set_memory_limit(MEMORY);
        runtime.set_max_stack_size(STACK);
        // A collection in the middle of a failed allocation is how the engine crashes; within 8 MB none is needed.
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

    /// Runs a function in a context that is as it was made. What it leaves behind is there until [`Engine::forget`].
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

    /// Puts the context's memory back as it was when it was made.
    #[allow(unsafe_code, reason = "the engine's memory is changed behind its back")]
    pub(crate) fn forget(&mut self) {
        // SAFETY: the image is of this heap. What refers into it from outside are the runtime, the context and the
        // harness, which were there when it was made; all that a run made besides was dropped where it ended.
        unsafe { self.heap.put_back(&self.untouched) }
    }
}

/// Runs our script, in a context that nothing has run in; what it hands out is what the engine works through.
fn set_up<'js>(ctx: &Ctx<'js>) -> Result<Object<'js>, Error> {
    let (module, done) = Module::declare(ctx.clone(), "harness", HARNESS)?.eval()?;
    // It awaits nothing, so it has ended: what it threw is thrown here.
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
        return shape("a promise; a function answers at once");
    }
    match ctx.json_stringify(returned)? {
        Some(text) => Ok(Reply::Value(text.to_string()?)),
        None => shape("nothing that JSON can hold"),
    }
}

/// The verdict, read from outside as the returned object's own plain values. Nothing is coerced: `1` is not `true`.
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
            return shape("`errors` holds something that is not text");
        };
        errors.push(text.to_string()?.chars().take(LONGEST_ERROR).collect());
    }
    Ok(Reply::Verdict { valid, errors })
}

/// What an error of the engine was.
fn failed(ctx: &Ctx<'_>, error: &Error, task: Task) -> Reply {
    if !error.is_exception() {
        return match error {
            Error::Allocation => Reply::OutOfMemory,
            other => Reply::Threw(bounded(&other.to_string())),
        };
    }
    let thrown = ctx.catch();
    // The engine has nothing left to make an error from.
    if thrown.is_null() || thrown.is_undefined() {
        return Reply::OutOfMemory;
    }
    let Some(exception) = thrown.as_object().cloned().and_then(Exception::from_object) else {
        return Reply::Threw("something that is no Error was thrown".to_owned());
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

/// Where the parser stopped, from the first line of the stack: `    at <input>:LINE:COLUMN`. The function that is
/// compiled to parse a text begins two lines before it.
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
        .unwrap_or_else(|| "the context cannot be set up".to_owned())
}

#[cfg(test)]
mod tests;
