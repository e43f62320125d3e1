//! Self-check: determines what this machine supports by trying it. A version number shows what a kernel has,
//! not what it lets this process use.

pub(crate) mod probe;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use tool::result::SandboxTier;

use crate::check::probe::{ProbeAttempt, ProbeTargets};
use crate::error::SandboxError;
use crate::launch;
use crate::launch::launcher;
use crate::launch::pool::Launcher;
use crate::output::OutputSinks;
use crate::prepare::ConfinedCommand;
use crate::prepare::program;
use crate::report::RunEnd;
use crate::sandbox::Availability;

/// Long enough for a loaded machine; only a failing check waits this long.
const PROBE_TIMEOUT: Duration = Duration::from_secs(10);

/// Limits of a probe.
const MEMORY: u64 = 64 * 1024 * 1024;
const PROCESSES: u64 = 8;

/// Result of one attempt to break out of the sandbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxFinding {
    /// Action that a confined program must not be able to do.
    pub attempt: &'static str,
    /// True if the sandbox blocked it.
    pub blocked: bool,
    /// Error that the system returned to the attempt.
    pub cause: String,
    /// Advice for the operator if it was not blocked.
    pub remedy: Option<&'static str>,
}

/// Returns the best tier in which a no-op program runs to its end, and why no better one does.
pub(crate) fn availability() -> Availability {
    let failed = |message: String| Availability { tier: SandboxTier::None, missing: vec![message] };
    if !launcher::is_available() {
        return failed("this program did not call `sandbox::enter`, so it has no launcher".to_owned());
    }
    block_on_thread(try_tiers()).unwrap_or_else(failed)
}

/// Runs the probe in this tier. `folder` must be an existing private folder.
pub(crate) fn findings(tier: SandboxTier, folder: &Path) -> std::io::Result<Vec<SandboxFinding>> {
    let file = folder.join("sandbox-check");
    std::fs::write(&file, "outside")?;
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600))?;
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    let (address, process) = (listener.local_addr()?, std::process::id());
    // Without a PID namespace the watcher would end the probe itself for its number of processes.
    let processes = if tier == SandboxTier::Full { PROCESSES } else { 0 };
    let text = run_probe(tier, &ProbeTargets { file: file.clone(), process, address, processes });
    std::fs::remove_file(&file)?;
    // Without its own mounts a run can see names and change file modes outside, which the reduced tier does not claim to prevent.
    // On macOS there is no safe way to try tracing.
    let is_built = |attempt: &ProbeAttempt| match attempt {
        ProbeAttempt::Stat => tier == SandboxTier::Full && cfg!(target_os = "linux"),
        ProbeAttempt::Chmod | ProbeAttempt::Fork => tier == SandboxTier::Full,
        ProbeAttempt::Trace => cfg!(target_os = "linux"),
        _ => true,
    };
    Ok(ProbeAttempt::ALL.into_iter().filter(is_built).map(|attempt| finding(attempt, &text)).collect())
}

fn finding(attempt: ProbeAttempt, text: &Result<String, String>) -> SandboxFinding {
    let (blocked, cause) = match text.as_ref().map(|text| probe::result_of(text, attempt)) {
        Ok(Some(0)) => (false, "the attempt succeeded".to_owned()),
        Ok(Some(code @ 1..)) => (true, std::io::Error::from_raw_os_error(code).to_string()),
        Ok(Some(_)) => (false, "the attempt could not be made".to_owned()),
        Ok(None) => (false, "the probe did not report this attempt".to_owned()),
        Err(error) => (false, error.clone()),
    };
    SandboxFinding {
        attempt: attempt.description(),
        blocked,
        cause,
        remedy: (!blocked).then(|| attempt.remedy()),
    }
}

/// Runs the probe; returns its output, or why it failed.
fn run_probe(tier: SandboxTier, targets: &ProbeTargets) -> Result<String, String> {
    let arguments = targets.arguments().into_iter().map(Into::into).collect();
    let program = program::current_program().map_err(|error| error.to_string())?;
    let confined = ConfinedCommand::without_grants(program, arguments, MEMORY, PROCESSES, PROBE_TIMEOUT);
    let ran = block_on_thread(async move {
        let mut launcher = Launcher::start(tier).await?;
        launch::run(&confined, tier, &mut launcher, &mut OutputSinks::default()).await
    })?;
    let finished = ran.map_err(|error| error.to_string())?;
    match finished.end {
        RunEnd::Exited(0) => Ok(String::from_utf8_lossy(&finished.stdout.head).into_owned()),
        end => Err(format!("the probe ended with {end:?}")),
    }
}

/// Runs a future on a separate thread, because the caller may or may not be inside a runtime.
fn block_on_thread<T: Send>(work: impl Future<Output = T> + Send) -> Result<T, String> {
    std::thread::scope(|scope| {
        let tried = scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            Ok::<_, std::io::Error>(runtime.block_on(work))
        });
        match tried.join() {
            Ok(done) => done.map_err(|error| error.to_string()),
            Err(_) => Err("the check panicked".to_owned()),
        }
    })
}

async fn try_tiers() -> Availability {
    let mut missing = Vec::new();
    for tier in [SandboxTier::Full, SandboxTier::Reduced] {
        match try_tier(tier).await {
            Ok(RunEnd::Exited(0)) => return Availability { tier, missing },
            Ok(end) => missing.push(format!("{}: a no-op program ended with {end:?}", tier.as_str())),
            Err(error) => {
                let remedy = remedy(&error).map(|remedy| format!("; {remedy}")).unwrap_or_default();
                missing.push(format!("{}: {error}{remedy}", tier.as_str()));
            }
        }
    }
    Availability { tier: SandboxTier::None, missing }
}

/// Returns what the operator can do about a set-up failure.
fn remedy(error: &SandboxError) -> Option<&'static str> {
    let SandboxError::SetupFailed { step, cause, .. } = error else { return None };
    let code = cause.raw_os_error();
    Some(match step.as_str() {
        // 28 is ENOSPC.
        "namespaces" if code == Some(28) => "raise user.max_user_namespaces, which is used up or 0",
        "namespaces" => {
            "allow user namespaces: kernel.unprivileged_userns_clone=1, or on Ubuntu an AppArmor profile for sinew with \
             `userns,` or kernel.apparmor_restrict_unprivileged_userns=0"
        }
        "mounts" => "in a container, allow mounts in its seccomp and AppArmor profiles",
        "landlock" => "use Linux 5.13 or later with `landlock` in the kernel parameter `lsm=`",
        "seccomp" => "use a kernel with CONFIG_SECCOMP_FILTER",
        "profile" => "run Sinew outside of another sandbox: sandboxes do not nest on macOS",
        _ => return None,
    })
}

async fn try_tier(tier: SandboxTier) -> Result<RunEnd, SandboxError> {
    let confined = ungranted_command(&["true"])?;
    let mut launcher = Launcher::start(tier).await?;
    Ok(launch::run(&confined, tier, &mut launcher, &mut OutputSinks::default()).await?.end)
}

/// Creates a command without grants.
pub(crate) fn ungranted_command(argv: &[&str]) -> Result<ConfinedCommand, SandboxError> {
    let program = program::find_system_program(argv.first().copied().unwrap_or_default().as_ref())?;
    let argv = argv.iter().map(Into::into).collect();
    Ok(ConfinedCommand::without_grants(program, argv, MEMORY, PROCESSES, PROBE_TIMEOUT))
}
