//! Reasons why a path did not resolve to an object. This is a value and not an error: governance judges the
//! name first, and the tool reports the reason only to a caller who may know of it.

use rustix::io::Errno;

/// Reason why a path did not resolve to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// The folder exists, the name in it does not.
    Absent,
    /// A folder of the path does not exist.
    NoFolder,
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

impl Obstacle {
    pub(crate) fn from_errno(errno: Errno) -> Self {
        match errno {
            Errno::NOENT => Obstacle::Absent,
            Errno::NOTDIR => Obstacle::NotADirectory,
            Errno::ACCESS | Errno::PERM => Obstacle::NotPermitted,
            Errno::LOOP => Obstacle::LinkLoop,
            Errno::NAMETOOLONG => Obstacle::NameTooLong,
            other => Obstacle::System(other.raw_os_error()),
        }
    }
}

impl std::fmt::Display for Obstacle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Obstacle::Absent => "it does not exist",
            Obstacle::NoFolder => "its folder does not exist",
            Obstacle::NotADirectory => "a part of it is used as a directory and is not one",
            Obstacle::NotPermitted => "the operating system denies access",
            Obstacle::DanglingLink => "it is, or goes through, a symbolic link to nothing",
            Obstacle::LinkLoop => "it goes through too many symbolic links",
            Obstacle::MagicLink => "it goes through a link into a process, which is never followed",
            Obstacle::Changed => "it changed while it was being opened",
            Obstacle::NameTooLong => "a link on the way leads to a name that is too long",
            Obstacle::System(number) => return write!(f, "{}", std::io::Error::from_raw_os_error(*number)),
        })
    }
}

/// Returns true if the process or the system is out of resources. Such an error says nothing about the path,
/// so it must not lead to a verdict.
pub(crate) fn is_exhaustion(errno: Errno) -> bool {
    matches!(errno, Errno::MFILE | Errno::NFILE | Errno::NOMEM)
}
