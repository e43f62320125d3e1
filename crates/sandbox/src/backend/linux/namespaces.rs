//! Namespaces of a launcher's own: users, mounts, processes and message queues. Made before its order arrives, because
//! they cost more than anything after it.

use std::io;

use rustix::mount::MountPropagationFlags;
use rustix::process::{getgid, getuid};
use rustix::thread::UnshareFlags;

use super::raw;
use crate::guard::{self, Guard};
use crate::status::{Problem, Step};

/// How many who watch files a run may have, and how many files: of what the user has one part, but no fewer than these.
const WATCHED: &[(&str, u64)] =
    &[("/proc/sys/user/max_inotify_instances", 4), ("/proc/sys/user/max_inotify_watches", 1024)];
const PARTS: u64 = 32;

/// Leaves the machine's namespaces. The user stays who they are, so that files look as they do outside.
pub(crate) fn make() -> Result<(), Problem> {
    guard::may(Step::Namespaces)?;
    let (user, group) = (getuid().as_raw(), getgid().as_raw());
    let watched = part_of_watched()?;
    let mut flags = UnshareFlags::NEWUSER | UnshareFlags::NEWNS;
    flags.set(UnshareFlags::NEWPID, guard::stands(Guard::ProcessNamespace));
    flags.set(UnshareFlags::NEWIPC, guard::stands(Guard::MessageNamespace));
    raw::unshare(flags).map_err(|cause| Problem::new(Step::Namespaces, "unshare", &cause))?;
    write("/proc/self/setgroups", "deny")?;
    write("/proc/self/uid_map", &format!("{user} {user} 1"))?;
    write("/proc/self/gid_map", &format!("{group} {group} 1"))?;
    for (path, part) in watched {
        write(path, &part.to_string())?;
    }
    // Until the order arrives, what the machine unmounts must go here too, or its disks stay busy.
    let follow = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    rustix::mount::mount_change("/", follow)
        .map_err(|cause| Problem::new(Step::Mounts, "/", &io::Error::from(cause)))
}

/// The kernel counts what is watched for the user, in this namespace and outside: a run that used up all of it would
/// leave the user's editors and services none. Asked outside: a new namespace has no bounds of its own.
fn part_of_watched() -> Result<Vec<(&'static str, u64)>, Problem> {
    let part = |(path, least): &(&'static str, u64)| {
        let all =
            std::fs::read_to_string(path).map_err(|cause| Problem::new(Step::Namespaces, *path, &cause))?;
        Ok((*path, (all.trim().parse::<u64>().unwrap_or(0) / PARTS).max(*least)))
    };
    guard::held(Guard::WatchedFiles, WATCHED).iter().map(part).collect()
}

fn write(path: &str, text: &str) -> Result<(), Problem> {
    std::fs::write(path, text).map_err(|cause| Problem::new(Step::Namespaces, path, &cause))
}

/// A network of its own, with a loopback that nobody else hears.
pub(crate) fn make_network() -> Result<(), Problem> {
    guard::may(Step::Network)?;
    let problem = |what: &str, cause: &io::Error| Problem::new(Step::Network, what, cause);
    raw::unshare(UnshareFlags::NEWNET).map_err(|cause| problem("unshare", &cause))?;
    let socket = std::net::UdpSocket::bind(("0.0.0.0", 0)).map_err(|cause| problem("socket", &cause))?;
    raw::raise_loopback(&socket).map_err(|cause| problem("lo", &cause))
}
