//! The launcher's part while the program runs: the clock, the memory, and the daemon's presence. It sits outside the
//! namespaces' processes, where nothing confined can reach it.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::waitpid;
use nix::unistd::Pid;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tool::SandboxTier;

use super::traffic::Traffic;
use super::{memory, reduced};
use crate::guard::{self, Guard};
use crate::launcher::Control;
use crate::line;
use crate::report::{End, Spent};
use crate::spec::Spec;
use crate::status::{Problem, Status};

/// How often memory is looked at: a process can take some hundred megabytes in that time.
const GLANCE: Duration = Duration::from_millis(20);
/// The longest a run may take to vanish after it was killed; past it the report is given without a certain end.
const LONGEST_END: Duration = Duration::from_secs(5);

/// Watches until nothing of the run is left, and says how it ended.
pub(crate) fn until_the_end(
    spec: &Spec,
    child: Pid,
    setup: OwnedFd,
    outcome: OwnedFd,
    traffic: &Traffic,
    control: &mut Control,
) -> io::Result<Status> {
    let mut watch = Watch::new(spec, child);
    let handle = pidfd(child)?;
    let mut setup = Some(File::from(setup));
    loop {
        watch.keep_time();
        let wait = watch.next_look();
        let (mut said, mut gone, mut deserted) = (false, false, false);
        {
            let mut list = vec![PollFd::new(&handle, PollFlags::IN)];
            if watch.why != Some(End::Cancelled) {
                list.push(PollFd::new(control, PollFlags::IN));
            }
            if let Some(setup) = &setup {
                list.push(PollFd::new(setup, PollFlags::IN));
            }
            match poll(&mut list, Some(&wait)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            let mut events = list.iter().map(|one| !one.revents().is_empty());
            gone |= events.next().unwrap_or(false);
            if watch.why != Some(End::Cancelled) {
                deserted |= events.next().unwrap_or(false);
            }
            said |= events.next().unwrap_or(false);
        }
        if said {
            watch.hear(&mut setup, control);
        }
        if deserted && control.is_deserted() && guard::stands(Guard::Desertion) {
            watch.end_for(End::Cancelled);
        }
        if gone || watch.is_overdue() {
            watch.hear(&mut setup, control);
            return watch.conclude(outcome, traffic);
        }
        watch.look_at_memory();
    }
}

fn pidfd(child: Pid) -> io::Result<OwnedFd> {
    let child = rustix::process::Pid::from_raw(child.as_raw()).ok_or(io::ErrorKind::InvalidInput)?;
    Ok(rustix::process::pidfd_open(child, rustix::process::PidfdFlags::empty())?)
}

struct Watch<'a> {
    spec: &'a Spec,
    child: Pid,
    deadline: Instant,
    is_running: bool,
    problem: Option<Problem>,
    /// Why it is being ended, if it is.
    why: Option<End>,
    /// When it is killed after it was asked to end.
    kill_at: Option<Instant>,
    killed_at: Option<Instant>,
    looked_at: Instant,
    /// The most that was seen at a time.
    most_memory: u64,
    most_processes: u64,
}

impl<'a> Watch<'a> {
    fn new(spec: &'a Spec, child: Pid) -> Self {
        let now = Instant::now();
        Watch {
            spec,
            child,
            deadline: now + spec.limits.time,
            is_running: false,
            problem: None,
            why: None,
            kill_at: None,
            killed_at: None,
            looked_at: now,
            most_memory: 0,
            most_processes: 0,
        }
    }

    fn keep_time(&mut self) {
        let now = Instant::now();
        if self.why.is_none() && now >= self.deadline {
            self.why = Some(End::TimedOut);
            let _ = kill(self.child, Signal::SIGTERM);
            self.kill_at = Some(now + self.spec.limits.grace);
        }
        if self.kill_at.is_some_and(|at| now >= at) {
            self.kill_everything();
        }
    }

    fn kill_everything(&mut self) {
        self.kill_at = None;
        self.killed_at.get_or_insert_with(Instant::now);
        let _ = kill(self.child, Signal::SIGKILL);
        match self.spec.tier {
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

    /// What the set-up said: nothing at its end means that the program runs.
    fn hear(&mut self, setup: &mut Option<File>, control: &mut Control) {
        let Some(mut from) = setup.take() else { return };
        let mut bytes = Vec::new();
        let _ = from.read_to_end(&mut bytes);
        match bytes.get(line::HEAD..).map(Status::read) {
            Some(Ok(Status::Failed(problem))) => self.problem = Some(problem),
            _ => {
                self.is_running = true;
                let _ = control.say(&Status::Started);
            }
        }
    }

    fn look_at_memory(&mut self) {
        if self.why.is_some() || self.looked_at.elapsed() < GLANCE {
            return;
        }
        // Also where there is nothing to look at yet: the next look is what is waited for.
        self.looked_at = Instant::now();
        if !self.is_running {
            return;
        }
        let (processes, scratch) = match self.spec.tier {
            SandboxTier::Full => (memory::processes_here(), memory::scratch_here()),
            SandboxTier::Reduced | SandboxTier::None => (reduced::descendants(), 0),
        };
        let (most, room) =
            (self.spec.limits.memory_bytes, self.spec.limits.memory_bytes.saturating_sub(scratch));
        let used = scratch + memory::of_all(&processes, room);
        let running = match self.spec.tier {
            // The kernel counts those, threads and all.
            SandboxTier::Full => processes.len() as u64,
            SandboxTier::Reduced | SandboxTier::None => {
                processes.iter().map(|one| reduced::threads(*one)).sum()
            }
        };
        // The first process is among them, and no part of what was granted.
        let running = running.saturating_sub(1);
        (self.most_memory, self.most_processes) =
            (self.most_memory.max(used), self.most_processes.max(running));
        if used > most && guard::stands(Guard::MemoryWatch) {
            self.end_for(End::OutOfMemory);
        } else if self.spec.tier != SandboxTier::Full && running > self.spec.limits.processes {
            self.end_for(End::TooManyProcesses);
        }
    }

    /// Reaps, and puts the end together.
    fn conclude(mut self, outcome: OwnedFd, traffic: &Traffic) -> io::Result<Status> {
        if self.spec.tier != SandboxTier::Full {
            reduced::kill_descendants();
        }
        if !self.is_overdue() {
            let _ = waitpid(self.child, None);
        }
        if let Some(problem) = self.problem.take() {
            return Ok(Status::Failed(problem));
        }
        let told = heard(&mut File::from(outcome));
        let end = match (self.why, told) {
            (Some(why), _) => why,
            (None, Some((code @ 0.., _))) => End::Exited(code),
            (None, Some((signal, _))) if -signal == libc::SIGSYS => End::Denied,
            (None, Some((signal, _))) => End::Signalled(-signal),
            (None, None) => End::Killed,
        };
        let spent = spent(traffic)?;
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
