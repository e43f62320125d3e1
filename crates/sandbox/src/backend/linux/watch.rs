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

use super::reduced;
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
const PAGE: u64 = 4096;
const BLOCK: u64 = 512;

/// Watches until nothing of the run is left, and says how it ended.
pub(crate) fn until_the_end(
    spec: &Spec,
    child: Pid,
    setup: OwnedFd,
    outcome: OwnedFd,
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
            return watch.conclude(outcome);
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
        if !self.is_running || self.why.is_some() || self.looked_at.elapsed() < GLANCE {
            return;
        }
        self.looked_at = Instant::now();
        let (used, processes) = match self.spec.tier {
            SandboxTier::Full => (memory_here() + scratch_here(), 0),
            SandboxTier::Reduced | SandboxTier::None => reduced::used_by_descendants(),
        };
        if used > self.spec.limits.memory_bytes && guard::stands(Guard::MemoryWatch) {
            self.end_for(End::OutOfMemory);
        } else if processes > self.spec.limits.processes + 1 {
            self.end_for(End::TooManyProcesses);
        }
    }

    /// Reaps, and puts the end together.
    fn conclude(mut self, outcome: OwnedFd) -> io::Result<Status> {
        if self.spec.tier != SandboxTier::Full {
            reduced::kill_descendants();
        }
        if !self.is_overdue() {
            let _ = waitpid(self.child, None);
        }
        if let Some(problem) = self.problem.take() {
            return Ok(Status::Failed(problem));
        }
        let mut word = [0; 4];
        let told = File::from(outcome).read_exact(&mut word).is_ok();
        let end = match (self.why, told, i32::from_le_bytes(word)) {
            (Some(why), _, _) => why,
            (None, true, code @ 0..) => End::Exited(code),
            (None, true, signal) => End::Signalled(-signal),
            (None, false, _) => End::Killed,
        };
        Ok(Status::Ended(end, spent()?))
    }
}

/// What everybody who was reaped has used.
fn spent() -> io::Result<Spent> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let time = |value: nix::sys::time::TimeVal| {
        let seconds = u64::try_from(value.tv_sec()).unwrap_or(0);
        Duration::from_secs(seconds) + Duration::from_micros(u64::try_from(value.tv_usec()).unwrap_or(0))
    };
    let count = |value: i64| u64::try_from(value).unwrap_or(0);
    Ok(Spent {
        cpu: time(usage.user_time()) + time(usage.system_time()),
        max_rss_bytes: count(usage.max_rss()) * 1024,
        read_bytes: count(usage.block_reads()) * BLOCK,
        written_bytes: count(usage.block_writes()) * BLOCK,
    })
}

/// The memory of every process that `/proc` shows, which in these namespaces is every process of the run.
fn memory_here() -> u64 {
    let Ok(entries) = std::fs::read_dir("/proc") else { return 0 };
    let ids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    ids.map(memory_of).sum()
}

/// What only this process has: resident pages that are no file's.
pub(crate) fn memory_of(process: i32) -> u64 {
    let Ok(text) = std::fs::read_to_string(format!("/proc/{process}/statm")) else { return 0 };
    let mut numbers = text.split(' ').map(|word| word.parse::<u64>().unwrap_or(0));
    let (resident, shared) = (numbers.nth(1).unwrap_or(0), numbers.next().unwrap_or(0));
    resident.saturating_sub(shared) * PAGE
}

/// What the scratch space holds: it is memory too.
fn scratch_here() -> u64 {
    let used = |path: &str| {
        let space = rustix::fs::statvfs(path).ok()?;
        Some(space.f_blocks.saturating_sub(space.f_bfree) * space.f_frsize)
    };
    ["/tmp", "/dev/shm"].into_iter().filter_map(used).sum()
}
