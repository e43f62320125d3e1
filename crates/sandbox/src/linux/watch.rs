//! Watcher of a run, in the launcher: enforces the deadline and the memory limit, and ends the run when the
//! daemon disconnects. It runs outside the namespaces, where no confined process can reach it.

pub(crate) mod address_spaces;
pub(crate) mod descendants;
pub(crate) mod io_usage;
pub(crate) mod kernel_memory;
pub(crate) mod memory;
pub(crate) mod proportional_memory;
pub(crate) mod usage;

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::WaitPidFlag;
use nix::unistd::Pid;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tool::SandboxTier;

use crate::launch::launcher::Control;
use crate::launch::spec::Limits;
use crate::launch::status::Status;
use crate::layers::{self, Guard};
use crate::linux::cgroup::{Account, Group};
use crate::linux::init;
use crate::linux::init::report::Outcome;
use crate::linux::raw_syscalls;
use crate::linux::watch::descendants::Fence;
use crate::linux::watch::io_usage::{Traffic, spent};
use crate::linux::watch::usage::{Before, Tally};
use crate::report::{End, Spent};

/// Interval between checks if a killed run is gone.
const GLANCE: Duration = Duration::from_millis(20);
/// Time that the init process has to kill the other processes and to report that they are gone. Processes
/// that are killed together with the init process are missing from the resource usage.
const TIME_TO_SAY: Duration = Duration::from_millis(150);
/// Longest time for a killed run to vanish; after it the report is sent without a confirmed end.
const LONGEST_END: Duration = Duration::from_secs(5);

/// A run to watch.
pub(crate) struct Run {
    pub(crate) tier: SandboxTier,
    /// Init process of the namespaces; without namespaces, the process that becomes the program.
    pub(crate) child: Pid,
    /// Control group in which the kernel counts the run, if there is one.
    pub(crate) group: Option<Group>,
    /// Signal scope that limits this launcher to its own descendants, where there is no PID namespace.
    pub(crate) fence: Option<Fence>,
    /// Pipe on which the init process reports how the program ended.
    pub(crate) outcome: Option<OwnedFd>,
    pub(crate) traffic: Traffic,
    pub(crate) before: Before,
}

/// Waits for a run request, watches the run until nothing of it is left, and reports how it ended if the
/// daemon is still connected.
pub(crate) fn until_the_end(run: Run, mut control: Control) -> io::Result<()> {
    let handle = pidfd(run.child)?;
    let begun = wait(&handle, Some(&control), None, None)?;
    // The run may be over before its limits arrive, or have died without a request. The report is the same in
    // both cases.
    let limits = if begun.gone { None } else { control.limits()? };
    let mut watch = match (limits, begun.gone) {
        (Some(limits), _) => Watch::new(run, limits),
        (None, true) => {
            let mut watch = Watch::new(run, Limits::default());
            // Received before `conclude`, so that the child is reaped exactly once.
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
        if seen.said && control.is_deserted() && layers::stands(Guard::Desertion) {
            watch.end_for(End::Cancelled);
        }
        if seen.gone || watch.is_over() || watch.is_overdue() {
            return watch.tell(&mut control);
        }
        watch.look();
    }
}

/// Ends a launcher that received no request. The kernel removes everything it created except its control
/// group.
fn let_go(run: Run) -> io::Result<()> {
    if let Some(group) = run.group {
        kill(run.child, Signal::SIGKILL)?;
        wait_for(run.child)?;
        group.remove();
    }
    Ok(())
}

/// Events of one wait.
struct Happened {
    /// The child has ended.
    gone: bool,
    /// The daemon sent data or disconnected.
    said: bool,
    /// The init process sent its report or is gone.
    told: bool,
}

/// Waits until an event occurs or the timeout passes.
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

/// Waits for the end of a child and reaps it.
fn wait_for(child: Pid) -> nix::Result<Option<(Pid, i32)>> {
    raw_syscalls::wait(Some(child), WaitPidFlag::empty())
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
    /// Report of the init process.
    told: Option<Outcome>,
    traffic: Traffic,
    limits: Limits,
    deadline: Instant,
    /// Reason why the run is being ended, if it is.
    why: Option<End>,
    /// Time at which all processes are killed, after the request to terminate.
    end_at: Option<Instant>,
    /// Time at which the init process is killed, after it was asked to kill the others.
    kill_at: Option<Instant>,
    killed_at: Option<Instant>,
    tally: Tally,
}

impl Watch {
    fn new(run: Run, limits: Limits) -> Self {
        let Run { tier, child, group, fence, outcome, traffic, before } = run;
        let deadline = Instant::now() + limits.time;
        Watch {
            tier,
            child,
            group,
            fence,
            outcome: outcome.map(File::from),
            told: None,
            traffic,
            limits,
            deadline,
            why: None,
            end_at: None,
            kill_at: None,
            killed_at: None,
            tally: Tally::new(tier, child, before, limits, deadline),
        }
    }

    fn keep_time(&mut self) {
        let now = Instant::now();
        if self.why.is_none() && now >= self.deadline {
            self.why = Some(End::TimedOut);
            let _ = kill(self.to_be_asked(), Signal::SIGTERM);
            // The grace period starts at the deadline that the caller knows, but a request that is sent late
            // still leaves half of it.
            self.end_at = Some((self.deadline + self.limits.grace).max(now + self.limits.grace / 2));
        }
        if self.end_at.is_some_and(|at| now >= at) {
            self.have_everybody_ended(now, TIME_TO_SAY);
        }
        if self.kill_at.is_some_and(|at| now >= at) {
            self.kill_everything();
        }
    }

    /// Returns the target of the request to terminate: the init process, which forwards it, or else the
    /// process group of the program.
    fn to_be_asked(&self) -> Pid {
        match self.tier {
            SandboxTier::Full => self.child,
            SandboxTier::Reduced | SandboxTier::None => Pid::from_raw(-self.child.as_raw()),
        }
    }

    /// Asks the init process to kill all others and to report when they are gone, which is faster than its
    /// own exit. Without an init process, or if it does not report in time, the launcher kills them itself.
    fn have_everybody_ended(&mut self, now: Instant, patience: Duration) {
        self.end_at = None;
        match self.tier {
            SandboxTier::Full => {
                self.kill_group();
                let _ = kill(self.child, init::END);
                self.kill_at = Some(now + patience);
            }
            SandboxTier::Reduced | SandboxTier::None => self.kill_everything(),
        }
    }

    fn kill_everything(&mut self) {
        (self.end_at, self.kill_at) = (None, None);
        self.kill_group();
        match self.tier {
            // The namespace ends with its init process.
            SandboxTier::Full => {
                self.killed_at.get_or_insert_with(Instant::now);
                let _ = kill(self.child, Signal::SIGKILL);
            }
            SandboxTier::Reduced | SandboxTier::None => self.kill_program_and_descendants(),
        }
    }

    fn kill_program_and_descendants(&mut self) {
        // Only once: after the child has been reaped below, another process may get its id.
        if self.killed_at.is_none() {
            let _ = kill(self.child, Signal::SIGKILL);
            // Most processes that a program starts stay in its process group.
            let _ = kill(self.to_be_asked(), Signal::SIGKILL);
        }
        let since = *self.killed_at.get_or_insert_with(Instant::now);
        self.kill_descendants(since);
    }

    /// Kills all descendants until a run that was killed or ended at `since` is overdue.
    fn kill_descendants(&self, since: Instant) {
        descendants::kill_descendants(self.fence.as_ref(), since + LONGEST_END);
    }

    fn kill_group(&self) {
        if let Some(group) = self.group.as_ref().filter(|_| layers::stands(Guard::KillGroup)) {
            group.kill();
        }
    }

    /// Ends the run now, for this reason unless there already is one.
    fn end_for(&mut self, why: End) {
        if why == End::Cancelled || self.why.is_none() {
            self.why = Some(why);
        }
        match why {
            // The daemon is gone, so no report is needed.
            End::Cancelled => self.kill_everything(),
            // A run over its limits would go on taking more, so it gets no grace period.
            _ => self.have_everybody_ended(Instant::now(), GLANCE),
        }
    }

    /// Reads the report of the init process, which has arrived or will never arrive.
    fn hear(&mut self) {
        self.told = self.told.or(self.outcome.take().and_then(|mut from| Outcome::hear(&mut from)));
    }

    /// Returns true if nothing of the run is left, apart from the init process.
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

    /// Sends the report before removing the leftovers of the run, so that the caller does not wait for that.
    fn tell(mut self, control: &mut Control) -> io::Result<()> {
        let status = self.conclude()?;
        // After a cancellation the daemon is no longer connected.
        let told = if self.why == Some(End::Cancelled) { Ok(()) } else { control.say(&status) };
        if self.is_over() {
            wait_for(self.child)?;
        }
        if let Some(group) = self.group {
            group.remove();
        }
        told
    }

    /// Reaps the child and composes the final status.
    fn conclude(&mut self) -> io::Result<Status> {
        // A process that does not vanish would block this wait forever.
        let is_waited_for = !self.is_over() && !self.is_overdue();
        let reaped = is_waited_for.then(|| wait_for(self.child));
        // Without a reaped child, reading its report could block as well.
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
