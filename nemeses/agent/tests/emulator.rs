//! Bad links by the kernel's own emulator, in a machine of its own whose kernel has one, which takes a minute
//! and some packages. Ask for it with `--ignored`.

#![cfg(target_arch = "x86_64")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[allow(dead_code, reason = "each test uses a part of it")]
mod node;
#[allow(dead_code, reason = "each test uses a part of it")]
mod virtual_machine;

use std::collections::BTreeSet;
use std::time::Duration;

use deposed_agent::netem::{Netem, Outgoing, Shape, Ssh};
use deposed_agent::{Reply, Request, Spec};
use node::until;
use virtual_machine::VirtualMachine;

/// Three addresses at the other end of a cable: the bad links lead to the first two of them, in both
/// families.
const BAD: [&str; 2] = ["10.98.0.2", "fd98::2"];
const ALSO_BAD: &str = "10.98.0.3";
const GOOD: &str = "10.98.0.4";

/// Lays a cable to a network of its own (by no applet of busybox, as its shell would), in which somebody serves a file on two ports.
const CABLE: &str = "unshare -n sh -c 'echo $$ >/tmp/there; exec sleep 100000' >/dev/null 2>&1 & \
    until [ -s /tmp/there ]; do sleep 0.1; done; there=$(cat /tmp/there); \
    /bin/ip link add eth0 type veth peer name eth0 netns $there; \
    /bin/ip addr add 10.98.0.1/24 dev eth0; /bin/ip addr add fd98::1/64 dev eth0 nodad; /bin/ip link set eth0 up; \
    nsenter -t $there -n sh -c 'for i in 2 3 4; do /bin/ip addr add 10.98.0.$i/24 dev eth0; done; \
    /bin/ip addr add fd98::2/64 dev eth0 nodad; /bin/ip link set lo up; /bin/ip link set eth0 up; \
    mkdir /tmp/web; echo hello >/tmp/web/index.html; \
    for port in 22 80; do httpd -p $port -h /tmp/web; done'";

/// What ping saw of some packets.
#[derive(Debug)]
struct Ping {
    answered: u32,
    /// The fastest, in milliseconds.
    least: f64,
    /// What it said.
    #[allow(dead_code, reason = "for whoever reads why a test failed")]
    said: String,
}

fn ping(machine: &mut VirtualMachine, to: &str, count: u32) -> Ping {
    let said = machine.sh(&format!("ping -q -c {count} -i 0.05 -W 5 {to} 2>&1"));
    let before = |what: &str| {
        let text = said.split(what).next().unwrap_or_default();
        text.rsplit([' ', '\n']).next().unwrap_or_default().parse().unwrap_or(0)
    };
    let times = said.split("min/avg/max = ").nth(1).and_then(|times| times.split('/').next());
    Ping {
        answered: before(" packets received"),
        least: times.map_or(f64::INFINITY, |least| least.parse().unwrap()),
        said,
    }
}

fn links(shape: Shape) -> Netem {
    let link = |peers: &[&str], spared: &[Ssh]| Outgoing {
        peers: peers.iter().map(|peer| peer.parse().unwrap()).collect(),
        shape,
        spared: spared.iter().copied().collect::<BTreeSet<Ssh>>(),
    };
    let ssh = [Ssh::ToPeer(22), Ssh::FromHere(22)];
    Netem { links: vec![link(&BAD, &ssh), link(&[ALSO_BAD], &[])] }
}

fn bad(shape: Shape) -> Spec {
    Spec::Netem(links(shape))
}

/// Links are bad that should be, in both families, and others are not; what is spared is spared; a device that
/// somebody set up is left alone; and whoever undoes it, agent, keeper or a heal from a cold start, leaves
/// the device as it was.
#[test]
#[ignore = "boots an emulated machine: a minute, and packages for it"]
fn links_are_made_bad_by_the_kernel_and_mended() {
    let programs = ["/sbin/tc", "/sbin/ip"];
    let modules = ["veth", "sch_prio", "sch_netem", "cls_flower"];
    let mut machine = VirtualMachine::boot(&programs, &modules);
    assert_eq!(machine.sh(CABLE), "");
    let queues = "/bin/tc qdisc show dev eth0; /bin/tc filter show dev eth0";
    let before = machine.sh(queues);
    assert!(before.contains("qdisc noqueue 0: root"), "{before}");
    let untouched = |machine: &mut VirtualMachine| {
        assert_eq!(machine.sh(queues), before);
        assert_eq!(machine.sh("find /run/deposed -name '*.json'"), "");
        let good = ping(machine, BAD[0], 10);
        assert!(good.answered == 10 && good.least < 80.0, "{good:?}");
    };
    untouched(&mut machine);
    // Something always goes over every link, so that there is something to see.
    for to in [BAD[0], ALSO_BAD, GOOD] {
        machine.sh(&format!("{{ ping -i 0.2 {to} >/dev/null 2>&1 & }}"));
    }

    let delay = Shape { delay_ms: 100.0, jitter_ms: 10.0, ..Shape::default() };
    let checked = machine.node.ask(&Request::Check { spec: bad(delay) });
    assert_eq!(checked, Reply::Done);
    untouched(&mut machine);
    let seen = machine.node.apply(bad(delay));
    assert!(seen.summary.contains("to 10.98.0.2: "), "{}", seen.summary);
    for to in [BAD[0], BAD[1], ALSO_BAD] {
        let slow = ping(&mut machine, to, 10);
        assert!(slow.answered == 10 && (89.0..180.0).contains(&slow.least), "{to}: {slow:?}");
    }
    let good = ping(&mut machine, GOOD, 10);
    assert!(good.answered == 10 && good.least < 80.0, "{good:?}");
    // Somebody takes one of the filters away: the link is good again, and that is seen.
    machine.sh("/bin/tc filter del dev eth0 parent de05: protocol ipv6 prio 4");
    let doubted = machine.node.prove();
    assert!(!doubted.holds && doubted.summary.contains("to 10.98.0.2 is not there"), "{doubted:?}");
    machine.node.undo();
    untouched(&mut machine);

    machine.node.apply(bad(Shape { loss_pct: 50.0, ..Shape::default() }));
    let lossy = ping(&mut machine, BAD[1], 100);
    assert!((20..80).contains(&lossy.answered), "{lossy:?}");
    let good = ping(&mut machine, GOOD, 20);
    assert_eq!(good.answered, 20);
    until("packets are lost on both links", || {
        let lost = machine.node.prove().figures["to"].clone();
        [BAD[0], ALSO_BAD].iter().all(|peer| lost[*peer]["lost"].as_u64().unwrap() > 0)
    });
    machine.node.undo();
    untouched(&mut machine);

    // A packet of 1028 bytes and its head of 20 or so take a good tenth of a second.
    machine.node.apply(bad(Shape { rate_kbit: 80.0, ..Shape::default() }));
    let narrow = machine.sh(&format!("ping -q -c 3 -s 1000 -W 5 {ALSO_BAD}"));
    let least = narrow.split("min/avg/max = ").nth(1).unwrap().split('/').next().unwrap();
    assert!((100.0..1000.0).contains(&least.parse::<f64>().unwrap()), "{narrow}");
    machine.node.undo();
    untouched(&mut machine);

    // The controller's SSH passes as if nothing were there, to the peer of which it is said.
    machine.node.apply(bad(Shape { delay_ms: 5000.0, ..Shape::default() }));
    let fetch = |machine: &mut VirtualMachine, from: &str| {
        machine.sh(&format!("timeout 4 wget -q -O - http://{from}/ 2>/dev/null"))
    };
    assert_eq!(fetch(&mut machine, "10.98.0.2:22"), "hello");
    assert_eq!(fetch(&mut machine, "10.98.0.2:80"), "");
    assert_eq!(fetch(&mut machine, "10.98.0.3:22"), "");
    assert_eq!(fetch(&mut machine, "10.98.0.4:80"), "hello");

    // The agent dies, nobody renews: the keeper is left.
    machine.node.renew(Duration::from_secs(3));
    machine.sh("kill -9 $(pgrep -f 'deposed-agent serve')");
    until("the keeper is done", || machine.sh("find /run/deposed -name '*.json'").is_empty());
    untouched(&mut machine);

    // Everything dies at once: a heal is left.
    machine.node.renew(Duration::from_secs(600));
    machine.node.apply(bad(delay));
    machine.sh("kill -9 $(pidof deposed-agent)");
    assert_eq!(machine.sh("deposed-agent heal && echo healed"), "healed");
    untouched(&mut machine);

    // What cannot be seen, what cannot be reached, and what is somebody else's is refused.
    machine.node.renew(Duration::from_secs(600));
    let doubled = Shape { duplicate_pct: 50.0, ..Shape::default() };
    let refused = machine.node.try_apply(bad(doubled)).unwrap_err();
    assert!(refused.reason.contains("does not count"), "{refused}");
    let mut nowhere = links(delay);
    nowhere.links[1].peers = ["192.0.2.1".parse().unwrap()].into();
    let refused = machine.node.try_apply(Spec::Netem(nowhere)).unwrap_err();
    assert!(refused.reason.contains("none to 192.0.2.1"), "{refused}");
    untouched(&mut machine);
    machine.sh("/bin/tc qdisc add dev eth0 root handle 1: netem delay 1ms");
    let own = machine.sh(queues);
    let refused = machine.node.try_apply(bad(delay)).unwrap_err();
    assert!(refused.reason.contains("somebody has set them up (netem 1:)"), "{refused}");
    assert_eq!(machine.sh(queues), own);
}
