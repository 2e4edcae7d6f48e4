//! Bad links where the kernel has no netem: packets wait in a queue of netfilter, from which a
//! process of ours lets them go.
//!
//! Packets are caught where they come in, by their source: on the way out they would still be
//! charged to the socket that sent them, and TCP would send no more than a fraction of what the
//! link could take. When the process dies the queue has nobody, and packets pass.

mod pump;
mod queues;
mod twin;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::netem::{PeerLink, mistakes};
use crate::tool::Tool;
use crate::{Failure, Home, Primitive, Result, Sight};
use pump::{Counts, pump};
use twin::MARK;

/// Our chain in the tables `mangle`.
const CHAIN: &str = "DEPOSED-QUEUE";

/// From where it is entered.
const HOOK: &str = "PREROUTING";

/// How many jumps into our chain are removed at most: more than anybody ever made.
const JUMPS_MAX: u32 = 8;

/// Numbers of queues that are tried.
const QUEUES: std::ops::Range<u16> = 29_500..29_800;

/// How long packets may take to come by.
const PROVE_WITHIN: Duration = Duration::from_secs(3);

/// Makes what comes from some peers come over bad links.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Nfqueue {
    /// The links *from* these peers.
    pub links: Vec<PeerLink>,
    /// Decides which packets are hit.
    pub seed: u64,
}

/// What there is to remove.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queued {
    /// The number of the first link's queue; the others follow.
    first_queue: u16,
    /// Where the process that holds the packets tells what it did.
    counts: PathBuf,
}

impl Nfqueue {
    fn queues(&self, undo: &Queued) -> impl Iterator<Item = (u16, &PeerLink)> {
        (undo.first_queue..).zip(&self.links)
    }

    /// What iptables-restore is given for one family.
    fn rules(&self, undo: &Queued, v6: bool) -> String {
        let mut text = format!("*mangle\n:{CHAIN} - [0:0]\n");
        let _ = writeln!(text, "-A {CHAIN} -m mark --mark {MARK} -j RETURN");
        for (queue, link) in self.queues(undo) {
            let spared = link.spared.iter().map(|spare| spare.parts());
            for (from, side, port) in spared.filter(|(from, ..)| from.is_ipv6() == v6) {
                let _ = writeln!(text, "-A {CHAIN} -s {from} -p tcp --{side} {port} -j RETURN");
            }
            for peer in link.peers.iter().filter(|peer| peer.is_ipv6() == v6) {
                let queue = format!("NFQUEUE --queue-num {queue} --queue-bypass");
                let _ = writeln!(text, "-A {CHAIN} -s {peer} -j {queue}");
            }
        }
        let _ = writeln!(text, "-I {HOOK} 1 -j {CHAIN}");
        text + "COMMIT\n"
    }
}

impl Primitive for Nfqueue {
    type Undo = Queued;

    const HELD: bool = true;

    fn plan(&self, home: &Home) -> Result<Queued> {
        if let Some(mistake) = mistakes(&self.links) {
            return Err(Failure::new("make links bad", mistake));
        }
        // Numbers in use, by whom is no matter. No file: no queue.
        let taken = fs::read_to_string("/proc/net/netfilter/nfnetlink_queue").unwrap_or_default();
        let taken: Vec<u16> =
            taken.lines().filter_map(|line| line.split_whitespace().next()?.parse().ok()).collect();
        let wanted = self.links.len() as u16;
        let free = QUEUES
            .step_by(usize::from(wanted))
            .find(|first| !taken.iter().any(|queue| (*first..first + wanted).contains(queue)))
            .ok_or_else(|| Failure::new("find a queue of packets", "all are in use"))?;
        Ok(Queued {
            first_queue: free,
            counts: home.volatile().join(format!("queue-{free}.counts")),
        })
    }

    fn apply(&self, undo: &Queued) -> Result<()> {
        for (name, v6) in [("iptables-restore", false), ("ip6tables-restore", true)] {
            if self.links.iter().flat_map(|link| &link.peers).any(|peer| peer.is_ipv6() == v6) {
                let restore = Tool::new(name).args(["-w", "5", "--noflush"]);
                restore.input(self.rules(undo, v6)).run()?;
            }
        }
        Ok(())
    }

    fn hold(&self, undo: &Queued, ready: &Path) -> Result<()> {
        let shapes: BTreeMap<u16, _> =
            self.queues(undo).map(|(queue, link)| (queue, link.shape)).collect();
        let ready = || fs::write(ready, "");
        let part = undo.counts.with_extension("part");
        let tell = |counts: &BTreeMap<u16, Counts>| {
            // Who cannot read it says so.
            let written = fs::write(&part, json!(counts).to_string());
            let _ = written.and_then(|()| fs::rename(&part, &undo.counts));
        };
        pump(&shapes, self.seed, ready, tell)
            .map_err(|error| Failure::new("hold packets in a queue", error))
    }

    fn prove(&self, undo: &Queued) -> Result<Sight> {
        let deadline = Instant::now() + PROVE_WITHIN;
        loop {
            let counts = counts(undo);
            let links: Vec<(&PeerLink, Counts)> = self
                .queues(undo)
                .map(|(queue, link)| (link, counts.get(&queue).copied().unwrap_or_default()))
                .collect();
            let idle: Vec<String> = links
                .iter()
                .filter(|(link, counts)| !hurt(link, counts))
                .map(|(link, counts)| {
                    format!("none of {} packets from {} was hurt", counts.packets, link.name())
                })
                .collect();
            if !idle.is_empty() && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(50));
                continue;
            }
            let told: Vec<String> = links.iter().map(|(link, counts)| tell(link, counts)).collect();
            let figures: serde_json::Map<String, serde_json::Value> =
                links.iter().map(|(link, counts)| (link.name(), json!(counts))).collect();
            return Ok(Sight {
                holds: idle.is_empty(),
                summary: if idle.is_empty() { told.join("; ") } else { idle.join("; ") },
                figures: json!({ "from": figures }),
            });
        }
    }

    fn undo(undo: &Queued) -> Result<()> {
        for name in ["iptables", "ip6tables"] {
            let iptables = |args: &[&str]| {
                Tool::new(name).args(["-w", "5", "-t", "mangle"]).args(args).succeeds()
            };
            if !iptables(&["-S", CHAIN]) {
                continue;
            }
            let mut jumps = 0;
            while jumps < JUMPS_MAX && iptables(&["-D", HOOK, "-j", CHAIN]) {
                jumps += 1;
            }
            iptables(&["-F", CHAIN]);
            iptables(&["-X", CHAIN]);
        }
        let _ = fs::remove_file(&undo.counts);
        Ok(())
    }

    fn prove_undone(_undo: &Queued) -> Result<Sight> {
        let there =
            |name: &&str| Tool::new(name).args(["-w", "5", "-t", "mangle", "-S", CHAIN]).succeeds();
        let left: Vec<&str> = ["iptables", "ip6tables"].into_iter().filter(there).collect();
        Ok(Sight {
            holds: left.is_empty(),
            summary: match left.is_empty() {
                true => "no packet is held any more".into(),
                false => format!("the rules are still in {}", left.join(" and ")),
            },
            figures: json!({}),
        })
    }
}

fn counts(undo: &Queued) -> BTreeMap<u16, Counts> {
    let text = fs::read(&undo.counts).unwrap_or_default();
    serde_json::from_slice(&text).unwrap_or_default()
}

/// Whether anything has happened to the packets of a link.
fn hurt(link: &PeerLink, counts: &Counts) -> bool {
    let delays = link.shape.delay_ms > 0.0 || link.shape.rate_kbit > 0.0;
    let touched = counts.lost + counts.corrupted + counts.reordered + counts.duplicated;
    touched > 0 || (delays && counts.passed > 0)
}

/// `from 10.0.0.2: 1,204 packets held for 50.1 ms on average, 31 lost`.
fn tell(link: &PeerLink, counts: &Counts) -> String {
    let mean = counts.held_ns as f64 / counts.passed.max(1) as f64 / 1e6;
    let mut text =
        format!("from {}: {} packets held for {mean:.1} ms on average", link.name(), counts.passed);
    let also = [
        (counts.lost, "lost"),
        (counts.corrupted, "corrupted"),
        (counts.reordered, "ahead of others"),
        (counts.duplicated, "twice"),
    ];
    for (count, what) in also.into_iter().filter(|(count, _)| *count > 0) {
        let _ = write!(text, ", {count} {what}");
    }
    text
}
