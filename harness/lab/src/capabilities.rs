//! The rights a node does not have.
//!
//! Namespaces do not cover everything: the clock, kernel modules, reboot and raw devices are the machine's.
//! Init gives the rights to them up before it starts anything, for itself and (by the bounding set) for all
//! that follow. What remains is what stores and faults need: network administration, mounts, signals, ptrace.

use std::io;

use crate::error::LabError;

/// A Linux capability: its number and its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capability {
    /// Its bit in `CapEff` of `/proc/PID/status`.
    pub bit: u8,
    /// Its name in capabilities(7).
    pub name: &'static str,
}

/// What every process of every node lacks.
pub const DROPPED: &[Capability] = &[
    Capability { bit: 16, name: "CAP_SYS_MODULE" },
    Capability { bit: 17, name: "CAP_SYS_RAWIO" },
    Capability { bit: 20, name: "CAP_SYS_PACCT" },
    Capability { bit: 22, name: "CAP_SYS_BOOT" },
    Capability { bit: 25, name: "CAP_SYS_TIME" },
    Capability { bit: 26, name: "CAP_SYS_TTY_CONFIG" },
    Capability { bit: 27, name: "CAP_MKNOD" },
    Capability { bit: 32, name: "CAP_MAC_OVERRIDE" },
    Capability { bit: 33, name: "CAP_MAC_ADMIN" },
    Capability { bit: 34, name: "CAP_SYSLOG" },
    Capability { bit: 35, name: "CAP_WAKE_ALARM" },
    Capability { bit: 36, name: "CAP_BLOCK_SUSPEND" },
];

/// The bits of [`DROPPED`], to be tested against `CapEff`.
pub fn dropped_mask() -> u64 {
    DROPPED.iter().map(|capability| 1 << capability.bit).sum()
}

/// Header of capset(2), version 3.
#[repr(C)]
struct Header {
    version: u32,
    pid: i32,
}

/// One of the two halves (bits 0-31, 32-63) of capset(2)'s data.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Half {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

const VERSION_3: u32 = 0x2008_0522;

/// Gives up [`DROPPED`] in this process and in all it will start. There is no way back.
pub(crate) fn drop_dangerous() -> Result<(), LabError> {
    for capability in DROPPED {
        // SAFETY: PR_CAPBSET_DROP takes one integer and touches no memory.
        #[expect(unsafe_code, reason = "prctl has no safe wrapper for the bounding set")]
        let result = unsafe {
            libc::prctl(libc::PR_CAPBSET_DROP, libc::c_ulong::from(capability.bit), 0, 0, 0)
        };
        // EINVAL: a kernel that does not know this capability cannot grant it either.
        if result != 0 && io::Error::last_os_error().raw_os_error() != Some(libc::EINVAL) {
            return Err(LabError::io(
                format!("drop {}", capability.name),
                io::Error::last_os_error(),
            ));
        }
    }
    let header = Header { version: VERSION_3, pid: 0 };
    let mut halves = [Half::default(); 2];
    // SAFETY: both pointers are to live values of the layout which version 3 of the call defines.
    #[expect(unsafe_code, reason = "capget and capset have no safe wrapper")]
    let result = unsafe { libc::syscall(libc::SYS_capget, &raw const header, halves.as_mut_ptr()) };
    if result != 0 {
        return Err(LabError::io("read init's capabilities", io::Error::last_os_error()));
    }
    let mask = dropped_mask();
    for (half, bits) in halves.iter_mut().zip([mask as u32, (mask >> 32) as u32]) {
        half.effective &= !bits;
        half.permitted &= !bits;
        half.inheritable = 0;
    }
    // SAFETY: as above.
    #[expect(unsafe_code, reason = "capget and capset have no safe wrapper")]
    let result = unsafe { libc::syscall(libc::SYS_capset, &raw const header, halves.as_ptr()) };
    if result != 0 {
        return Err(LabError::io("drop init's capabilities", io::Error::last_os_error()));
    }
    Ok(())
}
