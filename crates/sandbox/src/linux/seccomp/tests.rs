//! Tests of the filter: runs its instructions on system calls and checks the results.

use super::*;

/// Interprets the program for one call, as far as the kernel's BPF machine is used here.
fn answer(network: NetworkAccess, architecture: u32, number: u32, arguments: [u32; 4]) -> u32 {
    let program = compile(SandboxTier::Full, network).unwrap();
    let (mut at, mut loaded) = (0, 0);
    for _ in 0..program.len() + 1 {
        let sock_filter { code, jt, jf, k } = program[at];
        let taken = match code {
            LOAD => {
                loaded = match k {
                    NUMBER => number,
                    ARCHITECTURE => architecture,
                    FIRST_ARGUMENT => arguments[0],
                    SECOND_ARGUMENT => arguments[1],
                    THIRD_ARGUMENT => arguments[2],
                    FOURTH_ARGUMENT => arguments[3],
                    other => panic!("nothing is at {other}"),
                };
                at += 1;
                continue;
            }
            AND_MASK => {
                loaded &= k;
                at += 1;
                continue;
            }
            RETURN => return k,
            syscall_search::JUMP => {
                at += 1 + k as usize;
                continue;
            }
            JUMP_EQUAL => loaded == k,
            JUMP_AT_LEAST => loaded >= k,
            JUMP_ANY_BIT => loaded & k != 0,
            other => panic!("no instruction {other}"),
        };
        at += 1 + usize::from(if taken { jt } else { jf });
    }
    panic!("the program does not end");
}

fn check(network: NetworkAccess, number: libc::c_long, arguments: [u32; 3], expect: u32) {
    let [first, second, third] = arguments;
    let text = answer(network, NATIVE_ARCHITECTURE, syscall_number(number), [first, second, third, 0]);
    assert_eq!(text, expect, "call {number} {arguments:?} with network {network:?}");
}

const EPERM: u32 = FAIL | libc::EPERM.unsigned_abs();
const ENOSYS: u32 = FAIL | libc::ENOSYS.unsigned_abs();
const EINVAL: u32 = FAIL | libc::EINVAL.unsigned_abs();

#[test]
fn listed_calls_are_refused_and_others_allowed() {
    for (number, reported) in REFUSED {
        let expect = match reported {
            SyscallRefusal::NotPermitted => EPERM,
            SyscallRefusal::NotImplemented => ENOSYS,
            SyscallRefusal::InvalidArgument => EINVAL,
            SyscallRefusal::FakeSuccess => FAIL,
        };
        check(NetworkAccess::Full, *number, [0; 3], expect);
    }
    for number in [libc::SYS_read, libc::SYS_mmap, libc::SYS_recvfrom, libc::SYS_execve] {
        check(NetworkAccess::Off, number, [0; 3], ALLOW);
    }
    check(NetworkAccess::Off, libc::SYS_clone, [0x0100_0011, 0, 0], ALLOW);
    for namespace in [0x1000_0000, 0x0002_0000, 0x2000_0000, 0x4000_0000] {
        check(NetworkAccess::Off, libc::SYS_clone, [namespace | 17, 0, 0], EPERM);
    }
    check(NetworkAccess::Off, libc::SYS_ioctl, [0, 0x5412, 0], EPERM);
    check(NetworkAccess::Off, libc::SYS_ioctl, [0, 0x541c, 0], EPERM);
    check(NetworkAccess::Off, libc::SYS_ioctl, [0, 0x5423, 0], EPERM);
    check(NetworkAccess::Off, libc::SYS_ioctl, [0, 0x5401, 0], ALLOW);
}

#[test]
fn locks_without_a_descriptor_are_refused() {
    for command in [36, 37, 38, 1024, 1040] {
        check(NetworkAccess::Full, libc::SYS_fcntl, [3, command, 0], EINVAL);
    }
    for (command, _ordinary) in [(5, "F_GETLK"), (6, "F_SETLK"), (7, "F_SETLKW"), (1030, "F_DUPFD_CLOEXEC")] {
        check(NetworkAccess::Full, libc::SYS_fcntl, [3, command, 0], ALLOW);
    }
}

#[test]
fn anonymous_shared_memory_is_refused() {
    let mmap = |flags| {
        answer(NetworkAccess::Off, NATIVE_ARCHITECTURE, syscall_number(libc::SYS_mmap), [0, 0, 0, flags])
    };
    for (flags, expect) in [(0x22, ALLOW), (0x4022, ALLOW), (0x01, ALLOW), (0x03, ALLOW)] {
        assert_eq!(mmap(flags), expect, "{flags:#x}");
    }
    assert_eq!([mmap(0x21), mmap(0x23), mmap(0x4021)], [EPERM; 3]);
}

#[test]
fn uncounted_kernel_memory_cannot_be_enlarged_or_hidden() {
    let of_c_library = 0x003d_0f00;
    check(NetworkAccess::Off, libc::SYS_clone, [of_c_library, 0, 0], ALLOW);
    check(NetworkAccess::Off, libc::SYS_clone, [of_c_library & !CLONE_FILES, 0, 0], EPERM);
    check(NetworkAccess::Off, libc::SYS_close_range, [3, u32::MAX, 4], ALLOW);
    check(NetworkAccess::Off, libc::SYS_close_range, [3, u32::MAX, 6], EPERM);
    for number in [libc::SYS_sendmsg, libc::SYS_sendmmsg] {
        check(NetworkAccess::Off, number, [0; 3], EPERM);
        check(NetworkAccess::Loopback, number, [0; 3], ALLOW);
    }
    for option in [7, 32] {
        check(NetworkAccess::Full, libc::SYS_setsockopt, [3, 1, option], FAIL);
    }
    check(NetworkAccess::Full, libc::SYS_setsockopt, [3, 1, 2], ALLOW);
    check(NetworkAccess::Full, libc::SYS_setsockopt, [3, 6, 7], ALLOW);
    check(NetworkAccess::Off, libc::SYS_prctl, [4, 0, 0], FAIL);
    check(NetworkAccess::Off, libc::SYS_prctl, [15, 0, 0], ALLOW);
    check(NetworkAccess::Off, libc::SYS_prctl, [36, 1, 0], EINVAL);
    check(NetworkAccess::Off, libc::SYS_clone, [0x8011, 0, 0], EPERM);
    check(NetworkAccess::Off, libc::SYS_fcntl, [3, 1031, 0], EPERM);
    check(NetworkAccess::Off, libc::SYS_fcntl, [3, 1030, 0], ALLOW);
}

/// Written by hand instead of derived from the list, so that the test notices a line lost from it.
#[test]
fn calls_that_weaken_or_bypass_the_sandbox_are_refused() {
    let refused = [
        libc::SYS_ptrace,
        libc::SYS_process_vm_readv,
        libc::SYS_process_vm_writev,
        libc::SYS_pidfd_getfd,
        libc::SYS_kcmp,
        libc::SYS_bpf,
        libc::SYS_perf_event_open,
        libc::SYS_userfaultfd,
        libc::SYS_keyctl,
        libc::SYS_add_key,
        libc::SYS_request_key,
        libc::SYS_mount,
        libc::SYS_umount2,
        libc::SYS_pivot_root,
        libc::SYS_setns,
        libc::SYS_unshare,
        libc::SYS_open_tree,
        libc::SYS_move_mount,
        libc::SYS_fsopen,
        libc::SYS_fsmount,
        libc::SYS_mount_setattr,
        libc::SYS_open_by_handle_at,
        libc::SYS_kexec_load,
        libc::SYS_kexec_file_load,
        libc::SYS_init_module,
        libc::SYS_finit_module,
        libc::SYS_delete_module,
        libc::SYS_reboot,
        libc::SYS_swapon,
        libc::SYS_swapoff,
        libc::SYS_acct,
        libc::SYS_quotactl,
        libc::SYS_quotactl_fd,
    ];
    for number in refused {
        check(NetworkAccess::Full, number, [0; 3], EPERM);
    }
    let older = [libc::SYS_io_uring_setup, libc::SYS_io_uring_enter, libc::SYS_clone3, libc::SYS_openat2];
    let unseen = [libc::SYS_memfd_create, libc::SYS_memfd_secret, libc::SYS_shmget];
    for number in older.into_iter().chain(unseen) {
        check(NetworkAccess::Full, number, [0; 3], ENOSYS);
    }
}

#[test]
fn set_id_modes_are_refused() {
    let check = |number: libc::c_long, arguments: [u32; 4], expect: u32| {
        let text = answer(NetworkAccess::Off, NATIVE_ARCHITECTURE, syscall_number(number), arguments);
        assert_eq!(text, expect, "call {number} {arguments:?}");
    };
    for bits in [0o4755, 0o2755, 0o6777] {
        check(libc::SYS_fchmod, [3, bits, 0, 0], EPERM);
        check(libc::SYS_fchmodat, [3, 0, bits, 0], EPERM);
        check(libc::SYS_mkdirat, [3, 0, bits, 0], EPERM);
        check(libc::SYS_mknodat, [3, 0, bits, 0], EPERM);
        check(libc::SYS_openat, [3, 0, 0o101, bits], EPERM);
        check(libc::SYS_openat, [3, 0, 0o20200002, bits], EPERM);
        check(libc::SYS_openat, [3, 0, 0, bits], ALLOW);
    }
    check(libc::SYS_fchmod, [3, 0o1777, 0, 0], ALLOW);
    check(libc::SYS_openat, [3, 0, 0o101, 0o644], ALLOW);
}

/// A datagram pair could send to any address.
#[test]
fn socket_pairs_reach_only_each_other() {
    for (kind, expect) in [(1, ALLOW), (5, ALLOW), (2, EPERM), (3, EPERM)] {
        for flags in [0, 0x800, 0x80000, 0x80800] {
            check(NetworkAccess::Full, libc::SYS_socketpair, [AF_UNIX, kind | flags, 0], expect);
        }
    }
}

#[test]
fn call_of_another_architecture_kills_the_process() {
    assert_eq!(answer(NetworkAccess::Full, 0x4000_0003, 1, [0; 4]), KILL, "i386");
    assert_eq!(answer(NetworkAccess::Full, NATIVE_ARCHITECTURE, X32_FIRST_NUMBER | 1, [0; 4]), KILL, "x32");
}

#[test]
fn sockets_are_limited_to_the_granted_network() {
    for family in 0..64 {
        check(NetworkAccess::Off, libc::SYS_socket, [family, 1, 0], EPERM);
        let expect = if family == AF_UNIX { ALLOW } else { EPERM };
        check(NetworkAccess::Off, libc::SYS_socketpair, [family, 1, 0], expect);
        let known = NETWORK_FAMILIES.contains(&family) || family == AF_NETLINK;
        for network in [NetworkAccess::Loopback, NetworkAccess::Full] {
            check(network, libc::SYS_socket, [family, 1, 0], if known { ALLOW } else { EPERM });
        }
    }
    check(NetworkAccess::Full, libc::SYS_socket, [AF_NETLINK, 3, 15], EPERM);
}
