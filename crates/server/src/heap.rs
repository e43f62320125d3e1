//! Limits the memory that glibc malloc retains in a process that runs for months: few arenas, and free memory
//! in them is returned to the operating system.
//!
//! By default glibc creates up to eight arenas per processor, and each arena keeps its peak size. A reload
//! holds two configurations at once, so every arena that served one would keep about twice the memory in use.

/// Makes all threads share two malloc arenas. Call it at start, before other threads exist.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(unsafe_code, reason = "no safe crate offers it")]
pub fn limit_malloc_arenas() {
    const HEAPS: i32 = 2;
    // SAFETY: `mallopt` takes two integers; existing arenas are not changed.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, HEAPS);
    }
}

/// Returns free heap memory to the operating system. Holds the lock of each arena while it scans that arena.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(unsafe_code, reason = "no safe crate offers it")]
pub(crate) fn trim_heap() {
    // SAFETY: `malloc_trim` takes the number of bytes to keep; memory in use is not touched.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Does nothing: only glibc has this setting.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn limit_malloc_arenas() {}

/// Does nothing: only glibc has this function.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn trim_heap() {}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::sync::Barrier;

    use super::*;

    const BLOCKS: usize = 16 * 1024;
    const BLOCK: usize = 4096;

    fn resident_bytes() -> usize {
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
        statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
    }

    #[test]
    fn free_memory_between_used_blocks_is_returned() {
        let mut blocks: Vec<Vec<u8>> = (0..BLOCKS).map(|_| vec![1; BLOCK]).collect();
        // By itself, the allocator returns only free memory at the end of its heap.
        let last = blocks.pop();
        drop(blocks);
        let before = resident_bytes();
        trim_heap();
        let gained = before.saturating_sub(resident_bytes());
        assert!(gained > BLOCKS * BLOCK / 2, "{gained} of {before} bytes were returned");
        drop(last);
    }

    /// Counts the arenas besides the main one: each starts at a multiple of 64 MiB, so that the allocator can
    /// find it by any address in it.
    fn arena_count() -> usize {
        const ALIGNED: usize = 64 << 20;
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let begins = |line: &&str| usize::from_str_radix(line.split('-').next().unwrap(), 16).unwrap();
        let own = maps.lines().filter(|line| line.contains("rw-p 00000000 00:00 0"));
        own.filter(|line| begins(line).is_multiple_of(ALIGNED)).count()
    }

    /// Counts the arenas while many threads allocate.
    fn arena_count_with_threads() -> usize {
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
            let heaps = arena_count();
            done.wait();
            heaps
        })
    }

    /// Runs in a process of its own, because the number of arenas is set once per process.
    #[test]
    fn many_threads_share_few_heaps() {
        const CHILD: &str = "SINEW_TEST_HEAPS";
        if std::env::var_os(CHILD).is_some() {
            limit_malloc_arenas();
            assert!(arena_count_with_threads() <= 2, "{}", arena_count_with_threads());
            return;
        }
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "heap::tests::many_threads_share_few_heaps"]).env(CHILD, "1");
        let output = child.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
}
