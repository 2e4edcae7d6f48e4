//! What a node is, and what it cannot reach.

use std::fs;
use std::process::Command;

use deposed_lab::{DATA_DEVICE, DATA_DIR, capabilities};

use crate::support::{TestLab, succeeded};

fn host_links() -> String {
    let output = Command::new("ip").args(["-br", "link"]).output().unwrap();
    let listed = succeeded(output);
    // Names only: the state of a link is the host's own business.
    listed.lines().filter_map(|line| line.split_whitespace().next()).collect::<Vec<_>>().join(" ")
}

/// A node has its own name, processes, links and disks, and nothing of the host's but its operating system.
#[test]
fn a_node_is_isolated() {
    let before = host_links();
    let lab = TestLab::up("isolation", 2);
    assert_eq!(host_links(), before, "a lab adds nothing to the host's network");
    let on_n1 = |command: &str| succeeded(lab.ssh("n1", command));

    assert_eq!(on_n1("hostname"), "n1\n");
    assert_eq!(on_n1("cat /proc/1/cmdline | tr '\\0' ' '").trim(), "/proc/self/exe lab-init n1");
    assert_eq!(
        on_n1("ls -A /root /home /mnt /srv /media | grep -v ':$' | grep .; true"),
        "",
        "homes are empty"
    );
    assert_eq!(
        on_n1("find /var/log /var/tmp /var/spool -type f"),
        "",
        "no trace of the host in /var"
    );
    assert_eq!(
        on_n1("cut -d: -f2 /etc/shadow | sort -u"),
        "*\n",
        "no password hash, no locked account"
    );
    assert_eq!(on_n1("ls /run"), "lock\nsshd\nsshd.pid\n");
    assert_eq!(
        on_n1("cat /proc/1/environ | tr '\\0' '\\n' | cut -d= -f1"),
        "PATH\n",
        "no secrets of ours"
    );

    on_n1(&format!("mountpoint -q {DATA_DIR} && test -b {DATA_DEVICE} && echo x > {DATA_DIR}/x"));
    let disks = on_n1(&format!("stat -c %d / {DATA_DIR}"));
    let disks: Vec<&str> = disks.lines().collect();
    assert_ne!(disks[0], disks[1], "store data has a disk of its own");
    on_n1("echo changed > /etc/hostname; echo x > /usr/bin/x");
    assert_ne!(fs::read_to_string("/etc/hostname").unwrap_or_default(), "changed\n");
    assert!(!std::path::Path::new("/usr/bin/x").exists(), "what a node writes stays with it");
}

/// What belongs to the whole machine cannot be touched: clock, modules, reboot, raw devices, sysrq, sysctl.
#[test]
fn dangerous_rights_are_gone() {
    let lab = TestLab::up("rights", 1);
    let status = succeeded(lab.ssh("n1", "cat /proc/self/status"));
    for set in ["CapPrm", "CapEff", "CapBnd"] {
        let line = status.lines().find(|line| line.starts_with(set)).unwrap();
        let held = u64::from_str_radix(line.split_whitespace().nth(1).unwrap(), 16).unwrap();
        for dropped in capabilities::DROPPED {
            assert_eq!(held & 1 << dropped.bit, 0, "{set} has {}", dropped.name);
        }
        let net_admin = 1 << 12;
        assert_ne!(held & net_admin, 0, "faults need CAP_NET_ADMIN, but {set} lacks it");
    }
    let init = succeeded(lab.ssh("n1", "grep CapEff /proc/1/status"));
    let held = u64::from_str_radix(init.split_whitespace().nth(1).unwrap(), 16).unwrap();
    assert_eq!(held & capabilities::dropped_mask(), 0, "init itself");

    // Only looked up, never tried: a mistake here would reach the machine.
    let mounts = succeeded(lab.ssh("n1", "cat /proc/self/mountinfo"));
    let options = |path: &str| {
        let line = mounts.lines().rfind(|line| line.split(' ').nth(4) == Some(path));
        line.unwrap_or_else(|| panic!("{path} is no mount: {mounts}")).split(' ').nth(5).unwrap()
    };
    // Some kernels are built without sysrq: then there is nothing to protect.
    let sysrq = fs::exists("/proc/sysrq-trigger").unwrap().then_some("/proc/sysrq-trigger");
    for path in ["/proc/sys", "/sys"].into_iter().chain(sysrq) {
        assert!(options(path).split(',').any(|option| option == "ro"), "{path}: {}", options(path));
    }
    assert!(
        options("/proc/sys/net").starts_with("rw"),
        "the node's own network settings are its own"
    );
}

/// Nodes reach each other over IPv4 and IPv6 and by name, the controller reaches them, and there is no way out.
#[test]
fn nodes_reach_each_other_and_nothing_else() {
    let lab = TestLab::up("network", 2);
    // Any port that listens will do, and every node has sshd.
    let reach = |host: &str| format!("timeout 2 bash -c '</dev/tcp/{host}/22'");
    succeeded(lab.ssh("n1", &reach("n2")));
    succeeded(lab.ssh("n1", &reach("n2-v6")));
    succeeded(lab.exec(&["bash", "-c", &reach("10.73.0.2")]));
    succeeded(lab.exec(&["bash", "-c", &reach("fd73::2")]));
    for (node, routes) in [("n1", "ip route"), ("n2", "ip -6 route")] {
        let routes = succeeded(lab.ssh(node, routes));
        assert!(!routes.contains("default") && !routes.contains("via"), "{routes}");
    }
    let links = succeeded(lab.ssh("n1", "ls /sys/class/net"));
    assert_eq!(links, "eth0\nlo\n");
    // A firewall of its own, which faults need.
    succeeded(lab.ssh(
        "n1",
        "iptables -w -A INPUT -s n2 -j DROP && ip6tables -w -A INPUT -s fd73::2 -j DROP",
    ));
    assert!(!lab.ssh("n2", &reach("n1")).status.success());
    assert!(!lab.ssh("n2", &reach("n1-v6")).status.success());
}

/// Orphans are reaped, and an sshd that dies is started again.
#[test]
fn init_reaps_and_restarts_sshd() {
    let lab = TestLab::up("init", 1);
    succeeded(lab.ssh("n1", "for i in 1 2 3; do (setsid true &) ; done"));
    let zombies =
        || succeeded(lab.ssh("n1", "grep -l '^State:.Z' /proc/[0-9]*/status 2>/dev/null; true"));
    crate::support::eventually("orphans are reaped", || zombies().is_empty());
    let listener = || succeeded(lab.ssh("n1", "cat /run/sshd.pid"));
    let first = listener();
    // Its last act is to answer this; the connection itself is another process and survives.
    succeeded(lab.ssh("n1", "kill -9 $(cat /run/sshd.pid)"));
    let took =
        crate::support::eventually("sshd is back", || lab.ssh("n1", "true").status.success());
    println!("sshd back after {took:?}");
    assert_ne!(listener(), first);
}
