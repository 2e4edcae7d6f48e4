//! Fetches packets from queues, holds them as long as their link says, and lets them go.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::io;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::queues::{Packet, Queues};
use super::twin::Twins;
use crate::netem::{Fate, Link, Shape};

/// How many packets are fetched before those that are due are let go.
const BATCH: u32 = 64;

/// How often what was done is told, while something is done.
const TELL_EVERY: Duration = Duration::from_millis(200);

/// What was done to the packets of a link.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Counts {
    /// How many came. What came as one large packet counts once.
    pub(super) packets: u64,
    /// How long they were together.
    pub(super) bytes: u64,
    /// How many were lost.
    pub(super) lost: u64,
    /// In how many a bit was flipped.
    pub(super) corrupted: u64,
    /// How many overtook others.
    pub(super) reordered: u64,
    /// How many came twice.
    pub(super) duplicated: u64,
    /// How many were let go.
    pub(super) passed: u64,
    /// How long those were held, together.
    pub(super) held_ns: u64,
}

/// A packet that is held.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Held {
    until: Duration,
    /// Packets that are due together go in the order they came.
    order: u64,
    since: Duration,
    queue: u16,
    id: u32,
    changed: Option<Vec<u8>>,
    twin: Option<Vec<u8>>,
}

/// Pumps for as long as it works, and has `tell` know now and then what was done.
pub(super) fn pump(
    shapes: &BTreeMap<u16, Shape>,
    seed: u64,
    ready: impl FnOnce() -> io::Result<()>,
    mut tell: impl FnMut(&BTreeMap<u16, Counts>),
) -> io::Result<()> {
    let mut queues = Queues::open()?;
    let mut links = BTreeMap::new();
    for (queue, shape) in shapes {
        queues.bind(*queue, shape.needs_contents())?;
        links.insert(*queue, Link::new(*shape, seed.wrapping_add(u64::from(*queue))));
    }
    let twins = Twins::open()?;
    ready()?;
    let start = Instant::now();
    let mut counts: BTreeMap<u16, Counts> =
        shapes.keys().map(|queue| (*queue, Counts::default())).collect();
    tell(&counts);
    let (mut told, mut told_at) = (counts.clone(), Duration::ZERO);
    let mut held: BinaryHeap<Reverse<Held>> = BinaryHeap::new();
    let mut buffer = Vec::new();
    let mut order = 0;
    loop {
        for _ in 0..BATCH {
            let Some(packet) = queues.next(&mut buffer)? else { break };
            let (Some(link), Some(counts)) =
                (links.get_mut(&packet.queue), counts.get_mut(&packet.queue))
            else {
                continue;
            };
            let now = start.elapsed();
            counts.packets += 1;
            counts.bytes += packet.length;
            let fate = link.fate(now, packet.length);
            order += 1;
            match fate {
                Fate::Lost => {
                    counts.lost += 1;
                    queues.decide(packet.queue, packet.id, false, None);
                }
                Fate::Passes { at, early, flip, twice } => {
                    counts.reordered += u64::from(early);
                    counts.corrupted += u64::from(flip.is_some());
                    counts.duplicated += u64::from(twice);
                    held.push(Reverse(hold(packet, at, now, order, flip, twice)));
                }
            }
        }
        let now = start.elapsed();
        while held.peek().is_some_and(|Reverse(next)| next.until <= now) {
            let Some(Reverse(next)) = held.pop() else { break };
            queues.decide(next.queue, next.id, true, next.changed.as_deref());
            if let Some(counts) = counts.get_mut(&next.queue) {
                counts.passed += 1;
                counts.held_ns += (now - next.since).as_nanos() as u64;
            }
            if let Some(twin) = next.twin {
                // A copy that cannot be sent is a packet that did not come twice.
                if twins.send(&twin).is_err()
                    && let Some(counts) = counts.get_mut(&next.queue)
                {
                    counts.duplicated -= 1;
                }
            }
        }
        queues.flush()?;
        if counts != told && now >= told_at + TELL_EVERY {
            tell(&counts);
            (told, told_at) = (counts.clone(), now);
        }
        let due = held.peek().map(|Reverse(next)| next.until.saturating_sub(start.elapsed()));
        queues.wait(due.unwrap_or(TELL_EVERY).min(TELL_EVERY))?;
    }
}

fn hold(
    packet: Packet,
    until: Duration,
    since: Duration,
    order: u64,
    flip: Option<u64>,
    twice: bool,
) -> Held {
    let Packet { queue, id, mut contents, .. } = packet;
    let twin = twice.then(|| contents.clone());
    let changed = flip.map(|bit| {
        if let Some(byte) = contents.get_mut((bit / 8) as usize) {
            *byte ^= 1 << (bit % 8);
        }
        contents
    });
    Held { until, order, since, queue, id, changed, twin }
}
