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
use tool::SandboxTier;

use crate::error::SandboxError;
use crate::launch::launcher::DESCRIPTORS;
use crate::launch::pool::Launcher;
use crate::output::capture::{Capture, Captured};
use crate::output::spill::Spills;
use crate::output::{Outlets, Source};
use crate::prepare::Confined;
use crate::report::{End, Spent};

/// Time after the run's own deadline until the launcher is given up.
const PATIENCE: Duration = Duration::from_secs(6);

/// Report of the launcher and captured output.
pub(crate) struct Finished {
    pub(crate) end: End,
    pub(crate) spent: Spent,
    pub(crate) confining: Duration,
    pub(crate) stdout: Captured,
    pub(crate) stderr: Captured,
}

/// Runs a program through a launcher. The launcher cannot be reused; dropping it ends everything below it.
pub(crate) async fn run(
    confined: &Confined,
    tier: SandboxTier,
    launcher: &mut Launcher,
    outlets: &mut Outlets,
) -> Result<Finished, SandboxError> {
    let (stdout, stdout_end) = output().map_err(SandboxError::Launcher)?;
    let (stderr, stderr_end) = output().map_err(SandboxError::Launcher)?;
    let (mut feed, stdin_end) = Feed::new(confined.input.as_deref()).map_err(SandboxError::Launcher)?;
    let descriptors = [stdin_end.as_fd(), stdout_end.as_fd(), stderr_end.as_fd()];
    give_order(launcher, confined, tier, descriptors).await?;
    let confining = confined.begun.elapsed();
    drop((stdin_end, stdout_end, stderr_end));
    let longest = confined.time_left() + confined.spec.limits.grace + PATIENCE;
    let spills = outlets.spills.as_ref().map(|spills| spills.of(&confined.party));
    let stream = |pipe, of| Stream::new(pipe, of, confined.output_bytes, spills.clone());
    let (mut out, mut err) = (stream(stdout, Source::Stdout), stream(stderr, Source::Stderr));
    let heard = {
        let listening = launcher.ended();
        tokio::pin!(listening);
        let deadline = tokio::time::sleep(longest);
        tokio::pin!(deadline);
        loop {
            tokio::select! {
                heard = &mut listening => break heard,
                () = out.ready(), if out.is_open() => { out.take_one(outlets); }
                () = err.ready(), if err.is_open() => { err.take_one(outlets); }
                () = feed.give(), if feed.is_open() => {}
                () = &mut deadline => break Err(SandboxError::Lost),
            }
        }
    };
    let (end, spent) = heard?;
    let (stdout, stderr) = (out.finish(outlets), err.finish(outlets));
    Ok(Finished { end, spent, confining, stdout, stderr })
}

/// Writes the standard input of a program. A program that does not read it is not waited for.
struct Feed<'a> {
    pipe: Option<pipe::Sender>,
    left: &'a [u8],
}

impl<'a> Feed<'a> {
    fn new(input: Option<&'a [u8]>) -> io::Result<(Self, OwnedFd)> {
        let Some(left) = input else {
            return Ok((Feed { pipe: None, left: &[] }, OwnedFd::from(std::fs::File::open("/dev/null")?)));
        };
        let (pipe, theirs) = self::input()?;
        Ok((Feed { pipe: Some(pipe), left }, theirs))
    }

    fn is_open(&self) -> bool {
        self.pipe.is_some()
    }

    /// Writes as much as fits once the pipe is writable; closes the pipe after the last byte.
    async fn give(&mut self) {
        let Some(pipe) = &self.pipe else { return };
        let written = match pipe.writable().await {
            Ok(()) => pipe.try_write(self.left),
            Err(error) => Err(error),
        };
        match written {
            Ok(written) => self.left = self.left.get(written..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            // The program does not read its input, which is not an error.
            Err(_) => self.left = &[],
        }
        if self.left.is_empty() {
            self.pipe = None;
        }
    }
}

/// Creates a pipe whose read end goes to the program.
pub(crate) fn input() -> io::Result<(pipe::Sender, OwnedFd)> {
    let (theirs, ours) = io::pipe()?;
    Ok((pipe::Sender::from_owned_fd(OwnedFd::from(ours))?, OwnedFd::from(theirs)))
}

/// Creates a pipe whose write end goes to the program.
pub(crate) fn output() -> io::Result<(pipe::Receiver, OwnedFd)> {
    let (ours, theirs) = io::pipe()?;
    Ok((pipe::Receiver::from_owned_fd(OwnedFd::from(ours))?, OwnedFd::from(theirs)))
}

/// Sends the limits to the watcher, and the run request to the child that becomes the program. The limits go
/// first: the child that the request wakes could take this processor before they are sent.
pub(crate) async fn give_order(
    launcher: &mut Launcher,
    confined: &Confined,
    tier: SandboxTier,
    descriptors: [BorrowedFd<'_>; DESCRIPTORS],
) -> Result<(), SandboxError> {
    let order = confined.order(tier);
    // A watcher that is gone is noticed when its report is read.
    let _ = launcher.control.write_all(&confined.limits_now().framed()).await;
    let sent = match send(&launcher.setup, &order, descriptors) {
        Ok(sent) if sent == order.len() => return Ok(()),
        Ok(sent) => match launcher.setup_awaited() {
            Ok(mut setup) => setup.write_all(order.get(sent..).unwrap_or_default()).await,
            Err(error) => Err(error),
        },
        Err(error) => Err(error),
    };
    sent.map_err(|error| launcher.problem().map_or(SandboxError::Launcher(error), Into::into))
}

/// Sends the descriptors and the first part of a message; usually all of it, because the socket buffer is
/// empty.
fn send(socket: impl AsFd, message: &[u8], descriptors: [BorrowedFd<'_>; DESCRIPTORS]) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    Ok(sendmsg(socket, &[io::IoSlice::new(message)], &mut ancillary, SendFlags::empty())?)
}

/// One output stream of the program.
struct Stream {
    of: Source,
    pipe: Option<pipe::Receiver>,
    capture: Capture,
    part: Vec<u8>,
}

impl Stream {
    fn new(pipe: pipe::Receiver, of: Source, keep: usize, spills: Option<Spills>) -> Self {
        Stream { of, pipe: Some(pipe), capture: Capture::keeping(keep, spills), part: vec![0; 64 * 1024] }
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
    fn take_one(&mut self, outlets: &mut Outlets) -> bool {
        let Some(pipe) = &self.pipe else { return false };
        match pipe.try_read(&mut self.part) {
            Ok(0) => self.pipe = None,
            Ok(read) => {
                let bytes = self.part.get(..read).unwrap_or_default();
                outlets.hand_on(self.of, bytes);
                self.capture.take(bytes);
                return true;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => self.pipe = None,
        }
        false
    }

    /// Reads what is in the pipe now and no more: a pipe has a bounded capacity, and processes that still
    /// write are not waited for.
    fn finish(mut self, outlets: &mut Outlets) -> Captured {
        const PARTS_IN_A_PIPE: usize = 64;
        for _ in 0..PARTS_IN_A_PIPE {
            if !self.take_one(outlets) {
                break;
            }
        }
        self.capture.finish()
    }
}
