//! `sinew hook pre-tool-use`: asks the daemon to judge a call of the host, else judges it in this process by
//! the same rules.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use approvals::ApprovalMode;
use execution::CallRequest;
use execution::host::{HostCall, HostCallOrigin, HostJudge, HostVerdict, UnknownHost};
use serde_json::{Value, json};
use tool::{Arguments, Caller, CallerEndpoint};

use super::host_event::HostEvent;
use super::host_reply::HostReply;
use super::{home, to_reason};
use crate::cli::HookArgs;
use crate::command::call;
use crate::command_context::{CommandBackend, CommandContext};
use crate::compose;
use crate::exit::CommandError;
use crate::host_table::CLAUDE_CODE;

const METHOD: &str = "sinew/judge_host";

/// Call of a host tool to be judged.
struct HostToolCall {
    tool_name: String,
    tool_input: Value,
    /// Base of relative paths. Required, because without it relative paths have no meaning.
    cwd: PathBuf,
    origin: HostCallOrigin,
}

pub(super) fn run(args: &HookArgs, limit: Duration) -> Result<HostReply, String> {
    let began = Instant::now();
    let tool_call = HostToolCall::from_event(HostEvent::from_stdin()?)?;
    let setting = CommandContext::new(home(args)?, tool_call.cwd.clone());
    let left = || limit.saturating_sub(began.elapsed());
    judge(&setting, &tool_call, left).map(HostReply::from).map_err(|problem| to_reason(&problem))
}

/// Returns the verdict of the daemon, else of this process. Loading the configuration takes longest, so no
/// lock is held meanwhile. The ledger is read under a shared lock. Only a denial, which has to be recorded,
/// takes the exclusive state lock.
fn judge(
    setting: &CommandContext,
    tool_call: &HostToolCall,
    left: impl Fn() -> Duration,
) -> Result<HostVerdict, CommandError> {
    let params = || tool_call.params(left());
    if let Some(reply) = setting.try_request_agent(METHOD, params)? {
        return parse_verdict(reply);
    }
    let (settings, snapshot) = compose::hook_snapshot(setting)?;
    let found = match setting.daemon_or_shared_lock()? {
        CommandBackend::Daemon => return judge_in_daemon(setting, params()),
        CommandBackend::Local(_view) => compose::inspect_ledger(setting)?,
    };
    let judge = HostJudge::new(snapshot, &found).map_err(CommandError::configuration)?;
    let judged = block_on_runtime(setting, judge.judge(tool_call.to_host_call(setting, left())))?;
    if let Some(verdict) = judged {
        return Ok(verdict);
    }
    let left_over = || CommandError::failed("the first judgement is still running");
    let snapshot = judge.into_snapshot().ok_or_else(left_over)?;
    match setting.daemon_or_state_lock()? {
        CommandBackend::Daemon => judge_in_daemon(setting, params()),
        CommandBackend::Local(_state) => {
            let layer = compose::open_layer(setting, &settings, snapshot)?;
            block_on_runtime(setting, layer.judge_host_call(tool_call.to_host_call(setting, left())))
        }
    }
}

impl HostToolCall {
    fn from_event(mut event: HostEvent) -> Result<HostToolCall, String> {
        event.expect_name(&["PreToolUse"])?;
        Ok(HostToolCall {
            tool_name: event.required_text("tool_name")?,
            cwd: event.cwd()?.ok_or("`cwd` is missing")?,
            origin: event.origin()?,
            tool_input: event.take_field("tool_input").ok_or("`tool_input` is missing")?,
        })
    }

    /// Returns the parameters of the request to the daemon.
    fn params(&self, left: Duration) -> Value {
        let mut params = Arguments::new();
        params.insert("host".to_owned(), json!(CLAUDE_CODE));
        params.insert("tool_name".to_owned(), json!(self.tool_name));
        params.insert("tool_input".to_owned(), self.tool_input.clone());
        params.insert("cwd".to_owned(), json!(self.cwd));
        let left = u64::try_from(left.as_millis()).unwrap_or(u64::MAX).max(1);
        params.insert("deadline_ms".to_owned(), json!(left));
        if let Value::Object(origin) = json!(self.origin) {
            params.extend(origin);
        }
        Value::Object(params)
    }

    /// Returns the call to be judged in this process.
    fn to_host_call(&self, setting: &CommandContext, left: Duration) -> HostCall {
        let request = CallRequest {
            caller: Caller { endpoint: CallerEndpoint::Hook, ..call::caller(CLAUDE_CODE) },
            deadline: Some(left),
            approval_mode: ApprovalMode::Never,
            ..call::embedded_request(setting, self.tool_name.clone(), self.tool_input.clone())
        };
        HostCall { host: CLAUDE_CODE.to_owned(), request, origin: self.origin.clone() }
    }
}

fn judge_in_daemon(setting: &CommandContext, params: Value) -> Result<HostVerdict, CommandError> {
    parse_verdict(setting.request_agent(METHOD, params)?)
}

fn parse_verdict(reply: Value) -> Result<HostVerdict, CommandError> {
    serde_json::from_value(reply)
        .map_err(|error| CommandError::failed(format!("the daemon's answer cannot be read: {error}")))
}

fn block_on_runtime<T>(
    setting: &CommandContext,
    judging: impl Future<Output = Result<T, UnknownHost>>,
) -> Result<T, CommandError> {
    let runtime = setting.runtime()?;
    let verdict = runtime.block_on(judging);
    // Do not wait for threads: one may be blocked opening a path.
    runtime.shutdown_background();
    verdict.map_err(CommandError::failed)
}
