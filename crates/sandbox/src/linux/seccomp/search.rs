//! Compiles the seccomp rules into a binary search over system call numbers. When a filter is installed, the
//! kernel runs it once for every system call number, and afterwards for each call that is not always allowed.
//! With a linear list, most of the cost of a filter would be walking that list.

use std::io;

use libc::sock_filter;

use crate::linux::seccomp::{ALLOW, JUMP_AT_LEAST, JUMP_EQUAL, RETURN, jump, step};

/// Unconditional jump over `k` instructions.
pub(crate) const JUMP: u16 = 0x05;
/// Largest number of rules that are compared one after the other.
const FEW: usize = 6;

/// Rule for one system call: its number and the instructions to run, which end in a return.
pub(crate) struct Call {
    pub(crate) number: u32,
    pub(crate) part: Vec<sock_filter>,
}

/// Compiles rules sorted by number into a program that expects the number in the accumulator. Calls without a
/// rule are allowed. A rule longer than a conditional jump can skip is an error, because other numbers would
/// land in the middle of it.
pub(crate) fn program(calls: &[Call]) -> io::Result<Vec<sock_filter>> {
    let (lower, upper) = calls.split_at(calls.len() / 2);
    match upper.first() {
        Some(first) if calls.len() > FEW => {
            let (below, above) = (program(lower)?, program(upper)?);
            let mut whole = fork(first.number, below.len());
            whole.extend(below);
            whole.extend(above);
            Ok(whole)
        }
        _ => one_by_one(calls),
    }
}

/// Skips `over` instructions if the number is at least `number`.
fn fork(number: u32, over: usize) -> Vec<sock_filter> {
    match u8::try_from(over) {
        Ok(over) => vec![jump(JUMP_AT_LEAST, number, over, 0)],
        Err(_) => {
            vec![jump(JUMP_AT_LEAST, number, 0, 1), step(JUMP, u32::try_from(over).unwrap_or(u32::MAX))]
        }
    }
}

fn one_by_one(calls: &[Call]) -> io::Result<Vec<sock_filter>> {
    let mut whole = Vec::new();
    for Call { number, part } in calls {
        let past = u8::try_from(part.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        whole.push(jump(JUMP_EQUAL, *number, 0, past));
        whole.extend(part);
    }
    whole.push(step(RETURN, ALLOW));
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
            let part = |number| vec![step(RETURN, number); 1 + number as usize % 9];
            let calls: Vec<Call> = (0..count)
                .map(|place| place * 3 + 1)
                .map(|number| Call { number, part: part(number) })
                .collect();
            let program = program(&calls).unwrap();
            for number in 0..700 {
                let is_listed = calls.iter().any(|call| call.number == number);
                let (said, steps) = answer(&program, number);
                assert_eq!(said, if is_listed { number } else { ALLOW }, "{number} of {count}");
                assert!(steps <= 20, "{steps} steps for {number} of {count}");
            }
        }
    }

    #[test]
    fn rule_too_long_for_a_jump_is_refused() {
        let of = |length| program(&[Call { number: 7, part: vec![step(RETURN, 1); length] }]);
        assert_eq!(answer(&of(255).unwrap(), 8).0, ALLOW);
        assert!(of(256).is_err());
    }
}
