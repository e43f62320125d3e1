//! Whole numbers as digits: a call writes dozens, most of them of few digits.

/// Appends a number.
pub fn write_number(out: &mut Vec<u8>, number: u64) {
    let mut digits = [b'0'; 20];
    let (mut start, mut rest) = (digits.len(), number);
    for place in digits.iter_mut().rev() {
        *place = last_digit(rest);
        start -= 1;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(digits.get(start..).unwrap_or_default());
}

/// Like `write_number`, with a sign if the number is negative.
pub(super) fn write_signed(out: &mut Vec<u8>, number: i64) {
    if number < 0 {
        out.push(b'-');
    }
    write_number(out, number.unsigned_abs());
}

/// The last digit of a number.
pub fn last_digit(number: u64) -> u8 {
    b'0' + u8::try_from(number % 10).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_library() {
        let edges =
            (0..20).flat_map(|power| [10_u64.pow(power) - 1, 10_u64.pow(power), 10_u64.pow(power) + 1]);
        for number in edges.chain([u64::MAX, u64::MAX - 1, i64::MAX as u64, i64::MAX as u64 + 1]) {
            let mut out = Vec::new();
            write_number(&mut out, number);
            assert_eq!(String::from_utf8(out).unwrap(), number.to_string());
            for signed in [number as i64, (number as i64).wrapping_neg()] {
                let mut out = Vec::new();
                write_signed(&mut out, signed);
                assert_eq!(String::from_utf8(out).unwrap(), signed.to_string());
            }
        }
    }
}
