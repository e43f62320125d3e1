//! Restart in place: the daemon checks the installed program and replaces itself by it. `sinew restart` requests it
//! and waits until the new program answers.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use client::{Client, ClientError};
use serde_json::{Value, json};
use server::{ListeningSockets, RestartCheck};

use crate::command_context::CommandContext;
use crate::exit::{CommandError, ExitKind};

/// Timeout for the installed program to check the configuration and the state.
const CHECK_TIMEOUT: Duration = Duration::from_secs(20);
/// Time that the new program gets to start, after the drain timeout of the old one.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// Timeout of one attempt to reach the new program. A connection made before it serves waits in the backlog.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(5);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Returns the check that the program at this path can serve this home. It runs that program, because only the new
/// version knows what it can read.
pub(crate) fn check_of(program: &Path) -> RestartCheck {
    let program = program.to_owned();
    Arc::new(move || {
        let refused = |why: String| format!("`{}` cannot replace this daemon: {why}", program.display());
        let mut command = Command::new(&program);
        command.args(["serve", "--check"]).args(std::env::args_os().skip(2));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().map_err(|error| refused(error.to_string()))?;
        let (succeeded, output, errors) = wait_for(child).map_err(refused)?;
        match succeeded {
            true => Ok(output.trim().to_owned()),
            false => Err(refused(errors.trim().to_owned())),
        }
    })
}

/// Waits for the check to end. Its output is a few lines, which the pipes can hold.
fn wait_for(mut child: Child) -> Result<(bool, String, String), String> {
    let deadline = Instant::now() + CHECK_TIMEOUT;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if Instant::now() < deadline => std::thread::sleep(POLL_INTERVAL),
            Ok(None) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("its check did not end within {} s", CHECK_TIMEOUT.as_secs()));
            }
            Err(error) => return Err(error.to_string()),
        }
    };
    let (mut output, mut errors) = (String::new(), String::new());
    let read = |text: &mut String, pipe: Option<&mut dyn Read>| {
        pipe.map_or(Ok(0), |pipe| pipe.take(8 * 1024).read_to_string(text)).map_err(|error| error.to_string())
    };
    read(&mut output, child.stdout.as_mut().map(|pipe| pipe as &mut dyn Read))?;
    read(&mut errors, child.stderr.as_mut().map(|pipe| pipe as &mut dyn Read))?;
    Ok((status.success(), output, errors))
}

/// Replaces this process by the program, with the arguments of this one. Returns only on failure.
pub(crate) fn replace_process(program: &Path, sockets: ListeningSockets) -> CommandError {
    let error = sockets.exec(Command::new(program).args(std::env::args_os().skip(1)));
    CommandError::failed(format!(
        "the daemon stopped, but `{}` cannot be started: {error}",
        program.display()
    ))
}

/// Restarted daemon.
pub(crate) struct Restarted {
    pub(crate) old_version: String,
    pub(crate) new_version: String,
    pub(crate) pid: u64,
    /// Time from the request to the first answer of the new program.
    pub(crate) took: Duration,
}

/// Requests a restart in place and waits until the new program answers.
pub(crate) fn restart_in_place(context: &CommandContext) -> Result<Restarted, CommandError> {
    let before = context.request_running_daemon("control/status", json!({}))?;
    let reply = match context.try_request_control("control/restart", &json!({}))? {
        Ok(reply) => reply,
        Err(error) => return Err(refused(&error)),
    };
    let started = Instant::now();
    let deadline = started + drain_time(&reply) + START_TIMEOUT;
    let runtime = context.runtime()?;
    let socket = context.home().control_socket();
    loop {
        let asked = async {
            let mut client = Client::connect(&socket, Duration::ZERO).await?;
            client.request("control/status", json!({})).await
        };
        let asked = runtime.block_on(async { tokio::time::timeout(ATTEMPT_TIMEOUT, asked).await });
        match asked {
            Ok(Ok(status)) if status.get("stopping") == Some(&Value::Bool(false)) => {
                let version = |status: &Value| status["version"].as_str().unwrap_or("unknown").to_owned();
                return Ok(Restarted {
                    old_version: version(&before),
                    new_version: version(&status),
                    pid: status.get("pid").and_then(Value::as_u64).unwrap_or_default(),
                    took: started.elapsed(),
                });
            }
            // Between two programs no process holds the lock, but the socket exists.
            Ok(Err(ClientError::Unreachable { .. })) if !context.is_state_locked() && !socket.exists() => {
                return Err(did_not_start("it ended immediately"));
            }
            _ => {}
        }
        if Instant::now() >= deadline {
            return Err(did_not_start("it does not answer"));
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Time that the daemon gives running calls, from its reply to a request to stop or restart.
pub(crate) fn drain_time(reply: &Value) -> Duration {
    Duration::from_secs(reply.get("drain_seconds").and_then(Value::as_u64).unwrap_or_default())
}

fn refused(error: &ClientError) -> CommandError {
    let problem = CommandError::failed(format!("the daemon was not restarted and continues: {error}"));
    match error.code_word() {
        Some("restart_refused") => problem
            .with_hint("`sinew check` shows problems of the configuration; install a version that works"),
        _ => problem.with_hint("stop this daemon with SIGTERM and start the new one"),
    }
}

fn did_not_start(why: &str) -> CommandError {
    let problem = CommandError::new(
        ExitKind::Unreachable,
        format!("the old program stopped, and the new one was started, but {why}"),
    );
    problem.with_hint("`sinew serve` shows why; `sinew logs` shows the end of the old one")
}
