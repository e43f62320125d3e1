//! Compiles the list of refused system calls into a seccomp program. A call from another architecture kills
//! the process, because its numbers mean other calls.

pub(crate) mod search;
pub(crate) mod syscalls;

use std::collections::BTreeMap;
use std::io;

use governance::Network;
use libc::sock_filter;
use tool::SandboxTier;

use crate::launch::status::{Problem, Step};
use crate::layers::{self, Guard};
use crate::linux::raw_syscalls;
use crate::linux::seccomp::search::Call;
use crate::linux::seccomp::syscalls::{
    ADOPT, Answer, HIDE, KIND, LOCKS, MAKES, MODES, NETLINK, NETWORK_FAMILIES, NEW_NAMESPACES, OPENS,
    OWN_TABLE, PAIRED, PIPE_SIZE, REFUSED, SEND_BUFFER, SENDING, SET_ID, SHARED, SHARED_DESCRIPTORS, SIBLING,
    SOCKET_LEVEL, THREAD, TYPING, UNIX, WATCHING, WITHOUT_FILE,
};

// Opcodes of classic BPF.
const LOAD: u16 = 0x20;
pub(crate) const JUMP_EQUAL: u16 = 0x15;
pub(crate) const JUMP_AT_LEAST: u16 = 0x35;
const JUMP_ANY_BIT: u16 = 0x45;
pub(crate) const RETURN: u16 = 0x06;
const KEEP_BITS: u16 = 0x54;

// Offsets in `struct seccomp_data`. Only the low half of an argument is loaded: the kernel takes these
// arguments as 32 bits.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const FIRST_ARGUMENT: u32 = 16;
const SECOND_ARGUMENT: u32 = 24;
const THIRD_ARGUMENT: u32 = 32;
const FOURTH_ARGUMENT: u32 = 40;
const ARGUMENT: u32 = 8;

// Return values of the filter.
pub(crate) const ALLOW: u32 = 0x7fff_0000;
const KILL: u32 = 0x8000_0000;
const FAIL: u32 = 0x0005_0000;

#[cfg(target_arch = "x86_64")]
const OURS: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const OURS: u32 = 0xc000_00b7;
/// First number of the x32 ABI, which shares everything with x86-64 except the numbers.
const X32: u32 = 0x4000_0000;

/// Installs the filter.
pub(crate) fn install(tier: SandboxTier, network: Network) -> Result<(), Problem> {
    program(tier, network)
        .and_then(|program| raw_syscalls::filter_calls(&program))
        .map_err(|cause| Problem::new(Step::Seccomp, "filter", &cause))
}

fn program(tier: SandboxTier, network: Network) -> io::Result<Vec<sock_filter>> {
    let mut program = layers::held(Guard::Architecture, only_ours());
    program.push(step(LOAD, NUMBER));
    program.extend(search::program(&calls(tier, network))?);
    Ok(program)
}

/// Builds the rules for calls that are not simply allowed, ordered by number.
fn calls(tier: SandboxTier, network: Network) -> Vec<Call> {
    let mut calls = BTreeMap::new();
    let mut put = |guard, number, part: Vec<sock_filter>| {
        if layers::stands(guard) {
            calls.entry(narrow(number)).or_insert(part);
        }
    };
    for (number, answer) in REFUSED {
        put(Guard::Calls, *number, vec![refuse(*answer)]);
    }
    for number in SENDING.iter().filter(|_| network == Network::Off) {
        put(Guard::Sending, *number, vec![refuse(Answer::NotPermitted)]);
    }
    for number in WATCHING.iter().filter(|_| tier != SandboxTier::Full) {
        put(Guard::WatchedFiles, *number, vec![refuse(Answer::NotThere)]);
    }
    put(Guard::Buffers, libc::SYS_setsockopt, send_buffers());
    put(Guard::SharedPages, libc::SYS_mmap, no_shared_pages());
    put(Guard::OwnDescriptors, libc::SYS_close_range, own_tables());
    for (number, place) in MODES {
        put(Guard::SetId, *number, no_powers(*place));
    }
    for (number, place) in OPENS {
        put(Guard::SetId, *number, made_without_powers(*place));
    }
    put(Guard::Typing, libc::SYS_ioctl, typing());
    put(Guard::Pairs, libc::SYS_socketpair, only_pairs());
    put(Guard::Sockets, libc::SYS_socket, sockets(network));
    // Several layers contribute to each of these; each contribution checks its own layer.
    let several = [
        (libc::SYS_fcntl, wishes_of_files()),
        (libc::SYS_prctl, wishes_of_processes()),
        (libc::SYS_clone, clones()),
    ];
    calls.extend(several.map(|(number, part)| (narrow(number), part)));
    calls.into_iter().map(|(number, part)| Call { number, part }).collect()
}

fn only_ours() -> Vec<sock_filter> {
    vec![
        step(LOAD, ARCHITECTURE),
        jump(JUMP_EQUAL, OURS, 1, 0),
        step(RETURN, KILL),
        step(LOAD, NUMBER),
        jump(JUMP_AT_LEAST, X32, 0, 1),
        step(RETURN, KILL),
    ]
}

fn clones() -> Vec<sock_filter> {
    let mut part = vec![step(LOAD, FIRST_ARGUMENT)];
    part.extend(layers::held(
        Guard::CloneFlags,
        vec![jump(JUMP_ANY_BIT, NEW_NAMESPACES, 0, 1), refuse(Answer::NotPermitted)],
    ));
    part.extend(layers::held(
        Guard::Orphans,
        vec![jump(JUMP_ANY_BIT, SIBLING, 0, 1), refuse(Answer::NotPermitted)],
    ));
    part.extend(layers::held(
        Guard::OwnDescriptors,
        vec![
            jump(JUMP_ANY_BIT, THREAD, 0, 2),
            jump(JUMP_ANY_BIT, SHARED_DESCRIPTORS, 1, 0),
            refuse(Answer::NotPermitted),
        ],
    ));
    part.push(step(RETURN, ALLOW));
    part
}

fn wishes_of_processes() -> Vec<sock_filter> {
    let mut part = vec![step(LOAD, FIRST_ARGUMENT)];
    part.extend(layers::held(Guard::Hiding, vec![jump(JUMP_EQUAL, HIDE, 0, 1), refuse(Answer::Ignored)]));
    part.extend(layers::held(Guard::Orphans, vec![jump(JUMP_EQUAL, ADOPT, 0, 1), refuse(Answer::Unsuited)]));
    part.push(step(RETURN, ALLOW));
    part
}

/// Refuses memory that is shared and has no file.
fn no_shared_pages() -> Vec<sock_filter> {
    vec![
        step(LOAD, FOURTH_ARGUMENT),
        jump(JUMP_ANY_BIT, WITHOUT_FILE, 0, 2),
        jump(JUMP_ANY_BIT, SHARED, 0, 1),
        refuse(Answer::NotPermitted),
        step(RETURN, ALLOW),
    ]
}

fn own_tables() -> Vec<sock_filter> {
    vec![
        step(LOAD, THIRD_ARGUMENT),
        jump(JUMP_ANY_BIT, OWN_TABLE, 0, 1),
        refuse(Answer::NotPermitted),
        step(RETURN, ALLOW),
    ]
}

/// Ignores requests for larger send buffers, so that a socket holds no more than what is counted for it.
fn send_buffers() -> Vec<sock_filter> {
    let mut part = vec![
        step(LOAD, SECOND_ARGUMENT),
        jump(JUMP_EQUAL, SOCKET_LEVEL, 1, 0),
        step(RETURN, ALLOW),
        step(LOAD, THIRD_ARGUMENT),
    ];
    for option in SEND_BUFFER {
        part.extend([jump(JUMP_EQUAL, *option, 0, 1), refuse(Answer::Ignored)]);
    }
    part.push(step(RETURN, ALLOW));
    part
}

fn wishes_of_files() -> Vec<sock_filter> {
    let mut part = vec![step(LOAD, SECOND_ARGUMENT)];
    part.extend(layers::held(
        Guard::Buffers,
        vec![jump(JUMP_EQUAL, PIPE_SIZE, 0, 1), refuse(Answer::NotPermitted)],
    ));
    for wish in layers::held(Guard::Locks, LOCKS) {
        part.extend([jump(JUMP_EQUAL, *wish, 0, 1), refuse(Answer::Unsuited)]);
    }
    part.push(step(RETURN, ALLOW));
    part
}

fn typing() -> Vec<sock_filter> {
    let mut part = vec![step(LOAD, SECOND_ARGUMENT)];
    for request in TYPING {
        part.extend([jump(JUMP_EQUAL, *request, 0, 1), refuse(Answer::NotPermitted)]);
    }
    part.push(step(RETURN, ALLOW));
    part
}

/// Refuses set-id bits in the mode argument at this index.
fn no_powers(place: u32) -> Vec<sock_filter> {
    vec![
        step(LOAD, FIRST_ARGUMENT + ARGUMENT * place),
        jump(JUMP_ANY_BIT, SET_ID, 0, 1),
        refuse(Answer::NotPermitted),
        step(RETURN, ALLOW),
    ]
}

fn made_without_powers(place: u32) -> Vec<sock_filter> {
    let flags = FIRST_ARGUMENT + ARGUMENT * (place - 1);
    let mut part = vec![step(LOAD, flags), jump(JUMP_ANY_BIT, MAKES, 1, 0), step(RETURN, ALLOW)];
    part.extend(no_powers(place));
    part
}

fn only_pairs() -> Vec<sock_filter> {
    let mut part = vec![
        step(LOAD, FIRST_ARGUMENT),
        jump(JUMP_EQUAL, UNIX, 1, 0),
        refuse(Answer::NotPermitted),
        step(LOAD, SECOND_ARGUMENT),
        step(KEEP_BITS, KIND),
    ];
    for kind in PAIRED {
        part.extend([jump(JUMP_EQUAL, *kind, 0, 1), step(RETURN, ALLOW)]);
    }
    part.push(refuse(Answer::NotPermitted));
    part
}

fn sockets(network: Network) -> Vec<sock_filter> {
    let mut part = vec![step(LOAD, FIRST_ARGUMENT)];
    match network {
        Network::Off => {}
        Network::Loopback | Network::Full => {
            for family in NETWORK_FAMILIES {
                part.extend([jump(JUMP_EQUAL, *family, 0, 1), step(RETURN, ALLOW)]);
            }
            // The routing protocol is number 0.
            part.extend([
                jump(JUMP_EQUAL, NETLINK, 0, 3),
                step(LOAD, THIRD_ARGUMENT),
                jump(JUMP_EQUAL, 0, 0, 1),
                step(RETURN, ALLOW),
            ]);
        }
    }
    part.push(refuse(Answer::NotPermitted));
    part
}

fn refuse(answer: Answer) -> sock_filter {
    let code = match answer {
        Answer::NotPermitted => libc::EPERM,
        Answer::NotThere => libc::ENOSYS,
        Answer::Unsuited => libc::EINVAL,
        Answer::Ignored => 0,
    };
    step(RETURN, FAIL | code.unsigned_abs())
}

/// Converts a system call number, which is far below the bound.
fn narrow(number: libc::c_long) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

pub(crate) fn step(code: u16, k: u32) -> sock_filter {
    sock_filter { code, jt: 0, jf: 0, k }
}

pub(crate) fn jump(code: u16, k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter { code, jt, jf, k }
}

#[cfg(test)]
mod tests;
