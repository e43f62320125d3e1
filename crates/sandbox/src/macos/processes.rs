//! Process list of a run, from `ps`: there is no namespace to kill them with. Decides by the list if the run
//! exceeds its limits.

use crate::launch::spec::RunLimits;
use crate::report::RunEnd;

/// Failed samples in a row after which a run is ended. `ps` cannot be started if the user has too many
/// processes, which is what a fork bomb aims at.
const MAX_FAILED_SAMPLES: u32 = 4;

/// One process of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ListedProcess {
    pub(crate) process: i32,
    pub(crate) parent: i32,
    pub(crate) memory_bytes: u64,
}

/// Parses the output of `ps -axo pid=,ppid=,rss=`. Lines in another format are skipped.
pub(crate) fn parse(text: &str) -> Vec<ListedProcess> {
    let line = |line: &str| {
        let mut columns = line.split_whitespace();
        Some(ListedProcess {
            process: columns.next()?.parse().ok()?,
            parent: columns.next()?.parse().ok()?,
            memory_bytes: columns.next()?.parse::<u64>().ok()?.saturating_mul(1024),
        })
    };
    text.lines().filter_map(line).collect()
}

/// Samples of the processes of a run.
#[derive(Debug, Default)]
pub(crate) struct ProcessSamples {
    failed: u32,
}

impl ProcessSamples {
    /// Returns the reason to end the run of `leader`, if the processes of the machine show one. `own` is the
    /// launcher. A list without the launcher is a failed sample.
    pub(crate) fn exceeded_limit(
        &mut self,
        (own, leader): (i32, i32),
        all: &[ListedProcess],
        limits: &RunLimits,
    ) -> Option<RunEnd> {
        if !all.iter().any(|one| one.process == own) {
            self.failed += 1;
            return (self.failed >= MAX_FAILED_SAMPLES).then_some(RunEnd::TooManyProcesses);
        }
        self.failed = 0;
        let running = run_processes((own, leader), all);
        let memory = running.iter().fold(0, |sum: u64, one| sum.saturating_add(one.memory_bytes));
        match (memory > limits.memory_bytes, running.len() as u64 > limits.processes) {
            (true, _) => Some(RunEnd::OutOfMemory),
            (false, true) => Some(RunEnd::TooManyProcesses),
            (false, false) => None,
        }
    }
}

/// Returns the program and its descendants, without the `ps` process that produces the list.
fn run_processes((own, leader): (i32, i32), all: &[ListedProcess]) -> Vec<ListedProcess> {
    let descendants = descendants(own, all).into_iter();
    descendants.filter(|one| one.parent != own || one.process == leader).collect()
}

/// Returns all descendants of a process.
pub(crate) fn descendants(of: i32, all: &[ListedProcess]) -> Vec<ListedProcess> {
    let (mut found, mut next): (Vec<ListedProcess>, Vec<i32>) = (Vec::new(), vec![of]);
    while let Some(parent) = next.pop() {
        for child in all.iter().filter(|one| one.parent == parent && one.process != parent) {
            if !found.contains(child) {
                found.push(*child);
                next.push(child.process);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descendants_are_found_in_any_order() {
        let all = parse("  7  5  300\n 5 1 100\n 6 5 200\n 8 7 400\n 9 1 500\n 1 0 10\n 0 0 5\nnonsense\n");
        assert_eq!(all.len(), 7);
        let mut found: Vec<i32> = descendants(5, &all).iter().map(|one| one.process).collect();
        found.sort_unstable();
        assert_eq!(found, [6, 7, 8]);
        assert_eq!(descendants(5, &all).iter().map(|one| one.memory_bytes).sum::<u64>(), 900 * 1024);
        assert!(descendants(0, &all).len() >= 6, "a process that is its own parent causes no endless loop");
    }

    /// Launcher 5 with the program 7, its child 8, and the `ps` process 9.
    const LIST: &str = "5 1 100\n7 5 2048\n8 7 1024\n9 5 4096\n1 0 10\n";

    fn limits(memory_bytes: u64, processes: u64) -> RunLimits {
        RunLimits { memory_bytes, processes, ..RunLimits::default() }
    }

    #[test]
    fn limits_count_the_program_and_its_descendants() {
        let check = |memory_kib: u64, processes, expect| {
            let found = ProcessSamples::default().exceeded_limit(
                (5, 7),
                &parse(LIST),
                &limits(memory_kib * 1024, processes),
            );
            assert_eq!(found, expect, "{memory_kib} KiB, {processes} processes");
        };
        check(3072, 2, None);
        check(3071, 2, Some(RunEnd::OutOfMemory));
        check(3072, 1, Some(RunEnd::TooManyProcesses));
        check(0, 0, Some(RunEnd::OutOfMemory));
    }

    #[test]
    fn run_is_ended_if_processes_cannot_be_listed() {
        let mut samples = ProcessSamples::default();
        let mut sample =
            |text: &str| samples.exceeded_limit((5, 7), &parse(text), &limits(u64::MAX, u64::MAX));
        for _ in 0..3 {
            assert_eq!(sample(""), None);
        }
        assert_eq!(sample(LIST), None, "a list that was read starts the count again");
        let garbled = "ps: fork: Resource temporarily unavailable\n7 5 2048\n";
        assert_eq!(["", garbled, ""].map(&mut sample), [None; 3]);
        assert_eq!(sample(garbled), Some(RunEnd::TooManyProcesses));
    }
}
