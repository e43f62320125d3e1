//! `sinew hook pre-tool-use`: lets the daemon judge a call of the host, else judges it in this process by the
//! same rules.

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
use crate::cli::{HookArgs, HostName};
use crate::command::call;
use crate::command_context::{CommandBackend, CommandContext};
use crate::compose;
use crate::exit::CommandError;

const METHOD: &str = "sinew/judge_host";

/// Folders in which the system installs its programs.
const SYSTEM_FOLDERS: [&str; 2] = ["/usr/bin", "/bin"];

/// Call of a host tool to be judged.
struct HostToolCall {
    host: HostName,
    tool_name: String,
    tool_input: Value,
    /// Base of relative paths. Required, because without it relative paths have no meaning.
    cwd: PathBuf,
    origin: HostCallOrigin,
    /// Programs of a shell line that the PATH of the host finds in a folder of the system.
    system_programs: Vec<String>,
}

pub(super) fn run(args: &HookArgs, limit: Duration) -> Result<HostReply, String> {
    let began = Instant::now();
    let tool_call = HostToolCall::from_event(args.host, HostEvent::from_stdin(args.host)?)?;
    let context = CommandContext::new(home(args)?, tool_call.cwd.clone());
    let left = || limit.saturating_sub(began.elapsed());
    let verdict = judge(&context, &tool_call, left);
    verdict.map(HostReply::from).map_err(|problem| to_reason(&problem))
}

/// Returns the verdict of the daemon, else of this process. Loading the configuration takes longest, so no
/// lock is held meanwhile. The ledger is read under a shared lock. Only a denial, which has to be recorded,
/// takes the exclusive state lock.
fn judge(
    context: &CommandContext,
    tool_call: &HostToolCall,
    left: impl Fn() -> Duration,
) -> Result<HostVerdict, CommandError> {
    let params = || tool_call.params(left());
    if let Some(reply) = context.try_request_agent(METHOD, params)? {
        return parse_verdict(reply);
    }
    let (settings, snapshot) = compose::hook_snapshot(context)?;
    let found = match context.daemon_or_shared_lock()? {
        CommandBackend::Daemon => return judge_in_daemon(context, params()),
        CommandBackend::Local(_view) => compose::inspect_ledger(context)?,
    };
    let judge = HostJudge::new(snapshot, &found).map_err(CommandError::configuration)?;
    let judged = block_on_runtime(context, judge.judge(tool_call.to_host_call(context, left())))?;
    if let Some(verdict) = judged {
        return Ok(verdict);
    }
    let left_over = || CommandError::failed("the first judgement is still running");
    let snapshot = judge.into_snapshot().ok_or_else(left_over)?;
    match context.daemon_or_state_lock()? {
        CommandBackend::Daemon => judge_in_daemon(context, params()),
        CommandBackend::Local(_state) => {
            let layer = compose::open_layer(context, &settings, snapshot)?;
            block_on_runtime(context, layer.judge_host_call(tool_call.to_host_call(context, left())))
        }
    }
}

impl HostToolCall {
    fn from_event(host: HostName, mut event: HostEvent) -> Result<HostToolCall, String> {
        event.expect_name(&[host.event_before()])?;
        let tool_input = event.take_field("tool_input").ok_or("`tool_input` is missing")?;
        Ok(HostToolCall {
            host,
            tool_name: event.required_text("tool_name")?,
            cwd: event.cwd()?.ok_or("`cwd` is missing")?,
            origin: event.origin()?,
            system_programs: system_programs(&tool_input),
            tool_input,
        })
    }

    /// Returns the parameters of the request to the daemon.
    fn params(&self, left: Duration) -> Value {
        let mut params = Arguments::new();
        params.insert("host".to_owned(), json!(self.host.as_str()));
        params.insert("tool_name".to_owned(), json!(self.tool_name));
        params.insert("tool_input".to_owned(), self.tool_input.clone());
        params.insert("cwd".to_owned(), json!(self.cwd));
        let left = u64::try_from(left.as_millis()).unwrap_or(u64::MAX).max(1);
        params.insert("deadline_ms".to_owned(), json!(left));
        params.insert("system_programs".to_owned(), json!(self.system_programs));
        if let Value::Object(origin) = json!(self.origin) {
            params.extend(origin);
        }
        Value::Object(params)
    }

    /// Returns the call to be judged in this process.
    fn to_host_call(&self, context: &CommandContext, left: Duration) -> HostCall {
        let request = CallRequest {
            caller: Caller { endpoint: CallerEndpoint::Hook, ..call::caller(self.host.as_str()) },
            deadline: Some(left),
            approval_mode: ApprovalMode::Never,
            ..call::embedded_request(context, self.tool_name.clone(), self.tool_input.clone())
        };
        HostCall {
            host: self.host.as_str().to_owned(),
            request,
            origin: self.origin.clone(),
            system_programs: self.system_programs.clone(),
        }
    }
}

/// Returns the programs of a simple shell line that this process, and so the host, finds in a folder of the
/// system. A file of the same name in an earlier folder of PATH, such as `node_modules/.bin`, is not one of them,
/// and neither is a link to a program of another name.
fn system_programs(tool_input: &Value) -> Vec<String> {
    let line = tool_input.get("command").and_then(Value::as_str);
    let commands = line.and_then(execution::host::split_pipeline).unwrap_or_default();
    let programs = commands.into_iter().filter_map(|words| words.into_iter().next());
    let path = std::env::var_os("PATH").unwrap_or_default();
    programs.filter(|name| is_system_program(name, &path)).collect()
}

fn is_system_program(name: &str, search_path: &std::ffi::OsStr) -> bool {
    let mut candidates = std::env::split_paths(search_path).map(|folder| folder.join(name));
    let Some(found) = candidates.find(|file| file.symlink_metadata().is_ok()) else { return false };
    std::fs::canonicalize(found).is_ok_and(|file| {
        let in_system =
            SYSTEM_FOLDERS.iter().any(|folder| file.parent() == Some(std::path::Path::new(folder)));
        in_system && file.file_name().is_some_and(|file| file == name)
    })
}

fn judge_in_daemon(context: &CommandContext, params: Value) -> Result<HostVerdict, CommandError> {
    parse_verdict(context.request_agent(METHOD, params)?)
}

fn parse_verdict(reply: Value) -> Result<HostVerdict, CommandError> {
    serde_json::from_value(reply)
        .map_err(|error| CommandError::failed(format!("the daemon's answer cannot be read: {error}")))
}

fn block_on_runtime<T>(
    context: &CommandContext,
    judging: impl Future<Output = Result<T, UnknownHost>>,
) -> Result<T, CommandError> {
    let runtime = context.runtime()?;
    let verdict = runtime.block_on(judging);
    // Do not wait for threads: one may be blocked opening a path.
    runtime.shutdown_background();
    verdict.map_err(CommandError::failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_of_another_folder_is_no_system_program() {
        let folder = tempfile::tempdir().unwrap();
        let (mine, linked) = (folder.path().join("mine"), folder.path().join("linked"));
        for folder in [&mine, &linked] {
            std::fs::create_dir(folder).unwrap();
        }
        std::fs::write(mine.join("cat"), "").unwrap();
        std::os::unix::fs::symlink("/usr/bin/env", linked.join("cat")).unwrap();
        let check = |first: &str, expect: bool| {
            let path = format!("{first}:/usr/bin:/bin");
            assert_eq!(is_system_program("cat", path.as_ref()), expect, "{path}");
        };
        check("/nowhere", true);
        check(mine.to_str().unwrap(), false);
        check(linked.to_str().unwrap(), false);
        assert!(!is_system_program("no-such-program", "/usr/bin".as_ref()));
        assert!(!is_system_program("cat", "".as_ref()));
    }
}
