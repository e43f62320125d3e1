//! User, mount, PID and IPC namespaces of a launcher. Created before its run request arrives, because they
//! are the most expensive part of the set-up.

use std::io;

use rustix::mount::MountPropagationFlags;
use rustix::process::{getgid, getuid};
use rustix::thread::UnshareFlags;

use crate::launch::status::{SetupFailure, SetupStep};
use crate::layers::{self, SandboxLayer};
use crate::linux::raw_syscalls;

/// Inotify instances and watches of a run: `1/PARTS` of the user's limits, but at least these numbers.
const INOTIFY_LIMITS: &[(&str, u64)] =
    &[("/proc/sys/user/max_inotify_instances", 4), ("/proc/sys/user/max_inotify_watches", 1024)];
const PARTS: u64 = 32;

/// Leaves the machine's namespaces. The user and group ids stay the same, so that file ownership looks as it
/// does outside.
pub(crate) fn create() -> Result<(), SetupFailure> {
    layers::check_injected_fault(SetupStep::Namespaces)?;
    let (user, group) = (getuid().as_raw(), getgid().as_raw());
    let watched = inotify_share()?;
    let mut flags = UnshareFlags::NEWUSER | UnshareFlags::NEWNS;
    flags.set(UnshareFlags::NEWPID, layers::is_enabled(SandboxLayer::PidNamespace));
    flags.set(UnshareFlags::NEWIPC, layers::is_enabled(SandboxLayer::IpcNamespace));
    raw_syscalls::unshare(flags)
        .map_err(|cause| SetupFailure::new(SetupStep::Namespaces, "unshare", &cause))?;
    write("/proc/self/setgroups", "deny")?;
    write("/proc/self/uid_map", &format!("{user} {user} 1"))?;
    write("/proc/self/gid_map", &format!("{group} {group} 1"))?;
    for (path, part) in watched {
        write(path, &part.to_string())?;
    }
    // Until the request arrives, unmounts on the machine must propagate here; otherwise its disks stay busy.
    let follow = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    rustix::mount::mount_change("/", follow)
        .map_err(|cause| SetupFailure::new(SetupStep::Mounts, "/", &io::Error::from(cause)))
}

/// Returns the inotify limits for a run. The kernel counts instances and watches per user, inside and outside
/// the namespace: a run that used up all of them would leave none to the user's editors and services. Read
/// before `unshare`, because a new namespace starts without limits.
fn inotify_share() -> Result<Vec<(&'static str, u64)>, SetupFailure> {
    let part = |(path, least): &(&'static str, u64)| {
        let all = std::fs::read_to_string(path)
            .map_err(|cause| SetupFailure::new(SetupStep::Namespaces, *path, &cause))?;
        Ok((*path, (all.trim().parse::<u64>().unwrap_or(0) / PARTS).max(*least)))
    };
    layers::if_enabled(SandboxLayer::InotifyLimits, INOTIFY_LIMITS).iter().map(part).collect()
}

fn write(path: &str, text: &str) -> Result<(), SetupFailure> {
    std::fs::write(path, text).map_err(|cause| SetupFailure::new(SetupStep::Namespaces, path, &cause))
}

/// Creates a network namespace with a private loopback interface.
pub(crate) fn create_network() -> Result<(), SetupFailure> {
    layers::check_injected_fault(SetupStep::Network)?;
    let problem = |what: &str, cause: &io::Error| SetupFailure::new(SetupStep::Network, what, cause);
    raw_syscalls::unshare(UnshareFlags::NEWNET).map_err(|cause| problem("unshare", &cause))?;
    let socket = std::net::UdpSocket::bind(("0.0.0.0", 0)).map_err(|cause| problem("socket", &cause))?;
    raw_syscalls::bring_up_loopback(&socket).map_err(|cause| problem("lo", &cause))
}
