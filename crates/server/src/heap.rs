//! Keeps what the allocator holds small over a life of months: few heaps, and what is free in them goes back to the system.
//! Frees nothing itself.
//!
//! Left alone, glibc makes up to eight heaps for each processor, gives each the most that was ever needed at a time, and keeps
//! it. While a configuration is replaced there are two of it, so that is twice as much as is in use.

/// Has all threads share two heaps. For the beginning, while there are no threads yet.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(unsafe_code, reason = "no safe crate offers it")]
pub fn share_heaps() {
    const HEAPS: i32 = 2;
    // SAFETY: takes two numbers; heaps that there are already stay as they are.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, HEAPS);
    }
}

/// Gives back what is free. It takes the allocator's locks, one after the other, for as long as a walk over the heap takes.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(unsafe_code, reason = "no safe crate offers it")]
pub(crate) fn give_back() {
    // SAFETY: takes a number of bytes to keep; what is in use is not touched.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Elsewhere the allocator has its own ways.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn share_heaps() {}

/// The same.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn give_back() {}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::sync::Barrier;

    use super::*;

    const BLOCKS: usize = 16 * 1024;
    const BLOCK: usize = 4096;

    fn resident() -> usize {
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
        statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
    }

    #[test]
    fn what_is_free_between_what_is_in_use_goes_back() {
        let mut blocks: Vec<Vec<u8>> = (0..BLOCKS).map(|_| vec![1; BLOCK]).collect();
        // The allocator gives back by itself only what is free at the end of its heap.
        let last = blocks.pop();
        drop(blocks);
        let before = resident();
        give_back();
        let gained = before.saturating_sub(resident());
        assert!(gained > BLOCKS * BLOCK / 2, "{gained} of {before} bytes were given back");
        drop(last);
    }

    /// How many heaps there are beside the first: each begins where the allocator can find it by any address in it.
    fn heaps() -> usize {
        const ALIGNED: usize = 64 << 20;
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let begins = |line: &&str| usize::from_str_radix(line.split('-').next().unwrap(), 16).unwrap();
        let own = maps.lines().filter(|line| line.contains("rw-p 00000000 00:00 0"));
        own.filter(|line| begins(line).is_multiple_of(ALIGNED)).count()
    }

    /// How many there are with many threads at work.
    fn heaps_of_many() -> usize {
        const THREADS: usize = 16;
        let (ready, done) = (Barrier::new(THREADS + 1), Barrier::new(THREADS + 1));
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    let block = vec![1_u8; BLOCK];
                    ready.wait();
                    done.wait();
                    drop(block);
                });
            }
            ready.wait();
            let heaps = heaps();
            done.wait();
            heaps
        })
    }

    /// In a process of its own: how many heaps there are is settled once in each.
    #[test]
    fn many_threads_share_few_heaps() {
        const CHILD: &str = "SINEW_TEST_HEAPS";
        if std::env::var_os(CHILD).is_some() {
            share_heaps();
            assert!(heaps_of_many() <= 2, "{}", heaps_of_many());
            return;
        }
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "heap::tests::many_threads_share_few_heaps"]).env(CHILD, "1");
        let output = child.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
}
