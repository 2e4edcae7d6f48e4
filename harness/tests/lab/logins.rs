//! Logins beside root's.

use std::process::{Command, Output};

use deposed_lab::packages::{self, Install};
use deposed_lab::{Hub, Lab, LabSpec, Login, Sudo};

use crate::support::{PROGRAM, succeeded};

fn login(name: &str, password: Option<&str>, sudo: Sudo) -> Login {
    Login { name: name.into(), password: password.map(String::from), sudo }
}

fn ssh(lab: &Lab, user: &str, command: &str) -> Output {
    let known_hosts = format!("UserKnownHostsFile={}", lab.known_hosts().display());
    Command::new("ssh")
        .args(["-F", "none", "-o", "BatchMode=yes", "-o", &known_hosts, "-l", user, "-i"])
        .arg(lab.key())
        .args([&lab.nodes()[0].v4().to_string(), command])
        .output()
        .unwrap()
}

/// A login may become root without a password, with its own, or not at all, as the lab was told.
#[test]
fn logins_have_the_sudo_they_were_given() {
    let logins = vec![
        login("free", None, Sudo::Free),
        login("asked", Some("open sesame"), Sudo::Password),
        login("plain", None, Sudo::No),
    ];
    let spec = LabSpec { nodes: 1, logins, program: PROGRAM.into(), ..LabSpec::default() };
    packages::ensure(&packages::lab_requirements(&spec), Install::Yes, None, &mut |line| {
        println!("{line}")
    })
    .unwrap();
    let hub = Hub::enter().unwrap();
    let lab = Lab::up(&hub, &spec).unwrap();

    assert_eq!(succeeded(ssh(&lab, "free", "id -un; sudo -n id -u")), "free\n0\n");
    assert!(!ssh(&lab, "asked", "sudo -n id -u").status.success(), "a password is asked for");
    assert_eq!(succeeded(ssh(&lab, "asked", "echo open sesame | sudo -S id -u")), "0\n");
    assert!(!ssh(&lab, "asked", "echo wrong | sudo -S id -u").status.success());
    assert!(!ssh(&lab, "plain", "sudo -n id -u").status.success());
    let offered = ssh(&lab, "nobody-there", "true");
    let said = String::from_utf8_lossy(&offered.stderr).into_owned();
    assert!(said.contains("password"), "passwords are accepted where a login has one: {said}");
}
