//! Limits of calls: rate windows and run slots. Checking and counting happen under one lock, so a burst cannot exceed a
//! limit.

mod rate_windows;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use governance::{Denial, Permit, RateCounts};
use ledger::LedgerRecovery;
pub(crate) use rate_windows::CountedCall;
use rate_windows::{RateWindow, RateWindows, recovered_calls};
use tool::caller::CallerKey;
use tool::{Refusal, RefusalCode, ToolName};

use crate::call::{CallOrigin, PipelineCall};
use crate::modes;
use crate::slots::{CallLength, FairSlots, Slot};

const HOUR: Duration = Duration::from_secs(60 * 60);
/// Longest wait for a run slot when the caller set no deadline.
const MAX_QUEUE_WAIT: Duration = Duration::from_secs(30);
/// Advised delay before a retry when no run slot was free.
const BUSY_RETRY_AFTER: Duration = Duration::from_secs(1);

/// Rate windows of recent calls, and the run slots.
pub(crate) struct CallLimits {
    windows: Mutex<RateWindows>,
    slots: FairSlots,
}

impl CallLimits {
    /// Creates limits with this many run slots, and fills the windows with the calls recovered from the
    /// ledger. The current rules decide which tools are outbound.
    pub(crate) fn restore(
        places: usize,
        recovery: &LedgerRecovery,
        goes_out: impl Fn(&ToolName) -> bool,
    ) -> Self {
        let now = Instant::now();
        let unknown_until = (!modes::is_intact(recovery)).then(|| now + HOUR);
        let mut windows = RateWindows::unknown_until(unknown_until);
        let mut times: Vec<(Instant, ToolName)> = recovered_calls(recovery, SystemTime::now())
            .filter_map(|(tool, ago)| Some((now.checked_sub(ago)?, tool)))
            .collect();
        times.sort_unstable();
        for (at, tool) in times {
            let goes_out = goes_out(&tool);
            windows.add(&CountedCall::restored(tool, goes_out, at));
        }
        CallLimits { windows: Mutex::new(windows), slots: FairSlots::new(places) }
    }

    /// Counts for this caller: of this tool in the last hour, of all calls in the last minute, and of outbound calls
    /// in the last hour. Each count is raised as far as the ceiling of all callers requires it.
    pub(crate) fn counts(&self, caller: &CallerKey, tool: &ToolName) -> RateCounts {
        self.windows().counts(caller, tool, Instant::now())
    }

    /// Count of all calls in the last minute, on the scale of the limit of one caller.
    pub(crate) fn counts_of_all(&self) -> RateCounts {
        self.windows().counts_of_all(Instant::now())
    }

    /// Number of running calls.
    pub(crate) fn running(&self) -> usize {
        self.slots.in_use()
    }

    /// Changes the number of run slots.
    pub(crate) fn set_capacity(&self, places: usize) {
        self.slots.set_capacity(places);
    }

    /// Returns a run slot if one is free and no call is waiting.
    pub(crate) fn try_acquire_slot(&self, call: &PipelineCall, length: CallLength) -> Option<Slot> {
        match call.origin {
            CallOrigin::Caller => self.slots.try_acquire(&call.caller_key, length),
            CallOrigin::Tool => Some(self.slots.acquire_over_capacity(&call.caller_key, length)),
        }
    }

    /// Waits for a run slot, in turn with other callers.
    pub(crate) async fn acquire_slot(
        &self,
        call: &PipelineCall,
        length: CallLength,
    ) -> Result<Slot, Box<Refusal>> {
        let slot = self.slots.acquire(&call.caller_key, length);
        tokio::time::timeout(MAX_QUEUE_WAIT, slot).await.map_err(|_| {
            let (taken, max) = (self.slots.in_use(), self.slots.capacity());
            let reason = if taken < max {
                let held = self.slots.held_by(&call.caller_key);
                format!("this caller holds {held} of {max} run slots; the rest is reserved for others and for short calls")
            } else {
                format!("all {max} run slots are in use")
            };
            let refusal = Refusal::new(&call.tool_name, RefusalCode::Busy, reason);
            Box::new(refusal.with_hint("try again when other calls have ended"))
        })
    }

    /// Counts a call, after checking its permit against the current counts.
    pub(crate) fn count(&self, caller: &CallerKey, permit: &Permit) -> Result<CountedCall, Denial> {
        let tool = permit.call().definition().name().clone();
        let mut windows = self.windows();
        let at = Instant::now();
        permit.check_rates(windows.counts(caller, &tool, at))?;
        let counted = windows.new_call(caller, tool, permit.is_outbound(), at);
        windows.add(&counted);
        Ok(counted)
    }

    /// Counts a shell line of a host, which is one call of the host's tool, and for each part the uses of another tool,
    /// after checking all of them. Counts nothing if a limit is reached.
    pub(crate) fn count_line(
        &self,
        caller: &CallerKey,
        line: &Permit,
        parts: &[(&Permit, u32)],
    ) -> Result<(), Denial> {
        let tool_of = |permit: &Permit| permit.call().definition().name().clone();
        let mut windows = self.windows();
        let at = Instant::now();
        for (permit, uses) in parts.iter().copied().chain([(line, 1)]) {
            let counts = windows.counts(caller, &tool_of(permit), at);
            let earlier = counts.tool_last_hour.saturating_add(uses.saturating_sub(1));
            permit.check_rates(RateCounts { tool_last_hour: earlier, ..counts })?;
        }
        let counted = windows.new_call(caller, tool_of(line), line.is_outbound(), at);
        windows.add(&counted);
        for (permit, uses) in parts {
            windows.add_uses(&counted, &tool_of(permit), *uses);
        }
        Ok(())
    }

    /// Removes the count of a call that was not run: only calls that run use up a rate limit.
    pub(crate) fn uncount(&self, counted: &CountedCall) {
        self.windows().remove(counted);
    }

    /// Sets `retry_after_ms` on a refusal that a limit caused.
    pub(crate) fn set_retry_after(&self, call: &PipelineCall, refusal: &mut Refusal) {
        if !refusal.retryable || refusal.retry_after_ms.is_some() {
            return;
        }
        refusal.retry_after_ms = match refusal.code {
            RefusalCode::RateLimited => self.retry_after(call, refusal).map(ceil_millis),
            RefusalCode::Busy => Some(ceil_millis(BUSY_RETRY_AFTER)),
            _ => return,
        };
    }

    /// Time until the full window admits one more call.
    fn retry_after(&self, call: &PipelineCall, refusal: &Refusal) -> Option<Duration> {
        let definition = call.snapshot.definition(&refusal.tool)?;
        let limits = call.snapshot.policy.rate_limits(definition, call.header.mode);
        let (window, limit) = match refusal.detail.as_deref() {
            Some("tool_per_hour") => (RateWindow::ToolLastHour(definition.name()), limits.tool_per_hour?),
            Some("mode_per_minute") => (RateWindow::AllLastMinute, limits.mode_per_minute?),
            Some("outbound_per_hour") => (RateWindow::OutboundLastHour, limits.outbound_per_hour?),
            _ => return None,
        };
        self.windows().time_until_free(&call.caller_key, window, limit, Instant::now())
    }

    fn windows(&self) -> MutexGuard<'_, RateWindows> {
        // The windows are consistent after every statement, so a panic elsewhere cannot have broken them.
        self.windows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Milliseconds, rounded up so that a retry is never too early.
fn ceil_millis(time: Duration) -> u64 {
    u64::try_from(time.as_micros().div_ceil(1000)).unwrap_or(u64::MAX)
}

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
fn effective_count(own_calls: u32, all_calls: u32) -> u32 {
    own_calls.max(all_calls.saturating_add(own_calls / MAX_COUNTED_PER_FREE_CALL) / MACHINE_FACTOR)
}

/// Scales the number of calls of all callers to the limit of one caller.
fn scaled_to_one_caller(all_calls: u32) -> u32 {
    all_calls.div_ceil(MACHINE_FACTOR)
}

/// Returns the number of calls of all callers below which a caller that has made `own_calls` calls may make another
/// one.
fn all_calls_bound(limit: u32, own_calls: u32) -> u32 {
    limit.saturating_mul(MACHINE_FACTOR).saturating_sub(own_calls / MAX_COUNTED_PER_FREE_CALL)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALLER: CallerKey = CallerKey::User(1);

    #[test]
    fn changed_clock_does_not_refill_a_window() {
        let day = 24 * 3600;
        let ran = |end: i64, count: u32| {
            let slots = vec![(end, count)];
            let executed = vec![ledger::entry::ExecutionCounts {
                tool: "out".to_owned(),
                mode: tool::Mode::Normal,
                slots,
            }];
            LedgerRecovery { executed, ..LedgerRecovery::default() }
        };
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(10 * day);
        let ago = |recovery: &LedgerRecovery| {
            recovered_calls(recovery, now).map(|(_, ago)| ago.as_secs()).collect::<Vec<_>>()
        };
        let set_back = i64::try_from(11 * day).unwrap();
        assert_eq!(ago(&ran(set_back, 3)), [0, 0, 0], "the future counts as now");
        assert_eq!(ago(&ran(i64::MAX, 1)), [0]);
        assert_eq!(ago(&ran(-5, 1)), [10 * day]);
        let limits = CallLimits::restore(1, &ran(i64::MAX, 4), |_| true);
        let counts = limits.counts(&CALLER, &ToolName::new("out").unwrap());
        assert_eq!((counts.tool_last_hour, counts.outbound_last_hour), (4, 4));
    }

    #[test]
    fn missing_records_make_the_hourly_window_full() {
        let lost = LedgerRecovery { damage: vec!["line 1".to_owned()], ..LedgerRecovery::default() };
        let limits = CallLimits::restore(1, &lost, |_| true);
        let tool = ToolName::new("out").unwrap();
        let counts = limits.counts(&CALLER, &tool);
        let unknown = (RateCounts::UNKNOWN, RateCounts::UNKNOWN);
        assert_eq!((counts.tool_last_hour, counts.outbound_last_hour), unknown);
        assert_eq!(counts.all_last_minute, 0, "the minute window is not affected");
        let mut windows = limits.windows();
        let later = Instant::now() + HOUR;
        assert_eq!(
            windows.counts(&CALLER, &tool, later).tool_last_hour,
            0,
            "an hour later it is known again"
        );
        assert_eq!(windows.unknown_for(later), None);
    }

    #[test]
    fn retry_is_never_too_early() {
        assert_eq!(ceil_millis(Duration::from_micros(1)), 1);
        assert_eq!(ceil_millis(Duration::from_millis(7)), 7);
    }

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
