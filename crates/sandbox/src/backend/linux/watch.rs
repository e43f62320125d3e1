//! The launcher's part while the program runs: the clock, the memory, and the daemon's presence. It sits outside the
//! namespaces' processes, where nothing confined can reach it.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tool::SandboxTier;

use super::held::Held;
use super::traffic::Traffic;
use super::{memory, reduced};
use crate::guard::{self, Guard};
use crate::launcher::Control;
use crate::report::{End, Spent};
use crate::spec::Limits;
use crate::status::Status;

/// How often memory is looked at: a process can take some hundred megabytes in that time.
const GLANCE: Duration = Duration::from_millis(20);
/// The longest a run may take to vanish after it was killed; past it the report is given without a certain end.
const LONGEST_END: Duration = Duration::from_secs(5);

/// A run to watch.
pub(crate) struct Run {
    pub(crate) tier: SandboxTier,
    /// The first process of the namespaces; where there are none, the one that becomes the program.
    pub(crate) child: Pid,
    /// Where that first process says how the program ended.
    pub(crate) outcome: Option<OwnedFd>,
    pub(crate) traffic: Traffic,
    pub(crate) scratch: memory::Scratch,
}

/// Waits for a run, watches until nothing of it is left, and says how it ended if somebody is there to be told.
pub(crate) fn until_the_end(run: Run, mut control: Control) -> io::Result<()> {
    let handle = pidfd(run.child)?;
    let begun = wait(&handle, Some(&control), None)?;
    // It may be over before its limits are here, or have died without an order. What is to be said is the same.
    let limits = if begun.gone { None } else { control.limits()? };
    let mut watch = match (limits, begun.gone) {
        (Some(limits), _) => Watch::new(run, limits),
        (None, true) => return control.say(&Watch::new(run, Limits::default()).conclude()?),
        (None, false) => return Ok(()),
    };
    loop {
        watch.keep_time();
        let is_heard = watch.why != Some(End::Cancelled);
        let seen = wait(&handle, is_heard.then_some(&control), Some(watch.next_look()))?;
        if seen.said && control.is_deserted() && guard::stands(Guard::Desertion) {
            watch.end_for(End::Cancelled);
        }
        if seen.gone || watch.is_overdue() {
            return match watch.why {
                // Nobody is there to be told.
                Some(End::Cancelled) => watch.conclude().map(drop),
                _ => control.say(&watch.conclude()?),
            };
        }
        watch.look_at_memory();
    }
}

/// What happened while it was waited for.
struct Happened {
    /// The child has ended.
    gone: bool,
    /// There is something from the daemon, or it has gone.
    said: bool,
}

/// Waits until something happens, or for this long.
fn wait(handle: &OwnedFd, control: Option<&Control>, longest: Option<Timespec>) -> io::Result<Happened> {
    let mut list = vec![PollFd::new(handle, PollFlags::IN)];
    list.extend(control.map(|control| PollFd::new(control, PollFlags::IN)));
    match poll(&mut list, longest.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    let mut events = list.iter().map(|one| !one.revents().is_empty());
    Ok(Happened { gone: events.next().unwrap_or(false), said: events.next().unwrap_or(false) })
}

fn pidfd(child: Pid) -> io::Result<OwnedFd> {
    let child = rustix::process::Pid::from_raw(child.as_raw()).ok_or(io::ErrorKind::InvalidInput)?;
    Ok(rustix::process::pidfd_open(child, rustix::process::PidfdFlags::empty())?)
}

struct Watch {
    run: Run,
    limits: Limits,
    deadline: Instant,
    /// Why it is being ended, if it is.
    why: Option<End>,
    /// When it is killed after it was asked to end.
    kill_at: Option<Instant>,
    killed_at: Option<Instant>,
    looked_at: Instant,
    /// The most that was seen at a time.
    most_memory: u64,
    most_processes: u64,
    held: Held,
}

impl Watch {
    fn new(run: Run, limits: Limits) -> Self {
        let now = Instant::now();
        Watch {
            run,
            limits,
            deadline: now + limits.time,
            why: None,
            kill_at: None,
            killed_at: None,
            looked_at: now,
            most_memory: 0,
            most_processes: 0,
            held: Held::default(),
        }
    }

    fn keep_time(&mut self) {
        let now = Instant::now();
        if self.why.is_none() && now >= self.deadline {
            self.why = Some(End::TimedOut);
            let _ = kill(self.to_be_asked(), Signal::SIGTERM);
            self.kill_at = Some(now + self.limits.grace);
        }
        if self.kill_at.is_some_and(|at| now >= at) {
            self.kill_everything();
        }
    }

    /// Who is asked to end: the first process, which hands it on, or else the program with its group.
    fn to_be_asked(&self) -> Pid {
        match self.run.tier {
            SandboxTier::Full => self.run.child,
            SandboxTier::Reduced | SandboxTier::None => Pid::from_raw(-self.run.child.as_raw()),
        }
    }

    fn kill_everything(&mut self) {
        self.kill_at = None;
        self.killed_at.get_or_insert_with(Instant::now);
        let _ = kill(self.run.child, Signal::SIGKILL);
        match self.run.tier {
            // The namespace goes with its first process.
            SandboxTier::Full => {}
            SandboxTier::Reduced | SandboxTier::None => reduced::kill_descendants(),
        }
    }

    /// Ends it now, for this reason unless there was one before.
    fn end_for(&mut self, why: End) {
        if why == End::Cancelled || self.why.is_none() {
            self.why = Some(why);
        }
        self.kill_everything();
    }

    fn is_overdue(&self) -> bool {
        self.killed_at.is_some_and(|at| at.elapsed() > LONGEST_END)
    }

    fn next_look(&self) -> Timespec {
        let next = match (self.kill_at, self.why) {
            (Some(at), _) => at,
            (None, Some(_)) => Instant::now() + GLANCE,
            (None, None) => self.deadline.min(self.looked_at + GLANCE),
        };
        let wait = next.saturating_duration_since(Instant::now());
        Timespec {
            tv_sec: i64::try_from(wait.as_secs()).unwrap_or(0),
            tv_nsec: i64::from(wait.subsec_nanos()),
        }
    }

    fn look_at_memory(&mut self) {
        if self.why.is_some() || self.looked_at.elapsed() < GLANCE {
            return;
        }
        self.looked_at = Instant::now();
        let (processes, scratch) = match self.run.tier {
            SandboxTier::Full => (memory::processes_here(), self.run.scratch.used()),
            SandboxTier::Reduced | SandboxTier::None => (reduced::descendants(), 0),
        };
        let most = self.limits.memory_bytes;
        let apart = scratch + guard::held(Guard::HeldWatch, self.held.look_on(&processes));
        let used = apart + memory::of_all(&processes, most.saturating_sub(apart));
        let running = match self.run.tier {
            // The kernel counts threads and all. The first process is among them, and no part of what was granted.
            SandboxTier::Full => (processes.len() as u64).saturating_sub(1),
            SandboxTier::Reduced | SandboxTier::None => {
                processes.iter().map(|one| reduced::threads(*one)).sum()
            }
        };
        (self.most_memory, self.most_processes) =
            (self.most_memory.max(used), self.most_processes.max(running));
        if used > most && guard::stands(Guard::MemoryWatch) {
            self.end_for(End::OutOfMemory);
        } else if self.held.is_evaded() && guard::stands(Guard::HeldWatch) {
            self.end_for(End::Denied);
        } else if self.run.tier != SandboxTier::Full && running > self.limits.processes {
            self.end_for(End::TooManyProcesses);
        }
    }

    /// Reaps, and puts the end together.
    fn conclude(mut self) -> io::Result<Status> {
        // One that does not vanish would be waited for without end.
        let reaped = (!self.is_overdue()).then(|| waitpid(self.run.child, None));
        let told = match (self.run.outcome.take(), reaped) {
            (Some(outcome), _) => heard(&mut File::from(outcome)),
            (None, Some(Ok(WaitStatus::Exited(_, code)))) => Some((code, 0)),
            (None, Some(Ok(WaitStatus::Signaled(_, signal, _)))) => Some((-(signal as i32), 0)),
            (None, _) => None,
        };
        if self.run.tier != SandboxTier::Full {
            reduced::kill_descendants();
        }
        let end = match (self.why, told) {
            (Some(why), _) => why,
            (None, Some((code @ 0.., _))) => End::Exited(code),
            (None, Some((signal, _))) if -signal == libc::SIGSYS => End::Denied,
            (None, Some((signal, _))) => End::Signalled(-signal),
            (None, None) => End::Killed,
        };
        let spent = spent(&self.run.traffic)?;
        let processes = told.map_or(0, |(_, processes)| u64::try_from(processes).unwrap_or(0));
        Ok(Status::Ended(
            end,
            Spent {
                max_rss_bytes: spent.max_rss_bytes.max(self.most_memory),
                processes: processes.max(self.most_processes).max(1),
                ..spent
            },
        ))
    }
}

/// What the first process said: how the program ended as the kernel writes it, and how many processes there were.
fn heard(from: &mut impl Read) -> Option<(i32, i32)> {
    let (mut end, mut processes) = ([0; 4], [0; 4]);
    from.read_exact(&mut end).ok()?;
    from.read_exact(&mut processes).ok()?;
    Some((i32::from_le_bytes(end), i32::from_le_bytes(processes)))
}

/// What everybody who was reaped has used.
fn spent(traffic: &Traffic) -> io::Result<Spent> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let time = |value: nix::sys::time::TimeVal| {
        let seconds = u64::try_from(value.tv_sec()).unwrap_or(0);
        Duration::from_secs(seconds) + Duration::from_micros(u64::try_from(value.tv_usec()).unwrap_or(0))
    };
    let (read_bytes, written_bytes) = traffic.of_descendants();
    Ok(Spent {
        cpu: time(usage.user_time()) + time(usage.system_time()),
        max_rss_bytes: u64::try_from(usage.max_rss()).unwrap_or(0) * 1024,
        read_bytes,
        written_bytes,
        processes: 0,
    })
}
