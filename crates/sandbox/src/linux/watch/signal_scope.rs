//! Landlock signal scope for launchers without a PID namespace: such a launcher can signal only its own
//! descendants. It can therefore kill the whole run with one `kill(-1)`, which no fork can escape.

use landlock::{ABI, CompatLevel, Compatible, Ruleset, RulesetAttr, Scope};
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getppid};

use crate::launch::status::{Problem, Step};
use crate::layers::{self, Guard};
use crate::linux::landlock_rules;
use crate::linux::raw_syscalls;

/// Proof that the scope is enforced. Without it, `kill(-1)` would reach every process of the user.
#[derive(Debug)]
pub(crate) struct Fence(());

impl Fence {
    /// Restricts this process permanently; returns `None` if the kernel does not support signal scopes.
    pub(crate) fn build() -> Result<Option<Fence>, Problem> {
        if ABI::from(raw_syscalls::landlock_version()) < ABI::V6 || !layers::stands(Guard::Fence) {
            return Ok(None);
        }
        rustix::thread::set_no_new_privs(true)
            .map_err(|cause| Problem::new(Step::Landlock, "no_new_privs", &cause.into()))?;
        let rules = Ruleset::default()
            .set_compatibility(CompatLevel::HardRequirement)
            .scope(Scope::Signal)
            .and_then(Ruleset::create)
            .map_err(|error| landlock_rules::said("fence", &error))?;
        landlock_rules::restrict(rules)?;
        // The parent is outside the scope. Signalling it must fail; otherwise the scope is not enforced.
        let reached = kill(getppid(), None);
        Ok((reached == Err(Errno::EPERM)).then_some(Fence(())))
    }

    /// Kills every process within the scope except this one.
    pub(crate) fn kill_everybody(&self) {
        let _ = kill(Pid::from_raw(-1), Signal::SIGKILL);
    }
}
