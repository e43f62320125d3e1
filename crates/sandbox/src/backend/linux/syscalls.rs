//! The system calls that a confined program does not get, and why. Data; `filter` makes a program of it.

/// What a refused call is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// That it is not permitted.
    NotPermitted,
    /// That this kernel does not have it, so that libraries take the older way, which can be looked into.
    NotThere,
    /// That it does not do for these files, so that libraries copy by themselves.
    Unsuited,
    /// That it is done, though it is not: it is a wish that the kernel need not fulfil.
    Ignored,
}

/// Calls that are refused whatever their arguments are.
pub(crate) const REFUSED: &[(libc::c_long, Answer)] = &[
    // Other processes: their memory, their descriptors, what they share.
    (libc::SYS_ptrace, Answer::NotPermitted),
    (libc::SYS_process_vm_readv, Answer::NotPermitted),
    (libc::SYS_process_vm_writev, Answer::NotPermitted),
    (libc::SYS_process_madvise, Answer::NotPermitted),
    (libc::SYS_pidfd_getfd, Answer::NotPermitted),
    (libc::SYS_kcmp, Answer::NotPermitted),
    // Work that the kernel does later, past this filter.
    (libc::SYS_io_uring_setup, Answer::NotThere),
    (libc::SYS_io_uring_enter, Answer::NotThere),
    (libc::SYS_io_uring_register, Answer::NotThere),
    // What waits there holds files that no descriptor leads to, and the machine has a fixed number of places to wait in.
    (libc::SYS_io_setup, Answer::NotThere),
    // A pipe that they fill counts as its few pages, and may hold whole large ones, or a file's that is gone.
    (libc::SYS_vmsplice, Answer::Unsuited),
    (libc::SYS_splice, Answer::Unsuited),
    (libc::SYS_tee, Answer::Unsuited),
    (libc::SYS_sendfile, Answer::Unsuited),
    // Programs and probes in the kernel.
    (libc::SYS_bpf, Answer::NotPermitted),
    (libc::SYS_perf_event_open, Answer::NotPermitted),
    (libc::SYS_userfaultfd, Answer::NotPermitted),
    // Keys of the user's session, which no namespace separates.
    (libc::SYS_keyctl, Answer::NotPermitted),
    (libc::SYS_add_key, Answer::NotPermitted),
    (libc::SYS_request_key, Answer::NotPermitted),
    // Mounts and namespaces: what the walls are made of.
    (libc::SYS_mount, Answer::NotPermitted),
    (libc::SYS_umount2, Answer::NotPermitted),
    (libc::SYS_pivot_root, Answer::NotPermitted),
    (libc::SYS_chroot, Answer::NotPermitted),
    (libc::SYS_setns, Answer::NotPermitted),
    (libc::SYS_unshare, Answer::NotPermitted),
    (libc::SYS_open_tree, Answer::NotPermitted),
    (libc::SYS_move_mount, Answer::NotPermitted),
    (libc::SYS_fsopen, Answer::NotPermitted),
    (libc::SYS_fsconfig, Answer::NotPermitted),
    (libc::SYS_fsmount, Answer::NotPermitted),
    (libc::SYS_fspick, Answer::NotPermitted),
    (libc::SYS_mount_setattr, Answer::NotPermitted),
    (OPEN_TREE_ATTR, Answer::NotPermitted),
    (STATMOUNT, Answer::NotPermitted),
    (LISTMOUNT, Answer::NotPermitted),
    // Their flags and modes are in memory, where a filter cannot look; the older calls have them in a register.
    (libc::SYS_clone3, Answer::NotThere),
    (libc::SYS_openat2, Answer::NotThere),
    // Memory that no process has to map to fill it: who counts what processes hold does not see it.
    (libc::SYS_memfd_create, Answer::NotThere),
    (libc::SYS_memfd_secret, Answer::NotThere),
    (libc::SYS_shmget, Answer::NotThere),
    // The same of semaphores, of messages, and of rules for files and ports.
    (libc::SYS_semget, Answer::NotThere),
    (libc::SYS_msgget, Answer::NotThere),
    (libc::SYS_mq_open, Answer::NotThere),
    (libc::SYS_landlock_create_ruleset, Answer::NotThere),
    // Of these the user has a fixed number.
    (libc::SYS_fanotify_init, Answer::NotPermitted),
    // Files by a number that passes every folder.
    (libc::SYS_open_by_handle_at, Answer::NotPermitted),
    // The machine itself.
    (libc::SYS_kexec_load, Answer::NotPermitted),
    (libc::SYS_kexec_file_load, Answer::NotPermitted),
    (libc::SYS_init_module, Answer::NotPermitted),
    (libc::SYS_finit_module, Answer::NotPermitted),
    (libc::SYS_delete_module, Answer::NotPermitted),
    (libc::SYS_reboot, Answer::NotPermitted),
    (libc::SYS_swapon, Answer::NotPermitted),
    (libc::SYS_swapoff, Answer::NotPermitted),
    (libc::SYS_acct, Answer::NotPermitted),
    (libc::SYS_quotactl, Answer::NotPermitted),
    (libc::SYS_syslog, Answer::NotPermitted),
    (libc::SYS_settimeofday, Answer::NotPermitted),
    (libc::SYS_clock_settime, Answer::NotPermitted),
    (libc::SYS_clock_adjtime, Answer::NotPermitted),
    (libc::SYS_sethostname, Answer::NotPermitted),
    (libc::SYS_setdomainname, Answer::NotPermitted),
    (libc::SYS_vhangup, Answer::NotPermitted),
];

// Newer than the names of the library; the numbers are the same everywhere.
const STATMOUNT: libc::c_long = 457;
const LISTMOUNT: libc::c_long = 458;
const OPEN_TREE_ATTR: libc::c_long = 467;

/// Calls that give a file its mode, and which of their arguments that is, counted from 0.
pub(crate) const MODES: &[(libc::c_long, u32)] = &[
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

/// Calls that open a file. They have a mode only where their flags, the argument before it, say that they make one.
pub(crate) const OPENS: &[(libc::c_long, u32)] = &[
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, 2),
    (libc::SYS_openat, 3),
];
/// The flags that say so: O_CREAT and the bit of O_TMPFILE.
pub(crate) const MAKES: u32 = 0x0040_0040;

/// The bits by which others would run a file with the user's powers.
pub(crate) const SET_ID: u32 = 0o6000;

/// Kinds of pairs whose ends can reach nobody but each other. A datagram can be sent to any name.
pub(crate) const PAIRED: &[u32] = &[1 /* SOCK_STREAM */, 5 /* SOCK_SEQPACKET */];
/// Where the kind is in an argument that has flags as well.
pub(crate) const KIND: u32 = 0xf;

/// Every namespace a `clone` can ask for.
pub(crate) const NEW_NAMESPACES: u32 = 0x7e02_0000;

/// Requests of `ioctl` that type into somebody's terminal, and the one that has another part of the kernel read along: a
/// run has terminals of its own, and what can be put on them is seldom looked at.
pub(crate) const TYPING: &[u32] =
    &[0x5412 /* TIOCSTI */, 0x541c /* TIOCLINUX */, 0x5423 /* TIOCSETD */];

/// Families of sockets for a program that has some network. A pathname of the Unix family leads to daemons that act
/// with the user's powers, and no namespace separates those, so that family is in no list; its pairs are always allowed.
pub(crate) const NETWORK_FAMILIES: &[u32] = &[2 /* AF_INET */, 10 /* AF_INET6 */];

/// How interfaces and routes are asked for; of its protocols only the one for routes.
pub(crate) const NETLINK: u32 = 16;
pub(crate) const UNIX: u32 = 1;

/// Calls that hand descriptors on. On their way they belong to nobody, and of those that are on their way a user has
/// a fixed number. Without a network there is nothing else to send that the simpler calls do not send.
pub(crate) const SENDING: &[libc::c_long] = &[libc::SYS_sendmsg, libc::SYS_sendmmsg];

/// How a larger buffer is wished for: of a socket, at the level of all sockets, and of a pipe.
pub(crate) const SOCKET_LEVEL: u32 = 1; // SOL_SOCKET
pub(crate) const SEND_BUFFER: &[u32] = &[7 /* SO_SNDBUF */, 32 /* SO_SNDBUFFORCE */];
pub(crate) const PIPE_SIZE: u32 = 1031; // F_SETPIPE_SZ

/// Locks that are an open file's and no process's: as many as one likes, which stay for as long as it is mapped, though no
/// descriptor shows them. And leases, for which others who open the file wait. Kernels that have neither say the same.
pub(crate) const LOCKS: &[u32] = &[
    36,   // F_OFD_GETLK
    37,   // F_OFD_SETLK
    38,   // F_OFD_SETLKW
    1024, // F_SETLEASE
    1040, // F_SETDELEG
];

/// A new thread, and one that shares its descriptors with the others.
pub(crate) const THREAD: u32 = 0x0001_0000; // CLONE_THREAD
pub(crate) const SHARED_DESCRIPTORS: u32 = 0x0000_0400; // CLONE_FILES
/// How `close_range` makes a table of descriptors of a thread's own.
pub(crate) const OWN_TABLE: u32 = 2; // CLOSE_RANGE_UNSHARE

/// Calls that begin to watch files, which where there is no namespace use up what the user has of it.
pub(crate) const WATCHING: &[libc::c_long] = &[
    #[cfg(target_arch = "x86_64")]
    libc::SYS_inotify_init,
    libc::SYS_inotify_init1,
];

/// A child that has its parent's parent. Neither it nor its maker becomes an orphan that we bury, so nothing slows it.
pub(crate) const SIBLING: u32 = 0x0000_8000; // CLONE_PARENT
/// How a process has orphans come to it instead: an option of `prctl`.
pub(crate) const ADOPT: u32 = 36; // PR_SET_CHILD_SUBREAPER

/// How a process hides what it has from who looks into it: an option of `prctl`.
pub(crate) const HIDE: u32 = 4; // PR_SET_DUMPABLE

/// Pages of a mapping that has no file, and of one that is shared. With both, what was written stays for as long as any of
/// it is mapped, whoever still has it: nobody could count it. A file in the scratch space does as well, and is counted.
pub(crate) const WITHOUT_FILE: u32 = 0x20; // MAP_ANONYMOUS
pub(crate) const SHARED: u32 = 0x01; // MAP_SHARED, and a bit of MAP_SHARED_VALIDATE
