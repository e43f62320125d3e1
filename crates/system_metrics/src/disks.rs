//! Usage of local file systems. Network file systems are skipped, because one that does not respond would
//! block.

use std::path::Path;

use crate::snapshot::DiskUsage;

/// One line of the list of mounts.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct MountEntry {
    pub(crate) device: String,
    pub(crate) mount_point: String,
    pub(crate) filesystem: String,
}

/// File system types that store files on a disk of this machine.
const LOCAL_FILESYSTEMS: &[&str] = &[
    "apfs", "bcachefs", "btrfs", "exfat", "ext2", "ext3", "ext4", "f2fs", "hfs", "jfs", "msdos", "ntfs",
    "ntfs3", "overlay", "reiserfs", "ufs", "vfat", "xfs", "zfs",
];

/// Returns the usage of each local file system, once per device.
pub(crate) fn local_disks(mounts: Vec<MountEntry>) -> Vec<DiskUsage> {
    let mut disks: Vec<DiskUsage> = Vec::new();
    for mount in mounts {
        let is_new = !disks.iter().any(|known| known.device == mount.device && mount.device.starts_with('/'));
        if !LOCAL_FILESYSTEMS.contains(&mount.filesystem.as_str()) || !is_new {
            continue;
        }
        let Ok(facts) = rustix::fs::statvfs(mount.mount_point.as_str()) else { continue };
        let (used, available) = (facts.f_blocks.saturating_sub(facts.f_bfree), facts.f_bavail);
        let Some(used_percent) = percent(used, used.saturating_add(available)) else { continue };
        disks.push(DiskUsage {
            mount: mount.mount_point,
            device: mount.device,
            filesystem: mount.filesystem,
            total_bytes: facts.f_blocks.saturating_mul(facts.f_frsize),
            available_bytes: available.saturating_mul(facts.f_frsize),
            used_percent,
        });
    }
    disks
}

/// Returns the share of the space usable by users that is in use on the disk of this folder. Blocks if the
/// disk does not respond.
pub fn used_percent(folder: &Path) -> Option<f64> {
    let facts = rustix::fs::statvfs(folder).ok()?;
    let used = facts.f_blocks.saturating_sub(facts.f_bfree);
    percent(used, used.saturating_add(facts.f_bavail))
}

#[allow(clippy::cast_precision_loss)] // of bytes and blocks only the ratio matters
pub(crate) fn percent(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| (part as f64 / whole as f64 * 100.0).clamp(0.0, 100.0))
}

/// Parses `/proc/self/mounts`: device, mount point, type. Blanks in names are octal escapes.
#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
pub(crate) fn parse_linux_mounts(text: &str) -> Vec<MountEntry> {
    let plain = |word: &str| word.replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\");
    let one = |line: &str| {
        let mut columns = line.split(' ');
        Some(MountEntry {
            device: plain(columns.next()?),
            mount_point: plain(columns.next()?),
            filesystem: columns.next()?.to_owned(),
        })
    };
    text.lines().filter_map(one).collect()
}

/// Parses the output of `/sbin/mount` of macOS: `DEVICE on POINT (TYPE, …)`.
#[cfg_attr(not(target_os = "macos"), allow(dead_code))]
pub(crate) fn parse_macos_mounts(text: &str) -> Vec<MountEntry> {
    let one = |line: &str| {
        let (rest, kind) = line.rsplit_once(" (")?;
        let (device, point) = rest.split_once(" on ")?;
        let kind = kind.trim_end_matches(')').split(',').next()?;
        Some(MountEntry {
            device: device.to_owned(),
            mount_point: point.to_owned(),
            filesystem: kind.trim().to_owned(),
        })
    };
    text.lines().filter_map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mount(device: &str, point: &str, kind: &str) -> MountEntry {
        MountEntry { device: device.to_owned(), mount_point: point.to_owned(), filesystem: kind.to_owned() }
    }

    #[test]
    fn mount_lists_of_both_systems_are_parsed() {
        let linux =
            "/dev/sda1 / ext4 rw 0 0\nproc /proc proc rw 0 0\n/dev/sdb1 /mnt/my\\040disk vfat rw 0 0\nbad\n";
        assert_eq!(
            parse_linux_mounts(linux),
            [
                mount("/dev/sda1", "/", "ext4"),
                mount("proc", "/proc", "proc"),
                mount("/dev/sdb1", "/mnt/my disk", "vfat"),
            ]
        );
        let macos = "/dev/disk3s1s1 on / (apfs, sealed, local, read-only, journaled)\n\
                     devfs on /dev (devfs, local, nobrowse)\n\
                     //guest@nas/share on /Volumes/My share (smbfs, nodev)\n";
        assert_eq!(
            parse_macos_mounts(macos),
            [
                mount("/dev/disk3s1s1", "/", "apfs"),
                mount("devfs", "/dev", "devfs"),
                mount("//guest@nas/share", "/Volumes/My share", "smbfs"),
            ]
        );
    }

    #[test]
    fn only_local_file_systems_are_queried() {
        let here = |kind: &str| mount("/dev/x", "/", kind);
        assert_eq!(local_disks(vec![here("nfs4"), here("smbfs"), here("fuse.sshfs"), here("proc")]), []);
        let disks = local_disks(vec![here("ext4"), here("ext4")]);
        assert_eq!(disks.len(), 1, "once each device");
        assert!(disks[0].total_bytes > 0 && (0.0..=100.0).contains(&disks[0].used_percent));
        assert_eq!(used_percent(Path::new("/nowhere/at/all")), None);
        assert_eq!((percent(1, 0), percent(1, 2), percent(3, 2)), (None, Some(50.0), Some(100.0)));
    }
}
