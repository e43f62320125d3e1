//! Line-based conversation with one program over a socket or pipes, and the timing of its answers.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

/// Child process that is killed and reaped when this value is dropped.
pub(crate) struct Program(pub(crate) Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Both directions of a connection, and the program at the other end if it was started for this connection.
pub(crate) struct Conversation {
    to: Box<dyn Write>,
    from: BufReader<Box<dyn Read>>,
    line: String,
    program: Option<Program>,
}

impl Conversation {
    pub(crate) fn on_socket(stream: UnixStream) -> Result<Self> {
        let from: Box<dyn Read> = Box::new(stream.try_clone()?);
        Ok(Conversation {
            to: Box::new(stream),
            from: BufReader::new(from),
            line: String::new(),
            program: None,
        })
    }

    /// Starts a program and connects to its standard input and output.
    pub(crate) fn on_pipes(command: &mut Command) -> Result<Self> {
        let shown = crate::process::shown(command);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot start `{shown}`"))?;
        let (to, from) = (child.stdin.take().context("no input")?, child.stdout.take().context("no output")?);
        let from: Box<dyn Read> = Box::new(from);
        let program = Some(Program(child));
        Ok(Conversation { to: Box::new(to), from: BufReader::new(from), line: String::new(), program })
    }

    /// Starts a program whose standard input and output are the other end of a socket pair.
    pub(crate) fn on_pair(command: &mut Command) -> Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        let input = std::os::fd::OwnedFd::from(theirs.try_clone()?);
        command.stdin(input).stdout(std::os::fd::OwnedFd::from(theirs)).stderr(Stdio::null());
        let program = Program(command.spawn().context("cannot start the other end")?);
        // The command holds the program's end of the pair open, and then `receive` would not see that the
        // program has ended.
        command.stdin(Stdio::null()).stdout(Stdio::null());
        Ok(Conversation::on_socket(ours)?.ending(program))
    }

    /// Ties the program to this conversation, so that both end together.
    pub(crate) fn ending(self, program: Program) -> Self {
        Conversation { program: Some(program), ..self }
    }

    /// Process id of the program that was started for this conversation.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.program.as_ref().map(|program| program.0.id())
    }

    pub(crate) fn send(&mut self, line: &str) -> Result<()> {
        self.to.write_all(line.as_bytes())?;
        Ok(self.to.flush()?)
    }

    /// Reads the next line.
    pub(crate) fn receive(&mut self) -> Result<&str> {
        self.line.clear();
        if self.from.read_line(&mut self.line)? == 0 {
            bail!("the other end is gone");
        }
        Ok(&self.line)
    }

    /// Performs the `initialize` handshake of MCP, as it has been until 2025.
    pub(crate) fn initialise(&mut self) -> Result<()> {
        let params = json!({"protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": {"name": "bench", "version": "1"}});
        self.send(&BenchRequest::new("initialize", &params, "serverInfo").line(0))?;
        let reply = self.receive()?;
        if !reply.contains("serverInfo") {
            bail!("the reply to `initialize` is {reply}");
        }
        self.send("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n")
    }
}

/// Request that is sent repeatedly, each time with another id.
#[derive(Clone)]
pub(crate) struct BenchRequest {
    rest: String,
    /// Text that every successful answer contains.
    expected: String,
}

impl BenchRequest {
    pub(crate) fn new(method: &str, params: &Value, expected: &str) -> Self {
        let rest = format!(",\"method\":\"{method}\",\"params\":{params}}}\n");
        BenchRequest { rest, expected: expected.to_owned() }
    }

    /// Request for a governed read of `kib.txt`, which every home has.
    pub(crate) fn read() -> Self {
        let params = json!({"tool_name": "read_file", "arguments": {"path": "kib.txt"}});
        BenchRequest::new("sinew/execute", &params, "\"success\":true")
    }

    pub(crate) fn line(&self, number: u64) -> String {
        format!("{{\"jsonrpc\":\"2.0\",\"id\":{number}{}", self.rest)
    }

    fn must_be_answered_by(&self, reply: &str) -> Result<()> {
        if !reply.contains(&self.expected) {
            let start: String = reply.chars().take(600).collect();
            bail!("no `{}` in the answer {start}", self.expected);
        }
        Ok(())
    }
}

/// Sends the requests one after the other, and passes each latency in microseconds to `each` with the answer.
pub(crate) fn ask(
    conversation: &mut Conversation,
    request: &BenchRequest,
    calls: usize,
    mut each: impl FnMut(f64, &str) -> Result<()>,
) -> Result<()> {
    for number in 0..calls {
        let line = request.line(number as u64);
        let sent_at = Instant::now();
        conversation.send(&line)?;
        let reply = conversation.receive()?;
        let took = sent_at.elapsed();
        request.must_be_answered_by(reply)?;
        each(micros(took), reply)?;
    }
    Ok(())
}

/// Like `ask`, and collects the latencies only.
pub(crate) fn time(
    conversation: &mut Conversation,
    request: &BenchRequest,
    calls: usize,
    times: &mut Vec<f64>,
) -> Result<()> {
    ask(conversation, request, calls, |took, _| {
        times.push(took);
        Ok(())
    })
}

/// Keeps `depth` requests pending all the time. Returns the number of answers per second.
pub(crate) fn ask_many(
    conversation: &mut Conversation,
    request: &BenchRequest,
    (calls, depth): (usize, usize),
    times: &mut Vec<f64>,
) -> Result<f64> {
    let mut sent_at = HashMap::with_capacity(depth);
    let mut number = 0;
    let began = Instant::now();
    let mut send = |conversation: &mut Conversation, sent_at: &mut HashMap<u64, Instant>| {
        number += 1;
        sent_at.insert(number, Instant::now());
        conversation.send(&request.line(number))
    };
    for _ in 0..depth.min(calls) {
        send(conversation, &mut sent_at)?;
    }
    for reply_count in 1..=calls {
        let reply = conversation.receive()?;
        request.must_be_answered_by(reply)?;
        let id = id_of(reply).with_context(|| format!("a reply without a numeric id: {reply}"))?;
        let sent =
            sent_at.remove(&id).with_context(|| format!("a reply to `{id}`, which was not requested"))?;
        times.push(micros(sent.elapsed()));
        if reply_count + depth <= calls {
            send(conversation, &mut sent_at)?;
        }
    }
    Ok(calls as f64 / began.elapsed().as_secs_f64())
}

/// Finds the id of an answer without parsing it, because the time of a parser would be measured too.
fn id_of(reply: &str) -> Option<u64> {
    let (_, after) = reply.split_once("\"id\":")?;
    let digits = after.trim_start().split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}

pub(crate) fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_one_line_of_json_with_its_id() {
        let line = BenchRequest::new("sinew/status", &json!({"a": "b"}), "").line(7);
        let value: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(value, json!({"jsonrpc": "2.0", "id": 7, "method": "sinew/status", "params": {"a": "b"}}));
        assert_eq!(line.matches('\n').count(), 1);
    }

    #[test]
    fn the_id_of_an_answer_is_found_anywhere_in_it() {
        assert_eq!(id_of(r#"{"jsonrpc":"2.0","id":12,"result":{}}"#), Some(12));
        assert_eq!(id_of(r#"{"result":{"call_id":"3"},"id": 4}"#), Some(4));
        assert_eq!(id_of(r#"{"result":{"call_id":"3"}}"#), None);
        assert_eq!(id_of(r#"{"id":null}"#), None);
    }
}
