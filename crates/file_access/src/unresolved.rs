//! Reasons why a path did not resolve to an object. This is a value and not an error: governance judges the
//! name first, and the tool reports the reason only to a caller who may know of it.

use rustix::io::Errno;

/// Reason why a path did not resolve to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnresolvedReason {
    /// The folder exists, the name in it does not.
    Absent,
    /// A folder of the path does not exist.
    ParentMissing,
    /// A component that must be a directory is not one, or the path ends in a slash and names no directory.
    NotADirectory,
    /// The operating system denies access.
    NotPermitted,
    /// A symbolic link points to nothing.
    DanglingLink,
    /// More symbolic links than the kernel follows.
    LinkLoop,
    /// The path goes through a magic link of a process, such as `/proc/self/root` or `/dev/fd/3`.
    MagicLink,
    /// Another object replaced the one that was opened.
    Changed,
    /// The target of a symbolic link has a name that is too long.
    NameTooLong,
    /// Any other error, by its errno.
    System(i32),
}

impl UnresolvedReason {
    pub(crate) fn from_errno(errno: Errno) -> Self {
        match errno {
            Errno::NOENT => UnresolvedReason::Absent,
            Errno::NOTDIR => UnresolvedReason::NotADirectory,
            Errno::ACCESS | Errno::PERM => UnresolvedReason::NotPermitted,
            Errno::LOOP => UnresolvedReason::LinkLoop,
            Errno::NAMETOOLONG => UnresolvedReason::NameTooLong,
            other => UnresolvedReason::System(other.raw_os_error()),
        }
    }
}

impl std::fmt::Display for UnresolvedReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            UnresolvedReason::Absent => "it does not exist",
            UnresolvedReason::ParentMissing => "its folder does not exist",
            UnresolvedReason::NotADirectory => "a part of it is used as a directory and is not one",
            UnresolvedReason::NotPermitted => "the operating system denies access",
            UnresolvedReason::DanglingLink => "the path is or contains a dangling symbolic link",
            UnresolvedReason::LinkLoop => "it goes through too many symbolic links",
            UnresolvedReason::MagicLink => "it goes through a link into a process, which is never followed",
            UnresolvedReason::Changed => "it changed while it was being opened",
            UnresolvedReason::NameTooLong => "a symbolic link in the path has a target that is too long",
            UnresolvedReason::System(number) => {
                return write!(f, "{}", std::io::Error::from_raw_os_error(*number));
            }
        })
    }
}

/// Returns true if the process or the system is out of resources. Such an error says nothing about the path,
/// so it must not lead to a verdict.
pub(crate) fn is_resource_exhaustion(errno: Errno) -> bool {
    matches!(errno, Errno::MFILE | Errno::NFILE | Errno::NOMEM)
}
