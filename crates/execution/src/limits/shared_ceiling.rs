//! Ceiling of all callers together, and how they share it.
//!
//! A limit of the policy is the limit of one caller. All callers together may make `MACHINE_FACTOR` times as many
//! calls, and share that ceiling like slots: a caller gets another call only while it has made fewer than
//! `MAX_COUNTED_PER_FREE_CALL` for each one that is left. No caller can use up what the others need.

/// Ceiling of all callers together, as a multiple of the limit of one caller.
const MACHINE_FACTOR: u32 = 4;
/// Number of calls a caller may make for each call that it leaves below the ceiling.
const MAX_COUNTED_PER_FREE_CALL: u32 = 3;

/// Count that the limit of one caller is compared with: the caller's own calls, or a higher number if the ceiling of
/// all callers is reached or the caller has used its share of it. With the limit L, the ceiling is
/// `MACHINE_FACTOR` × L, and the share is used up when own ≥ `MAX_COUNTED_PER_FREE_CALL` × (ceiling − all). Both
/// conditions are `(all + own / MAX_COUNTED_PER_FREE_CALL) / MACHINE_FACTOR ≥ L`, which does not contain L.
pub(super) fn effective_count(own: u32, all: u32) -> u32 {
    own.max(all.saturating_add(own / MAX_COUNTED_PER_FREE_CALL) / MACHINE_FACTOR)
}

/// Count of all callers on the scale of the limit of one caller.
pub(super) fn per_caller(all: u32) -> u32 {
    all.div_ceil(MACHINE_FACTOR)
}

/// Number of calls of all callers up to which a caller that has made `own` calls may make another one.
pub(super) fn ceiling_for(limit: u32, own: u32) -> u32 {
    limit.saturating_mul(MACHINE_FACTOR).saturating_sub(own / MAX_COUNTED_PER_FREE_CALL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn effective_count_reaches_the_limit_with_the_ceiling() {
        for limit in [1, 2, 5, 100] {
            for own in 0..limit {
                for all in own..=4 * limit + 4 {
                    let admitted = effective_count(own, all) < limit;
                    assert_eq!(admitted, all < ceiling_for(limit, own), "{own} of {all}, limit {limit}");
                }
            }
            assert_eq!(per_caller(4 * limit), limit);
        }
    }
}
