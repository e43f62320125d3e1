//! Where there is no process namespace, a launcher has the kernel let it signal nobody but whoever is below it. Then everybody
//! it can signal is its run, and can be ended in one call that no fork slips through.

use landlock::{ABI, CompatLevel, Compatible, Ruleset, RulesetAttr, Scope};
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getppid};

use super::{landlocked, raw};
use crate::guard::{self, Guard};
use crate::status::{Problem, Step};

/// The proof that it holds: without it the call would reach everybody the user has.
#[derive(Debug)]
pub(crate) struct Fence(());

impl Fence {
    /// Puts one around this process, for good; nothing where the kernel has none.
    pub(crate) fn build() -> Result<Option<Fence>, Problem> {
        if ABI::from(raw::landlock_version()) < ABI::V6 || !guard::stands(Guard::Fence) {
            return Ok(None);
        }
        rustix::thread::set_no_new_privs(true)
            .map_err(|cause| Problem::new(Step::Landlock, "no_new_privs", &cause.into()))?;
        let rules = Ruleset::default()
            .set_compatibility(CompatLevel::HardRequirement)
            .scope(Scope::Signal)
            .and_then(Ruleset::create)
            .map_err(|error| landlocked::said("fence", &error))?;
        landlocked::restrict(rules)?;
        // Who made this process is outside. That it cannot be reached is looked at and not only believed.
        let reached = kill(getppid(), None);
        Ok((reached == Err(Errno::EPERM)).then_some(Fence(())))
    }

    /// Kills everybody within, but for this process.
    pub(crate) fn kill_everybody(&self) {
        let _ = kill(Pid::from_raw(-1), Signal::SIGKILL);
    }
}
