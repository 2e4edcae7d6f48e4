//! The doctor on real nodes.

#![expect(clippy::unwrap_used, reason = "clippy excuses test functions alone")]

mod sshd;

use deposed::doctor::{self, State};
use deposed::inventory::Inventory;
use sshd::Sshd;

/// The doctor makes a firewall chain: the test runs itself again in a network of its own.
fn in_a_network_of_its_own(test: &str) {
    sshd::install();
    let status = std::process::Command::new("unshare")
        .args([
            "--net",
            "/bin/sh",
            "-c",
            "ip link set lo up && exec \"$0\" --exact \"$1\" --nocapture",
        ])
        .arg(std::env::current_exe().unwrap())
        .arg(test)
        .env(INSIDE, "1")
        .status()
        .unwrap();
    assert!(status.success());
}

/// The chains of the firewall that are not built in.
fn chains() -> String {
    let listed = std::process::Command::new("iptables").arg("-S").output().unwrap().stdout;
    let listed = String::from_utf8(listed).unwrap();
    listed.lines().filter(|line| line.starts_with("-N")).collect()
}

/// Set in the run inside.
const INSIDE: &str = "DEPOSED_TEST_INSIDE";

#[test]
fn a_node_is_examined_and_an_unreachable_one_says_why() {
    if std::env::var_os(INSIDE).is_none() {
        return in_a_network_of_its_own("a_node_is_examined_and_an_unreachable_one_says_why");
    }
    tokio::runtime::Runtime::new().unwrap().block_on(examine());
}

async fn examine() {
    let sshd = Sshd::start();
    let good = sshd.spec();
    let mut gone = good.clone();
    gone.node.name = "n2".into();
    gone.port = 1;
    let inventory = Inventory { nodes: vec![good, gone], notes: Vec::new() };
    let findings = doctor::examine(&inventory).await;
    let of = |node: &str, check: &str| {
        findings.iter().find(|f| &*f.node == node && f.check == check).unwrap().clone()
    };
    assert_eq!(of("n1", "reach").state, State::Ok);
    assert!(of("n1", "reach").said.contains("SHA256:"));
    assert_eq!(of("n1", "root").state, State::Ok);
    assert_eq!(of("n1", "tools").state, State::Ok);
    assert_eq!(of("n1", "firewall").state, State::Ok);
    assert_eq!(chains(), "", "the doctor's own chain is left");
    assert!(of("n1", "disk").said.contains("GiB free on /"));
    // It is this machine's own clock.
    assert_eq!(of("n1", "clock").state, State::Ok);
    assert_eq!(of("n2", "reach").state, State::Fail);
    assert!(of("n2", "reach").said.contains("no SSH server listens on port 1"));
    assert_eq!(findings.iter().filter(|f| &*f.node == "n2").count(), 1);
    assert!(doctor::render(&findings).ends_with(" 1 to mend\n"));
}
