//! Why a path reached nothing. A value, not an error: the judge rules on the name first, and the tool reports the
//! obstacle only to a caller who may know of it.

use rustix::io::Errno;

/// What stood between a path and an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// The folder is there, the name in it is not.
    Absent,
    /// A folder on the way is not there.
    NoFolder,
    /// Something on the way, or at the end of a path that names a directory, is not a directory.
    NotADirectory,
    /// The operating system does not let us look.
    NotPermitted,
    /// A symbolic link leads to nothing.
    DanglingLink,
    /// More symbolic links than any honest path has.
    LinkLoop,
    /// It goes through a link into a process, such as `/proc/self/root` or `/dev/fd/3`.
    MagicLink,
    /// Another object took the place of the one that was opened.
    Changed,
    /// What a link leads to has a name that is too long.
    NameTooLong,
    /// Anything else, by its operating system number.
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

/// Whether the machine, not the path, is the reason: no verdict may be drawn from such an error.
pub(crate) fn is_exhaustion(errno: Errno) -> bool {
    matches!(errno, Errno::MFILE | Errno::NFILE | Errno::NOMEM)
}
