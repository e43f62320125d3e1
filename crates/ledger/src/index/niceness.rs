//! Lower scheduling priority for the thread that fills the index. No call waits for the index, because
//! queries read the segments for records that are not indexed yet.

/// Nice value of the thread: a thread of default priority gets about ten times as much processor time.
#[cfg(target_os = "linux")]
const NICENESS: i32 = 10;

/// Lowers the priority of the calling thread. On failure the thread keeps its priority.
#[cfg(target_os = "linux")]
pub(super) fn step_back() {
    // On Linux, this affects only the calling thread. A daemon that already runs at a lower priority keeps
    // it.
    let now = rustix::process::getpriority_process(None);
    let stepped = now.and_then(|now| rustix::process::setpriority_process(None, now.max(NICENESS)));
    if let Err(error) = stepped {
        tracing::debug!(%error, "the index is filled as eagerly as calls are answered");
    }
}

/// Other systems can only lower the priority of the whole process, so this does nothing.
#[cfg(not(target_os = "linux"))]
pub(super) fn step_back() {}

#[cfg(target_os = "linux")]
#[cfg(test)]
mod tests {
    use super::*;

    fn niceness() -> i32 {
        rustix::process::getpriority_process(None).unwrap()
    }

    #[test]
    fn only_the_calling_thread_lowers_its_priority() {
        let before = niceness();
        let stepped = std::thread::spawn(|| {
            step_back();
            niceness()
        });
        assert_eq!(stepped.join().unwrap(), before.max(NICENESS));
        assert_eq!(niceness(), before);
    }
}
