//! Parallel map over a slice, with one thread per processor.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Applies `work` to each item and returns the results in order. A panic in `work` propagates to the caller.
pub fn spread<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let share = || {
        let mut done = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(index) else { return done };
            done.push((index, work(item)));
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(items.len().max(1));
    let mut all = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(share)).collect();
        let mut all = share();
        for other in others {
            // Propagates the panic: a partial result would look complete.
            all.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        all
    });
    all.sort_by_key(|(index, _)| *index);
    all.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_item_order() {
        let numbers: Vec<usize> = (0..1000).collect();
        let doubled = spread(&numbers, |number| number * 2);
        assert_eq!(doubled, numbers.iter().map(|number| number * 2).collect::<Vec<_>>());
        assert!(spread(&[] as &[usize], |number| *number).is_empty());
    }
}
