//! `sinew hook pre-tool-use`: asks the daemon to judge a call of the host, else judges it in this process by
//! the same rules.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use execution::{Asking, HostCall, HostJudge, HostVerdict, Origin, Request, UnknownHost};
use serde_json::{Value, json};
use tool::{Arguments, Caller, Door};

use super::answer::Answer;
use super::event::Event;
use super::{home, in_a_line};
use crate::cli::HookArgs;
use crate::command::call;
use crate::compose;
use crate::exit::Problem;
use crate::host_table::CLAUDE_CODE;
use crate::setting::{Reach, Setting};

const METHOD: &str = "sinew/judge_host";

/// Call of a host tool to be judged.
struct Asked {
    tool_name: String,
    tool_input: Value,
    /// Base of relative paths. Required, because without it relative paths have no meaning.
    cwd: PathBuf,
    origin: Origin,
}

pub(super) fn run(args: &HookArgs, limit: Duration) -> Result<Answer, String> {
    let began = Instant::now();
    let tool_call = Asked::read(Event::from_stdin()?)?;
    let setting = Setting::at(home(args)?, tool_call.cwd.clone());
    let left = || limit.saturating_sub(began.elapsed());
    judge(&setting, &tool_call, left).map(Answer::from).map_err(|problem| in_a_line(&problem))
}

/// Returns the verdict of the daemon, else of this process. Loading the configuration takes longest, so no
/// lock is held meanwhile. The ledger is read under a shared lock. Only a denial, which has to be recorded,
/// takes the exclusive state lock.
fn judge(setting: &Setting, tool_call: &Asked, left: impl Fn() -> Duration) -> Result<HostVerdict, Problem> {
    let params = || tool_call.params(left());
    if let Some(reply) = setting.ask_agent_if_served(METHOD, params)? {
        return read(reply);
    }
    let (settings, snapshot) = compose::hook_world(setting)?;
    let found = match setting.reach_or_view()? {
        Reach::Daemon => return through_daemon(setting, params()),
        Reach::Nobody(_view) => compose::look_at_ledger(setting)?,
    };
    let judge = HostJudge::new(snapshot, &found).map_err(Problem::configuration)?;
    let judged = on_runtime(setting, judge.judge(tool_call.call(setting, left())))?;
    if let Some(verdict) = judged {
        return Ok(verdict);
    }
    let left_over = || Problem::failed("the first judgement is still running");
    let snapshot = judge.into_world().ok_or_else(left_over)?;
    match setting.reach_or_state()? {
        Reach::Daemon => through_daemon(setting, params()),
        Reach::Nobody(_state) => {
            let layer = compose::layer(setting, &settings, snapshot)?;
            on_runtime(setting, layer.judge_host(tool_call.call(setting, left())))
        }
    }
}

impl Asked {
    fn read(mut event: Event) -> Result<Asked, String> {
        event.one_of(&["PreToolUse"])?;
        Ok(Asked {
            tool_name: event.text("tool_name")?,
            cwd: event.cwd()?.ok_or("`cwd` is missing")?,
            origin: event.origin()?,
            tool_input: event.take("tool_input").ok_or("`tool_input` is missing")?,
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
    fn call(&self, setting: &Setting, left: Duration) -> HostCall {
        let request = Request {
            caller: Caller { door: Door::Hook, ..call::caller(CLAUDE_CODE) },
            deadline: Some(left),
            asking: Asking::Never,
            ..call::request(setting, self.tool_name.clone(), self.tool_input.clone())
        };
        HostCall { host: CLAUDE_CODE.to_owned(), request, origin: self.origin.clone() }
    }
}

fn through_daemon(setting: &Setting, params: Value) -> Result<HostVerdict, Problem> {
    read(setting.ask_agent(METHOD, params)?)
}

fn read(reply: Value) -> Result<HostVerdict, Problem> {
    serde_json::from_value(reply)
        .map_err(|error| Problem::failed(format!("the daemon's answer cannot be read: {error}")))
}

fn on_runtime<T>(
    setting: &Setting,
    judging: impl Future<Output = Result<T, UnknownHost>>,
) -> Result<T, Problem> {
    let runtime = setting.runtime()?;
    let verdict = runtime.block_on(judging);
    // Do not wait for threads: one may be blocked opening a path.
    runtime.shutdown_background();
    verdict.map_err(Problem::failed)
}
