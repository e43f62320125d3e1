//! Compiles the seccomp rules into a binary search over system call numbers. When a filter is installed, the
//! kernel runs it once for every system call number, and afterwards for each call that is not always allowed.
//! With a linear list, most of the cost of a filter would be walking that list.

use std::io;

use libc::sock_filter;

use crate::linux::seccomp::{ALLOW, JUMP_AT_LEAST, JUMP_EQUAL, RETURN, instruction, jump};

/// Unconditional jump over `k` instructions.
pub(crate) const JUMP: u16 = 0x05;
/// Largest number of rules that are compared one after the other.
const MAX_LINEAR: usize = 6;

/// Rule for one system call: its number and the instructions to run, which end in a return.
pub(crate) struct SyscallRule {
    pub(crate) number: u32,
    pub(crate) instructions: Vec<sock_filter>,
}

/// Compiles rules sorted by number into a program that expects the number in the accumulator. Calls without a
/// rule are allowed. A rule longer than a conditional jump can skip is an error, because other numbers would
/// land in the middle of it.
pub(crate) fn compile(calls: &[SyscallRule]) -> io::Result<Vec<sock_filter>> {
    let (lower, upper) = calls.split_at(calls.len() / 2);
    match upper.first() {
        Some(first) if calls.len() > MAX_LINEAR => {
            let (below, above) = (compile(lower)?, compile(upper)?);
            let mut whole = branch(first.number, below.len());
            whole.extend(below);
            whole.extend(above);
            Ok(whole)
        }
        _ => linear(calls),
    }
}

/// Skips `over` instructions if the number is at least `number`.
fn branch(number: u32, over: usize) -> Vec<sock_filter> {
    match u8::try_from(over) {
        Ok(over) => vec![jump(JUMP_AT_LEAST, number, over, 0)],
        Err(_) => {
            vec![
                jump(JUMP_AT_LEAST, number, 0, 1),
                instruction(JUMP, u32::try_from(over).unwrap_or(u32::MAX)),
            ]
        }
    }
}

fn linear(calls: &[SyscallRule]) -> io::Result<Vec<sock_filter>> {
    let mut whole = Vec::new();
    for SyscallRule { number, instructions: part } in calls {
        let past = u8::try_from(part.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        whole.push(jump(JUMP_EQUAL, *number, 0, past));
        whole.extend(part);
    }
    whole.push(instruction(RETURN, ALLOW));
    Ok(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a program on a number; returns the result and the number of steps.
    fn answer(program: &[sock_filter], number: u32) -> (u32, usize) {
        let (mut at, mut steps) = (0, 0);
        loop {
            let sock_filter { code, jt, jf, k } = program[at];
            steps += 1;
            at += 1 + match code {
                RETURN => return (k, steps),
                JUMP => k as usize,
                JUMP_EQUAL => usize::from(if number == k { jt } else { jf }),
                JUMP_AT_LEAST => usize::from(if number >= k { jt } else { jf }),
                other => panic!("no instruction {other}"),
            };
        }
    }

    #[test]
    fn every_number_finds_its_own_rule_in_few_steps() {
        for count in [0, 1, 5, 6, 7, 100, 200] {
            let part = |number| vec![instruction(RETURN, number); 1 + number as usize % 9];
            let calls: Vec<SyscallRule> = (0..count)
                .map(|place| place * 3 + 1)
                .map(|number| SyscallRule { number, instructions: part(number) })
                .collect();
            let program = compile(&calls).unwrap();
            for number in 0..700 {
                let is_listed = calls.iter().any(|call| call.number == number);
                let (text, steps) = answer(&program, number);
                assert_eq!(text, if is_listed { number } else { ALLOW }, "{number} of {count}");
                assert!(steps <= 20, "{steps} steps for {number} of {count}");
            }
        }
    }

    #[test]
    fn rule_too_long_for_a_jump_is_refused() {
        let of = |length| {
            compile(&[SyscallRule { number: 7, instructions: vec![instruction(RETURN, 1); length] }])
        };
        assert_eq!(answer(&of(255).unwrap(), 8).0, ALLOW);
        assert!(of(256).is_err());
    }
}
