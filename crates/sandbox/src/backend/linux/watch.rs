//! The launcher's part while the program runs: the clock, the memory, and the daemon's presence. It sits outside the
//! namespaces' processes, where nothing confined can reach it.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::WaitPidFlag;
use nix::unistd::Pid;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tool::SandboxTier;

use super::fence::Fence;
use super::group::{Account, Group};
use super::outcome::Outcome;
use super::tally::{Before, Tally};
use super::traffic::{Traffic, spent};
use super::{first, raw, reduced};
use crate::guard::{self, Guard};
use crate::launcher::Control;
use crate::report::{End, Spent};
use crate::spec::Limits;
use crate::status::Status;

/// How often it is looked whether a run that was killed has gone.
const GLANCE: Duration = Duration::from_millis(20);
/// How long the first process may take to kill the others and to say that they have gone. Who is killed with it is not
/// counted in what the run used.
const TIME_TO_SAY: Duration = Duration::from_millis(150);
/// The longest a run may take to vanish after it was killed; past it the report is given without a certain end.
const LONGEST_END: Duration = Duration::from_secs(5);

/// A run to watch.
pub(crate) struct Run {
    pub(crate) tier: SandboxTier,
    /// The first process of the namespaces; where there are none, the one that becomes the program.
    pub(crate) child: Pid,
    /// Where the kernel counts it, if it does.
    pub(crate) group: Option<Group>,
    /// What has everybody it can signal be of its run, where there is no namespace.
    pub(crate) fence: Option<Fence>,
    /// Where that first process says how the program ended.
    pub(crate) outcome: Option<OwnedFd>,
    pub(crate) traffic: Traffic,
    pub(crate) before: Before,
}

/// Waits for a run, watches until nothing of it is left, and says how it ended if somebody is there to be told.
pub(crate) fn until_the_end(run: Run, mut control: Control) -> io::Result<()> {
    let handle = pidfd(run.child)?;
    let begun = wait(&handle, Some(&control), None, None)?;
    // It may be over before its limits are here, or have died without an order. What is to be said is the same.
    let limits = if begun.gone { None } else { control.limits()? };
    let mut watch = match (limits, begun.gone) {
        (Some(limits), _) => Watch::new(run, limits),
        (None, true) => {
            let mut watch = Watch::new(run, Limits::default());
            // Who has said that it is over is waited for once, as ever.
            watch.hear();
            return watch.tell(&mut control);
        }
        (None, false) => return let_go(run),
    };
    loop {
        watch.keep_time();
        let is_heard = watch.why != Some(End::Cancelled);
        let seen =
            wait(&handle, is_heard.then_some(&control), watch.outcome.as_ref(), Some(watch.next_look()))?;
        if seen.told {
            watch.hear();
        }
        if seen.said && control.is_deserted() && guard::stands(Guard::Desertion) {
            watch.end_for(End::Cancelled);
        }
        if seen.gone || watch.is_over() || watch.is_overdue() {
            return watch.tell(&mut control);
        }
        watch.look();
    }
}

/// Ends a launcher that nobody had an order for. What it made goes with it, but for its group.
fn let_go(run: Run) -> io::Result<()> {
    if let Some(group) = run.group {
        kill(run.child, Signal::SIGKILL)?;
        wait_for(run.child)?;
        group.remove();
    }
    Ok(())
}

/// What happened while it was waited for.
struct Happened {
    /// The child has ended.
    gone: bool,
    /// There is something from the daemon, or it has gone.
    said: bool,
    /// The same of the first process.
    told: bool,
}

/// Waits until something happens, or for this long.
fn wait(
    handle: &OwnedFd,
    control: Option<&Control>,
    outcome: Option<&File>,
    longest: Option<Timespec>,
) -> io::Result<Happened> {
    let mut list = vec![PollFd::new(handle, PollFlags::IN)];
    list.extend(control.map(|control| PollFd::new(control, PollFlags::IN)));
    list.extend(outcome.map(|outcome| PollFd::new(outcome, PollFlags::IN)));
    match poll(&mut list, longest.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    let mut events = list.iter().map(|one| !one.revents().is_empty());
    let mut next = |is_asked: bool| is_asked && events.next().unwrap_or(false);
    Ok(Happened { gone: next(true), said: next(control.is_some()), told: next(outcome.is_some()) })
}

/// Reaps a child, once it has ended.
fn wait_for(child: Pid) -> nix::Result<Option<(Pid, i32)>> {
    raw::wait(Some(child), WaitPidFlag::empty())
}

fn pidfd(child: Pid) -> io::Result<OwnedFd> {
    let child = rustix::process::Pid::from_raw(child.as_raw()).ok_or(io::ErrorKind::InvalidInput)?;
    Ok(rustix::process::pidfd_open(child, rustix::process::PidfdFlags::empty())?)
}

struct Watch {
    tier: SandboxTier,
    child: Pid,
    group: Option<Group>,
    fence: Option<Fence>,
    outcome: Option<File>,
    /// What it said.
    told: Option<Outcome>,
    traffic: Traffic,
    limits: Limits,
    deadline: Instant,
    /// Why it is being ended, if it is.
    why: Option<End>,
    /// When everybody in it is killed, after it was asked to end.
    end_at: Option<Instant>,
    /// When its first process is killed, after it was told to kill the others.
    kill_at: Option<Instant>,
    killed_at: Option<Instant>,
    tally: Tally,
}

impl Watch {
    fn new(run: Run, limits: Limits) -> Self {
        let Run { tier, child, group, fence, outcome, traffic, before } = run;
        Watch {
            tier,
            child,
            group,
            fence,
            outcome: outcome.map(File::from),
            told: None,
            traffic,
            limits,
            deadline: Instant::now() + limits.time,
            why: None,
            end_at: None,
            kill_at: None,
            killed_at: None,
            tally: Tally::new(tier, child, before, limits),
        }
    }

    fn keep_time(&mut self) {
        let now = Instant::now();
        if self.why.is_none() && now >= self.deadline {
            self.why = Some(End::TimedOut);
            let _ = kill(self.to_be_asked(), Signal::SIGTERM);
            // From the deadline on, which the caller was told; but who is asked late has some time too.
            self.end_at = Some((self.deadline + self.limits.grace).max(now + self.limits.grace / 2));
        }
        if self.end_at.is_some_and(|at| now >= at) {
            self.have_everybody_ended(now, TIME_TO_SAY);
        }
        if self.kill_at.is_some_and(|at| now >= at) {
            self.kill_everything();
        }
    }

    /// Who is asked to end: the first process, which hands it on, or else the program with its group.
    fn to_be_asked(&self) -> Pid {
        match self.tier {
            SandboxTier::Full => self.child,
            SandboxTier::Reduced | SandboxTier::None => Pid::from_raw(-self.child.as_raw()),
        }
    }

    /// Has its first process kill everybody else and say when they have gone, which it does sooner than it could go
    /// itself. Where there is none, or it says nothing, they are killed from here.
    fn have_everybody_ended(&mut self, now: Instant, patience: Duration) {
        self.end_at = None;
        match self.tier {
            SandboxTier::Full => {
                self.kill_group();
                let _ = kill(self.child, first::END);
                self.kill_at = Some(now + patience);
            }
            SandboxTier::Reduced | SandboxTier::None => self.kill_everything(),
        }
    }

    fn kill_everything(&mut self) {
        (self.end_at, self.kill_at) = (None, None);
        self.kill_group();
        match self.tier {
            // The namespace goes with its first process.
            SandboxTier::Full => {
                self.killed_at.get_or_insert_with(Instant::now);
                let _ = kill(self.child, Signal::SIGKILL);
            }
            SandboxTier::Reduced | SandboxTier::None => self.kill_program_and_descendants(),
        }
    }

    fn kill_program_and_descendants(&mut self) {
        // Once: when it is buried below, its number is anybody's.
        if self.killed_at.is_none() {
            let _ = kill(self.child, Signal::SIGKILL);
            // Most of what a program starts stays in its group.
            let _ = kill(self.to_be_asked(), Signal::SIGKILL);
        }
        let since = *self.killed_at.get_or_insert_with(Instant::now);
        self.kill_descendants(since);
    }

    /// Until a run that was killed at this moment, or ended then, is overdue.
    fn kill_descendants(&self, since: Instant) {
        reduced::kill_descendants(self.fence.as_ref(), since + LONGEST_END);
    }

    fn kill_group(&self) {
        if let Some(group) = self.group.as_ref().filter(|_| guard::stands(Guard::KillGroup)) {
            group.kill();
        }
    }

    /// Ends it now, for this reason unless there was one before.
    fn end_for(&mut self, why: End) {
        if why == End::Cancelled || self.why.is_none() {
            self.why = Some(why);
        }
        match why {
            // Nobody is there to be told anything.
            End::Cancelled => self.kill_everything(),
            // Who took too much would take more.
            _ => self.have_everybody_ended(Instant::now(), GLANCE),
        }
    }

    /// Hears what the first process says, once it says something or has gone.
    fn hear(&mut self) {
        self.told = self.told.or(self.outcome.take().and_then(|mut from| Outcome::hear(&mut from)));
    }

    /// Whether nothing is left of the run, though its first process may be.
    fn is_over(&self) -> bool {
        self.told.is_some_and(|told| told.spent.is_some())
    }

    fn is_overdue(&self) -> bool {
        self.killed_at.is_some_and(|at| at.elapsed() > LONGEST_END)
    }

    fn next_look(&self) -> Timespec {
        let next = match (self.end_at.or(self.kill_at), self.why) {
            (Some(at), _) => at,
            (None, Some(_)) => Instant::now() + GLANCE,
            (None, None) => self.deadline.min(self.tally.next()),
        };
        let wait = next.saturating_duration_since(Instant::now());
        Timespec {
            tv_sec: i64::try_from(wait.as_secs()).unwrap_or(0),
            tv_nsec: i64::from(wait.subsec_nanos()),
        }
    }

    fn look(&mut self) {
        if self.why.is_none()
            && let Some(why) = self.tally.look()
        {
            self.end_for(why);
        }
    }

    /// Says how it ended, before what is left of it is taken away: nobody needs to wait for that.
    fn tell(mut self, control: &mut Control) -> io::Result<()> {
        let status = self.conclude()?;
        // Who went is not told.
        let told = if self.why == Some(End::Cancelled) { Ok(()) } else { control.say(&status) };
        if self.is_over() {
            wait_for(self.child)?;
        }
        if let Some(group) = self.group {
            group.remove();
        }
        told
    }

    /// Reaps, and puts the end together.
    fn conclude(&mut self) -> io::Result<Status> {
        // One that does not vanish would be waited for without end.
        let is_waited_for = !self.is_over() && !self.is_overdue();
        let reaped = is_waited_for.then(|| wait_for(self.child));
        // Neither would what it has to say be there.
        if reaped.is_some() {
            self.hear();
        }
        let told = match (self.told, reaped) {
            (Some(told), _) => Some((told.end, told.processes)),
            (None, Some(Ok(Some((_, end))))) if self.tier != SandboxTier::Full => Some((end, 0)),
            (None, _) => None,
        };
        if self.tier != SandboxTier::Full {
            self.kill_group();
            self.kill_descendants(self.killed_at.unwrap_or_else(Instant::now));
        }
        let account = self.group.as_ref().map_or_else(Account::default, Group::account);
        let end = match (self.why, told) {
            (Some(why), _) => why,
            (None, _) if account.is_out_of_memory => End::OutOfMemory,
            (None, Some((code @ 0.., _))) => End::Exited(code),
            (None, Some((signal, _))) if -signal == libc::SIGSYS => End::Denied,
            (None, Some((signal, _))) => End::Signalled(-signal),
            (None, None) => End::Killed,
        };
        let spent = self.told.and_then(|told| told.spent).map_or_else(|| spent(&self.traffic), Ok)?;
        let processes = told.map_or(0, |(_, processes)| processes);
        let spent = Spent {
            cpu: spent.cpu.max(account.cpu),
            max_rss_bytes: spent.max_rss_bytes.max(self.tally.most_memory).max(account.most_memory),
            processes: processes.max(self.tally.most_processes).max(1),
            ..spent
        };
        Ok(Status::Ended(end, spent))
    }
}
