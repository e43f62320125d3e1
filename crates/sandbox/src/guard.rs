//! The walls by name. Each place that builds one asks here whether it stands, and in the product it always does: the
//! answer is a constant. A test program built from the same sources can leave single walls out, to show that each of
//! them, and not another, is what stops an attempt.

use crate::status::{Problem, Step};

/// One wall, in the order in which they are built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "most are Linux's"))]
pub(crate) enum Guard {
    /// Descriptors that came along by mistake are closed.
    Strays,
    /// Message queues and shared memory of its own.
    MessageNamespace,
    /// A small part of what the user may watch of files.
    WatchedFiles,
    /// Processes of its own.
    ProcessNamespace,
    /// Orphans come to the launcher, where there is no namespace for them.
    Adoption,
    /// The first process ends with the launcher.
    ParentDeath,
    /// Nothing looks into the first process, whose descriptors lead to the launcher.
    Undumpable,
    /// The file that was found is the one that is started.
    Pin,
    /// A network of its own, where it has a loopback.
    NetworkNamespace,
    /// A granted folder that became a link since is not followed.
    NoLinks,
    /// Everything is read-only.
    ReadOnlyRoot,
    /// No program has its owner's powers.
    NoSetuid,
    /// Granted folders have no devices.
    NoDevices,
    /// Folders granted for reading are read-only.
    ReadOnlyGrant,
    /// Scratch space of its own.
    Scratch,
    /// Which is no larger than its memory.
    ScratchSize,
    /// A list of processes of its own.
    ProcessList,
    /// Terminals of its own.
    Terminals,
    /// The files that were found to be hidden or held are the ones that are.
    SameFile,
    /// Protected names stay as they are.
    Kept,
    /// Forbidden names are covered.
    Hidden,
    /// Folders that rules reach something by keep their names.
    Pinned,
    /// No power is left.
    Capabilities,
    /// None can be gained.
    NoNewPrivileges,
    /// Rules for files.
    Landlock,
    /// Rules for ports.
    LandlockPorts,
    /// Signals and nameless sockets stay within.
    LandlockScopes,
    /// Calls of other architectures.
    Architecture,
    /// Calls that are refused whatever their arguments are.
    Calls,
    /// New namespaces by `clone`.
    CloneFlags,
    /// Files that others would run with the user's powers.
    SetId,
    /// Typing into a terminal.
    Typing,
    /// Pairs of sockets of other families, and those that reach others.
    Pairs,
    /// Sockets.
    Sockets,
    /// Descriptors on their way from one process to another.
    Sending,
    /// Larger buffers for sockets and pipes.
    Buffers,
    /// Locks that no descriptor shows, and leases.
    Locks,
    /// Memory that is shared and has no file.
    SharedPages,
    /// Processes that let nobody look into them.
    Hiding,
    /// Processes that are nobody's orphans when their parents end.
    Orphans,
    /// Threads with descriptors of their own, which nobody would see.
    OwnDescriptors,
    /// A session of its own.
    Session,
    /// Descriptors beyond the three close with the exec.
    Descriptors,
    /// No core files.
    CoreLimit,
    /// Open files.
    FilesLimit,
    /// Memory that can be reserved.
    DataLimit,
    /// Memory that cannot be paged out.
    LockLimit,
    /// Signals and timers that wait.
    SignalLimit,
    /// Processor time.
    CpuLimit,
    /// The size of a file.
    SizeLimit,
    /// Processes.
    ProcessLimit,
    /// Orphans are buried one after the other.
    Pace,
    /// The memory of all processes together, where the kernel counts it.
    MemoryGroup,
    /// Their number, where it does.
    ProcessGroup,
    /// They are ended together, where it can.
    KillGroup,
    /// The memory of all processes together.
    MemoryWatch,
    /// The tables for it count.
    PageTables,
    /// What the kernel holds for descriptors counts.
    HeldWatch,
    /// A process lives as long as one of its threads does.
    EveryThread,
    /// The run ends when the daemon goes.
    Desertion,
    /// Every descendant is ended, where no namespace does it.
    KillDescendants,
    /// All of them at once, where the kernel lets a launcher signal nobody else.
    Fence,
}

/// Whether a wall stands.
#[cfg(not(test))]
#[inline(always)]
pub(crate) const fn stands(_: Guard) -> bool {
    true
}

/// Whether a step of the set-up goes on as the kernel lets it. A test program can have it fail instead.
#[cfg(not(test))]
#[inline(always)]
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "its steps are Linux's"))]
pub(crate) const fn may(_: Step) -> Result<(), Problem> {
    Ok(())
}

/// A value for as long as a wall stands, else nothing.
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "its callers are Linux's"))]
pub(crate) fn held<T: Default>(guard: Guard, value: T) -> T {
    if stands(guard) { value } else { T::default() }
}

#[cfg(test)]
#[cfg_attr(not(target_os = "linux"), allow(unused_imports, reason = "its steps are Linux's"))]
pub(crate) use left_out::{may, stands, word};

#[cfg(test)]
pub(crate) mod left_out {
    use std::cell::RefCell;

    use super::{Guard, Problem, Step};
    use crate::launcher::NAME;

    thread_local! {
        static LEFT_OUT: RefCell<String> = const { RefCell::new(String::new()) };
    }

    /// Has the launchers that this thread starts from now on leave these out.
    #[allow(dead_code, reason = "the tests of the library leave nothing out; the test program does")]
    pub(crate) fn leave_out(guards: &[Guard]) {
        tell(&guards.iter().map(|guard| format!("{guard:?}")).collect::<Vec<_>>());
    }

    /// Has this step of their set-up fail.
    #[allow(dead_code, reason = "as above")]
    pub(crate) fn fail_at(step: Step) {
        tell(&[failing(step)]);
    }

    fn failing(step: Step) -> String {
        format!("failing-{}", step.as_str())
    }

    fn tell(words: &[String]) {
        LEFT_OUT.set(words.join(","));
    }

    /// What a launcher is told.
    pub(crate) fn word() -> String {
        LEFT_OUT.with_borrow(Clone::clone)
    }

    /// Whether a wall stands: in a launcher, unless it was told to leave it out.
    pub(crate) fn stands(guard: Guard) -> bool {
        !was_told(&format!("{guard:?}"))
    }

    /// Whether a step goes on: in a launcher, unless it was told to fail.
    #[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "its steps are Linux's"))]
    pub(crate) fn may(step: Step) -> Result<(), Problem> {
        match was_told(&failing(step)) {
            true => Err(Problem::new(step, "as a test has it", &std::io::Error::from_raw_os_error(1))),
            false => Ok(()),
        }
    }

    fn was_told(word: &str) -> bool {
        let mut words = std::env::args();
        words.next().as_deref() == Some(NAME)
            && words.nth(2).is_some_and(|told| told.split(',').any(|one| one == word))
    }
}
