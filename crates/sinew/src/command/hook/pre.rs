//! Before a tool of the host is used: asks the daemon, else judges in this process, by the same rules.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use execution::{HostCall, HostVerdict, Origin, Request, World};
use serde_json::{Value, json};
use server::Settings;
use tool::{Arguments, Caller, Door, TraceContext};

use super::answer::Answer;
use super::event::Event;
use super::{home, in_a_line};
use crate::cli::HookArgs;
use crate::compose;
use crate::exit::{Exit, Problem};
use crate::host_table::CLAUDE_CODE;
use crate::setting::{Reach, Setting};

/// One call of the host.
struct Asked {
    tool_name: String,
    tool_input: Value,
    /// Where its relative paths start: without it nobody knows which files are meant.
    cwd: PathBuf,
    origin: Origin,
}

pub(super) fn run(args: &HookArgs, limit: Duration) -> Result<Answer, String> {
    let began = Instant::now();
    let asked = Asked::read(Event::from_stdin()?)?;
    let setting = Setting::at(home(args)?, asked.cwd.clone());
    let left = || limit.saturating_sub(began.elapsed());
    judge(&setting, asked, left).map(Answer::from).map_err(|problem| in_a_line(&problem))
}

fn judge(setting: &Setting, asked: Asked, left: impl Fn() -> Duration) -> Result<HostVerdict, Problem> {
    if !setting.daemon_answers() {
        // Reading the configuration takes longer than judging by it, and other hooks wait for the state meanwhile.
        let world = compose::hook_world(setting)?;
        if let Reach::Nobody(_state) = setting.reach_or_state()? {
            return in_this_process(setting, world, asked, left());
        }
    }
    through_daemon(setting, asked, left())
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
}

fn through_daemon(setting: &Setting, asked: Asked, left: Duration) -> Result<HostVerdict, Problem> {
    let mut params = Arguments::new();
    params.insert("host".to_owned(), json!(CLAUDE_CODE));
    params.insert("tool_name".to_owned(), json!(asked.tool_name));
    params.insert("tool_input".to_owned(), asked.tool_input);
    params.insert("cwd".to_owned(), json!(asked.cwd));
    params
        .insert("deadline_ms".to_owned(), json!(u64::try_from(left.as_millis()).unwrap_or(u64::MAX).max(1)));
    if let Value::Object(origin) = json!(asked.origin) {
        params.extend(origin);
    }
    let reply = setting.ask_agent("sinew/judge_host", Value::Object(params))?;
    serde_json::from_value(reply)
        .map_err(|error| Problem::new(Exit::Failed, format!("the daemon's answer cannot be read: {error}")))
}

fn in_this_process(
    setting: &Setting,
    world: (Settings, World),
    asked: Asked,
    left: Duration,
) -> Result<HostVerdict, Problem> {
    let runtime = setting.runtime()?;
    let layer = compose::hook_layer(setting, world)?;
    let request = Request {
        tool_name: asked.tool_name,
        arguments: asked.tool_input,
        caller: Caller {
            uid: nix::unistd::getuid().as_raw(),
            pid: i32::try_from(std::process::id()).ok(),
            door: Door::Hook,
            connection: 0,
            client: Some(CLAUDE_CODE.to_owned()),
            session: None,
        },
        trace: TraceContext::root(),
        deadline: Some(left),
        cwd: Some(asked.cwd),
        started: Instant::now(),
    };
    let call = HostCall { host: CLAUDE_CODE.to_owned(), request, origin: asked.origin };
    let verdict = runtime.block_on(layer.judge_host(call));
    runtime.shutdown_background();
    verdict.map_err(|unknown| Problem::new(Exit::Failed, unknown.to_string()))
}
