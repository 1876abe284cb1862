//! Whether OS locks prove anything here.
//!
//! `flock` tells that a process on *this kernel* lives. On a filesystem that several machines can have mounted it tells
//! nothing about the others (and on NFS it may block for ever), so a lock found there is never taken over by itself.

use std::io;
use std::path::Path;

/// What kind of filesystem a directory is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filesystem {
    /// Only this machine writes to it.
    Local,
    /// Other machines may have it mounted: the name of its type.
    Shared(&'static str),
}

/// The types that other machines may have mounted, by `f_type` (statfs(2), linux/magic.h; Lustre, GPFS, BeeGFS and
/// VirtualBox by their own headers). FUSE is among them: it may be sshfs, GlusterFS or virtiofs.
const SHARED: &[(u64, &str)] = &[
    (0x6969, "NFS"),
    (0xFF53_4D42, "CIFS"),
    (0xFE53_4D42, "SMB2"),
    (0x517B, "SMB"),
    (0x564C, "NCP"),
    (0x5346_414F, "AFS"),
    (0x6B41_4653, "kAFS"),
    (0x7375_7245, "Coda"),
    (0x00C3_6400, "Ceph"),
    (0x0102_1997, "9p"),
    (0x6573_5546, "FUSE"),
    (0x0116_1970, "GFS2"),
    (0x7461_636F, "OCFS2"),
    (0x0BD0_0BD0, "Lustre"),
    (0x4750_4653, "GPFS"),
    (0x1983_0326, "BeeGFS"),
    (0x786F_4256, "vboxsf"),
];

/// The kind that a `statfs` type number means. Numbers that are not in the list are local: disks, tmpfs, overlayfs.
pub fn classify(f_type: u64) -> Filesystem {
    // The field is signed on some machines: 0xFF534D42 arrives with its upper half filled.
    let low = f_type & 0xFFFF_FFFF;
    SHARED
        .iter()
        .find(|(magic, _)| *magic == low)
        .map_or(Filesystem::Local, |(_, name)| Filesystem::Shared(name))
}

/// The kind of the filesystem that `path` is on.
#[cfg(target_os = "linux")]
pub(super) fn of(path: &Path) -> io::Result<Filesystem> {
    let stat = rustix::fs::statfs(path)?;
    // i64, u64 or u32, by architecture and C library.
    let f_type = i128::from(stat.f_type) & 0xFFFF_FFFF;
    Ok(classify(u64::try_from(f_type).unwrap_or_default()))
}

/// Elsewhere nothing is known, so nothing is proven.
#[cfg(not(target_os = "linux"))]
pub(super) fn of(_path: &Path) -> io::Result<Filesystem> {
    Ok(Filesystem::Shared("unknown"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_types_are_known_and_disks_are_local() {
        assert_eq!(classify(0x6969), Filesystem::Shared("NFS"));
        assert_eq!(classify(0xFFFF_FFFF_FF53_4D42), Filesystem::Shared("CIFS"));
        assert_eq!(classify(0x6573_5546), Filesystem::Shared("FUSE"));
        assert_eq!(classify(0xEF53), Filesystem::Local, "ext4");
        assert_eq!(classify(0x0102_1994), Filesystem::Local, "tmpfs");
        assert_eq!(classify(0x794C_7630), Filesystem::Local, "overlayfs");
    }

    #[test]
    fn a_real_directory_has_a_kind() {
        let dir = tempfile::tempdir().unwrap();
        assert!(of(dir.path()).is_ok());
        assert!(of(Path::new("/does/not/exist")).is_err());
    }
}
