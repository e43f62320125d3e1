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
use tool::result::SandboxTier;

use crate::launch::launcher::ControlChannel;
use crate::launch::spec::RunLimits;
use crate::launch::status::LauncherStatus;
use crate::layers::{self, SandboxLayer};
use crate::linux::cgroup::{CgroupUsage, RunCgroup};
use crate::linux::init;
use crate::linux::init::report::InitReport;
use crate::linux::raw_syscalls;
use crate::linux::watcher::descendants::SignalScope;
use crate::linux::watcher::io_usage::{IoCounters, children_usage};
use crate::linux::watcher::usage::{MonitorBaseline, UsageMonitor};
use crate::report::{ResourceUsage, RunEnd};

/// Interval between checks whether a killed run has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Time that the init process has to kill the other processes and to report that they have ended. Processes
/// that are killed together with the init process are missing from the resource usage.
const INIT_REPORT_TIMEOUT: Duration = Duration::from_millis(150);
/// Longest time for a killed run to vanish; after it the report is sent without a confirmed end.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);

/// A run to watch.
pub(crate) struct WatchedRun {
    pub(crate) tier: SandboxTier,
    /// Init process of the namespaces; without namespaces, the process that becomes the program.
    pub(crate) child: Pid,
    /// Control group in which the kernel counts the run, if there is one.
    pub(crate) group: Option<RunCgroup>,
    /// Signal scope that limits this launcher to its own descendants, where there is no PID namespace.
    pub(crate) signal_scope: Option<SignalScope>,
    /// Pipe on which the init process reports how the program ended.
    pub(crate) init_pipe: Option<OwnedFd>,
    pub(crate) io_counters: IoCounters,
    pub(crate) baseline: MonitorBaseline,
}

/// Waits for a run request, watches the run until nothing of it is left, and reports how it ended if the
/// daemon is still connected.
pub(crate) fn watch_until_end(run: WatchedRun, mut control: ControlChannel) -> io::Result<()> {
    let handle = open_pidfd(run.child)?;
    let begun = wait(&handle, Some(&control), None, None)?;
    // The run may be over before its limits arrive, or have died without a request. The report is the same in
    // both cases.
    let limits = if begun.child_ended { None } else { control.receive_limits()? };
    let mut watch = match (limits, begun.child_ended) {
        (Some(limits), _) => RunWatcher::new(run, limits),
        (None, true) => {
            let mut watch = RunWatcher::new(run, RunLimits::default());
            // Received before `conclude`, so that the child is reaped exactly once.
            watch.receive_init_report();
            return watch.report(&mut control);
        }
        (None, false) => return release(run),
    };
    loop {
        watch.enforce_deadline();
        let is_received = watch.reason != Some(RunEnd::Cancelled);
        let seen = wait(
            &handle,
            is_received.then_some(&control),
            watch.init_pipe.as_ref(),
            Some(watch.next_timeout()),
        )?;
        if seen.report_ready {
            watch.receive_init_report();
        }
        if seen.control_ready
            && control.is_disconnected()
            && layers::is_enabled(SandboxLayer::DaemonDisconnect)
        {
            watch.end_run(RunEnd::Cancelled);
        }
        if seen.child_ended || watch.is_over() || watch.is_overdue() {
            return watch.report(&mut control);
        }
        watch.sample();
    }
}

/// Ends a launcher that received no request. The kernel removes everything it created except its control
/// group.
fn release(run: WatchedRun) -> io::Result<()> {
    if let Some(group) = run.group {
        kill(run.child, Signal::SIGKILL)?;
        reap(run.child)?;
        group.remove();
    }
    Ok(())
}

/// Events of one wait.
struct PollEvents {
    /// The child has ended.
    child_ended: bool,
    /// The daemon sent data or disconnected.
    control_ready: bool,
    /// The init process sent its report or has ended.
    report_ready: bool,
}

/// Waits until an event occurs or the timeout passes.
fn wait(
    handle: &OwnedFd,
    control: Option<&ControlChannel>,
    outcome: Option<&File>,
    longest: Option<Timespec>,
) -> io::Result<PollEvents> {
    let mut list = vec![PollFd::new(handle, PollFlags::IN)];
    list.extend(control.map(|control| PollFd::new(control, PollFlags::IN)));
    list.extend(outcome.map(|outcome| PollFd::new(outcome, PollFlags::IN)));
    match poll(&mut list, longest.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    let mut events = list.iter().map(|one| !one.revents().is_empty());
    let mut next = |is_polled: bool| is_polled && events.next().unwrap_or(false);
    Ok(PollEvents {
        child_ended: next(true),
        control_ready: next(control.is_some()),
        report_ready: next(outcome.is_some()),
    })
}

/// Waits for the end of a child and reaps it.
fn reap(child: Pid) -> nix::Result<Option<(Pid, i32)>> {
    raw_syscalls::wait(Some(child), WaitPidFlag::empty())
}

fn open_pidfd(child: Pid) -> io::Result<OwnedFd> {
    let child = rustix::process::Pid::from_raw(child.as_raw()).ok_or(io::ErrorKind::InvalidInput)?;
    Ok(rustix::process::pidfd_open(child, rustix::process::PidfdFlags::empty())?)
}

struct RunWatcher {
    tier: SandboxTier,
    child: Pid,
    group: Option<RunCgroup>,
    signal_scope: Option<SignalScope>,
    init_pipe: Option<File>,
    /// Report of the init process.
    init_report: Option<InitReport>,
    io_counters: IoCounters,
    limits: RunLimits,
    deadline: Instant,
    /// Reason why the run is being ended, if it is.
    reason: Option<RunEnd>,
    /// Time at which all processes are killed, after the request to terminate.
    kill_all_at: Option<Instant>,
    /// Time at which the init process is killed, after it was asked to kill the others.
    kill_init_at: Option<Instant>,
    killed_at: Option<Instant>,
    monitor: UsageMonitor,
}

impl RunWatcher {
    fn new(run: WatchedRun, limits: RunLimits) -> Self {
        let WatchedRun { tier, child, group, signal_scope, init_pipe, io_counters, baseline } = run;
        let deadline = Instant::now() + limits.time;
        RunWatcher {
            tier,
            child,
            group,
            signal_scope,
            init_pipe: init_pipe.map(File::from),
            init_report: None,
            io_counters,
            limits,
            deadline,
            reason: None,
            kill_all_at: None,
            kill_init_at: None,
            killed_at: None,
            monitor: UsageMonitor::new(tier, child, baseline, limits, deadline),
        }
    }

    fn enforce_deadline(&mut self) {
        let now = Instant::now();
        if self.reason.is_none() && now >= self.deadline {
            self.reason = Some(RunEnd::TimedOut);
            let _ = kill(self.termination_target(), Signal::SIGTERM);
            // The grace period starts at the deadline that the caller knows, but a request that is sent late
            // still leaves half of it.
            self.kill_all_at = Some((self.deadline + self.limits.grace).max(now + self.limits.grace / 2));
        }
        if self.kill_all_at.is_some_and(|at| now >= at) {
            self.request_kill_all(now, INIT_REPORT_TIMEOUT);
        }
        if self.kill_init_at.is_some_and(|at| now >= at) {
            self.kill_everything();
        }
    }

    /// Returns the target of the request to terminate: the init process, which forwards it, or else the
    /// process group of the program.
    fn termination_target(&self) -> Pid {
        match self.tier {
            SandboxTier::Full => self.child,
            SandboxTier::Reduced | SandboxTier::None => Pid::from_raw(-self.child.as_raw()),
        }
    }

    /// Requests that the init process kills all others and reports when they have ended, which is faster than
    /// its own exit. Without an init process, or if it does not report in time, the launcher kills them
    /// itself.
    fn request_kill_all(&mut self, now: Instant, timeout: Duration) {
        self.kill_all_at = None;
        match self.tier {
            SandboxTier::Full => {
                self.kill_group();
                let _ = kill(self.child, init::KILL_ALL_SIGNAL);
                self.kill_init_at = Some(now + timeout);
            }
            SandboxTier::Reduced | SandboxTier::None => self.kill_everything(),
        }
    }

    fn kill_everything(&mut self) {
        (self.kill_all_at, self.kill_init_at) = (None, None);
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
            let _ = kill(self.termination_target(), Signal::SIGKILL);
        }
        let since = *self.killed_at.get_or_insert_with(Instant::now);
        self.kill_descendants(since);
    }

    /// Kills all descendants until a run that was killed or ended at `since` is overdue.
    fn kill_descendants(&self, since: Instant) {
        descendants::kill_descendants(self.signal_scope.as_ref(), since + KILL_TIMEOUT);
    }

    fn kill_group(&self) {
        if let Some(group) = self.group.as_ref().filter(|_| layers::is_enabled(SandboxLayer::CgroupKill)) {
            group.kill();
        }
    }

    /// Ends the run now, for this reason unless there already is one.
    fn end_run(&mut self, why: RunEnd) {
        if why == RunEnd::Cancelled || self.reason.is_none() {
            self.reason = Some(why);
        }
        match why {
            // The daemon has ended, so no report is needed.
            RunEnd::Cancelled => self.kill_everything(),
            // A run over its limits would go on taking more, so it gets no grace period.
            _ => self.request_kill_all(Instant::now(), POLL_INTERVAL),
        }
    }

    /// Reads the report of the init process, which has arrived or will never arrive.
    fn receive_init_report(&mut self) {
        self.init_report =
            self.init_report.or(self.init_pipe.take().and_then(|mut from| InitReport::read_from(&mut from)));
    }

    /// Returns true if nothing of the run is left, apart from the init process.
    fn is_over(&self) -> bool {
        self.init_report.is_some_and(|reported| reported.spent.is_some())
    }

    fn is_overdue(&self) -> bool {
        self.killed_at.is_some_and(|at| at.elapsed() > KILL_TIMEOUT)
    }

    fn next_timeout(&self) -> Timespec {
        let next = match (self.kill_all_at.or(self.kill_init_at), self.reason) {
            (Some(at), _) => at,
            (None, Some(_)) => Instant::now() + POLL_INTERVAL,
            (None, None) => self.deadline.min(self.monitor.next_sample()),
        };
        let wait = next.saturating_duration_since(Instant::now());
        Timespec {
            tv_sec: i64::try_from(wait.as_secs()).unwrap_or(0),
            tv_nsec: i64::from(wait.subsec_nanos()),
        }
    }

    fn sample(&mut self) {
        if self.reason.is_none()
            && let Some(why) = self.monitor.continue_scan()
        {
            self.end_run(why);
        }
    }

    /// Sends the report before removing the leftovers of the run, so that the caller does not wait for that.
    fn report(mut self, control: &mut ControlChannel) -> io::Result<()> {
        let status = self.conclude()?;
        // After a cancellation the daemon is no longer connected.
        let reported = if self.reason == Some(RunEnd::Cancelled) { Ok(()) } else { control.send(&status) };
        if self.is_over() {
            reap(self.child)?;
        }
        if let Some(group) = self.group {
            group.remove();
        }
        reported
    }

    /// Reaps the child and composes the final status.
    fn conclude(&mut self) -> io::Result<LauncherStatus> {
        // A process that does not vanish would block this wait forever.
        let is_waited_for = !self.is_over() && !self.is_overdue();
        let reaped = is_waited_for.then(|| reap(self.child));
        // Without a reaped child, reading its report could block as well.
        if reaped.is_some() {
            self.receive_init_report();
        }
        let reported = match (self.init_report, reaped) {
            (Some(reported), _) => Some((reported.end, reported.processes)),
            (None, Some(Ok(Some((_, end))))) if self.tier != SandboxTier::Full => Some((end, 0)),
            (None, _) => None,
        };
        if self.tier != SandboxTier::Full {
            self.kill_group();
            self.kill_descendants(self.killed_at.unwrap_or_else(Instant::now));
        }
        let account = self.group.as_ref().map_or_else(CgroupUsage::default, RunCgroup::usage);
        let end = match (self.reason, reported) {
            (Some(why), _) => why,
            (None, _) if account.is_out_of_memory => RunEnd::OutOfMemory,
            (None, Some((code @ 0.., _))) => RunEnd::Exited(code),
            (None, Some((signal, _))) if -signal == libc::SIGSYS => RunEnd::Denied,
            (None, Some((signal, _))) => RunEnd::Signalled(-signal),
            (None, None) => RunEnd::Killed,
        };
        let spent = self
            .init_report
            .and_then(|reported| reported.spent)
            .map_or_else(|| children_usage(&self.io_counters), Ok)?;
        let processes = reported.map_or(0, |(_, processes)| processes);
        let spent = ResourceUsage {
            cpu: spent.cpu.max(account.cpu),
            max_rss_bytes: spent.max_rss_bytes.max(self.monitor.peak_memory).max(account.peak_memory),
            processes: processes.max(self.monitor.peak_processes).max(1),
            ..spent
        };
        Ok(LauncherStatus::Ended(end, spent))
    }
}
