//! One run: hands a launcher its order, gathers what the program writes, and waits for the launcher's word, never for
//! the end of a pipe, which a process that got away could hold open.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use tokio::io::{AsyncWriteExt, Interest};
use tokio::net::unix::pipe;
use tool::SandboxTier;

use crate::capture::{Capture, Captured};
use crate::confined::Confined;
use crate::error::SandboxError;
use crate::launcher::DESCRIPTORS;
use crate::line;
use crate::outlets::{Outlets, Source};
use crate::pool::Launcher;
use crate::report::{End, Spent};
use crate::spill::Spills;
use crate::status::{Status, Step};

/// What a launcher may take beyond its own deadline before it is given up.
const PATIENCE: Duration = Duration::from_secs(6);

/// What a launcher reported, and what the program wrote.
pub(crate) struct Finished {
    pub(crate) end: End,
    pub(crate) spent: Spent,
    pub(crate) stdout: Captured,
    pub(crate) stderr: Captured,
}

/// Runs a program through a launcher, which is then of no further use: dropping it ends everything with it.
pub(crate) async fn run(
    confined: &Confined,
    tier: SandboxTier,
    launcher: &mut Launcher,
    mut outlets: Outlets,
) -> Result<Finished, SandboxError> {
    let (stdout, stdout_end) = output().map_err(SandboxError::Launcher)?;
    let (stderr, stderr_end) = output().map_err(SandboxError::Launcher)?;
    let (mut feed, stdin_end) = Feed::new(confined.input.as_deref()).map_err(SandboxError::Launcher)?;
    let message = confined.message(tier);
    give_order(launcher, &message, [stdin_end.as_fd(), stdout_end.as_fd(), stderr_end.as_fd()])
        .await
        .map_err(SandboxError::Launcher)?;
    drop((stdin_end, stdout_end, stderr_end));
    let longest = confined.time_left() + confined.spec.limits.grace + PATIENCE;
    let spills = outlets.spills.as_ref().map(|spills| spills.of(&confined.party));
    let stream = |pipe, of| Stream::new(pipe, of, confined.output_bytes, spills.clone());
    let (mut out, mut err) = (stream(stdout, Source::Stdout), stream(stderr, Source::Stderr));
    let heard = {
        let listening = until_the_end(launcher, confined);
        tokio::pin!(listening);
        let deadline = tokio::time::sleep(longest);
        tokio::pin!(deadline);
        loop {
            tokio::select! {
                heard = &mut listening => break heard,
                () = out.ready(), if out.is_open() => { out.take_one(&mut outlets); }
                () = err.ready(), if err.is_open() => { err.take_one(&mut outlets); }
                () = feed.give(), if feed.is_open() => {}
                () = &mut deadline => break Err(SandboxError::Lost),
            }
        }
    };
    let (end, spent) = heard?;
    Ok(Finished { end, spent, stdout: out.finish(&mut outlets), stderr: err.finish(&mut outlets) })
}

/// What a program is given to read. One that does not read it is not waited for.
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

    /// Gives as much as there is room for, waiting for some; closes after the last of it.
    async fn give(&mut self) {
        let Some(pipe) = &self.pipe else { return };
        let written = match pipe.writable().await {
            Ok(()) => pipe.try_write(self.left),
            Err(error) => Err(error),
        };
        match written {
            Ok(written) => self.left = self.left.get(written..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            // It does not read, which is its own business.
            Err(_) => self.left = &[],
        }
        if self.left.is_empty() {
            self.pipe = None;
        }
    }
}

/// A pipe whose near end goes to the program.
pub(crate) fn input() -> io::Result<(pipe::Sender, OwnedFd)> {
    let (theirs, ours) = io::pipe()?;
    Ok((pipe::Sender::from_owned_fd(OwnedFd::from(ours))?, OwnedFd::from(theirs)))
}

/// A pipe whose far end goes to the program.
pub(crate) fn output() -> io::Result<(pipe::Receiver, OwnedFd)> {
    let (ours, theirs) = io::pipe()?;
    Ok((pipe::Receiver::from_owned_fd(OwnedFd::from(ours))?, OwnedFd::from(theirs)))
}

/// The descriptors travel with the length of the message; the message follows.
pub(crate) async fn give_order(
    launcher: &mut Launcher,
    message: &[u8],
    descriptors: [BorrowedFd<'_>; DESCRIPTORS],
) -> io::Result<()> {
    let (head, body) = message.split_at_checked(line::HEAD).ok_or(io::ErrorKind::InvalidInput)?;
    loop {
        launcher.socket.writable().await?;
        let sent = launcher.socket.try_io(Interest::WRITABLE, || {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
            let mut ancillary = SendAncillaryBuffer::new(&mut space);
            if !ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)) {
                return Err(io::ErrorKind::InvalidInput.into());
            }
            let parts = [io::IoSlice::new(head)];
            Ok(sendmsg(launcher.socket.as_fd(), &parts, &mut ancillary, SendFlags::empty())?)
        });
        match sent {
            Ok(sent) if sent == head.len() => break,
            Ok(_) => return Err(io::ErrorKind::WriteZero.into()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    launcher.socket.write_all(body).await
}

async fn until_the_end(launcher: &mut Launcher, confined: &Confined) -> Result<(End, Spent), SandboxError> {
    loop {
        match hear(launcher, &confined.executable.path).await? {
            Heard::Started => {}
            Heard::Ended(end, spent) => return Ok((end, spent)),
        }
    }
}

/// What a launcher says of a program.
pub(crate) enum Heard {
    Started,
    Ended(End, Spent),
}

/// The next word of a launcher about the program it was given. What went wrong before it ran is an error.
pub(crate) async fn hear(launcher: &mut Launcher, program: &Path) -> Result<Heard, SandboxError> {
    match launcher.hear().await {
        Ok(Status::Started) => Ok(Heard::Started),
        Ok(Status::Ended(end, spent)) => Ok(Heard::Ended(end, spent)),
        Ok(Status::Failed(problem)) if problem.step == Step::Program => {
            Err(SandboxError::NotStarted { program: program.display().to_string(), cause: problem.cause() })
        }
        Ok(Status::Failed(problem)) => {
            let (step, cause) = (problem.step.as_str().to_owned(), problem.cause());
            Err(SandboxError::NotBuilt { step, what: problem.what, cause })
        }
        Ok(Status::Ready) | Err(_) => Err(SandboxError::Lost),
    }
}

/// One output of the program.
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

    /// Waits until there is something to take, or nothing more to come.
    async fn ready(&self) {
        if let Some(pipe) = &self.pipe {
            // What is wrong with it is said again when it is read.
            let _ = pipe.readable().await;
        }
    }

    /// Takes one part; whether there may be more.
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

    /// What is in the pipe now, and no more: a pipe holds a bounded amount, and whoever still writes is not waited for.
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
