//! Bad links between two network namespaces, as ping and a bulk transfer see them. Needs root.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[allow(dead_code, reason = "each test uses a part of it")]
mod node;

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use deposed_agent::Spec;
use deposed_agent::netem::{PeerLink, Shape};
use deposed_agent::nfqueue::Nfqueue;
use node::{Node, Place, until};

const HERE: [&str; 2] = ["10.98.0.1", "fd98::1"];
const PEER: [&str; 2] = ["10.98.0.2", "fd98::2"];

/// Two places with a cable between them. Faults are applied here, to what comes from there.
struct Cable {
    here: Place,
    there: Place,
}

/// What ping saw.
#[derive(Debug)]
struct Ping {
    sent: u32,
    answered: u32,
    duplicates: u32,
    least_ms: f64,
}

impl Cable {
    fn new() -> Self {
        let (here, there) = (Place::new(), Place::new());
        let cable = format!("ip link add eth0 type veth peer name eth0 netns {}", there.pid);
        here.sh(&cable);
        for (place, [v4, v6]) in [(&here, HERE), (&there, PEER)] {
            place.sh(&format!(
                "ip addr add {v4}/24 dev eth0; ip addr add {v6}/64 dev eth0 nodad; ip link set eth0 up"
            ));
        }
        let cable = Self { here, there };
        until("the cable works", || cable.ping(PEER[1], 1).answered == 1);
        cable
    }

    /// Asks from here, so that the answers come over the bad link.
    fn ping(&self, to: &str, count: u32) -> Ping {
        // Of itself it takes the time at which the network card had the answer, before any queue; and
        // it may wait for years when a bit of its own time stamp was flipped.
        let said =
            self.here.sh(&format!("timeout -s INT 12 ping -U -n -q -c {count} -i 0.01 -W 2 {to}"));
        let number = |before: &str| {
            let line = said.lines().find(|line| line.contains(before)).unwrap_or_default();
            let words: Vec<&str> = line.split([' ', '/']).collect();
            (
                line.to_owned(),
                words.iter().filter_map(|word| word.parse::<f64>().ok()).collect::<Vec<_>>(),
            )
        };
        let (line, packets) = number("packets transmitted");
        let duplicates = if line.contains("duplicates") { packets[2] as u32 } else { 0 };
        let (_, times) = number("rtt min");
        Ping {
            sent: packets.first().map_or(0, |n| *n as u32),
            answered: packets.get(1).map_or(0, |n| *n as u32),
            duplicates,
            least_ms: times.first().copied().unwrap_or(f64::INFINITY),
        }
    }

    /// How much comes from there in a bulk transfer, in MB a second.
    fn bulk(&self, megabytes: u32) -> f64 {
        let receive = "$| = 1; my $s = IO::Socket::INET->new(Listen => 1, LocalAddr => q(10.98.0.1), \
            LocalPort => 7000, ReuseAddr => 1) or die; print qq(up\\n); my $c = $s->accept; \
            my ($n, $b, $t) = (0, q(), time); while (my $k = sysread $c, $b, 1 << 20) { $n += $k } \
            print $n / 1e6 / (time - $t), qq(\\n)";
        let send = format!(
            "my $s = IO::Socket::INET->new(q(10.98.0.1:7000)) or die; my $b = q(x) x 1_000_000; \
             for (1..{megabytes}) {{ my $o = 0; while ($o < 1_000_000) {{ $o += syswrite $s, $b, 1_000_000 - $o, $o }} }}"
        );
        let modules = ["-MIO::Socket::INET", "-MTime::HiRes=time", "-e"];
        let [program, rest @ ..] = self.here.enter();
        let mut receiver = Command::new(program)
            .args(rest)
            .arg("perl")
            .args(modules)
            .arg(receive)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(receiver.stdout.take().unwrap()).lines();
        assert_eq!(lines.next().unwrap().unwrap(), "up");
        self.there.sh(&format!("perl {} '{send}'", modules.join(" ")));
        let rate = lines.next().unwrap().unwrap().parse().unwrap();
        receiver.wait().unwrap();
        rate
    }

    fn agent(&self) -> Node {
        Node::inside(&self.here.enter())
    }
}

fn bad(shape: Shape) -> Spec {
    let peers = PEER.iter().map(|peer| peer.parse().unwrap()).collect();
    Spec::Nfqueue(Nfqueue { links: vec![PeerLink { peers, shape, spared: [].into() }], seed: 11 })
}

/// Packets of both families are delayed, by what is asked for, and not any more after it.
#[test]
fn packets_are_delayed() {
    let cable = Cable::new();
    let mut node = cable.agent();
    assert!(cable.ping(PEER[0], 20).least_ms < 20.0);
    node.try_apply(bad(Shape { delay_ms: 50.0, jitter_ms: 20.0, ..Shape::default() })).unwrap();
    for peer in PEER {
        let slow = cable.ping(peer, 50);
        assert_eq!(slow.answered, slow.sent, "{slow:?} {:?}", node.prove());
        assert!(slow.least_ms >= 29.0, "{slow:?}");
    }
    let seen = node.prove();
    assert!(seen.holds && seen.summary.contains("packets held for"), "{}", seen.summary);
    until("all of them are counted", || {
        node.prove().figures["from"][PEER[0]]["passed"].as_u64().unwrap() >= 100
    });
    node.undo();
    assert!(cable.ping(PEER[0], 20).least_ms < 20.0);
    assert!(!cable.here.sh("iptables -t mangle -S; ip6tables -t mangle -S").contains("DEPOSED"));
}

/// Packets are lost and come twice as often as asked, and nothing of that remains.
#[test]
fn packets_are_lost_and_doubled() {
    let cable = Cable::new();
    let mut node = cable.agent();
    node.try_apply(bad(Shape { loss_pct: 30.0, duplicate_pct: 20.0, ..Shape::default() })).unwrap();
    for peer in PEER {
        let bad = cable.ping(peer, 200);
        assert!((100..180).contains(&bad.answered), "{bad:?}");
        assert!((10..60).contains(&bad.duplicates), "{bad:?}");
    }
    assert!(node.prove().holds);
    node.undo();
    let good = cable.ping(PEER[0], 100);
    assert_eq!((good.answered, good.duplicates), (100, 0));
}

/// The receiver finds corrupted packets out, by their checksums, and TCP gets through all the same.
#[test]
fn packets_are_corrupted() {
    let cable = Cable::new();
    let mut node = cable.agent();
    let found_out = || {
        let tcp = cable.here.sh("grep ^Tcp: /proc/net/snmp");
        tcp.trim().rsplit(' ').next().unwrap().parse::<u64>().unwrap()
    };
    node.try_apply(bad(Shape { corrupt_pct: 10.0, ..Shape::default() })).unwrap();
    assert!(cable.bulk(1) > 0.0);
    let errors = found_out();
    assert!(errors > 0);
    let seen = node.prove();
    assert!(seen.holds && seen.summary.contains("corrupted"), "{}", seen.summary);
    node.undo();
    assert!(cable.bulk(10) > 0.0);
    assert_eq!(found_out(), errors);
}

/// A narrow link passes what it is said to.
#[test]
fn a_narrow_link_is_narrow() {
    let cable = Cable::new();
    let mut node = cable.agent();
    node.try_apply(bad(Shape { rate_kbit: 16_000.0, ..Shape::default() })).unwrap();
    let rate = cable.bulk(4);
    assert!((0.2..2.4).contains(&rate), "{rate} MB/s");
    assert!(node.prove().holds);
    node.undo();
    assert!(cable.bulk(50) > 3.0);
}

/// The agent and the holder of the packets die: the link is good again when the lease is over.
#[test]
fn links_are_good_after_the_agents_death() {
    let cable = Cable::new();
    let mut node = cable.agent();
    node.try_apply(bad(Shape { loss_pct: 100.0, ..Shape::default() })).unwrap();
    assert_eq!(cable.ping(PEER[0], 10).answered, 0);
    node.renew(Duration::from_secs(1));
    node.kill_agent();
    until("it is undone", || node.is_clean());
    assert_eq!(cable.ping(PEER[0], 20).answered, 20);
}

/// A delay of 5 ms leaves a link at least 50 MB/s, or half of what this machine manages without.
#[test]
fn a_delayed_link_takes_bulk() {
    let cable = Cable::new();
    let mut node = cable.agent();
    let without = cable.bulk(300);
    node.try_apply(bad(Shape { delay_ms: 5.0, ..Shape::default() })).unwrap();
    let with = (0..3).map(|_| cable.bulk(300)).fold(0.0, f64::max);
    println!("{without:.0} MB/s without, {with:.0} MB/s with 5 ms");
    assert!(with > f64::min(50.0, without / 2.0), "{with} MB/s, {without} MB/s without");
    node.undo();
}
