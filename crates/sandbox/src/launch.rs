//! One run: sends a launcher its run request, captures the output, and waits for the launcher's report. It
//! never waits for the end of a pipe, which an escaped process could hold open.

pub(crate) mod interactive;
pub(crate) mod launcher;
pub(crate) mod pool;
pub(crate) mod spec;
pub(crate) mod status;
pub(crate) mod wire_format;
pub(crate) mod worker;

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe;
use tool::result::SandboxTier;

use crate::error::SandboxError;
use crate::launch::launcher::STDIO_COUNT;
use crate::launch::pool::Launcher;
use crate::output::capture::{Capture, Captured};
use crate::output::spill::SpillStore;
use crate::output::{OutputSinks, OutputStream};
use crate::prepare::ConfinedCommand;
use crate::report::{ResourceUsage, RunEnd};

/// Time after the run's own deadline until the launcher is given up.
const REPORT_TIMEOUT: Duration = Duration::from_secs(6);

/// Report of the launcher and captured output.
pub(crate) struct FinishedRun {
    pub(crate) end: RunEnd,
    pub(crate) usage: ResourceUsage,
    pub(crate) setup_time: Duration,
    pub(crate) stdout: Captured,
    pub(crate) stderr: Captured,
}

/// Runs a program through a launcher. The launcher cannot be reused; dropping it ends everything below it.
pub(crate) async fn run(
    confined: &ConfinedCommand,
    tier: SandboxTier,
    launcher: &mut Launcher,
    sinks: &mut OutputSinks,
) -> Result<FinishedRun, SandboxError> {
    let (stdout, stdout_end) = output_pipe().map_err(SandboxError::Launcher)?;
    let (stderr, stderr_end) = output_pipe().map_err(SandboxError::Launcher)?;
    let (mut feed, stdin_end) =
        StdinFeeder::new(confined.input.as_deref()).map_err(SandboxError::Launcher)?;
    let descriptors = [stdin_end.as_fd(), stdout_end.as_fd(), stderr_end.as_fd()];
    send_request(launcher, confined, tier, descriptors).await?;
    let setup_time = confined.prepared_at.elapsed();
    drop((stdin_end, stdout_end, stderr_end));
    let longest = confined.time_left() + confined.spec.limits.grace + REPORT_TIMEOUT;
    let spills = sinks.spills.as_ref().map(|spills| spills.for_owner(&confined.owner));
    let stream = |pipe, of| OutputReader::new(pipe, of, confined.output_bytes, spills.clone());
    let (mut out, mut err) = (stream(stdout, OutputStream::Stdout), stream(stderr, OutputStream::Stderr));
    let received = {
        let listening = launcher.wait_until_ended();
        tokio::pin!(listening);
        let deadline = tokio::time::sleep(longest);
        tokio::pin!(deadline);
        loop {
            tokio::select! {
                received = &mut listening => break received,
                () = out.ready(), if out.is_open() => { out.read_chunk(sinks); }
                () = err.ready(), if err.is_open() => { err.read_chunk(sinks); }
                () = feed.write_some(), if feed.is_open() => {}
                () = &mut deadline => break Err(SandboxError::LauncherLost),
            }
        }
    };
    let (end, usage) = received?;
    let (stdout, stderr) = (out.finish(sinks), err.finish(sinks));
    Ok(FinishedRun { end, usage, setup_time, stdout, stderr })
}

/// Writes the standard input of a program. A program that does not read it is not waited for.
struct StdinFeeder<'a> {
    pipe: Option<pipe::Sender>,
    remaining: &'a [u8],
}

impl<'a> StdinFeeder<'a> {
    fn new(input: Option<&'a [u8]>) -> io::Result<(Self, OwnedFd)> {
        let Some(input_bytes) = input else {
            return Ok((
                StdinFeeder { pipe: None, remaining: &[] },
                OwnedFd::from(std::fs::File::open("/dev/null")?),
            ));
        };
        let (pipe, theirs) = self::stdin_pipe()?;
        Ok((StdinFeeder { pipe: Some(pipe), remaining: input_bytes }, theirs))
    }

    fn is_open(&self) -> bool {
        self.pipe.is_some()
    }

    /// Writes as much as fits once the pipe is writable; closes the pipe after the last byte.
    async fn write_some(&mut self) {
        let Some(pipe) = &self.pipe else { return };
        let written = match pipe.writable().await {
            Ok(()) => pipe.try_write(self.remaining),
            Err(error) => Err(error),
        };
        match written {
            Ok(written) => self.remaining = self.remaining.get(written..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            // The program does not read its input, which is not an error.
            Err(_) => self.remaining = &[],
        }
        if self.remaining.is_empty() {
            self.pipe = None;
        }
    }
}

/// Creates a pipe whose read end goes to the program.
pub(crate) fn stdin_pipe() -> io::Result<(pipe::Sender, OwnedFd)> {
    let (theirs, ours) = io::pipe()?;
    Ok((pipe::Sender::from_owned_fd(OwnedFd::from(ours))?, OwnedFd::from(theirs)))
}

/// Creates a pipe whose write end goes to the program.
pub(crate) fn output_pipe() -> io::Result<(pipe::Receiver, OwnedFd)> {
    let (ours, theirs) = io::pipe()?;
    Ok((pipe::Receiver::from_owned_fd(OwnedFd::from(ours))?, OwnedFd::from(theirs)))
}

/// Sends the limits to the watcher, and the run request to the child that becomes the program. The limits go
/// first: the child that the request wakes could take this processor before they are sent.
pub(crate) async fn send_request(
    launcher: &mut Launcher,
    confined: &ConfinedCommand,
    tier: SandboxTier,
    descriptors: [BorrowedFd<'_>; STDIO_COUNT],
) -> Result<(), SandboxError> {
    let order = confined.request_bytes(tier);
    // A watcher that has ended is detected when its report is read.
    let _ = launcher.control.write_all(&confined.current_limits().to_frame()).await;
    let sent = match send(&launcher.setup, &order, descriptors) {
        Ok(sent) if sent == order.len() => return Ok(()),
        Ok(sent) => match launcher.async_setup() {
            Ok(mut setup) => setup.write_all(order.get(sent..).unwrap_or_default()).await,
            Err(error) => Err(error),
        },
        Err(error) => Err(error),
    };
    sent.map_err(|error| launcher.setup_failure().map_or(SandboxError::Launcher(error), Into::into))
}

/// Sends the descriptors and the first part of a message; usually all of it, because the socket buffer is
/// empty.
fn send(socket: impl AsFd, message: &[u8], descriptors: [BorrowedFd<'_>; STDIO_COUNT]) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(STDIO_COUNT))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    Ok(sendmsg(socket, &[io::IoSlice::new(message)], &mut ancillary, SendFlags::empty())?)
}

/// One output stream of the program.
struct OutputReader {
    stream: OutputStream,
    pipe: Option<pipe::Receiver>,
    capture: Capture,
    buffer: Vec<u8>,
}

impl OutputReader {
    fn new(pipe: pipe::Receiver, of: OutputStream, keep: usize, spills: Option<SpillStore>) -> Self {
        OutputReader {
            stream: of,
            pipe: Some(pipe),
            capture: Capture::with_capacity(keep, spills),
            buffer: vec![0; 64 * 1024],
        }
    }

    fn is_open(&self) -> bool {
        self.pipe.is_some()
    }

    /// Waits until there is data or the end of the stream.
    async fn ready(&self) {
        if let Some(pipe) = &self.pipe {
            // An error is returned again by the next read.
            let _ = pipe.readable().await;
        }
    }

    /// Reads one chunk; returns true if there may be more.
    fn read_chunk(&mut self, sinks: &mut OutputSinks) -> bool {
        let Some(pipe) = &self.pipe else { return false };
        match pipe.try_read(&mut self.buffer) {
            Ok(0) => self.pipe = None,
            Ok(read) => {
                let bytes = self.buffer.get(..read).unwrap_or_default();
                sinks.notify(self.stream, bytes);
                self.capture.push(bytes);
                return true;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => self.pipe = None,
        }
        false
    }

    /// Reads what is in the pipe now and no more: a pipe has a bounded capacity, and processes that still
    /// write are not waited for.
    fn finish(mut self, sinks: &mut OutputSinks) -> Captured {
        const CHUNKS_PER_PIPE: usize = 64;
        for _ in 0..CHUNKS_PER_PIPE {
            if !self.read_chunk(sinks) {
                break;
            }
        }
        self.capture.finish()
    }
}
