//! System calls that no safe crate offers. All unsafe code of this crate is in this file.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::time::TimeSpec;
use nix::sys::wait::WaitPidFlag;
use nix::unistd::Pid;

/// The two sides of a fork.
pub(crate) enum ForkSide {
    Child,
    Parent(Pid),
}

/// Forks this process.
pub(crate) fn fork() -> io::Result<ForkSide> {
    // SAFETY: only launchers fork, and a launcher has one thread and never starts another, so no lock is held
    // by a thread that the child would lack.
    match unsafe { nix::unistd::fork() }? {
        nix::unistd::ForkResult::Child => Ok(ForkSide::Child),
        nix::unistd::ForkResult::Parent { child } => Ok(ForkSide::Parent(child)),
    }
}

/// Ends this process without running exit handlers, which belong to the process it was forked from.
pub(crate) fn exit(code: i32) -> ! {
    // SAFETY: takes a number and does not return.
    unsafe { libc::_exit(code) }
}

/// Moves this process into new namespaces.
pub(crate) fn unshare(flags: rustix::thread::UnshareFlags) -> io::Result<()> {
    // SAFETY: `unshare` is unsafe only because it may separate a descriptor table that threads share. A
    // launcher has one thread, and the flag for it is never passed.
    Ok(unsafe { rustix::thread::unshare_unsafe(flags) }?)
}

/// Closes all descriptors from `first` upwards.
pub(crate) fn close_from(first: u32) -> io::Result<()> {
    // SAFETY: called before anything but the standard descriptors is owned by this process's code.
    checked(unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, 0_u32) })
}

/// Marks all descriptors from `first` upwards close-on-exec.
pub(crate) fn close_on_exec_from(first: u32) -> io::Result<()> {
    // SAFETY: marks descriptors and closes none, so no owner loses one.
    checked(unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) })
}

/// `struct mount_attr` of the kernel.
#[repr(C)]
#[derive(Default)]
struct MountAttributes {
    set: u64,
    clear: u64,
    propagation: u64,
    user_namespace: u64,
}

/// Mounts that a change applies to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum MountScope {
    Single,
    Recursive,
}

/// Sets flags on a mount and makes it private, so that later mounts of the machine do not appear below it.
pub(crate) fn set_mount_flags(tree: impl AsFd, reach: MountScope, flags: u64) -> io::Result<()> {
    let attributes =
        MountAttributes { set: flags, propagation: libc::MS_PRIVATE, ..MountAttributes::default() };
    let depth = if reach == MountScope::Recursive { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: the descriptor is open, the path is an empty C string, and structure and size match the
    // kernel's definition.
    checked(unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            tree.as_fd().as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH | depth,
            std::ptr::from_ref(&attributes),
            size_of::<MountAttributes>(),
        )
    })
}

/// Returns the Landlock ABI version of this kernel; 0 if it has none.
pub(crate) fn landlock_version() -> i32 {
    const VERSION: u32 = 1;
    // SAFETY: with this flag the kernel reads no structure and only answers with a number.
    let result =
        unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<u8>(), 0_usize, VERSION) };
    i32::try_from(result).unwrap_or(0).max(0)
}

/// Compares the address spaces of two processes in the kernel's order; equal if they share one.
pub(crate) fn compare_address_spaces(one: i32, other: i32) -> io::Result<std::cmp::Ordering> {
    const MEMORY: i32 = 1; // KCMP_VM
    // SAFETY: takes and returns numbers only.
    match unsafe { libc::syscall(libc::SYS_kcmp, one, other, MEMORY, 0, 0) } {
        0 => Ok(std::cmp::Ordering::Equal),
        1 => Ok(std::cmp::Ordering::Less),
        2 => Ok(std::cmp::Ordering::Greater),
        result => checked(result).and(Err(io::ErrorKind::Unsupported.into())),
    }
}

/// Installs a seccomp filter for this process and its descendants, permanently.
pub(crate) fn install_filter(program: &[libc::sock_filter]) -> io::Result<()> {
    let len = u16::try_from(program.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let program = libc::sock_fprog { len, filter: program.as_ptr().cast_mut() };
    // SAFETY: the kernel copies the program, whose length is right, during the call and does not write to it.
    checked(unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0_u32, std::ptr::from_ref(&program))
    })
}

/// Resets every signal to its default action. Ignored signals stay ignored across an exec, and the Rust
/// runtime ignores SIGPIPE.
pub(crate) fn reset_signals() {
    for signal in Signal::iterator() {
        // SAFETY: no handler is installed, so none can run; for the two signals that cannot be changed the
        // call fails harmlessly.
        let _ = unsafe { nix::sys::signal::signal(signal, nix::sys::signal::SigHandler::SigDfl) };
    }
}

/// Waits for a child as the flags say and reaps it. Returns its process id and its exit code, or its signal
/// as a negative number; `None` if no child has ended. Uses numbers because real-time signals have no names
/// in the signal library, and a process that such a signal ended must still count as ended.
pub(crate) fn wait(pid: Option<Pid>, flags: WaitPidFlag) -> nix::Result<Option<(Pid, i32)>> {
    let pid = pid.map_or(-1, Pid::as_raw);
    let mut status = 0;
    // SAFETY: the kernel writes one number to a valid location.
    let ended = Errno::result(unsafe { libc::waitpid(pid, &raw mut status, flags.bits()) })?;
    let end = match libc::WIFSIGNALED(status) {
        true => -libc::WTERMSIG(status),
        false => libc::WEXITSTATUS(status),
    };
    Ok((ended > 0).then_some((Pid::from_raw(ended), end)))
}

/// Returns true if a child has ended, without reaping it.
pub(crate) fn has_ended(child: Pid) -> bool {
    let Ok(id) = libc::id_t::try_from(child.as_raw()) else { return false };
    let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: all of its fields may be zero.
    let mut facts: libc::siginfo_t = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel fills the structure, or leaves it as it is.
    let result = unsafe { libc::waitid(libc::P_PID, id, &raw mut facts, flags) };
    // SAFETY: the kernel has filled it for a child, or it is zero.
    result == 0 && unsafe { facts.si_pid() } != 0
}

/// Waits at most `longest` for one of these signals, which must be blocked.
pub(crate) fn wait_for_signal(signals: &[Signal], longest: Duration) -> Option<Signal> {
    let signals: SigSet = signals.iter().copied().collect();
    let longest = TimeSpec::from_duration(longest);
    // SAFETY: both structures outlive the call, which only reads them; the null pointer asks for no
    // `siginfo_t`.
    let received = unsafe { libc::sigtimedwait(signals.as_ref(), std::ptr::null_mut(), longest.as_ref()) };
    Signal::try_from(received).ok()
}

/// Brings up the loopback interface of this network namespace.
pub(crate) fn bring_up_loopback(socket: impl AsFd) -> io::Result<()> {
    // SAFETY: all of its fields may be zero.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
        *to = from.cast_signed();
    }
    request.ifr_ifru.ifru_flags = i16::try_from(libc::IFF_UP | libc::IFF_RUNNING).unwrap_or(0);
    // SAFETY: the request is a valid `ifreq` with a name that ends in NUL, and outlives the call.
    checked(unsafe {
        libc::c_long::from(libc::ioctl(socket.as_fd().as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request))
    })
}

/// Asks the parent to trace this process.
pub(crate) fn request_trace() -> io::Result<()> {
    // SAFETY: with this request the kernel reads none of the other arguments.
    checked(unsafe { libc::ptrace(libc::PTRACE_TRACEME) })
}

fn checked(result: libc::c_long) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
