//! Commands in the network of a detached lab. They go by themselves: each of these ends in an exec.

use std::os::unix::process::CommandExt;
use std::process::Command;

use super::{CLUSTER_VARIABLE, find};
use crate::error::LabError;
use crate::packages::program;

/// Ends this process by becoming `command`, in the lab's network. Returns only if that fails.
///
/// The command finds the inventory's path in [`CLUSTER_VARIABLE`].
pub fn exec(name: &str, command: &[String]) -> LabError {
    let Some((program, arguments)) = command.split_first() else {
        return LabError::Spec("no command to run in the lab's network".into());
    };
    let entered = find(name).and_then(|lab| lab.enter().map(|()| lab));
    match entered {
        Ok(lab) => {
            let mut command = Command::new(program);
            command.args(arguments).env(CLUSTER_VARIABLE, lab.nodes_file());
            LabError::io(format!("run {program}"), command.exec())
        }
        Err(error) => error,
    }
}

/// Ends this process by becoming an ssh to a node, with a shell or with `command`. Returns only if that fails.
pub fn ssh(name: &str, node: &str, command: &[String]) -> LabError {
    let become_ssh = || {
        let lab = find(name)?;
        let Some((_, address, ..)) = lab.nodes().find(|(known, ..)| *known == node) else {
            let known = lab.nodes().map(|(known, ..)| known.to_string()).collect();
            return Err(LabError::NoSuchNode { lab: name.into(), node: node.into(), known });
        };
        let ssh = program("ssh")?;
        lab.enter()?;
        let directory = lab.directory();
        let error = Command::new(&ssh)
            // Not the user's configuration: it may say anything about this address.
            .args(["-F", "none", "-o", "IdentitiesOnly=yes", "-o", "LogLevel=ERROR"])
            .arg("-o")
            .arg(format!("UserKnownHostsFile={}", directory.join("known_hosts").display()))
            .arg("-i")
            .arg(directory.join("id"))
            .arg(format!("root@{address}"))
            .args(command)
            .exec();
        Err(LabError::path("run", &ssh, error))
    };
    match become_ssh() {
        Ok(never) => never,
        Err(error) => error,
    }
}
