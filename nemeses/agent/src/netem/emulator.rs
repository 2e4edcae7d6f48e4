//! Links made bad by the kernel's own emulator, on their way out of this node.
//!
//! The root of a device becomes a `prio` whose first band takes everything that is not meant, and
//! each link has a band of its own with a `netem`. Filters by destination lead into it, after those
//! that spare the controller's SSH. A device whose queues somebody has set up is refused: what they
//! were could not be told for sure, so it could not be restored. One where nobody has is given what
//! it had by the kernel, when ours are removed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use nix::sched::{CloneFlags, unshare};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::discipline::{self, Discipline};
use super::shape::{BACKLOG_MAX, Shape};
use crate::tool::Tool;
use crate::{Failure, Home, Primitive, Result, Sight};

/// The handle of our root, and of the queue of what is not meant.
const ROOT: &str = "de05:";
const REST: &str = "de06:";

/// The handle of the first link's emulator; the others follow.
const FIRST: u16 = 0xde10;

/// How many bands a `prio` has at most, of which one is for the rest.
const BANDS_MAX: usize = 16;

/// How many packets wait for a link that is not throttled, at most.
const WAITING_MAX: u32 = 100_000;

/// How many packets wait for a link that is throttled, at least.
const WAITING_MIN: u32 = 20;

/// A usual packet, in bits.
const PACKET_BITS: f64 = 1500.0 * 8.0;

/// How long packets may take to come by.
const PROVE_WITHIN: Duration = Duration::from_secs(3);

/// What of TCP is let through as it is: the controller's SSH, where it is at one end of the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ssh {
    /// What the controller, on this node, sends to the peer's sshd, by its port.
    ToPeer(u16),
    /// What this node's sshd, by its port, answers the controller, on the peer.
    FromHere(u16),
}

/// The link from this node to a peer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outgoing {
    /// The addresses of the peer.
    pub peers: BTreeSet<IpAddr>,
    /// What happens to packets.
    pub shape: Shape,
    /// What is let through as it is.
    #[serde(default)]
    pub spared: BTreeSet<Ssh>,
}

impl Outgoing {
    /// The peer, for people: its first address.
    fn name(&self) -> String {
        self.peers.first().map_or_else(String::new, IpAddr::to_string)
    }
}

/// Makes what goes to some peers go over bad links.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Netem {
    /// The links *to* these peers.
    pub links: Vec<Outgoing>,
}

/// Where there is something to remove.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Emulated {
    /// By device: the links that leave by it, as positions in [`Netem::links`], with the addresses
    /// that are reached by it.
    devices: BTreeMap<String, BTreeMap<usize, BTreeSet<IpAddr>>>,
}

impl Netem {
    /// What is wrong with what is asked for, if anything.
    fn mistake(&self) -> Option<String> {
        if self.links.is_empty() || self.links.iter().any(|link| link.peers.is_empty()) {
            return Some("a link has two ends: name a peer".into());
        }
        self.links.iter().find_map(|link| {
            let mistake = link.shape.mistake().or_else(|| {
                let seen = link.shape.loss_pct > 0.0 || holds_back(&link.shape);
                (!seen).then_some("what it doubles or corrupts the emulator does not count")
            });
            Some(format!("{}: {}", link.name(), mistake?))
        })
    }

    /// By which devices which links leave.
    fn devices(&self) -> Result<BTreeMap<String, BTreeMap<usize, BTreeSet<IpAddr>>>> {
        let mut devices: BTreeMap<String, BTreeMap<usize, BTreeSet<IpAddr>>> = BTreeMap::new();
        for (at, link) in self.links.iter().enumerate() {
            let ways: Vec<(IpAddr, String)> =
                link.peers.iter().filter_map(|peer| Some((*peer, device_to(*peer)?))).collect();
            if ways.is_empty() {
                return Err(Failure::new("find a way out", format!("none to {}", link.name())));
            }
            for (peer, device) in ways {
                devices.entry(device).or_default().entry(at).or_default().insert(peer);
            }
        }
        Ok(devices)
    }

    /// What makes the links bad that leave by a device.
    fn commands(&self, device: &str, links: &BTreeMap<usize, BTreeSet<IpAddr>>) -> Vec<String> {
        let rest = ["0"; BANDS_MAX].join(" ");
        let bands = (links.len() + 1).max(2);
        let mut commands = vec![
            format!("qdisc add dev {device} root handle {ROOT} prio bands {bands} priomap {rest}"),
            format!("qdisc add dev {device} parent {ROOT}1 handle {REST} pfifo limit 10000"),
        ];
        let filter = format!("filter add dev {device} parent {ROOT}");
        // A priority takes one protocol, and the lower come first.
        let kind = |ip: &IpAddr| if ip.is_ipv4() { ("ip", 0) } else { ("ipv6", 1) };
        for (at, peers) in links {
            for (peer, ssh) in peers
                .iter()
                .flat_map(|peer| self.links[*at].spared.iter().map(move |it| (peer, it)))
            {
                let (protocol, after) = kind(peer);
                let port = match ssh {
                    Ssh::ToPeer(port) => format!("dst_port {port}"),
                    Ssh::FromHere(port) => format!("src_port {port}"),
                };
                commands.push(format!(
                    "{filter} protocol {protocol} prio {} flower dst_ip {peer} ip_proto tcp {port} \
                     classid {ROOT}1",
                    1 + after
                ));
            }
        }
        for (number, (at, peers)) in (0..).zip(links) {
            let (band, handle) = (number + 2, handle(number));
            let what = words(&self.links[*at].shape);
            commands.push(format!(
                "qdisc add dev {device} parent {ROOT}{band:x} handle {handle} netem {what}"
            ));
            for peer in peers {
                let (protocol, after) = kind(peer);
                commands.push(format!(
                    "{filter} protocol {protocol} prio {} flower dst_ip {peer} classid {ROOT}{band:x}",
                    3 + after
                ));
            }
        }
        commands
    }
}

/// What was done to the packets of a link.
#[derive(Debug, Default, Serialize)]
struct Counts {
    /// How many were held, or are.
    packets: u64,
    /// How many were lost.
    lost: u64,
}

/// The handle of the emulator of a device's link, by its number there.
fn handle(number: u16) -> String {
    format!("{:x}:", FIRST + number)
}

/// Whether packets take longer than they would.
fn holds_back(shape: &Shape) -> bool {
    shape.delay_ms > 0.0 || shape.jitter_ms > 0.0 || shape.rate_kbit > 0.0
}

/// What `tc` calls a shape.
fn words(shape: &Shape) -> String {
    let Shape { loss_pct, duplicate_pct, corrupt_pct, reorder_pct, delay_ms, jitter_ms, rate_kbit } =
        *shape;
    let waiting = match rate_kbit > 0.0 {
        // What would wait longer than the backlog is lost; what is delayed waits as well.
        true => {
            let within = BACKLOG_MAX.as_secs_f64() + (delay_ms + jitter_ms) / 1e3;
            ((rate_kbit * 1e3 * within / PACKET_BITS) as u32).clamp(WAITING_MIN, WAITING_MAX)
        }
        false => WAITING_MAX,
    };
    let mut text = format!("limit {waiting}");
    if delay_ms > 0.0 || jitter_ms > 0.0 {
        let _ = write!(text, " delay {delay_ms}ms");
    }
    if jitter_ms > 0.0 {
        let _ = write!(text, " {jitter_ms}ms");
    }
    let shares = [
        ("loss", loss_pct),
        ("duplicate", duplicate_pct),
        ("corrupt", corrupt_pct),
        ("reorder", reorder_pct),
    ];
    for (what, percent) in shares.into_iter().filter(|(_, percent)| *percent > 0.0) {
        let _ = write!(text, " {what} {percent}%");
    }
    if rate_kbit > 0.0 {
        let _ = write!(text, " rate {rate_kbit}kbit");
    }
    text
}

/// The device by which an address is reached, if it is.
fn device_to(peer: IpAddr) -> Option<String> {
    let said = Tool::new("ip").args(["-j", "route", "get", &peer.to_string()]).run().ok()?;
    let routes: serde_json::Value = serde_json::from_str(&said).ok()?;
    Some(routes[0]["dev"].as_str()?.to_owned())
}

/// Refuses a device whose queues are somebody's.
fn check_untouched(device: &str) -> Result<()> {
    let refuse =
        |reason: String| Err(Failure::new(format!("take over the queues of {device}"), reason));
    if device == "lo" {
        return refuse("a peer is reached by it, so it is this very machine".into());
    }
    match discipline::of(device)?.into_iter().find(|it| it.root) {
        Some(root) if root.handle != "0:" => {
            refuse(format!("somebody has set them up ({} {})", root.kind, root.handle))
        }
        _ => Ok(()),
    }
}

/// Does in a network of its own, which is gone afterwards, what would be done to a device: a kernel that
/// lacks anything of it, or will not have it, says so there.
fn rehearse(commands: Vec<String>) -> Result<()> {
    let rehearsal = move || {
        unshare(CloneFlags::CLONE_NEWNET)
            .map_err(|errno| Failure::new("make a network to rehearse in", errno))?;
        discipline::change(&commands)
    };
    // Namespaces are a thread's.
    std::thread::spawn(rehearsal).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Whether a device's queues are ours.
fn is_ours(disciplines: &[Discipline]) -> bool {
    disciplines.iter().any(|it| it.root && it.handle == ROOT)
}

impl Primitive for Netem {
    type Undo = Emulated;

    fn plan(&self, _home: &Home) -> Result<Emulated> {
        if let Some(mistake) = self.mistake() {
            return Err(Failure::new("make links bad", mistake));
        }
        let devices = self.devices()?;
        for (device, links) in &devices {
            check_untouched(device)?;
            if links.len() >= BANDS_MAX {
                let reason =
                    format!("{} leave by {device}, and a prio has {BANDS_MAX} bands", links.len());
                return Err(Failure::new("make links bad", reason));
            }
            rehearse(self.commands("lo", links))?;
        }
        Ok(Emulated { devices })
    }

    fn apply(&self, undo: &Emulated) -> Result<()> {
        undo.devices
            .iter()
            .try_for_each(|(device, links)| discipline::change(&self.commands(device, links)))
    }

    fn prove(&self, undo: &Emulated) -> Result<Sight> {
        let deadline = Instant::now() + PROVE_WITHIN;
        loop {
            let mut counted = BTreeMap::new();
            let (mut doubts, mut told) = (Vec::new(), Vec::new());
            for (device, links) in &undo.devices {
                let disciplines = discipline::of(device)?;
                let show = ["filter", "show", "dev", device, "parent", ROOT];
                let filters = Tool::new("tc").args(show).run().unwrap_or_default();
                for (number, (at, peers)) in (0..).zip(links) {
                    let (link, handle) = (&self.links[*at], handle(number));
                    let name = link.name();
                    // Each peer has a filter for what is spared, port by port, and one for the rest.
                    let leads = |peer: &IpAddr| {
                        let line = format!("dst_ip {peer}");
                        let found = filters.lines().filter(|it| it.trim() == line).count();
                        found == link.spared.len() + 1
                    };
                    let emulator =
                        disciplines.iter().find(|it| it.kind == "netem" && it.handle == handle);
                    let Some(emulator) = emulator.filter(|_| peers.iter().all(leads)) else {
                        doubts.push(format!("the emulator of the link to {name} is not there"));
                        continue;
                    };
                    let packets = emulator.packets + emulator.held;
                    let lost = emulator.drops;
                    if lost == 0 && (packets == 0 || !holds_back(&link.shape)) {
                        doubts.push(format!("none of {packets} packets to {name} was hurt"));
                    }
                    told.push(format!("to {name}: {packets} packets emulated, {lost} lost"));
                    // A peer that is reached by two devices has two emulators.
                    let counts: &mut Counts = counted.entry(name).or_default();
                    counts.packets += packets;
                    counts.lost += lost;
                }
            }
            if !doubts.is_empty() && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(50));
                continue;
            }
            return Ok(Sight {
                holds: doubts.is_empty(),
                summary: if doubts.is_empty() { told.join("; ") } else { doubts.join("; ") },
                figures: json!({ "to": counted }),
            });
        }
    }

    fn undo(undo: &Emulated) -> Result<()> {
        for device in undo.devices.keys() {
            if is_ours(&discipline::of(device)?) {
                discipline::change(&[format!("qdisc del dev {device} root")])?;
            }
        }
        Ok(())
    }

    fn prove_undone(undo: &Emulated) -> Result<Sight> {
        let mut left = Vec::new();
        for device in undo.devices.keys() {
            if is_ours(&discipline::of(device)?) {
                left.push(device.as_str());
            }
        }
        Ok(Sight {
            holds: left.is_empty(),
            summary: match left.is_empty() {
                true => "nothing is emulated any more".into(),
                false => format!("the emulators are still on {}", left.join(" and ")),
            },
            figures: json!({}),
        })
    }
}
