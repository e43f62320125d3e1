//! Names of the sandbox layers. The code that builds a layer checks here if it is enabled; in the product the
//! result is the constant `true`. A test program built from the same sources can disable single layers, to
//! show that each attack is stopped by that layer and not by another one.

use crate::launch::status::{SetupFailure, SetupStep};

/// One layer, in the order in which they are built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "most layers exist only on Linux"))]
pub(crate) enum SandboxLayer {
    /// Closes descriptors that were inherited by mistake.
    InheritedDescriptors,
    /// Private message queues and System V shared memory.
    IpcNamespace,
    /// Small share of the user's inotify limits.
    InotifyLimits,
    /// Private PID namespace.
    PidNamespace,
    /// The launcher is the subreaper of orphans, where there is no PID namespace.
    Subreaper,
    /// The init process dies with the launcher.
    ParentDeathSignal,
    /// The init process is not dumpable, because its descriptors lead to the launcher.
    NonDumpable,
    /// The program file that was found is the one that is started.
    ProgramIdentity,
    /// Private network namespace, where the run has a loopback.
    NetworkNamespace,
    /// Symbolic links that have replaced a granted folder are not followed.
    NoSymlinks,
    /// The whole file system is read-only.
    ReadOnlyRoot,
    /// Names outside of what is granted do not exist.
    OutsideHidden,
    /// Set-user-id bits have no effect.
    NoSetuid,
    /// Device files in granted folders have no effect.
    NoDeviceFiles,
    /// Folders granted for reading are read-only.
    ReadOnlyGrant,
    /// Private scratch space.
    PrivateScratch,
    /// The scratch space is limited to the memory of the run.
    ScratchSize,
    /// Private `/proc`.
    PrivateProc,
    /// Private devpts.
    PrivateTerminals,
    /// The files that are hidden or protected are the ones that were found.
    FileIdentity,
    /// Protected paths are mounted read-only.
    ProtectedPaths,
    /// Hidden paths are covered by mounts.
    HiddenPaths,
    /// Folders on the path to a hidden, protected or granted one cannot be renamed.
    PinnedFolders,
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
    RefusedSyscalls,
    /// `clone` cannot create namespaces.
    CloneNamespaces,
    /// Files cannot get set-id bits.
    SetIdBits,
    /// Input cannot be inserted into a terminal.
    TerminalInput,
    /// Socket pairs are limited to types that reach only each other.
    SocketPairs,
    /// Sockets are limited to the granted network.
    Sockets,
    /// Descriptors cannot be passed between processes.
    DescriptorPassing,
    /// Socket and pipe buffers cannot be enlarged.
    BufferSizes,
    /// Open file locks and leases are refused.
    OpenFileLocks,
    /// Shared memory without a file is refused.
    AnonymousSharedMemory,
    /// Processes cannot make themselves non-dumpable.
    DumpableRequests,
    /// Processes cannot avoid becoming orphans of the run when their parents end.
    OrphanAvoidance,
    /// Threads cannot have a separate descriptor table, which the monitor would not see.
    SeparateDescriptorTables,
    /// Separate session.
    SeparateSession,
    /// Descriptors other than the standard streams are closed by the exec.
    CloseOnExec,
    /// No core files.
    CoreLimit,
    /// Open files.
    OpenFilesLimit,
    /// Memory that can be reserved.
    MemoryLimit,
    /// Locked memory.
    LockedMemoryLimit,
    /// Pending signals and timers.
    PendingSignalsLimit,
    /// Processor time.
    CpuLimit,
    /// Size of a file.
    FileSizeLimit,
    /// Number of processes.
    ProcessLimit,
    /// Orphans are reaped with a delay.
    ReapDelay,
    /// Memory limit of the control group.
    CgroupMemory,
    /// Process limit of the control group.
    CgroupProcesses,
    /// Kill through the control group.
    CgroupKill,
    /// The watcher monitors the memory of all processes.
    MemoryMonitor,
    /// The monitor counts page tables.
    PageTableCount,
    /// The monitor counts kernel memory held by descriptors.
    KernelMemoryMonitor,
    /// A process counts as alive while one of its threads is.
    ThreadLiveness,
    /// The run ends when the daemon disconnects.
    DaemonDisconnect,
    /// The launcher kills every descendant, where there is no PID namespace.
    KillDescendants,
    /// The launcher kills all descendants in one call, where the kernel supports signal scopes.
    SignalScope,
}

/// Returns true if a layer is enabled.
#[cfg(not(test))]
#[inline(always)]
pub(crate) const fn is_enabled(_: SandboxLayer) -> bool {
    true
}

/// Fault injection point before a set-up step; always passes in the product.
#[cfg(not(test))]
#[inline(always)]
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "used only on Linux"))]
pub(crate) const fn check_injected_fault(_: SetupStep) -> Result<(), SetupFailure> {
    Ok(())
}

/// Returns the value if the layer is enabled, else the default.
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "used only on Linux"))]
pub(crate) fn if_enabled<T: Default>(guard: SandboxLayer, value: T) -> T {
    if is_enabled(guard) { value } else { T::default() }
}

#[cfg(test)]
#[cfg_attr(not(target_os = "linux"), allow(unused_imports, reason = "used only on Linux"))]
pub(crate) use disabled::{check_injected_fault, is_enabled, launcher_argument};

#[cfg(test)]
pub(crate) mod disabled {
    use std::cell::RefCell;

    use super::{SandboxLayer, SetupFailure, SetupStep};
    use crate::launch::launcher::LAUNCHER_NAME;

    thread_local! {
        static ARGUMENT: RefCell<String> = const { RefCell::new(String::new()) };
    }

    /// Disables these layers in launchers that this thread starts from now on.
    #[allow(dead_code, reason = "the unit tests disable nothing; the `sandboxed` test program does")]
    pub(crate) fn disable_layers(guards: &[SandboxLayer]) {
        set_argument(&guards.iter().map(|guard| format!("{guard:?}")).collect::<Vec<_>>());
    }

    /// Makes this set-up step of such launchers fail.
    #[allow(dead_code, reason = "as above")]
    pub(crate) fn inject_fault(step: SetupStep) {
        set_argument(&[fault_name(step)]);
    }

    fn fault_name(step: SetupStep) -> String {
        format!("failing-{}", step.as_str())
    }

    fn set_argument(words: &[String]) {
        ARGUMENT.set(words.join(","));
    }

    /// Returns the argument for a launcher.
    pub(crate) fn launcher_argument() -> String {
        ARGUMENT.with_borrow(Clone::clone)
    }

    /// Returns true if a layer is enabled: always, except in a launcher whose argument disables it.
    pub(crate) fn is_enabled(guard: SandboxLayer) -> bool {
        !is_listed(&format!("{guard:?}"))
    }

    /// Passes, except in a launcher whose argument names this step.
    #[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "used only on Linux"))]
    pub(crate) fn check_injected_fault(step: SetupStep) -> Result<(), SetupFailure> {
        match is_listed(&fault_name(step)) {
            true => Err(SetupFailure::new(step, "injected by a test", &std::io::Error::from_raw_os_error(1))),
            false => Ok(()),
        }
    }

    fn is_listed(word: &str) -> bool {
        let mut words = std::env::args();
        words.next().as_deref() == Some(LAUNCHER_NAME)
            && words.nth(2).is_some_and(|reported| reported.split(',').any(|one| one == word))
    }
}
