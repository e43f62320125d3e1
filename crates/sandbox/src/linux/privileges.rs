//! Privileges that a process of a run gives up permanently.

use std::io;

use governance::files::NetworkAccess;
use rustix::process::DumpableBehavior;
use rustix::thread::{CapabilitySet, CapabilitySets};
use tool::result::SandboxTier;

use crate::launch::status::{SetupFailure, SetupStep};
use crate::layers::{self, SandboxLayer};
use crate::linux::landlock_rules;
use crate::linux::seccomp;

/// Has the kernel kill this process when its parent dies.
pub(crate) fn set_parent_death_signal() -> Result<(), SetupFailure> {
    if !layers::is_enabled(SandboxLayer::ParentDeathSignal) {
        return Ok(());
    }
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
        .map_err(|cause| SetupFailure::new(SetupStep::Limits, "parent death signal", &cause.into()))
}

/// Makes this process non-dumpable until the next exec, so that no other process can inspect it.
pub(crate) fn disable_dumping() -> Result<(), SetupFailure> {
    if !layers::is_enabled(SandboxLayer::NonDumpable) {
        return Ok(());
    }
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .map_err(|cause| SetupFailure::new(SetupStep::Limits, "dumpable", &cause.into()))
}

/// Clears the capability bounding set, so that no program started from here gains a capability. This process
/// keeps its own.
pub(crate) fn drop_bounding_set() -> Result<(), SetupFailure> {
    if layers::is_enabled(SandboxLayer::Capabilities) {
        clear_bounding_set().map_err(|cause| capability_error(&cause))
    } else {
        Ok(())
    }
}

fn clear_bounding_set() -> io::Result<()> {
    if !rustix::thread::capabilities(None)?.permitted.contains(CapabilitySet::SETPCAP) {
        return Ok(());
    }
    for bit in 0..u64::BITS {
        let one = CapabilitySet::from_bits_retain(1 << bit);
        match rustix::thread::remove_capability_from_bounding_set(one) {
            Ok(()) => {}
            // Past the last capability that this kernel knows.
            Err(rustix::io::Errno::INVAL) => break,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(rustix::thread::clear_ambient_capability_set()?)
}

/// Drops all capabilities over the namespaces and sets `no_new_privs`.
pub(crate) fn drop_own() -> Result<(), SetupFailure> {
    if layers::is_enabled(SandboxLayer::Capabilities) {
        drop_capabilities().map_err(|cause| capability_error(&cause))?;
    }
    if layers::is_enabled(SandboxLayer::NoNewPrivileges) {
        rustix::thread::set_no_new_privs(true)
            .map_err(|cause| SetupFailure::new(SetupStep::Capabilities, "no_new_privs", &cause.into()))?;
    }
    Ok(())
}

/// Drops all capabilities and verifies that none is left.
fn drop_capabilities() -> io::Result<()> {
    let none = CapabilitySet::empty();
    rustix::thread::set_capabilities(
        None,
        CapabilitySets { effective: none, permitted: none, inheritable: none },
    )?;
    let capabilities = rustix::thread::capabilities(None)?;
    match capabilities.effective.is_empty()
        && capabilities.permitted.is_empty()
        && capabilities.inheritable.is_empty()
    {
        true => Ok(()),
        false => Err(io::Error::from_raw_os_error(libc::EPERM)),
    }
}

/// Drops everything in the init process, which from then on opens, connects to and starts nothing.
pub(crate) fn drop_all() -> Result<(), SetupFailure> {
    drop_bounding_set()?;
    drop_own()?;
    if layers::is_enabled(SandboxLayer::Landlock) {
        landlock_rules::deny_all_files()?;
    }
    seccomp::install(SandboxTier::Full, NetworkAccess::Off)
}

fn capability_error(cause: &io::Error) -> SetupFailure {
    SetupFailure::new(SetupStep::Capabilities, "capabilities", cause)
}
