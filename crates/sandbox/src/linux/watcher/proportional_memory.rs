//! Proportional memory count of a run: each process counts for its share of what several processes map. The
//! kernel walks all mappings of a process to compute it, so the count is split into short steps, between
//! which the watcher enforces the run's deadline.

use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};

use crate::linux::watcher::memory::{self, MemoryPages};

/// Duration of one step, unless a single process takes longer.
const STEP_TIME: Duration = Duration::from_millis(4);
/// Processor time that one count may use; enough for more than a hundred gigabytes. While a count is in
/// progress the usage is unknown, so a run that cannot be counted in this time gets the result of the quick
/// count.
const MAX_CPU_TIME: Duration = Duration::from_secs(1);
/// Longest pause after a count, during which no close count is made.
const MAX_PAUSE: Duration = Duration::from_millis(100);

/// Proportional count in progress, and the pause after it.
#[derive(Debug, Default)]
pub(crate) struct ProportionalCount {
    round: Option<CountRound>,
    /// Set if a count was discarded because processes started or ended: processor time used before the first
    /// of these counts.
    retry_cpu_start: Option<Duration>,
    paused_until: Option<Instant>,
}

#[derive(Debug)]
struct CountRound {
    begun: Instant,
    /// Processor time that this process had used at the start.
    cpu_at_start: Duration,
    /// Processes that had memory at the start.
    running: Vec<i32>,
    next: Vec<i32>,
    counted: MemoryPages,
    /// Quick count of all of them.
    quick: u64,
}

impl ProportionalCount {
    /// Returns true if the next step is due immediately.
    pub(crate) fn is_in_progress(&self) -> bool {
        self.round.is_some() || self.retry_cpu_start.is_some()
    }

    /// Returns true if the next step starts a new count.
    pub(crate) fn starts_next(&self) -> bool {
        self.round.is_none()
    }

    /// Returns true if a discarded count is to be restarted immediately.
    pub(crate) fn restarts(&self) -> bool {
        self.retry_cpu_start.is_some() && self.starts_next()
    }

    /// Abandons a count that is no longer needed.
    pub(crate) fn abandon(&mut self) {
        (self.round, self.retry_cpu_start) = (None, None);
    }

    /// Continues or starts a count; returns the usage including the scratch space once it is known. `quick`
    /// is the upper bound for `apart`; `listed` are all processes at the time when `apart` was chosen, and
    /// `list` returns the current ones.
    pub(crate) fn continue_count(
        &mut self,
        (listed, apart): (&[i32], &[i32]),
        list: impl FnOnce() -> Vec<i32>,
        quick: u64,
        (scratch, available): (u64, u64),
    ) -> Option<u64> {
        let begin = || CountRound::new(with_memory(listed), apart, quick);
        self.count_within(begin, || with_memory(&list()), (scratch, available), MAX_CPU_TIME)
    }

    fn count_within(
        &mut self,
        begin: impl FnOnce() -> CountRound,
        running_now: impl FnOnce() -> Vec<i32>,
        (scratch, available): (u64, u64),
        most: Duration,
    ) -> Option<u64> {
        let now = Instant::now();
        if !self.is_in_progress() && self.paused_until.is_some_and(|until| now < until) {
            return None;
        }
        let again = self.retry_cpu_start;
        let round = self.round.get_or_insert_with(|| {
            let fresh = begin();
            CountRound { cpu_at_start: again.unwrap_or(fresh.cpu_at_start), ..fresh }
        });
        let counted = round.continue_until(now + STEP_TIME, scratch, available, most)?;
        // Memory of a process that was not counted yet may have moved to one that was counted already, or to
        // a new one. The retry uses the same processor time budget, so a run that changes all the time gets
        // the result of the quick count.
        if counted <= available && running_now() != round.running {
            self.retry_cpu_start = Some(round.cpu_at_start);
            self.round = None;
            return None;
        }
        // Counts at most half of the time: a legitimate program with many large processes needs the
        // processors too.
        self.paused_until = Some(Instant::now() + round.begun.elapsed().min(MAX_PAUSE));
        self.abandon();
        Some(counted)
    }
}

/// Returns those that have memory, sorted; ended processes that are not reaped yet have none.
fn with_memory(processes: &[i32]) -> Vec<i32> {
    let has_some = |process: &i32| memory::resident(*process) != MemoryPages::default();
    let mut running: Vec<i32> = processes.iter().copied().filter(has_some).collect();
    running.sort_unstable();
    running
}

impl CountRound {
    fn new(running: Vec<i32>, apart: &[i32], quick: u64) -> CountRound {
        let (begun, used) = (Instant::now(), processor_time());
        CountRound {
            begun,
            cpu_at_start: used,
            running,
            next: apart.to_vec(),
            counted: MemoryPages::default(),
            quick,
        }
    }

    fn continue_until(&mut self, until: Instant, scratch: u64, space: u64, most: Duration) -> Option<u64> {
        while let Some(process) = self.next.pop() {
            self.counted += memory::proportional(process).unwrap_or_else(|| memory::resident(process));
            if self.counted.with_scratch(scratch) > space {
                break;
            }
            if processor_time().saturating_sub(self.cpu_at_start) > most {
                return Some(self.quick);
            }
            if Instant::now() >= until && !self.next.is_empty() {
                return None;
            }
        }
        Some(self.counted.with_scratch(scratch))
    }
}

/// Returns the processor time of this process.
fn processor_time() -> Duration {
    let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) else { return Duration::MAX };
    let time = |value: nix::sys::time::TimeVal| {
        Duration::from_secs(value.tv_sec().unsigned_abs())
            + Duration::from_micros(value.tv_usec().unsigned_abs())
    };
    time(usage.user_time()) + time(usage.system_time())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: u64 = u64::MAX;

    /// Counts this process as if it were many; returns the usage and the number of steps.
    fn count(shares: &mut ProportionalCount, space: u64, most: Duration) -> Option<(u64, u32)> {
        let own = vec![i32::try_from(std::process::id()).expect("a number"); 2_000];
        for part in 1.. {
            if let Some(counted) =
                shares.count_within(|| CountRound::new(Vec::new(), &own, ALL), Vec::new, (0, space), most)
            {
                return Some((counted, part));
            }
            if !shares.is_in_progress() {
                break;
            }
        }
        None
    }

    #[test]
    fn count_over_its_time_budget_returns_the_quick_count() {
        assert_eq!(
            count(&mut ProportionalCount::default(), ALL, Duration::ZERO).map(|(counted, _)| counted),
            Some(ALL)
        );
    }

    #[test]
    fn long_count_is_split_and_followed_by_a_pause() {
        let mut shares = ProportionalCount::default();
        let (counted, parts) = count(&mut shares, ALL, Duration::MAX).expect("a count");
        assert!(parts > 1 && (1..ALL).contains(&counted), "{counted} in {parts} parts");
        assert_eq!(count(&mut shares, ALL, Duration::MAX), None, "it pauses");
    }

    #[test]
    fn count_stops_once_the_limit_is_exceeded() {
        let (counted, parts) = count(&mut ProportionalCount::default(), 1, Duration::MAX).expect("a count");
        assert!(counted > 1 && parts == 1, "{counted} in {parts} parts");
    }

    #[test]
    fn count_restarts_if_processes_start_or_end() {
        let own = [i32::try_from(std::process::id()).expect("a number")];
        let mut shares = ProportionalCount::default();
        let mut scan = |before: &[i32], after: &[i32], most| {
            let begin = || CountRound::new(before.to_vec(), &own, ALL);
            let counted = shares.count_within(begin, || after.to_vec(), (0, ALL - 1), most);
            (counted, shares.restarts())
        };
        for (before, after) in [(vec![1], vec![1, 2]), (vec![1, 2], vec![1]), (vec![1], vec![2])] {
            assert_eq!(scan(&before, &after, Duration::MAX), (None, true), "{before:?}, then {after:?}");
        }
        assert_eq!(scan(&[1], &[2], Duration::ZERO), (Some(ALL), false), "the time budget ends the retries");
    }

    #[test]
    fn undisturbed_count_is_used_and_its_pause_is_bounded() {
        let mut shares = ProportionalCount::default();
        let own = [i32::try_from(std::process::id()).expect("a number")];
        let long_ago = Instant::now().checked_sub(Duration::from_secs(60)).expect("a time");
        let begin = || CountRound { begun: long_ago, ..CountRound::new(vec![1], &own, ALL) };
        let counted = shares.count_within(begin, || vec![1], (0, ALL - 1), Duration::MAX);
        assert!(counted.is_some_and(|counted| counted < ALL), "{counted:?}");
        assert!(shares.paused_until.expect("a rest") <= Instant::now() + MAX_PAUSE);
    }

    #[test]
    fn processes_without_memory_are_not_counted() {
        let own = i32::try_from(std::process::id()).expect("a number");
        assert_eq!(with_memory(&[i32::MAX, own]), [own]);
    }
}
