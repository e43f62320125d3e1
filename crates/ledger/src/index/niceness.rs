//! The thread that fills the index steps back for whoever waits for something: nobody waits for the index, because questions
//! read the segments where it is behind.

/// How far it steps back: an ordinary thread that wants the processor too gets about ten times as much of it.
#[cfg(target_os = "linux")]
const NICENESS: i32 = 10;

/// Has the calling thread step back. Where it may not, it fills the index as eagerly as before.
#[cfg(target_os = "linux")]
pub(super) fn step_back() {
    // On Linux "this process" is this thread, and no other. A daemon that steps back further itself is left where it is.
    let now = rustix::process::getpriority_process(None);
    let stepped = now.and_then(|now| rustix::process::setpriority_process(None, now.max(NICENESS)));
    if let Err(error) = stepped {
        tracing::debug!(%error, "the index is filled as eagerly as calls are answered");
    }
}

/// Elsewhere a thread cannot step back without the whole process.
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
    fn one_thread_steps_back_and_no_other_does() {
        let before = niceness();
        let stepped = std::thread::spawn(|| {
            step_back();
            niceness()
        });
        assert_eq!(stepped.join().unwrap(), before.max(NICENESS));
        assert_eq!(niceness(), before);
    }
}
