//! What sessions are guaranteed (Terry et al., "Session guarantees for weakly consistent replicated data",
//! PDIS 1994), where the orders of versions are known.
//!
//! The guarantees are defined for single operations, and there is more than one way to read them of
//! transactions. So they are taken to hold only where they do if a transaction is one operation, which
//! others see as a whole or not at all: the most that can be asked. And they are taken to be broken
//! only where a session breaks them on a single key, whatever else transactions are: the least.
//! In between they are left open (PROOFS.md, "Sessions").

use super::super::certificate::{Because, Found, Proof, Step};
use super::super::graph::{Graph, Rel, Rels, Stop};
use super::super::interner::NONE;
use super::super::level::Consistency;
use super::super::planted::{Bug, planted};
use super::super::reach;
use super::super::txns::Mop;
use super::versions::Versions;
use super::weak::Known;

/// A guarantee that a session can break on a single key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Guarantee {
    /// What it has seen, it goes on to see.
    MonotonicReads,
    /// Its writes come in its order.
    MonotonicWrites,
    /// It sees what it wrote.
    ReadYourWrites,
    /// Its writes come after what it has seen.
    WritesFollowReads,
}

/// Which guarantees are given at once.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Rules {
    reads: bool,
    writes: bool,
    own: bool,
    causes: bool,
}

impl Guarantee {
    const ALL: [(Self, &'static str, &'static str); 4] = [
        (Self::MonotonicReads, "monotonic-reads", "monotonic-reads-cycle-exists"),
        (Self::MonotonicWrites, "monotonic-writes", "monotonic-writes-cycle-exists"),
        (Self::ReadYourWrites, "read-your-writes", "read-your-writes-cycle-exists"),
        (Self::WritesFollowReads, "writes-follow-reads", "writes-follow-reads-cycle-exists"),
    ];

    /// Those that a level gives, if it is about sessions.
    pub(crate) fn promised_by(level: Consistency) -> Vec<Self> {
        let is = |name| Consistency::parse(name).is_ok_and(|known| known.is_same(level));
        if !["sequential", "linearizable"].into_iter().any(is) && Self::rules(level).is_none() {
            return Vec::new();
        }
        let gives = |name| Consistency::parse(name).is_ok_and(|weaker| level.implies(weaker));
        Self::ALL.into_iter().filter(|(_, name, _)| gives(name)).map(|(kept, ..)| kept).collect()
    }

    /// What a level asks for, if these guarantees are all of it.
    pub(crate) fn rules(level: Consistency) -> Option<Rules> {
        let is = |name| Consistency::parse(name).is_ok_and(|known| known.is_same(level));
        let none = Rules::default();
        let pram = Rules { reads: true, writes: true, own: true, causes: false };
        [
            ("monotonic-reads", Rules { reads: true, ..none }),
            ("monotonic-writes", Rules { writes: true, ..none }),
            ("read-your-writes", Rules { own: true, ..none }),
            ("writes-follow-reads", Rules { causes: true, ..none }),
            ("PRAM", pram),
            ("causal", Rules { causes: true, ..pram }),
        ]
        .into_iter()
        .find_map(|(name, rules)| is(name).then_some(rules))
    }

    fn anomaly(self) -> &'static str {
        let known = Self::ALL.into_iter().find(|(kept, ..)| *kept == self);
        known.map_or("", |(.., anomaly)| anomaly)
    }
}

/// What a session did to a key.
#[derive(Debug, Clone, Copy)]
struct Done {
    /// Which session: what others did is out of date.
    session: u32,
    /// The longest read whose newest element others wrote, and by which transaction.
    read: Option<(u32, u32)>,
    /// The last place it wrote to, and by which transaction.
    wrote: Option<(u32, u32)>,
    /// A write of it that nobody saw, and by which transaction.
    unseen: Option<(u32, u32)>,
}

impl<'h> Known<'_, 'h> {
    /// Whether all reads are explained if transactions see others as a whole, and sessions are given
    /// some guarantees (Lemma S13). Asks that each read shows a version.
    pub(crate) fn keeps(&self, rules: Rules) -> Result<bool, Stop> {
        let Self { txns, versions, .. } = self;
        let count = txns.len() as u32;
        // A write; all writes of its session up to it; what it sees; what its session has seen.
        let own = |txn: u32| txn;
        let session = |txn: u32| count + txn;
        let seen = |txn: u32| 2 * count + txn;
        let known = |txn: u32| 3 * count + txn;
        let versioned = 4 * count;
        let writes = |txn: u32| txns.mops(txn).iter().any(|mop| mop.is_write());
        let reads = rules.reads && !planted(Bug::ReadsForgotten);
        let in_order = rules.writes && !planted(Bug::WritesApartInSession);
        let sees_own = rules.own && !planted(Bug::OwnWritesForgotten);
        let causes = rules.causes && !planted(Bug::CausesForgotten);
        let committed = || (0..count).filter(|&txn| txns.is_committed(txn));
        let nodes = versioned as usize + versions.length() + txns.key_count();
        let graph = Graph::of(nodes, self.budget, |edges| {
            // A write has the number of its transaction.
            self.add_versions(versioned, edges);
            for txn in committed() {
                if writes(txn) {
                    edges.push(own(txn), session(txn), Rel::ON);
                }
                if causes {
                    edges.push(seen(txn), known(txn), Rel::ON);
                    if writes(txn) {
                        edges.push(known(txn), own(txn), Rel::ON);
                    }
                }
                // What is seen was committed before. From here on, WW is an order of commits alone.
                edges.push(seen(txn), own(txn), Rel::WW);
                for (to, rel) in self.graph.out(txn).filter(|(to, _)| *to < count) {
                    match rel {
                        Rel::WW => edges.push(own(txn), own(to), Rel::WW),
                        Rel::WR => {
                            edges.push(own(txn), seen(to), Rel::WR);
                            if in_order {
                                edges.push(session(txn), seen(to), Rel::WR);
                            }
                        }
                        Rel::ORDER => {
                            edges.push(session(txn), session(to), Rel::ORDER);
                            if sees_own {
                                edges.push(session(txn), seen(to), Rel::ORDER);
                            }
                            if reads {
                                edges.push(seen(txn), seen(to), Rel::ORDER);
                            }
                            if causes {
                                edges.push(known(txn), known(to), Rel::ORDER);
                            }
                            if in_order && writes(to) {
                                edges.push(session(txn), own(to), Rel::WW);
                            }
                        }
                        _ => {}
                    }
                }
            }
            nodes as u32
        })?;
        let missed = |txn: u32| self.missed(txn, versioned).map(move |next| (seen(txn), next));
        let missed: Vec<(u32, u32)> = committed().flat_map(missed).collect();
        let flow = Rels(Rel::WR.set().0 | Rel::ON.set().0).with(Rel::ORDER);
        let commits = graph.components(flow.with(Rel::WW), self.budget)?;
        if !commits.is_acyclic() && !planted(Bug::CommitOrderIgnored) {
            return Ok(false);
        }
        drop(commits);
        let broken = reach::joined(&graph, flow, &missed, 1, self.budget)?;
        Ok(broken.is_empty() || planted(Bug::MissesIgnored))
    }

    /// Looks for sessions that break some guarantees on a single key.
    pub(crate) fn find_broken(
        &self,
        guarantees: &[Guarantee],
        found: &mut Found<'h>,
    ) -> Result<(), Stop> {
        let Self { txns, versions, budget, .. } = self;
        if guarantees.is_empty() {
            return Ok(());
        }
        let bytes = txns.key_count() * size_of::<Done>() + 4 * txns.len();
        let _held = budget.hold(bytes as u64)?;
        let process = |txn: u32| txns.history.op(txns.invoke(txn)).process();
        let mut order: Vec<u32> =
            (0..txns.len() as u32).filter(|&txn| txns.is_committed(txn)).collect();
        order.sort_by_key(|&txn| process(txn));
        let nothing = Done { session: NONE, read: None, wrote: None, unseen: None };
        let mut keys = vec![nothing; txns.key_count()];
        for (number, session) in (0..).zip(order.chunk_by(|&a, &b| process(a) == process(b))) {
            for &txn in session {
                for mop in txns.mops(txn) {
                    let done = &mut keys[mop.key() as usize];
                    if done.session != number {
                        *done = Done { session: number, ..nothing };
                    }
                }
                for (at, mop) in (0..).zip(txns.mops(txn)) {
                    let done = keys[mop.key() as usize];
                    for (guarantee, proof) in self.broken_by(txn, at, *mop, done) {
                        if guarantees.contains(&guarantee) {
                            found.add(guarantee.anomaly(), || proof);
                        }
                    }
                    if mop.is_write() || !txns.is_acknowledged(txn) {
                        continue;
                    }
                    let others = self.newest(*mop).filter(|&(writer, _)| writer != txn);
                    let done = &mut keys[mop.key() as usize];
                    if others.is_some() && done.read.is_none_or(|(length, _)| length < mop.what) {
                        done.read = Some((mop.what, txn));
                    }
                }
                // Its own writes are the session's once it has returned.
                for mop in txns.mops(txn).iter().filter(|mop| mop.is_write()) {
                    if !txns.is_acknowledged(txn) || txns.writer(mop.what) != Some(txn) {
                        continue;
                    }
                    let done = &mut keys[mop.key() as usize];
                    match versions.place(mop.what) {
                        0 => done.unseen = Some((mop.what, txn)),
                        place if done.wrote.is_none_or(|(last, _)| last < place) => {
                            done.wrote = Some((place, txn));
                        }
                        _ => {}
                    }
                }
            }
        }
        Ok(())
    }

    /// Who wrote the newest element that a read shows, and that element.
    fn newest(&self, read: Mop) -> Option<(u32, u32)> {
        if Versions::stray(read.what).is_some() {
            return None;
        }
        let &value = self.versions.seen(read.key(), read.what).last()?;
        // One that is there twice is newest at its first place only.
        let first = self.versions.place(value) == read.what;
        Some((self.txns.writer(value).filter(|_| first)?, value))
    }

    /// What a micro-operation breaks, given what its session did before.
    fn broken_by(&self, txn: u32, at: u32, mop: Mop, done: Done) -> Vec<(Guarantee, Proof<'h>)> {
        let Self { txns, versions, .. } = self;
        let key = mop.key();
        let text = txns.key_text(key);
        let step = |from: u32, to: u32, because| Step {
            from: txns.invoke(from),
            to: txns.invoke(to),
            because,
        };
        // Of two that overlap, neither is before the other.
        let before = |one: u32| txns.call(one).complete().is_some_and(|end| end < txns.invoke(txn));
        let missed = |to: u32, value: u32| {
            let after = txns.value_text(value);
            step(txn, to, Because::Missed { key: text, mop: at, after })
        };
        let saw = |writer: u32, reader: u32, value: u32| {
            step(writer, reader, Because::Saw { key: text, value: txns.value_text(value) })
        };
        let mut broken = Vec::new();
        let value_at = |place: u32| versions.order(key)[place as usize - 1];
        let read = done.read.and_then(|(length, reader)| {
            let value = value_at(length);
            let writer = txns.writer(value).filter(|&writer| writer != txn)?;
            (reader == txn || before(reader)).then_some((length, reader, writer, value))
        });
        let wrote = done.wrote.filter(|&(_, writer)| before(writer));
        if !mop.is_write() {
            if Versions::stray(mop.what).is_some() {
                return broken;
            }
            if let Some((length, reader, writer, value)) = read
                && reader != txn
                && length > mop.what
                && !planted(Bug::LessReadIgnored)
            {
                let process = step(reader, txn, Because::Process);
                let steps = vec![saw(writer, reader, value), process, missed(writer, value)];
                broken.push((Guarantee::MonotonicReads, Proof::Cycle(steps)));
            }
            let lost = wrote.filter(|&(place, _)| place > mop.what);
            let lost = lost.map(|(place, writer)| (value_at(place), writer));
            let lost = lost.or(done.unseen.filter(|&(_, writer)| before(writer)));
            if let Some((value, writer)) = lost.filter(|_| !planted(Bug::OwnWriteMissedIgnored)) {
                let process = step(writer, txn, Because::Process);
                let steps = vec![process, missed(writer, value)];
                broken.push((Guarantee::ReadYourWrites, Proof::Cycle(steps)));
            }
            return broken;
        }
        let place = versions.place(mop.what);
        if place == 0 || txns.writer(mop.what) != Some(txn) {
            return broken;
        }
        let over = |to: u32, after: u32| {
            let reader = txns.invoke(versions.whole_reader(txns, key));
            let (before, after) = (txns.value_text(mop.what), txns.value_text(after));
            step(txn, to, Because::Wrote { key: text, before, after, reader, seen: true })
        };
        if let Some((last, writer)) = wrote.filter(|&(last, _)| last > place)
            && !planted(Bug::WritesInAnyOrder)
        {
            let steps = vec![step(writer, txn, Because::Process), over(writer, value_at(last))];
            broken.push((Guarantee::MonotonicWrites, Proof::Cycle(steps)));
        }
        if let Some((length, reader, writer, value)) = read
            && length > place
            && !planted(Bug::WriteBeforeRead)
        {
            let mut steps = vec![saw(writer, reader, value)];
            if reader != txn {
                steps.push(step(reader, txn, Because::Process));
            }
            steps.push(over(writer, value));
            broken.push((Guarantee::WritesFollowReads, Proof::Cycle(steps)));
        }
        broken
    }
}
