//! Links and addresses, by ip(8): one process per batch, a few milliseconds each.

use std::io::{self, Write};
use std::process::{Command, Stdio};

use crate::error::LabError;
use crate::packages::program;

/// Runs the lines as `ip -batch` in this thread's network namespace. Stops at the first that fails.
pub(crate) fn batch(lines: &[String]) -> Result<(), LabError> {
    let mut child = Command::new(program("ip")?)
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| LabError::io("run ip", error))?;
    if let Some(mut stdin) = child.stdin.take() {
        // A child that has died leaves a broken pipe; its status tells more.
        let _ = stdin.write_all((lines.join("\n") + "\n").as_bytes());
    }
    let output = child.wait_with_output().map_err(|error| LabError::io("wait for ip", error))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
    if said.contains("Unknown device type") {
        return Err(LabError::Kernel {
            attempted: "make bridges and veth pairs".into(),
            mend: "load the modules (`modprobe bridge veth`) or use a kernel that has them".into(),
            source: io::Error::other(said),
        });
    }
    Err(LabError::Command { command: lines.join("; "), output: said })
}

/// Whether this kernel speaks IPv6.
pub(crate) fn has_v6() -> bool {
    std::fs::read_to_string("/proc/sys/net/ipv6/conf/all/disable_ipv6")
        .is_ok_and(|disabled| disabled.trim() == "0")
}
