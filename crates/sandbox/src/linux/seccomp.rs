//! Compiles the list of refused system calls into a seccomp program. A call from another architecture kills
//! the process, because its numbers mean other calls.

pub(crate) mod syscall_search;
pub(crate) mod syscalls;

use std::collections::BTreeMap;
use std::io;

use governance::files::NetworkAccess;
use libc::sock_filter;
use tool::result::SandboxTier;

use crate::launch::status::{SetupFailure, SetupStep};
use crate::layers::{self, SandboxLayer};
use crate::linux::raw_syscalls;
use crate::linux::seccomp::syscall_search::SyscallRule;
use crate::linux::seccomp::syscalls::{
    AF_NETLINK, AF_UNIX, CLONE_FILES, CLONE_PARENT, CLONE_THREAD, CREATE_FLAGS, INOTIFY_CALLS, LOCK_COMMANDS,
    MAP_ANONYMOUS, MAP_SHARED, MODE_CALLS, NETWORK_FAMILIES, NEW_NAMESPACES, OPEN_CALLS, PAIR_TYPES,
    PIPE_SIZE, REFUSED, SEND_BUFFER_OPTIONS, SEND_CALLS, SET_DUMPABLE, SET_ID_BITS, SET_SUBREAPER,
    SOCKET_LEVEL, SOCKET_TYPE_MASK, SyscallRefusal, TERMINAL_INPUT_REQUESTS, UNSHARE_DESCRIPTORS,
};

// Opcodes of classic BPF.
const LOAD: u16 = 0x20;
pub(crate) const JUMP_EQUAL: u16 = 0x15;
pub(crate) const JUMP_AT_LEAST: u16 = 0x35;
const JUMP_ANY_BIT: u16 = 0x45;
pub(crate) const RETURN: u16 = 0x06;
const AND_MASK: u16 = 0x54;

// Offsets in `struct seccomp_data`. Only the low half of an argument is loaded: the kernel takes these
// arguments as 32 bits.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const FIRST_ARGUMENT: u32 = 16;
const SECOND_ARGUMENT: u32 = 24;
const THIRD_ARGUMENT: u32 = 32;
const FOURTH_ARGUMENT: u32 = 40;
const ARGUMENT_BYTES: u32 = 8;

// Return values of the filter.
pub(crate) const ALLOW: u32 = 0x7fff_0000;
const KILL: u32 = 0x8000_0000;
const FAIL: u32 = 0x0005_0000;

#[cfg(target_arch = "x86_64")]
const NATIVE_ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const NATIVE_ARCHITECTURE: u32 = 0xc000_00b7;
/// First number of the x32 ABI, which shares everything with x86-64 except the numbers.
const X32_FIRST_NUMBER: u32 = 0x4000_0000;

/// Installs the filter.
pub(crate) fn install(tier: SandboxTier, network: NetworkAccess) -> Result<(), SetupFailure> {
    compile(tier, network)
        .and_then(|program| raw_syscalls::install_filter(&program))
        .map_err(|cause| SetupFailure::new(SetupStep::Seccomp, "filter", &cause))
}

fn compile(tier: SandboxTier, network: NetworkAccess) -> io::Result<Vec<sock_filter>> {
    let mut program = layers::if_enabled(SandboxLayer::Architecture, check_architecture());
    program.push(instruction(LOAD, NUMBER));
    program.extend(syscall_search::compile(&rules(tier, network))?);
    Ok(program)
}

/// Builds the rules for calls that are not simply allowed, ordered by number.
fn rules(tier: SandboxTier, network: NetworkAccess) -> Vec<SyscallRule> {
    let mut calls = BTreeMap::new();
    let mut put = |guard, number, part: Vec<sock_filter>| {
        if layers::is_enabled(guard) {
            calls.entry(syscall_number(number)).or_insert(part);
        }
    };
    for (number, refusal) in REFUSED {
        put(SandboxLayer::RefusedSyscalls, *number, vec![refuse(*refusal)]);
    }
    for number in SEND_CALLS.iter().filter(|_| network == NetworkAccess::Off) {
        put(SandboxLayer::DescriptorPassing, *number, vec![refuse(SyscallRefusal::NotPermitted)]);
    }
    for number in INOTIFY_CALLS.iter().filter(|_| tier != SandboxTier::Full) {
        put(SandboxLayer::InotifyLimits, *number, vec![refuse(SyscallRefusal::NotImplemented)]);
    }
    put(SandboxLayer::BufferSizes, libc::SYS_setsockopt, setsockopt_rule());
    put(SandboxLayer::AnonymousSharedMemory, libc::SYS_mmap, mmap_rule());
    put(SandboxLayer::SeparateDescriptorTables, libc::SYS_close_range, close_range_rule());
    for (number, argument_index) in MODE_CALLS {
        put(SandboxLayer::SetIdBits, *number, refuse_set_id(*argument_index));
    }
    for (number, argument_index) in OPEN_CALLS {
        put(SandboxLayer::SetIdBits, *number, refuse_set_id_on_create(*argument_index));
    }
    put(SandboxLayer::TerminalInput, libc::SYS_ioctl, ioctl_rule());
    put(SandboxLayer::SocketPairs, libc::SYS_socketpair, socketpair_rule());
    put(SandboxLayer::Sockets, libc::SYS_socket, socket_rule(network));
    // Several layers contribute to each of these; each contribution checks its own layer.
    let several =
        [(libc::SYS_fcntl, fcntl_rule()), (libc::SYS_prctl, prctl_rule()), (libc::SYS_clone, clone_rule())];
    calls.extend(several.map(|(number, part)| (syscall_number(number), part)));
    calls.into_iter().map(|(number, part)| SyscallRule { number, instructions: part }).collect()
}

fn check_architecture() -> Vec<sock_filter> {
    vec![
        instruction(LOAD, ARCHITECTURE),
        jump(JUMP_EQUAL, NATIVE_ARCHITECTURE, 1, 0),
        instruction(RETURN, KILL),
        instruction(LOAD, NUMBER),
        jump(JUMP_AT_LEAST, X32_FIRST_NUMBER, 0, 1),
        instruction(RETURN, KILL),
    ]
}

fn clone_rule() -> Vec<sock_filter> {
    let mut part = vec![instruction(LOAD, FIRST_ARGUMENT)];
    part.extend(layers::if_enabled(
        SandboxLayer::CloneNamespaces,
        vec![jump(JUMP_ANY_BIT, NEW_NAMESPACES, 0, 1), refuse(SyscallRefusal::NotPermitted)],
    ));
    part.extend(layers::if_enabled(
        SandboxLayer::OrphanAvoidance,
        vec![jump(JUMP_ANY_BIT, CLONE_PARENT, 0, 1), refuse(SyscallRefusal::NotPermitted)],
    ));
    part.extend(layers::if_enabled(
        SandboxLayer::SeparateDescriptorTables,
        vec![
            jump(JUMP_ANY_BIT, CLONE_THREAD, 0, 2),
            jump(JUMP_ANY_BIT, CLONE_FILES, 1, 0),
            refuse(SyscallRefusal::NotPermitted),
        ],
    ));
    part.push(instruction(RETURN, ALLOW));
    part
}

fn prctl_rule() -> Vec<sock_filter> {
    let mut part = vec![instruction(LOAD, FIRST_ARGUMENT)];
    part.extend(layers::if_enabled(
        SandboxLayer::DumpableRequests,
        vec![jump(JUMP_EQUAL, SET_DUMPABLE, 0, 1), refuse(SyscallRefusal::FakeSuccess)],
    ));
    part.extend(layers::if_enabled(
        SandboxLayer::OrphanAvoidance,
        vec![jump(JUMP_EQUAL, SET_SUBREAPER, 0, 1), refuse(SyscallRefusal::InvalidArgument)],
    ));
    part.push(instruction(RETURN, ALLOW));
    part
}

/// Refuses memory that is shared and has no file.
fn mmap_rule() -> Vec<sock_filter> {
    vec![
        instruction(LOAD, FOURTH_ARGUMENT),
        jump(JUMP_ANY_BIT, MAP_ANONYMOUS, 0, 2),
        jump(JUMP_ANY_BIT, MAP_SHARED, 0, 1),
        refuse(SyscallRefusal::NotPermitted),
        instruction(RETURN, ALLOW),
    ]
}

fn close_range_rule() -> Vec<sock_filter> {
    vec![
        instruction(LOAD, THIRD_ARGUMENT),
        jump(JUMP_ANY_BIT, UNSHARE_DESCRIPTORS, 0, 1),
        refuse(SyscallRefusal::NotPermitted),
        instruction(RETURN, ALLOW),
    ]
}

/// Ignores requests for larger send buffers, so that a socket holds no more than what is counted for it.
fn setsockopt_rule() -> Vec<sock_filter> {
    let mut part = vec![
        instruction(LOAD, SECOND_ARGUMENT),
        jump(JUMP_EQUAL, SOCKET_LEVEL, 1, 0),
        instruction(RETURN, ALLOW),
        instruction(LOAD, THIRD_ARGUMENT),
    ];
    for option in SEND_BUFFER_OPTIONS {
        part.extend([jump(JUMP_EQUAL, *option, 0, 1), refuse(SyscallRefusal::FakeSuccess)]);
    }
    part.push(instruction(RETURN, ALLOW));
    part
}

fn fcntl_rule() -> Vec<sock_filter> {
    let mut part = vec![instruction(LOAD, SECOND_ARGUMENT)];
    part.extend(layers::if_enabled(
        SandboxLayer::BufferSizes,
        vec![jump(JUMP_EQUAL, PIPE_SIZE, 0, 1), refuse(SyscallRefusal::NotPermitted)],
    ));
    for command in layers::if_enabled(SandboxLayer::OpenFileLocks, LOCK_COMMANDS) {
        part.extend([jump(JUMP_EQUAL, *command, 0, 1), refuse(SyscallRefusal::InvalidArgument)]);
    }
    part.push(instruction(RETURN, ALLOW));
    part
}

fn ioctl_rule() -> Vec<sock_filter> {
    let mut part = vec![instruction(LOAD, SECOND_ARGUMENT)];
    for request in TERMINAL_INPUT_REQUESTS {
        part.extend([jump(JUMP_EQUAL, *request, 0, 1), refuse(SyscallRefusal::NotPermitted)]);
    }
    part.push(instruction(RETURN, ALLOW));
    part
}

/// Refuses set-id bits in the mode argument at this index.
fn refuse_set_id(argument_index: u32) -> Vec<sock_filter> {
    vec![
        instruction(LOAD, FIRST_ARGUMENT + ARGUMENT_BYTES * argument_index),
        jump(JUMP_ANY_BIT, SET_ID_BITS, 0, 1),
        refuse(SyscallRefusal::NotPermitted),
        instruction(RETURN, ALLOW),
    ]
}

fn refuse_set_id_on_create(argument_index: u32) -> Vec<sock_filter> {
    let flags = FIRST_ARGUMENT + ARGUMENT_BYTES * (argument_index - 1);
    let mut part =
        vec![instruction(LOAD, flags), jump(JUMP_ANY_BIT, CREATE_FLAGS, 1, 0), instruction(RETURN, ALLOW)];
    part.extend(refuse_set_id(argument_index));
    part
}

fn socketpair_rule() -> Vec<sock_filter> {
    let mut part = vec![
        instruction(LOAD, FIRST_ARGUMENT),
        jump(JUMP_EQUAL, AF_UNIX, 1, 0),
        refuse(SyscallRefusal::NotPermitted),
        instruction(LOAD, SECOND_ARGUMENT),
        instruction(AND_MASK, SOCKET_TYPE_MASK),
    ];
    for kind in PAIR_TYPES {
        part.extend([jump(JUMP_EQUAL, *kind, 0, 1), instruction(RETURN, ALLOW)]);
    }
    part.push(refuse(SyscallRefusal::NotPermitted));
    part
}

fn socket_rule(network: NetworkAccess) -> Vec<sock_filter> {
    let mut part = vec![instruction(LOAD, FIRST_ARGUMENT)];
    match network {
        NetworkAccess::Off => {}
        NetworkAccess::Loopback | NetworkAccess::Full => {
            for family in NETWORK_FAMILIES {
                part.extend([jump(JUMP_EQUAL, *family, 0, 1), instruction(RETURN, ALLOW)]);
            }
            // The routing protocol is number 0.
            part.extend([
                jump(JUMP_EQUAL, AF_NETLINK, 0, 3),
                instruction(LOAD, THIRD_ARGUMENT),
                jump(JUMP_EQUAL, 0, 0, 1),
                instruction(RETURN, ALLOW),
            ]);
        }
    }
    part.push(refuse(SyscallRefusal::NotPermitted));
    part
}

fn refuse(refusal: SyscallRefusal) -> sock_filter {
    let code = match refusal {
        SyscallRefusal::NotPermitted => libc::EPERM,
        SyscallRefusal::NotImplemented => libc::ENOSYS,
        SyscallRefusal::InvalidArgument => libc::EINVAL,
        SyscallRefusal::FakeSuccess => 0,
    };
    instruction(RETURN, FAIL | code.unsigned_abs())
}

/// Converts a system call number, which is far below the bound.
fn syscall_number(number: libc::c_long) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

pub(crate) fn instruction(code: u16, k: u32) -> sock_filter {
    sock_filter { code, jt: 0, jf: 0, k }
}

pub(crate) fn jump(code: u16, k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter { code, jt, jf, k }
}

#[cfg(test)]
mod tests;
