//! Which levels are decided, and how what is left of one is.
//!
//! Where a version order is not known, that no cycle was found does not prove a level: some order has
//! to exist. For levels that ask for a serial order, or one of snapshots, that is searched for;
//! weaker ones follow from them. Levels that Elle's anomalies do not fully describe are taken to
//! hold where a stronger one that is decided holds, and are left open elsewhere.

use std::cell::LazyCell;

use super::certificate::{Because, Certificate, Found, Proof, Step};
use super::facts::{Facts, Writers};
use super::graph::{Rel, Stop};
use super::interner::NONE;
use super::isolation::{self, Isolation};
use super::level::{Consistency, OrderKind};
use super::planted::{Bug, planted};
use super::report::Open;
use super::txns::Txns;
use crate::budget::Budget;

/// A level that is decided exactly.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Decided {
    pub(crate) level: &'static str,
    /// The order to look for; `None` if the graph alone decides.
    pub(crate) isolation: Option<Isolation>,
    pub(crate) order: OrderKind,
    /// The anomaly that there is no such order.
    pub(crate) anomaly: &'static str,
}

const fn decided(
    level: &'static str,
    isolation: Option<Isolation>,
    order: OrderKind,
    anomaly: &'static str,
) -> Decided {
    Decided { level, isolation, order, anomaly }
}

/// Weaker ones first.
const DECIDED: &[Decided] = &[
    decided("PL-1", None, OrderKind::Data, "PL-1-cycle-exists"),
    decided("PL-2", None, OrderKind::Data, "PL-2-cycle-exists"),
    decided("strong-session-PL-1", None, OrderKind::Process, "strong-session-PL-1-cycle-exists"),
    decided("strong-session-PL-2", None, OrderKind::Process, "strong-session-PL-2-cycle-exists"),
    decided("strong-PL-1", None, OrderKind::RealTime, "strong-PL-1-cycle-exists"),
    decided("strong-PL-2", None, OrderKind::RealTime, "strong-PL-2-cycle-exists"),
    decided("PL-SI", Some(Isolation::Snapshot), OrderKind::Data, "PL-SI-cycle-exists"),
    decided("PL-2.99", Some(Isolation::Serial), OrderKind::Data, "PL-2.99-cycle-exists"),
    decided("PL-3", Some(Isolation::Serial), OrderKind::Data, "PL-3-cycle-exists"),
    decided(
        "view-serializable",
        Some(Isolation::Serial),
        OrderKind::Data,
        "view-serializable-cycle-exists",
    ),
    decided("1SR", Some(Isolation::Serial), OrderKind::Data, "1SR-cycle-exists"),
    decided(
        "strong-session-snapshot-isolation",
        Some(Isolation::Snapshot),
        OrderKind::Process,
        "strong-session-snapshot-isolation-cycle-exists",
    ),
    decided(
        "strong-session-serializable",
        Some(Isolation::Serial),
        OrderKind::Process,
        "strong-session-serializable-cycle-exists",
    ),
    decided(
        "strong-snapshot-isolation",
        Some(Isolation::Snapshot),
        OrderKind::RealTime,
        "strong-snapshot-isolation-cycle-exists",
    ),
    decided("PL-SS", Some(Isolation::Serial), OrderKind::RealTime, "PL-SS-cycle-exists"),
];

/// Levels that the order of a decided one gives too, though Elle's relations do not say so (PROOFS.md, S12).
const GIVEN: &[(&str, &[&str])] = &[
    ("PL-3", &["1SR"]),
    (
        "strong-session-serializable",
        &[
            "session-serializable",
            "sequential",
            "causal",
            "PRAM",
            "monotonic-reads",
            "monotonic-writes",
            "read-your-writes",
            "writes-follow-reads",
        ],
    ),
];

/// Levels that a history without a serial order does not have, and the anomaly that says so.
const SERIAL: &[(&str, &str)] = &[
    ("view-serializable", "view-serializable-cycle-exists"),
    ("1SR", "1SR-cycle-exists"),
    ("session-serializable", "1SR-cycle-exists"),
];

/// Where a level asks for a serial order, what was found that leaves none rules it out. Returns whether
/// it did.
pub(crate) fn deny_serial(demanded: Consistency, found: &mut Found<'_>) -> bool {
    let is = |name| Consistency::parse(name).is_ok_and(|level| level.is_same(demanded));
    let Some((_, anomaly)) = SERIAL.iter().find(|(level, _)| is(level)) else { return false };
    let Ok(serializable) = Consistency::parse("PL-3") else { return false };
    let mut shown = found.shown.iter().filter(|(name, _)| serializable.is_ruled_out_by(name));
    let proof = shown.find_map(|(_, shown)| Some(shown.first()?.proof.clone()));
    let Some(proof) = proof.filter(|_| !planted(Bug::SerialIgnored)) else { return false };
    found.add(anomaly, || proof);
    true
}

impl Decided {
    /// The level itself.
    pub(crate) fn consistency(&self) -> Option<Consistency> {
        Consistency::parse(self.level).ok()
    }

    /// The level demanded, if it is one that is decided; else those that imply it, weaker first.
    pub(crate) fn for_level(demanded: Consistency) -> (Option<Self>, Vec<Self>) {
        let same = |d: &&Self| d.consistency().is_some_and(|level| level.is_same(demanded));
        let own = DECIDED.iter().find(same).copied();
        let gives = |d: &Self| {
            let mut given = GIVEN.iter().filter(|(level, _)| *level == d.level);
            given.any(|(_, given)| {
                let mut given = given.iter().filter_map(|name| Consistency::parse(name).ok());
                given.any(|level| level.is_same(demanded))
            })
        };
        let implies =
            |d: &&Self| gives(d) || d.consistency().is_some_and(|level| level.implies(demanded));
        (own, DECIDED.iter().filter(implies).copied().collect())
    }

    /// The order that has to be looked at to decide a level.
    pub(crate) fn order(demanded: Consistency) -> OrderKind {
        let (own, stronger) = Self::for_level(demanded);
        own.or(stronger.first().copied()).map_or(OrderKind::Data, |decided| decided.order)
    }
}

/// The share of the time that is spent on the whole; the rest is for its beginnings.
const SEARCH_SHARE: f64 = 0.6;

/// What is known once cycles were looked for.
pub(crate) struct Subject<'a, 'h, F> {
    pub(crate) txns: &'a Txns<'h>,
    /// What is known, and the transaction of each of its nodes: only if it has to be searched.
    pub(crate) facts: LazyCell<(Vec<u32>, Facts), F>,
    /// Whether that no cycle was found proves that a level's order exists.
    pub(crate) graph_decides: &'a dyn Fn(&Decided) -> Result<bool, Stop>,
    /// Why one transaction depends on another.
    pub(crate) reason: &'a dyn Fn(u32, Rel, u32) -> Option<Because<'h>>,
}

impl<'h, F: FnOnce() -> (Vec<u32>, Facts)> Subject<'_, 'h, F> {
    /// Decides what cycles leave open of a level that no anomaly found rules out. Adds the anomaly if
    /// there is no order; says why if the level stays open.
    pub(crate) fn complete(
        &self,
        demanded: Consistency,
        budget: &Budget,
        found: &mut Found<'h>,
    ) -> Result<Option<Open>, Stop> {
        let (own, stronger) = Decided::for_level(demanded);
        if let Some(own) = own {
            match self.holds(own, &budget.share(SEARCH_SHARE)) {
                Ok(true) => {}
                Ok(false) => return Ok(self.prove(own, budget, found)),
                Err(stop) => return self.beginning(own, stop, budget, found),
            }
            return Ok(None);
        }
        let order = Decided::order(demanded);
        for level in stronger.into_iter().filter(|level| level.order <= order) {
            let Some(consistency) = level.consistency() else { continue };
            let ruled_out = found.counts.keys().any(|name| consistency.is_ruled_out_by(name));
            if !ruled_out && !planted(Bug::StrongerIgnored) && self.holds(level, budget)? {
                return Ok(None);
            }
        }
        // What a weaker level lacks, it lacks too.
        for level in Self::weaker(demanded) {
            if !self.holds(level, budget)? {
                return Ok(self.prove(level, budget, found));
            }
        }
        Ok(Some(Open::all(format!(
            "no anomaly that was found rules {demanded} out, but the anomalies that are looked for do \
             not describe it fully, and no stronger level that they describe holds"
        ))))
    }

    /// Weaker levels that ask for an order.
    fn weaker(demanded: Consistency) -> impl Iterator<Item = Decided> {
        let implied =
            move |d: &&Decided| d.consistency().is_some_and(|level| demanded.implies(level));
        DECIDED.iter().filter(implied).copied().filter(|level| level.isolation.is_some())
    }

    /// Adds the anomaly that a level's order does not exist. If a proof of it, small enough to be
    /// verified, is not found in time, that is said.
    fn prove(&self, level: Decided, budget: &Budget, found: &mut Found<'h>) -> Option<Open> {
        match self.no_order(level, budget) {
            Ok(proof) => {
                found.add(level.anomaly, || proof);
                None
            }
            Err(stop) => Some(Open {
                reason: format!("{stop} while a proof was made small enough to be verified"),
                since: 0,
                known: Some("the search says that no order explains all reads".into()),
            }),
        }
    }

    /// What is said of a level whose search was stopped: how many of the first transactions, taken
    /// alone, have an order. If even they have none, nor has the whole.
    fn beginning(
        &self,
        level: Decided,
        stop: Stop,
        budget: &Budget,
        found: &mut Found<'h>,
    ) -> Result<Option<Open>, Stop> {
        let (members, facts) = &*self.facts;
        let isolation = level.isolation.unwrap_or(Isolation::Serial);
        let reason = format!("{stop} while an order was searched for that explains all reads");
        let mut size = members.len() / 2;
        while size > 0 {
            let kept: Vec<u32> = (0..size as u32).collect();
            let part = facts.only(&kept);
            match isolation::is_possible(&part, isolation, level.order, &budget.share(0.5)) {
                Ok(true) => {
                    let since = self.txns.invoke(members[size]);
                    let index = self.txns.history.op(since).index();
                    let known = format!(
                        "no cycle was found, and the {size} transactions invoked before op {index}, \
                         taken alone, have such an order"
                    );
                    return Ok(Some(Open { reason, since, known: Some(known) }));
                }
                Ok(false) => return Ok(self.prove(level, budget, found)),
                Err(_) => size /= 2,
            }
        }
        let known = Some("no cycle was found".into());
        Ok(Some(Open { reason, since: 0, known }))
    }

    fn holds(&self, level: Decided, budget: &Budget) -> Result<bool, Stop> {
        match level.isolation {
            Some(isolation) if !(self.graph_decides)(&level)? => {
                isolation::is_possible(&self.facts.1, isolation, level.order, budget)
            }
            _ => Ok(true),
        }
    }

    /// The proof that a level's order does not exist.
    fn no_order(&self, level: Decided, budget: &Budget) -> Result<Proof<'h>, Stop> {
        let isolation = level.isolation.unwrap_or(Isolation::Serial);
        let (members, facts) = &*self.facts;
        let core = isolation::core(facts, isolation, level.order, budget)?;
        let facts = facts.only(&core);
        let txn = |node: u32| members[core[node as usize] as usize];
        let mut known = Vec::new();
        for read in facts.reads.iter().filter(|read| read.writer != NONE) {
            let (from, to) = (txn(read.writer), txn(read.reader));
            if let Some(because) = (self.reason)(from, Rel::WR, to) {
                known.push(Step {
                    from: self.txns.invoke(from),
                    to: self.txns.invoke(to),
                    because,
                });
            }
        }
        // What others saw of the order of writes.
        for Writers { chain, loose } in &facts.keys {
            let unseen =
                chain.last().into_iter().flat_map(|&last| loose.iter().map(move |&l| (last, l)));
            let pairs = chain.windows(2).map(|pair| (pair[0], pair[1])).chain(unseen);
            for (from, to) in pairs.map(|(from, to)| (txn(from), txn(to))) {
                if let Some(because) = (self.reason)(from, Rel::WW, to) {
                    let (from, to) = (self.txns.invoke(from), self.txns.invoke(to));
                    known.push(Step { from, to, because });
                }
            }
        }
        let before = |a: usize, b: usize| {
            let (a, b) = (facts.spans[a], facts.spans[b]);
            let ordered = match level.order {
                OrderKind::Data => false,
                OrderKind::Process => a.process == b.process,
                OrderKind::RealTime => true,
            };
            ordered && a.ret < b.invoke
        };
        let count = facts.spans.len();
        for (a, b) in (0..count).flat_map(|a| (0..count).map(move |b| (a, b))) {
            if before(a, b) && !(0..count).any(|mid| before(a, mid) && before(mid, b)) {
                let because = match level.order {
                    OrderKind::Process => Because::Process,
                    _ => Because::RealTime,
                };
                let (from, to) = (facts.spans[a].invoke, facts.spans[b].invoke);
                known.push(Step { from, to, because });
            }
        }
        let txns = (0..count as u32).map(|node| self.txns.invoke(txn(node))).collect();
        Ok(Proof::NoOrder { txns, isolation, order: level.order, known })
    }
}

/// A cycle's reasons. A step for which there is none is left out, and the verifier will see it.
pub(crate) fn cycle_proof<'h>(
    txns: &Txns<'h>,
    order: OrderKind,
    steps: &[(u32, Rel)],
    reason: &dyn Fn(u32, Rel, u32) -> Option<Because<'h>>,
) -> Proof<'h> {
    let next = steps.iter().cycle().skip(1);
    let proven = steps.iter().zip(next).filter_map(|(&(from, rel), &(to, _))| {
        let because = match (rel, order) {
            (Rel::ORDER, OrderKind::Process) => Because::Process,
            (Rel::ORDER, _) => Because::RealTime,
            _ => reason(from, rel, to)?,
        };
        Some(Step { from: txns.invoke(from), to: txns.invoke(to), because })
    });
    Proof::Cycle(proven.collect())
}

/// Adds cycles to what was found.
pub(crate) fn add_cycles<'h>(
    txns: &Txns<'h>,
    order: OrderKind,
    cycles: super::cycles::Cycles,
    reason: &dyn Fn(u32, Rel, u32) -> Option<Because<'h>>,
    found: &mut Found<'h>,
) {
    for (name, count) in cycles.counts {
        *found.counts.entry(name).or_default() += count;
    }
    for cycle in cycles.shown {
        let proof = cycle_proof(txns, order, &cycle.steps, reason);
        let certificate = Certificate { name: cycle.name, proof, happened: Vec::new() };
        found.shown.entry(cycle.name).or_default().push(certificate);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every level is decided or implied by one that is, with the order it is about.
    #[test]
    fn every_level_can_be_decided_or_implied() -> Result<(), super::super::level::UnknownLevel> {
        for name in Consistency::names() {
            let (own, stronger) = Decided::for_level(Consistency::parse(name)?);
            assert!(own.is_some() || !stronger.is_empty(), "{name}");
        }
        for (name, order) in [
            ("read-uncommitted", OrderKind::Data),
            ("serializable", OrderKind::Data),
            ("snapshot-isolation", OrderKind::Data),
            ("causal-cerone", OrderKind::Data),
            ("strong-session-read-uncommitted", OrderKind::Process),
            ("strong-session-snapshot-isolation", OrderKind::Process),
            ("strong-read-committed", OrderKind::RealTime),
            ("strong-snapshot-isolation", OrderKind::RealTime),
            ("strict-serializable", OrderKind::RealTime),
            ("linearizable", OrderKind::RealTime),
            ("sequential", OrderKind::Process),
            ("causal", OrderKind::Process),
            ("monotonic-reads", OrderKind::Process),
            ("1SR", OrderKind::Data),
        ] {
            assert_eq!(Decided::order(Consistency::parse(name)?), order, "{name}");
        }
        Ok(())
    }
}
