//! Machine-wide ceiling of a rate limit, and each caller's share of it.
//!
//! A rate limit of the policy applies to each caller. All callers together may make `MACHINE_FACTOR` times as many
//! calls. This number is the ceiling. A caller may make another call only while it has made fewer than
//! `MAX_COUNTED_PER_FREE_CALL` calls for each call that is left below the ceiling. One caller therefore cannot use
//! up all calls below the ceiling.

/// Ceiling of all callers together, as a multiple of the limit of one caller.
const MACHINE_FACTOR: u32 = 4;
/// Number of calls a caller may make for each call that is left below the ceiling.
const MAX_COUNTED_PER_FREE_CALL: u32 = 3;

/// Returns the count that is compared with the limit of one caller. It is the caller's own calls, or a higher number
/// if all callers have reached the ceiling or the caller has used up its share.
///
/// With the limit L, the ceiling is `MACHINE_FACTOR` × L, and the share is used up if
/// own calls ≥ `MAX_COUNTED_PER_FREE_CALL` × (ceiling − all calls). Both conditions are equivalent to
/// (all calls + own calls / `MAX_COUNTED_PER_FREE_CALL`) / `MACHINE_FACTOR` ≥ L. The left side does not contain L.
pub(super) fn effective_count(own_calls: u32, all_calls: u32) -> u32 {
    own_calls.max(all_calls.saturating_add(own_calls / MAX_COUNTED_PER_FREE_CALL) / MACHINE_FACTOR)
}

/// Scales the number of calls of all callers to the limit of one caller.
pub(super) fn scaled_to_one_caller(all_calls: u32) -> u32 {
    all_calls.div_ceil(MACHINE_FACTOR)
}

/// Returns the number of calls of all callers below which a caller that has made `own_calls` calls may make another
/// one.
pub(super) fn all_calls_bound(limit: u32, own_calls: u32) -> u32 {
    limit.saturating_mul(MACHINE_FACTOR).saturating_sub(own_calls / MAX_COUNTED_PER_FREE_CALL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn effective_count_reaches_the_limit_with_the_ceiling() {
        for limit in [1, 2, 5, 100] {
            for own_calls in 0..limit {
                for all_calls in own_calls..=4 * limit + 4 {
                    let admitted = effective_count(own_calls, all_calls) < limit;
                    assert_eq!(
                        admitted,
                        all_calls < all_calls_bound(limit, own_calls),
                        "{own_calls} of {all_calls}, limit {limit}"
                    );
                }
            }
            assert_eq!(scaled_to_one_caller(4 * limit), limit);
        }
    }
}
