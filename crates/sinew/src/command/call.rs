//! `sinew call`: one tool call, through the daemon if one runs, else along the same road in this process.

use std::time::{Duration, Instant};

use execution::{Request, ToolFilter};
use serde_json::{Value, json};
use server::StateLock;
use tool::{Arguments, Caller, Door, Progress, ToolDefinition, ToolResult, TraceContext};

use crate::arguments::Spoken;
use crate::cli::CallArgs;
use crate::command::tools;
use crate::compose;
use crate::exit::{Exit, Problem};
use crate::render;
use crate::setting::{Reach, Setting};
use crate::terminal::{QUIET, paint, say, tell};

pub(crate) fn run(args: CallArgs) -> Result<Exit, Problem> {
    let spoken = Spoken::new(args.words, args.json.as_deref())?;
    let setting = Setting::find()?;
    let (result, wants_json) = match setting.reach_or_state()? {
        Reach::Daemon => through_daemon(&setting, spoken, args.deadline_ms)?,
        Reach::Nobody(state) => in_this_process(&setting, &state, spoken, args.deadline_ms)?,
    };
    let shown = match wants_json {
        true => say(render::versioned(serde_json::to_value(&result).unwrap_or_default())),
        false => render::result(&result),
    };
    match shown {
        // A reader that left changes nothing about how the call ended.
        Err(problem) if problem.exit != Exit::Done => Err(problem),
        _ => Ok(Exit::of(&result)),
    }
}

fn through_daemon(
    setting: &Setting,
    spoken: Spoken,
    deadline_ms: Option<u64>,
) -> Result<(ToolResult, bool), Problem> {
    let definitions = setting.definitions(&ToolFilter::default())?;
    let (tool, wants_json) = (spoken.tool.clone(), spoken.wants_json);
    let arguments = spoken.arguments(tools::find(&definitions, &tool))?;
    let mut params = Arguments::new();
    params.insert("tool_name".to_owned(), json!(tool));
    params.insert("arguments".to_owned(), arguments);
    params.insert("cwd".to_owned(), json!(setting.folder()));
    params.extend(deadline_ms.map(|limit| ("deadline_ms".to_owned(), json!(limit))));
    let reply = setting.ask_agent("sinew/execute", Value::Object(params))?;
    let result = serde_json::from_value(reply).map_err(|error| {
        Problem::new(Exit::Failed, format!("the daemon's answer cannot be read: {error}"))
    })?;
    Ok((result, wants_json))
}

fn in_this_process(
    setting: &Setting,
    _state: &StateLock,
    spoken: Spoken,
    deadline_ms: Option<u64>,
) -> Result<(ToolResult, bool), Problem> {
    tell(paint(
        QUIET,
        "note: no daemon is running; this call is made in this process (`sinew serve` starts one)",
    ));
    let runtime = setting.runtime()?;
    let layer = compose::embedded_layer(setting)?;
    let (tool, wants_json) = (spoken.tool.clone(), spoken.wants_json);
    let definitions: Vec<ToolDefinition> =
        layer.tools(&ToolFilter::default()).iter().map(|definition| (**definition).clone()).collect();
    let arguments: Value = spoken.arguments(tools::find(&definitions, &tool))?;
    let deadline = deadline_ms.map(Duration::from_millis);
    let request = Request { deadline, ..request(setting, tool, arguments) };
    let result = runtime.block_on(layer.execute(request));
    // A thread stuck in a dead mount must not keep the command from ending.
    runtime.shutdown_background();
    Ok((result, wants_json))
}

/// A call made in this process.
pub(crate) fn request(setting: &Setting, tool_name: String, arguments: Value) -> Request {
    Request {
        tool_name,
        arguments,
        caller: Caller {
            uid: nix::unistd::getuid().as_raw(),
            pid: i32::try_from(std::process::id()).ok(),
            door: Door::Embedded,
            connection: 0,
            client: Some("sinew call".to_owned()),
            session: None,
        },
        trace: TraceContext::root(),
        deadline: None,
        cwd: Some(setting.folder().to_owned()),
        progress: Progress::default(),
        started: Instant::now(),
        withdrawn: Default::default(),
    }
}
