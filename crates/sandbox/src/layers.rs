//! Names of the sandbox layers. The code that builds a layer asks here if it is enabled; in the product the
//! answer is the constant `true`. A test program built from the same sources can disable single layers, to
//! show that each attack is stopped by that layer and not by another one.

use crate::launch::status::{Problem, Step};

/// One layer, in the order in which they are built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "most layers exist only on Linux"))]
pub(crate) enum Guard {
    /// Closes descriptors that were inherited by mistake.
    Strays,
    /// Private message queues and System V shared memory.
    MessageNamespace,
    /// Small share of the user's inotify limits.
    WatchedFiles,
    /// Private PID namespace.
    ProcessNamespace,
    /// The launcher is the subreaper of orphans, where there is no PID namespace.
    Adoption,
    /// The init process dies with the launcher.
    ParentDeath,
    /// The init process is not dumpable, because its descriptors lead to the launcher.
    Undumpable,
    /// The program file that was found is the one that is started.
    Pin,
    /// Private network namespace, where the run has a loopback.
    NetworkNamespace,
    /// Symbolic links that have replaced a granted folder are not followed.
    NoLinks,
    /// The whole file system is read-only.
    ReadOnlyRoot,
    /// Set-user-id bits have no effect.
    NoSetuid,
    /// Device files in granted folders have no effect.
    NoDevices,
    /// Folders granted for reading are read-only.
    ReadOnlyGrant,
    /// Private scratch space.
    Scratch,
    /// The scratch space is limited to the memory of the run.
    ScratchSize,
    /// Private `/proc`.
    ProcessList,
    /// Private devpts.
    Terminals,
    /// The files that are hidden or protected are the ones that were found.
    SameFile,
    /// Protected paths are mounted read-only.
    Kept,
    /// Hidden paths are covered by mounts.
    Hidden,
    /// Folders on the path to a hidden, protected or granted one cannot be renamed.
    Pinned,
    /// All capabilities are dropped.
    Capabilities,
    /// `no_new_privs` is set.
    NoNewPrivileges,
    /// Landlock rules for files.
    Landlock,
    /// Landlock rules for TCP ports.
    LandlockPorts,
    /// Landlock scopes for signals and abstract Unix sockets.
    LandlockScopes,
    /// Calls of other architectures kill the process.
    Architecture,
    /// Calls that are refused regardless of their arguments.
    Calls,
    /// `clone` cannot create namespaces.
    CloneFlags,
    /// Files cannot get set-id bits.
    SetId,
    /// Input cannot be inserted into a terminal.
    Typing,
    /// Socket pairs are limited to types that reach only each other.
    Pairs,
    /// Sockets are limited to the granted network.
    Sockets,
    /// Descriptors cannot be passed between processes.
    Sending,
    /// Socket and pipe buffers cannot be enlarged.
    Buffers,
    /// Open file locks and leases are refused.
    Locks,
    /// Shared memory without a file is refused.
    SharedPages,
    /// Processes cannot make themselves non-dumpable.
    Hiding,
    /// Processes cannot avoid becoming orphans of the run when their parents end.
    Orphans,
    /// Threads cannot have a separate descriptor table, which the monitor would not see.
    OwnDescriptors,
    /// Separate session.
    Session,
    /// Descriptors other than the standard streams are closed by the exec.
    Descriptors,
    /// No core files.
    CoreLimit,
    /// Open files.
    FilesLimit,
    /// Memory that can be reserved.
    DataLimit,
    /// Locked memory.
    LockLimit,
    /// Pending signals and timers.
    SignalLimit,
    /// Processor time.
    CpuLimit,
    /// Size of a file.
    SizeLimit,
    /// Number of processes.
    ProcessLimit,
    /// Orphans are reaped with a delay.
    Pace,
    /// Memory limit of the control group.
    MemoryGroup,
    /// Process limit of the control group.
    ProcessGroup,
    /// Kill through the control group.
    KillGroup,
    /// The watcher monitors the memory of all processes.
    MemoryWatch,
    /// The monitor counts page tables.
    PageTables,
    /// The monitor counts kernel memory held by descriptors.
    HeldWatch,
    /// A process counts as alive while one of its threads is.
    EveryThread,
    /// The run ends when the daemon disconnects.
    Desertion,
    /// The launcher kills every descendant, where there is no PID namespace.
    KillDescendants,
    /// The launcher kills all descendants in one call, where the kernel supports signal scopes.
    Fence,
}

/// Returns true if a layer is enabled.
#[cfg(not(test))]
#[inline(always)]
pub(crate) const fn stands(_: Guard) -> bool {
    true
}

/// Fault injection point before a set-up step; always passes in the product.
#[cfg(not(test))]
#[inline(always)]
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "used only on Linux"))]
pub(crate) const fn may(_: Step) -> Result<(), Problem> {
    Ok(())
}

/// Returns the value if the layer is enabled, else the default.
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "used only on Linux"))]
pub(crate) fn held<T: Default>(guard: Guard, value: T) -> T {
    if stands(guard) { value } else { T::default() }
}

#[cfg(test)]
#[cfg_attr(not(target_os = "linux"), allow(unused_imports, reason = "used only on Linux"))]
pub(crate) use left_out::{may, stands, word};

#[cfg(test)]
pub(crate) mod left_out {
    use std::cell::RefCell;

    use super::{Guard, Problem, Step};
    use crate::launch::launcher::NAME;

    thread_local! {
        static LEFT_OUT: RefCell<String> = const { RefCell::new(String::new()) };
    }

    /// Disables these layers in launchers that this thread starts from now on.
    #[allow(dead_code, reason = "the unit tests disable nothing; the `sandboxed` test program does")]
    pub(crate) fn leave_out(guards: &[Guard]) {
        tell(&guards.iter().map(|guard| format!("{guard:?}")).collect::<Vec<_>>());
    }

    /// Makes this set-up step of such launchers fail.
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

    /// Returns the argument for a launcher.
    pub(crate) fn word() -> String {
        LEFT_OUT.with_borrow(Clone::clone)
    }

    /// Returns true if a layer is enabled: always, except in a launcher whose argument disables it.
    pub(crate) fn stands(guard: Guard) -> bool {
        !was_told(&format!("{guard:?}"))
    }

    /// Passes, except in a launcher whose argument names this step.
    #[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "used only on Linux"))]
    pub(crate) fn may(step: Step) -> Result<(), Problem> {
        match was_told(&failing(step)) {
            true => Err(Problem::new(step, "injected by a test", &std::io::Error::from_raw_os_error(1))),
            false => Ok(()),
        }
    }

    fn was_told(word: &str) -> bool {
        let mut words = std::env::args();
        words.next().as_deref() == Some(NAME)
            && words.nth(2).is_some_and(|told| told.split(',').any(|one| one == word))
    }
}
