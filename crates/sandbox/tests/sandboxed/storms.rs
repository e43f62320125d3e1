//! Ends of runs without a PID namespace: all processes they started are below the launcher, and none is left.

use std::time::{Duration, Instant};

use governance::files::NetworkAccess;
use libtest_mimic::{Failed, Trial};
use tool::result::SandboxTier;

use crate::backend;
use crate::controls::{TestWorkspace, run_without};
use crate::ends::{Case, LINGER, TEST_TIMEOUT, alive, kill_remaining, unique_seconds, vanishes};
use crate::launch::spec::RunLimits;
use crate::layers::SandboxLayer;
use crate::report::RunEnd;

/// First Landlock ABI version with signal scopes.
const SIGNAL_SCOPE_VERSION: i32 = 6;

pub(crate) fn trials() -> Vec<Trial> {
    let cases: [Case; 3] = [
        ("reduced_runs_leave_no_descendants", descendants),
        ("reduced_runs_leave_nothing_of_a_storm", storm),
        ("reduced_runs_leave_no_thread_of_a_dead_main_thread", threads_without_their_first),
    ];
    cases.map(|(name, test)| Trial::test(name, test)).into()
}

/// A launcher that kills processes one after the other always meets new ones, because each kill makes space
/// for one more. Without the signal scope, three of four such runs were given up with hundreds of processes
/// left. That is too unreliable for a control test, so the control is which processes can be signalled.
fn storm() -> Result<(), Failed> {
    const CODE: &str = "
import ctypes, resource, time
system = ctypes.PyDLL(None)
resource.setrlimit(resource.RLIMIT_NPROC, (300, 300))
until = time.monotonic() + 8
while time.monotonic() < until:
    if system.fork() == 0: system.setsid()";
    let (fixture, word) = (TestWorkspace::new(), unique_seconds(6));
    let mut confined = fixture.confined(NetworkAccess::Off, &[tests::hostile::PYTHON, "-c", CODE, &word]);
    confined.spec.limits = RunLimits { processes: 256, memory_bytes: 1 << 40, ..confined.spec.limits };
    confined.deadline = Instant::now() + Duration::from_millis(500);
    if backend::landlock_version() < SIGNAL_SCOPE_VERSION {
        ::tests::left_out("this kernel has no signal scopes, so a fork storm can outlive its run");
        return Ok(());
    }
    let finished = run_without(&[], &confined, SandboxTier::Reduced).expect("a run");
    assert!(matches!(finished.end, RunEnd::TimedOut | RunEnd::TooManyProcesses), "{:?}", finished.end);
    assert_eq!(alive(&word), []);
    Ok(())
}

fn descendants() -> Result<(), Failed> {
    let (fixture, word) = (TestWorkspace::new(), unique_seconds(3));
    // It ends after the other process has left its session; before that, both would be killed as one group.
    let script = format!(
        "(setsid sh -c 'echo > up; exec sleep {word}' >/dev/null 2>&1 &) ; while [ ! -e up ]; do :; done; rm up; echo done"
    );
    let confined = fixture.confined(NetworkAccess::Off, &["sh", "-c", &script]);
    let run = |without: &[SandboxLayer]| {
        let finished = run_without(without, &confined, SandboxTier::Reduced).expect("a run");
        assert_eq!((finished.end, finished.stdout.head.as_slice()), (RunEnd::Exited(0), &b"done\n"[..]));
    };
    run(&[]);
    assert!(vanishes(&word, LINGER), "{:?}", alive(&word));
    for guard in [SandboxLayer::KillDescendants, SandboxLayer::Subreaper] {
        run(&[guard]);
        assert!(!vanishes(&word, LINGER), "without {guard:?} one stays");
        kill_remaining(&word);
    }
    Ok(())
}

/// `/proc` shows such a process as dead and with an empty command line, so its effects show if it lives.
fn threads_without_their_first() -> Result<(), Failed> {
    const CODE: &str = "
import ctypes, os, threading, time
reader, writer = os.pipe()
def outlive():
    while '\\nState:\\tZ' not in open('/proc/self/status').read(): time.sleep(0.01)
    os.write(writer, b'x')
    for name in range(3): os.close(name)
    while not os.path.exists('go'): time.sleep(0.01)
    open('outlived', 'w').close()
    os._exit(0)
if os.fork() == 0:
    os.setsid()
    threading.Thread(target=outlive).start()
    ctypes.CDLL(None).syscall({'x86_64': 60}.get(os.uname().machine, 93), 0)
os.read(reader, 1)";
    for (without, lives) in [(&[][..], false), (&[SandboxLayer::KillDescendants], true)] {
        let fixture = TestWorkspace::new();
        let confined = fixture.confined(NetworkAccess::Off, &[tests::hostile::PYTHON, "-c", CODE]);
        let finished = run_without(without, &confined, SandboxTier::Reduced).expect("a run");
        assert_eq!(finished.end, RunEnd::Exited(0), "{}", String::from_utf8_lossy(&finished.stderr.head));
        std::fs::write(fixture.workspace.join("go"), "").expect("a file");
        let (began, outlived) = (Instant::now(), fixture.workspace.join("outlived"));
        let longest = if lives { TEST_TIMEOUT } else { LINGER };
        while !outlived.exists() && began.elapsed() < longest {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(outlived.exists(), lives, "without {without:?}");
    }
    Ok(())
}
