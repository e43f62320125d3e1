//! Launcher pool: few launchers are ready at any time, however many calls there are, and idle ones are
//! released.

use std::sync::Arc;
use std::time::{Duration, Instant};

use libtest_mimic::{Failed, Trial};
use nix::unistd::{Pid, getpid};
use tokio::sync::Barrier;
use tool::result::SandboxTier;

use crate::launch::launcher::LAUNCHER_NAME;
use crate::launch::pool::{Launcher, LauncherPool, MAX_READY};

/// Long enough for a loaded machine; only a failing test waits this long.
const TEST_TIMEOUT: Duration = Duration::from_secs(20);
const CALLS: usize = 50;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        Trial::test("burst_of_calls_leaves_few_launchers", burst),
        Trial::test("idle_launchers_are_released", idle),
    ]
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().expect("a runtime")
}

/// Returns the live launchers that this process has started.
fn launchers() -> Vec<Pid> {
    let own = getpid();
    let children = std::fs::read_dir("/proc/self/task").expect("threads").flatten().flat_map(|thread| {
        let children = std::fs::read_to_string(thread.path().join("children")).unwrap_or_default();
        children.split_whitespace().filter_map(|word| word.parse().ok()).collect::<Vec<i32>>()
    });
    let is_one = |process: &i32| {
        let words = std::fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
        *process != own.as_raw() && words.starts_with(LAUNCHER_NAME.as_bytes())
    };
    children.filter(is_one).map(Pid::from_raw).collect()
}

async fn until(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < TEST_TIMEOUT, "{what}: {:?}", launchers());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn burst() -> Result<(), Failed> {
    runtime().block_on(async {
        let pool = Arc::new(LauncherPool::new(SandboxTier::Full));
        let together = Arc::new(Barrier::new(CALLS));
        let calls: Vec<_> = (0..CALLS)
            .map(|_| {
                let (pool, together) = (Arc::clone(&pool), Arc::clone(&together));
                tokio::spawn(async move {
                    let launcher = pool.take().await.expect("a launcher");
                    together.wait().await;
                    pool.refill();
                    let status = pool.ready_or_starting();
                    launcher.end().await;
                    status
                })
            })
            .collect();
        for call in calls {
            let status = call.await.expect("a call");
            assert!(status <= MAX_READY, "{status} are ready or starting");
        }
        until("the launchers of the calls are gone", || launchers().len() == MAX_READY).await;
        assert_eq!(pool.ready_or_starting(), MAX_READY, "the next calls do not wait for a launcher");
    });
    Ok(())
}

fn idle() -> Result<(), Failed> {
    runtime().block_on(async {
        let pool = Arc::new(LauncherPool::with_idle_timeout(SandboxTier::Full, Duration::from_millis(100)));
        Launcher::start(SandboxTier::Full).await.expect("one can be started").end().await;
        pool.refill();
        assert_eq!(pool.ready_or_starting(), MAX_READY, "they are starting");
        until("they are released", || pool.ready_or_starting() == 0 && launchers().is_empty()).await;
    });
    Ok(())
}
