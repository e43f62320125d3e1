//! `sinew call`: makes one tool call, through the daemon if one runs, else through the same pipeline in this
//! process.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use ::approvals::ApprovalMode;
use execution::{CallRequest, ConnectionLoss, ToolFilter};
use serde_json::{Value, json};
use server::StateLock;
use tool::{Arguments, Caller, CallerEndpoint, Progress, ToolDefinition, ToolResult, TraceContext};

use crate::arguments::CallInput;
use crate::cli::CallArgs;
use crate::command::{approvals, tools};
use crate::command_context::{CommandBackend, CommandContext};
use crate::compose;
use crate::exit::{CommandError, ExitKind};
use crate::render;
use crate::terminal::{DIM_STYLE, LiveLine, WARNING_STYLE, escape_invisible_line, paint, print_message};

/// Name of the command line as a client, in the status, the ledger and approval requests.
pub(crate) const CLI_NAME: &str = "sinew CLI";

pub(crate) fn run(args: CallArgs) -> Result<ExitKind, CommandError> {
    let CallArgs { words, json, deadline_ms, no_wait, approval_id, idempotency_key, skip_guardrail } = args;
    let options = CallOptions { deadline_ms, no_wait, approval_id, idempotency_key, skip_guardrail };
    let typed_call = CallInput::new(words, json.as_deref())?;
    let context = CommandContext::from_environment()?;
    let (result, wants_json) = match context.daemon_or_state_lock()? {
        CommandBackend::Daemon => through_daemon(&context, typed_call, &options)?,
        CommandBackend::Local(_) if options.skip_guardrail => {
            let problem =
                CommandError::new(ExitKind::Unreachable, "`--skip-guardrail` needs a running daemon");
            return Err(problem.with_hint("start one with `sinew serve`"));
        }
        CommandBackend::Local(state) => in_this_process(&context, &state, typed_call, &options)?,
    };
    let shown = match wants_json {
        true => render::print_json(serde_json::to_value(&result).unwrap_or_default()),
        false => render::print_result(&result),
    };
    match shown {
        // A closed output pipe (`Exit::Done`) must not hide the exit code of the call.
        Err(problem) if problem.exit != ExitKind::Done => Err(problem),
        _ => Ok(ExitKind::from_result(&result)),
    }
}

/// Options of the call besides the tool and its arguments.
struct CallOptions {
    deadline_ms: Option<u64>,
    no_wait: bool,
    approval_id: Option<String>,
    idempotency_key: Option<String>,
    skip_guardrail: bool,
}

fn through_daemon(
    context: &CommandContext,
    typed_call: CallInput,
    options: &CallOptions,
) -> Result<(ToolResult, bool), CommandError> {
    let definitions = context.definitions(&ToolFilter::default())?;
    let (tool, wants_json) = (typed_call.tool.clone(), typed_call.wants_json);
    let arguments = typed_call.into_arguments(tools::find_tool(&definitions, &tool))?;
    let mut params = Arguments::new();
    params.insert("tool_name".to_owned(), json!(tool));
    params.insert("arguments".to_owned(), arguments);
    params.insert("cwd".to_owned(), json!(context.folder()));
    params.extend(options.deadline_ms.map(|limit| ("deadline_ms".to_owned(), json!(limit))));
    params.extend(options.approval_id.as_ref().map(|id| ("approval_id".to_owned(), json!(id))));
    params.extend(options.no_wait.then(|| ("approval".to_owned(), json!("async"))));
    params.extend(options.idempotency_key.as_ref().map(|key| ("idempotency_key".to_owned(), json!(key))));
    let reply = if options.skip_guardrail {
        params.insert("skip_guardrail".to_owned(), json!(true));
        context.request_control("control/execute", Value::Object(params))?
    } else {
        let _line = LiveLine::start(running_text(&tool));
        let mut waits = Waits::default();
        context.call_tool(params, |note| waits.show(&tool, note))?
    };
    let result = serde_json::from_value(reply)
        .map_err(|error| CommandError::failed(format!("the daemon's answer cannot be read: {error}")))?;
    Ok((result, wants_json))
}

/// Returns the live line of a running call.
fn running_text(tool: &str) -> String {
    format!("{} is running · Ctrl-C cancels", escape_invisible_line(tool))
}

/// Progress of a call in the live line. The first note of a wait for approval also leaves a message with the whole id.
#[derive(Default)]
struct Waits {
    approval_id: Option<String>,
}

impl Waits {
    fn show(&mut self, tool: &str, note: &Value) {
        let text = |pointer: &str| note.pointer(pointer).and_then(Value::as_str).map(escape_invisible_line);
        let number = |pointer: &str| note.pointer(pointer).and_then(Value::as_u64);
        let shown = escape_invisible_line(tool);
        let is_approved = note.pointer("/_meta/sinew~1data/approved") == Some(&Value::Bool(true));
        match (text("/_meta/sinew~1data/approval_id"), number("/_meta/sinew~1share/done")) {
            (Some(_), _) if is_approved => LiveLine::set_text(running_text(tool)),
            (Some(id), _) => {
                if std::io::stderr().is_terminal() && self.approval_id.as_ref() != Some(&id) {
                    let line = format!("approval {id}: `sinew approvals watch` shows and decides it");
                    print_message(paint(WARNING_STYLE, line));
                }
                self.approval_id = Some(id);
                LiveLine::set_text(format!("{shown} waits for approval · Ctrl-C cancels"));
            }
            (None, Some(done)) => {
                LiveLine::set_progress(&shown, done, number("/_meta/sinew~1share/total").unwrap_or(0));
            }
            (None, None) => {
                let message = text("/message").unwrap_or_default();
                LiveLine::set_text(format!("{shown}: {message} · Ctrl-C cancels"));
            }
        }
    }
}

fn in_this_process(
    context: &CommandContext,
    _state: &StateLock,
    typed_call: CallInput,
    options: &CallOptions,
) -> Result<(ToolResult, bool), CommandError> {
    print_message(paint(
        DIM_STYLE,
        "note: no daemon is running; this call is made in this process (`sinew serve` starts one)",
    ));
    let runtime = context.runtime()?;
    let layer = compose::embedded_layer(context)?;
    let (tool, wants_json) = (typed_call.tool.clone(), typed_call.wants_json);
    let definitions: Vec<ToolDefinition> =
        layer.tools(&ToolFilter::default()).iter().map(|definition| (**definition).clone()).collect();
    let arguments: Value = typed_call.into_arguments(tools::find_tool(&definitions, &tool))?;
    let deadline = options.deadline_ms.map(Duration::from_millis);
    // Without a terminal there is no operator to ask.
    let approval_mode = match (options.no_wait, std::io::stdin().is_terminal()) {
        (true, _) => ApprovalMode::Async,
        (false, true) => ApprovalMode::Wait,
        (false, false) => ApprovalMode::Never,
    };
    let (approval_id, idempotency_key) = (options.approval_id.clone(), options.idempotency_key.clone());
    let request = CallRequest {
        deadline,
        approval_mode,
        approval_id,
        idempotency_key,
        ..embedded_request(context, tool, arguments)
    };
    let line = LiveLine::start(running_text(&request.tool_name));
    let result = runtime.block_on(async {
        // Requests left open by earlier calls are not decided here: only this call's request is.
        let others = approvals::open_approvals_except(&layer, options.approval_id.as_deref()).await;
        tokio::select! {
            biased;
            result = layer.execute(request) => result,
            never = approvals::decide_on_terminal(&layer, others), if approval_mode == ApprovalMode::Wait => match never {},
        }
    });
    drop(line);
    // Do not wait for threads: one blocked in a dead network mount would keep the command from exiting.
    runtime.shutdown_background();
    Ok((result, wants_json))
}

/// Builds the request for a call made in this process.
pub(crate) fn embedded_request(context: &CommandContext, tool_name: String, arguments: Value) -> CallRequest {
    CallRequest {
        tool_name,
        arguments,
        caller: caller(CLI_NAME),
        trace: TraceContext::root(),
        deadline: None,
        cwd: Some(context.folder().to_owned()),
        progress: Progress::default(),
        started: Instant::now(),
        curated_map: Default::default(),
        idempotency_key: None,
        cancellation: Default::default(),
        approval_mode: ApprovalMode::Wait,
        approval_id: None,
        connection_loss: ConnectionLoss::StopsCall,
    }
}

/// Returns the caller for a call or decision made in this process.
pub(crate) fn caller(client: &str) -> Caller {
    Caller {
        uid: nix::unistd::getuid().as_raw(),
        pid: i32::try_from(std::process::id()).ok(),
        endpoint: CallerEndpoint::Embedded,
        connection: 0,
        client: Some(client.to_owned()),
        session: None,
        account: None,
    }
}
