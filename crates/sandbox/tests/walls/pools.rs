//! Launchers that stand ready: few at any time, whatever happens at once, and none when nobody needs them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use libtest_mimic::{Failed, Trial};
use nix::unistd::{Pid, getpid};
use tokio::sync::Barrier;
use tool::SandboxTier;

use crate::launcher::NAME;
use crate::pool::{Launcher, MOST, Pool};

/// Long enough for a loaded machine; only a failure waits for it.
const PATIENCE: Duration = Duration::from_secs(20);
const CALLS: usize = 50;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        Trial::test("a_burst_of_calls_leaves_few_launchers", burst),
        Trial::test("launchers_that_nobody_needs_are_let_go", idle),
    ]
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().expect("a runtime")
}

/// The launchers that this process has started and that are not gone.
fn launchers() -> Vec<Pid> {
    let own = getpid();
    let children = std::fs::read_dir("/proc/self/task").expect("threads").flatten().flat_map(|thread| {
        let children = std::fs::read_to_string(thread.path().join("children")).unwrap_or_default();
        children.split_whitespace().filter_map(|word| word.parse().ok()).collect::<Vec<i32>>()
    });
    let is_one = |process: &i32| {
        let words = std::fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
        *process != own.as_raw() && words.starts_with(NAME.as_bytes())
    };
    children.filter(is_one).map(Pid::from_raw).collect()
}

async fn until(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "{what}: {:?}", launchers());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn burst() -> Result<(), Failed> {
    runtime().block_on(async {
        let pool = Arc::new(Pool::new(SandboxTier::Full));
        let together = Arc::new(Barrier::new(CALLS));
        let calls: Vec<_> = (0..CALLS)
            .map(|_| {
                let (pool, together) = (Arc::clone(&pool), Arc::clone(&together));
                tokio::spawn(async move {
                    let launcher = pool.take().await.expect("a launcher");
                    together.wait().await;
                    pool.refill();
                    let standing = pool.standing();
                    launcher.end().await;
                    standing
                })
            })
            .collect();
        for call in calls {
            let standing = call.await.expect("a call");
            assert!(standing <= MOST, "{standing} stand ready or are about to");
        }
        until("those of the calls are gone", || launchers().len() == MOST).await;
        assert_eq!(pool.standing(), MOST, "and the next ones have none to wait for");
    });
    Ok(())
}

fn idle() -> Result<(), Failed> {
    runtime().block_on(async {
        let pool = Arc::new(Pool::with_patience(SandboxTier::Full, Duration::from_millis(100)));
        Launcher::start(SandboxTier::Full).await.expect("one can be started").end().await;
        pool.refill();
        assert_eq!(pool.standing(), MOST, "they are about to stand ready");
        until("they are let go", || pool.standing() == 0 && launchers().is_empty()).await;
    });
    Ok(())
}
