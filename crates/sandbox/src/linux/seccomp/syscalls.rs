//! Data: the system calls that a confined program does not get, with the reasons. `filter` compiles it.

/// Result that a refused system call returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SyscallRefusal {
    /// EPERM.
    NotPermitted,
    /// ENOSYS, so that libraries fall back to an older call whose arguments the filter can inspect.
    NotImplemented,
    /// EINVAL, so that libraries fall back to copying by themselves.
    InvalidArgument,
    /// Success without any effect. Only for requests that the kernel may ignore.
    FakeSuccess,
}

/// Calls that are refused regardless of their arguments.
pub(crate) const REFUSED: &[(libc::c_long, SyscallRefusal)] = &[
    // Other processes: their memory, their descriptors, and the comparison of resources they share.
    (libc::SYS_ptrace, SyscallRefusal::NotPermitted),
    (libc::SYS_process_vm_readv, SyscallRefusal::NotPermitted),
    (libc::SYS_process_vm_writev, SyscallRefusal::NotPermitted),
    (libc::SYS_process_madvise, SyscallRefusal::NotPermitted),
    (libc::SYS_pidfd_getfd, SyscallRefusal::NotPermitted),
    (libc::SYS_kcmp, SyscallRefusal::NotPermitted),
    // The kernel performs io_uring operations later, past this filter.
    (libc::SYS_io_uring_setup, SyscallRefusal::NotImplemented),
    (libc::SYS_io_uring_enter, SyscallRefusal::NotImplemented),
    (libc::SYS_io_uring_register, SyscallRefusal::NotImplemented),
    // Pending asynchronous I/O holds files without a descriptor, and the machine has a fixed number of
    // contexts.
    (libc::SYS_io_setup, SyscallRefusal::NotImplemented),
    // A pipe filled by these calls is counted as a few pages, but may hold whole huge pages or pages of a
    // deleted file.
    (libc::SYS_vmsplice, SyscallRefusal::InvalidArgument),
    (libc::SYS_splice, SyscallRefusal::InvalidArgument),
    (libc::SYS_tee, SyscallRefusal::InvalidArgument),
    (libc::SYS_sendfile, SyscallRefusal::InvalidArgument),
    // Programs and probes inside the kernel.
    (libc::SYS_bpf, SyscallRefusal::NotPermitted),
    (libc::SYS_perf_event_open, SyscallRefusal::NotPermitted),
    (libc::SYS_userfaultfd, SyscallRefusal::NotPermitted),
    // Keys of the user's session, which no namespace separates.
    (libc::SYS_keyctl, SyscallRefusal::NotPermitted),
    (libc::SYS_add_key, SyscallRefusal::NotPermitted),
    (libc::SYS_request_key, SyscallRefusal::NotPermitted),
    // Mounts and namespaces, on which the sandbox is built.
    (libc::SYS_mount, SyscallRefusal::NotPermitted),
    (libc::SYS_umount2, SyscallRefusal::NotPermitted),
    (libc::SYS_pivot_root, SyscallRefusal::NotPermitted),
    (libc::SYS_chroot, SyscallRefusal::NotPermitted),
    (libc::SYS_setns, SyscallRefusal::NotPermitted),
    (libc::SYS_unshare, SyscallRefusal::NotPermitted),
    (libc::SYS_open_tree, SyscallRefusal::NotPermitted),
    (libc::SYS_move_mount, SyscallRefusal::NotPermitted),
    (libc::SYS_fsopen, SyscallRefusal::NotPermitted),
    (libc::SYS_fsconfig, SyscallRefusal::NotPermitted),
    (libc::SYS_fsmount, SyscallRefusal::NotPermitted),
    (libc::SYS_fspick, SyscallRefusal::NotPermitted),
    (libc::SYS_mount_setattr, SyscallRefusal::NotPermitted),
    (OPEN_TREE_ATTR, SyscallRefusal::NotPermitted),
    (STATMOUNT, SyscallRefusal::NotPermitted),
    (LISTMOUNT, SyscallRefusal::NotPermitted),
    // Their flags and modes are in memory, where a filter cannot read them; the older calls pass them in a
    // register.
    (libc::SYS_clone3, SyscallRefusal::NotImplemented),
    (libc::SYS_openat2, SyscallRefusal::NotImplemented),
    // Memory that can be filled without mapping it, which the memory monitor therefore does not see.
    (libc::SYS_memfd_create, SyscallRefusal::NotImplemented),
    (libc::SYS_memfd_secret, SyscallRefusal::NotImplemented),
    (libc::SYS_shmget, SyscallRefusal::NotImplemented),
    // Semaphores, messages and Landlock rules hold kernel memory in the same way.
    (libc::SYS_semget, SyscallRefusal::NotImplemented),
    (libc::SYS_msgget, SyscallRefusal::NotImplemented),
    (libc::SYS_mq_open, SyscallRefusal::NotImplemented),
    (libc::SYS_landlock_create_ruleset, SyscallRefusal::NotImplemented),
    // A user has a fixed number of fanotify groups.
    (libc::SYS_fanotify_init, SyscallRefusal::NotPermitted),
    // Opens files by handle, which bypasses every folder on the path.
    (libc::SYS_open_by_handle_at, SyscallRefusal::NotPermitted),
    // The machine itself.
    (libc::SYS_kexec_load, SyscallRefusal::NotPermitted),
    (libc::SYS_kexec_file_load, SyscallRefusal::NotPermitted),
    (libc::SYS_init_module, SyscallRefusal::NotPermitted),
    (libc::SYS_finit_module, SyscallRefusal::NotPermitted),
    (libc::SYS_delete_module, SyscallRefusal::NotPermitted),
    (libc::SYS_reboot, SyscallRefusal::NotPermitted),
    (libc::SYS_swapon, SyscallRefusal::NotPermitted),
    (libc::SYS_swapoff, SyscallRefusal::NotPermitted),
    (libc::SYS_acct, SyscallRefusal::NotPermitted),
    (libc::SYS_quotactl, SyscallRefusal::NotPermitted),
    (libc::SYS_quotactl_fd, SyscallRefusal::NotPermitted),
    (libc::SYS_syslog, SyscallRefusal::NotPermitted),
    (libc::SYS_settimeofday, SyscallRefusal::NotPermitted),
    (libc::SYS_clock_settime, SyscallRefusal::NotPermitted),
    (libc::SYS_clock_adjtime, SyscallRefusal::NotPermitted),
    (libc::SYS_sethostname, SyscallRefusal::NotPermitted),
    (libc::SYS_setdomainname, SyscallRefusal::NotPermitted),
    (libc::SYS_vhangup, SyscallRefusal::NotPermitted),
];

// Not yet in the `libc` crate; the numbers are the same on every architecture.
const STATMOUNT: libc::c_long = 457;
const LISTMOUNT: libc::c_long = 458;
const OPEN_TREE_ATTR: libc::c_long = 467;

/// Calls that set a file mode, with the index of the mode argument, counted from 0.
pub(crate) const MODE_CALLS: &[(libc::c_long, u32)] = &[
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_chmod, 1),
    (libc::SYS_fchmod, 1),
    (libc::SYS_fchmodat, 2),
    (libc::SYS_fchmodat2, 2),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_creat, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mkdir, 1),
    (libc::SYS_mkdirat, 2),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mknod, 1),
    (libc::SYS_mknodat, 2),
];

/// Calls that open a file. The mode argument is valid only if the flags, the argument before it, create a
/// file.
pub(crate) const OPEN_CALLS: &[(libc::c_long, u32)] = &[
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, 2),
    (libc::SYS_openat, 3),
];
/// O_CREAT and the distinguishing bit of O_TMPFILE.
pub(crate) const CREATE_FLAGS: u32 = 0x0040_0040;

/// Set-user-id and set-group-id bits, with which others would run a file with the user's privileges.
pub(crate) const SET_ID_BITS: u32 = 0o6000;

/// Socket types whose pairs can reach only each other. A datagram socket can send to any address.
pub(crate) const PAIR_TYPES: &[u32] = &[1 /* SOCK_STREAM */, 5 /* SOCK_SEQPACKET */];
/// Mask of the socket type in an argument that also has flags.
pub(crate) const SOCKET_TYPE_MASK: u32 = 0xf;

/// All namespace flags of `clone`.
pub(crate) const NEW_NAMESPACES: u32 = 0x7e02_0000;

/// `ioctl` requests that insert input into a terminal, and the one that selects a line discipline: a run has
/// its own terminals, and line disciplines are rarely audited kernel code.
pub(crate) const TERMINAL_INPUT_REQUESTS: &[u32] =
    &[0x5412 /* TIOCSTI */, 0x541c /* TIOCLINUX */, 0x5423 /* TIOCSETD */];

/// Socket families for a program with network access. The Unix family is not among them: pathname sockets
/// lead to daemons that act with the user's privileges, and no namespace separates those. Unix socket pairs
/// are always allowed.
pub(crate) const NETWORK_FAMILIES: &[u32] = &[2 /* AF_INET */, 10 /* AF_INET6 */];

/// Family that queries interfaces and routes; only its routing protocol is allowed.
pub(crate) const AF_NETLINK: u32 = 16;
pub(crate) const AF_UNIX: u32 = 1;

/// Calls that can pass descriptors. Descriptors in flight belong to no process, and a user has a fixed number
/// of them. Without a network, the simpler calls send everything else.
pub(crate) const SEND_CALLS: &[libc::c_long] = &[libc::SYS_sendmsg, libc::SYS_sendmmsg];

/// Requests for a larger buffer: of a socket, at the socket level, and of a pipe.
pub(crate) const SOCKET_LEVEL: u32 = 1; // SOL_SOCKET
pub(crate) const SEND_BUFFER_OPTIONS: &[u32] = &[7 /* SO_SNDBUF */, 32 /* SO_SNDBUFFORCE */];
pub(crate) const PIPE_SIZE: u32 = 1031; // F_SETPIPE_SZ

/// Locks that belong to an open file instead of a process: their number is unlimited, and they last as long
/// as the file is mapped, although no descriptor shows them. Also leases, which block others that open the
/// file. The refusal is the same as that of kernels without these commands.
pub(crate) const LOCK_COMMANDS: &[u32] = &[
    36,   // F_OFD_GETLK
    37,   // F_OFD_SETLK
    38,   // F_OFD_SETLKW
    1024, // F_SETLEASE
    1040, // F_SETDELEG
];

/// New thread, and a thread that shares the descriptor table.
pub(crate) const CLONE_THREAD: u32 = 0x0001_0000; // CLONE_THREAD
pub(crate) const CLONE_FILES: u32 = 0x0000_0400; // CLONE_FILES
/// `close_range` flag that gives the thread its own descriptor table.
pub(crate) const UNSHARE_DESCRIPTORS: u32 = 2; // CLOSE_RANGE_UNSHARE

/// Calls that create inotify instances. Without a user namespace they would use up the user's limit.
pub(crate) const INOTIFY_CALLS: &[libc::c_long] = &[
    #[cfg(target_arch = "x86_64")]
    libc::SYS_inotify_init,
    libc::SYS_inotify_init1,
];

/// `clone` flag for a child that gets its parent's parent. Neither it nor its creator becomes an orphan that
/// Sinew reaps, so the reap delay would not apply.
pub(crate) const CLONE_PARENT: u32 = 0x0000_8000; // CLONE_PARENT
/// `prctl` option with which a process adopts orphans itself.
pub(crate) const SET_SUBREAPER: u32 = 36; // PR_SET_CHILD_SUBREAPER

/// `prctl` option with which a process hides its memory and descriptors from the monitor.
pub(crate) const SET_DUMPABLE: u32 = 4; // PR_SET_DUMPABLE

/// `mmap` flags for memory without a file, and for shared memory. With both, written pages stay as long as
/// any part is mapped by any process, so they cannot be attributed and counted. A file in the scratch space
/// serves the same purpose and is counted.
pub(crate) const MAP_ANONYMOUS: u32 = 0x20; // MAP_ANONYMOUS
pub(crate) const MAP_SHARED: u32 = 0x01; // MAP_SHARED, and a bit of MAP_SHARED_VALIDATE
