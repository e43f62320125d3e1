//! What this machine can do, found out by doing it: a version number says what a kernel has, not what it lets this
//! process use.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use tool::SandboxTier;

use crate::confined::Confined;
use crate::error::SandboxError;
use crate::launcher;
use crate::outlets::Outlets;
use crate::pool::Launcher;
use crate::program;
use crate::report::End;
use crate::run;
use crate::sandbox::Availability;

/// Long enough for a loaded machine; only a failure waits for it.
const PATIENCE: Duration = Duration::from_secs(10);

/// A wall, and whether it held when it was leant against.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What a confined program must not be able to do.
    pub what: &'static str,
    /// Whether it was not.
    pub held: bool,
}

/// The best tier in which a program that does nothing comes to its end, and why no better one does.
pub(crate) fn availability() -> Availability {
    let failed = |message: String| Availability { tier: SandboxTier::None, missing: vec![message] };
    if !launcher::is_available() {
        return failed("this program does not become a launcher when it is started again".to_owned());
    }
    apart(try_tiers()).unwrap_or_else(failed)
}

/// Leans against the walls of this tier, from inside, with ordinary programs. `folder` is a private one that exists.
pub(crate) fn findings(tier: SandboxTier, folder: &Path) -> std::io::Result<Vec<Finding>> {
    let file = folder.join("sandbox-check");
    std::fs::write(&file, "outside")?;
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600))?;
    let (path, new) = (file.display().to_string(), folder.join("sandbox-check-new"));
    let made = new.display().to_string();
    let alive = format!("kill -0 {}", std::process::id());
    let run = |words: &[&str]| {
        let confined = command(words);
        apart(async move {
            let launcher = Launcher::start(tier).await.map_err(SandboxError::Launcher)?;
            run::run(&confined?, tier, launcher, Outlets::default()).await
        })
    };
    let fails =
        |words: &[&str]| matches!(run(words), Ok(Ok(finished)) if matches!(finished.end, End::Exited(1..)));
    let mut found = vec![
        Finding { what: "read a file it was not granted", held: fails(&["cat", &path]) },
        Finding { what: "create a file outside", held: fails(&["touch", &made]) && !new.exists() },
        Finding { what: "reach another process", held: fails(&["sh", "-c", &alive]) },
        Finding { what: "overwrite a file of the system", held: fails(&["touch", "/usr/bin/env"]) },
    ];
    if tier == SandboxTier::Full {
        let changed = fails(&["chmod", "777", &path]);
        let mode = file.metadata()?.permissions().mode() & 0o777;
        found.push(Finding { what: "change the mode of a file outside", held: changed && mode == 0o600 });
    }
    std::fs::remove_file(&file)?;
    Ok(found)
}

/// On a thread of its own, because the caller may be inside a runtime or have none.
fn apart<T: Send>(work: impl Future<Output = T> + Send) -> Result<T, String> {
    std::thread::scope(|scope| {
        let tried = scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            Ok::<_, std::io::Error>(runtime.block_on(work))
        });
        match tried.join() {
            Ok(done) => done.map_err(|error| error.to_string()),
            Err(_) => Err("trying it out failed".to_owned()),
        }
    })
}

async fn try_tiers() -> Availability {
    let mut missing = Vec::new();
    for tier in [SandboxTier::Full, SandboxTier::Reduced] {
        match try_tier(tier).await {
            Ok(End::Exited(0)) => return Availability { tier, missing },
            Ok(end) => {
                missing.push(format!("{}: a program that does nothing ended so: {end:?}", tier.as_str()))
            }
            Err(error) => missing.push(format!("{}: {error}", tier.as_str())),
        }
    }
    Availability { tier: SandboxTier::None, missing }
}

async fn try_tier(tier: SandboxTier) -> Result<End, SandboxError> {
    let confined = command(&["true"])?;
    let launcher = Launcher::start(tier).await.map_err(SandboxError::Launcher)?;
    Ok(run::run(&confined, tier, launcher, Outlets::default()).await?.end)
}

/// A program that is granted nothing.
pub(crate) fn command(words: &[&str]) -> Result<Confined, SandboxError> {
    let program = program::find(words.first().copied().unwrap_or_default().as_ref(), &[])?;
    let words = words.iter().map(Into::into).collect();
    Ok(Confined::granted_nothing(program, words, 64 * 1024 * 1024, 8, PATIENCE))
}
