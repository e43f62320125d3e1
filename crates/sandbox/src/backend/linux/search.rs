//! Finds what becomes of a call by its number, in as few steps as a search among sorted numbers takes. When a filter is
//! installed the kernel follows it once for each number there is, and afterwards for each call that is not always allowed: with
//! a list, most of the price of a filter is walking along it.

use std::io;

use libc::sock_filter;

use super::filter::{ALLOW, JUMP_AT_LEAST, JUMP_EQUAL, RETURN, jump, step};

/// Goes on so many instructions further.
pub(crate) const JUMP: u16 = 0x05;
/// So few numbers are tried one after the other.
const FEW: usize = 6;

/// A call, and what becomes of it: instructions that end in a return.
pub(crate) struct Call {
    pub(crate) number: u32,
    pub(crate) part: Vec<sock_filter>,
}

/// A program for a number that is loaded, with all of these sorted by theirs. What is not among them is allowed. There is none
/// with a part that is longer than can be passed over: other numbers would land in the middle of it.
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

/// Passes over so many instructions where the number is at least this one.
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

    /// What a program answers to a number that is loaded.
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
    fn every_number_finds_its_own_part_in_few_steps() {
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
    fn a_part_that_cannot_be_passed_over_is_refused() {
        let of = |length| program(&[Call { number: 7, part: vec![step(RETURN, 1); length] }]);
        assert_eq!(answer(&of(255).unwrap(), 8).0, ALLOW);
        assert!(of(256).is_err());
    }
}
