//! Copies extended attributes and the access control list through `fcopyfile`, the only interface to the
//! list.

#![allow(unsafe_code)]

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::CopyfileFlags;
use rustix::io::Errno;

use crate::platform::AttributeCopy;

/// Copies the access control list, and the extended attributes that the volume accepts.
pub(crate) fn copy_attributes(from: &OwnedFd, to: impl AsFd) -> AttributeCopy {
    let _ = copy(from, to.as_fd(), CopyfileFlags::XATTR);
    if copy(from, to.as_fd(), CopyfileFlags::ACL).is_ok() {
        AttributeCopy::Complete
    } else {
        AttributeCopy::WithoutAcl
    }
}

fn copy(from: &OwnedFd, to: BorrowedFd<'_>, what: CopyfileFlags) -> Result<(), Errno> {
    let state = rustix::fs::copyfile_state_alloc()?;
    // SAFETY: `state` was allocated just above and is freed only below, after its last use.
    let copied = unsafe { rustix::fs::fcopyfile(from, to, state, what) };
    // SAFETY: `state` came from `copyfile_state_alloc`, has not been freed, and is not used again.
    let freed = unsafe { rustix::fs::copyfile_state_free(state) };
    copied.and(freed)
}
