//! What the nemesis did, as it stands in a history: the payload of its events, the episodes they
//! make up, and how much of what was asked for was proven.
//!
//! An injection of a fault is one *episode* of up to five events, all by [`Process::Nemesis`], with
//! `f` the fault and a map as value, told apart by `action` and kind:
//!
//! | action   | kind     | says                                                        |
//! |----------|----------|-------------------------------------------------------------|
//! | `plan`   | `info`   | a lane will try this fault; once, when the lane starts      |
//! | `inject` | `invoke` | what was chosen; nothing is touched yet                     |
//! | `inject` | `info`   | it was applied, and what was seen of it just after          |
//! | `hold`   | `info`   | what was seen of it just before healing; the last word      |
//! | `heal`   | `invoke` | it is about to be undone                                    |
//! | `heal`   | `info`   | it was undone, and what was seen of that                    |

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{History, Op, OpRef, OpType, Process, Value, ValueRef};

/// Whether a fault did what it says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Effect {
    /// It was applied and seen to bite (or, for a heal: seen to be gone).
    Proven,
    /// It was not applied: nothing to hit, or refused. Counts as not injected.
    Skipped,
    /// It was applied, or may have been, and whether it bit could not be seen.
    Indeterminate,
}

impl Effect {
    /// `proven`, `skipped`, `indeterminate`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Proven => "proven",
            Self::Skipped => "skipped",
            Self::Indeterminate => "indeterminate",
        }
    }

    /// The inverse of [`Effect::as_str`].
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Proven, Self::Skipped, Self::Indeterminate].into_iter().find(|e| e.as_str() == word)
    }
}

impl std::fmt::Display for Effect {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What a fault event tells of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FaultAction {
    /// A lane starts that will try this fault.
    Plan,
    /// The fault is applied.
    Inject,
    /// The fault was still in force, or not, when it was about to be healed.
    Hold,
    /// The fault is undone.
    Heal,
}

impl FaultAction {
    /// `plan`, `inject`, `hold`, `heal`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Plan => "plan",
            Self::Inject => "inject",
            Self::Hold => "hold",
            Self::Heal => "heal",
        }
    }

    /// The inverse of [`FaultAction::as_str`].
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Plan, Self::Inject, Self::Hold, Self::Heal].into_iter().find(|a| a.as_str() == word)
    }
}

/// What was seen of a fault or of its healing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sighting {
    /// The conclusion.
    pub effect: Effect,
    /// For people, with figures: `1,204 packets dropped`, `state T`, `all pairs reachable`.
    pub summary: String,
    /// For machines: the figures by node, or nil.
    pub figures: Value,
}

/// The payload of one event of the nemesis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FaultEvent {
    /// The fault: `partition`, `kill`, `pause`. The op's `f`.
    pub fault: String,
    /// Which injection of the run, from 1; 0 for [`FaultAction::Plan`].
    pub id: u64,
    /// The lane it belongs to, as the user wrote it: `partition:one`.
    pub lane: String,
    /// What this event tells of.
    pub action: FaultAction,
    /// What was chosen, in the fault's own shape; nil for [`FaultAction::Plan`].
    pub choice: Value,
    /// The nodes it touches, by name, sorted.
    pub nodes: Vec<String>,
    /// What was seen: in every event but invocations and plans.
    pub seen: Option<Sighting>,
}

impl FaultEvent {
    /// The op that records it. Invocations are the events of [`FaultAction::Inject`] and
    /// [`FaultAction::Heal`] in which nothing was seen yet.
    pub fn to_op(&self) -> Op {
        let begins = matches!(self.action, FaultAction::Inject | FaultAction::Heal);
        let kind = if begins && self.seen.is_none() { OpType::Invoke } else { OpType::Info };
        let mut pairs: Vec<(Value, Value)> = vec![
            ("id".into(), Value::Int(self.id as i64)),
            ("lane".into(), self.lane.as_str().into()),
            ("action".into(), self.action.as_str().into()),
        ];
        if self.action != FaultAction::Plan {
            let nodes = self.nodes.iter().map(|node| node.as_str().into()).collect();
            pairs.push(("choice".into(), self.choice.clone()));
            pairs.push(("nodes".into(), Value::List(nodes)));
        }
        if let Some(seen) = &self.seen {
            pairs.push(("effect".into(), seen.effect.as_str().into()));
            pairs.push(("summary".into(), seen.summary.as_str().into()));
            pairs.push(("figures".into(), seen.figures.clone()));
        }
        Op::new(kind, Process::Nemesis, &self.fault, Value::Map(pairs))
    }

    /// Reads the payload back from a recorded event; `None` if it is not one of the nemesis in
    /// this shape (foreign histories have nemesis events of their own).
    pub fn parse(op: OpRef<'_>) -> Option<Self> {
        if op.process() != Process::Nemesis {
            return None;
        }
        let map = op.value().as_map()?;
        let text = |key| map.get(key).and_then(ValueRef::as_str).map(str::to_owned);
        let owned = |key| map.get(key).map_or(Value::Nil, ValueRef::to_value);
        let seen = text("effect").and_then(|word| Effect::parse(&word)).map(|effect| Sighting {
            effect,
            summary: text("summary").unwrap_or_default(),
            figures: owned("figures"),
        });
        let nodes = map.get("nodes").and_then(ValueRef::as_list);
        Some(Self {
            fault: op.f().to_owned(),
            id: u64::try_from(map.get("id")?.as_int()?).ok()?,
            lane: text("lane")?,
            action: FaultAction::parse(&text("action")?)?,
            choice: owned("choice"),
            nodes: nodes.map_or_else(Vec::new, |list| {
                list.iter().filter_map(|node| node.as_str().map(str::to_owned)).collect()
            }),
            seen,
        })
    }
}

/// A position in the history and its time, in nanoseconds since the start of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// Position of the event.
    pub position: u32,
    /// Its time.
    pub time: u64,
}

/// One injection of a fault from choice to healing. What the run did not live to see is `None`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Episode {
    /// The fault.
    pub fault: String,
    /// Which injection of the run, from 1.
    pub id: u64,
    /// The lane, as the user wrote it.
    pub lane: String,
    /// What was chosen, in the fault's own shape.
    pub choice: Value,
    /// The nodes it touches, by name, sorted.
    pub nodes: Vec<String>,
    /// It began to be applied: before this, it was not in force anywhere.
    pub begin: Moment,
    /// It was applied everywhere.
    pub applied: Option<Moment>,
    /// It began to be undone.
    pub heal: Option<Moment>,
    /// It was undone: after this, it was not in force anywhere, if `healing` is proven.
    pub healed: Option<Moment>,
    /// The last that was seen of it while it was held.
    pub bite: Option<Sighting>,
    /// What was seen of its healing.
    pub healing: Option<Sighting>,
}

impl Episode {
    /// Whether it bit: an injection that nobody lived to look at is indeterminate.
    pub fn effect(&self) -> Effect {
        self.bite.as_ref().map_or(Effect::Indeterminate, |seen| seen.effect)
    }

    /// Whether it was seen to be gone again.
    pub fn is_healed(&self) -> bool {
        self.healing.as_ref().is_some_and(|seen| seen.effect == Effect::Proven)
    }
}

/// Every injection of a history, in the order they began.
pub fn episodes(history: &History) -> Vec<Episode> {
    let mut episodes: Vec<Episode> = Vec::new();
    let mut by_id: BTreeMap<u64, usize> = BTreeMap::new();
    for (op, event) in fault_events(history) {
        let moment = Moment { position: op.position(), time: op.time() };
        if event.action == FaultAction::Plan {
            continue;
        }
        if event.action == FaultAction::Inject && event.seen.is_none() {
            by_id.insert(event.id, episodes.len());
            episodes.push(Episode {
                fault: event.fault,
                id: event.id,
                lane: event.lane,
                choice: event.choice,
                nodes: event.nodes,
                begin: moment,
                applied: None,
                heal: None,
                healed: None,
                bite: None,
                healing: None,
            });
            continue;
        }
        let Some(episode) = by_id.get(&event.id).map(|&at| &mut episodes[at]) else { continue };
        match (event.action, event.seen) {
            (FaultAction::Inject, seen) => {
                episode.applied = Some(moment);
                episode.bite = seen;
            }
            (FaultAction::Hold, seen) => episode.bite = seen.or_else(|| episode.bite.take()),
            (FaultAction::Heal, None) => episode.heal = Some(moment),
            (FaultAction::Heal, seen) => {
                episode.healed = Some(moment);
                episode.healing = seen;
            }
            (FaultAction::Plan, _) => {}
        }
    }
    episodes
}

/// How much of one fault was seen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coverage {
    /// Injections that were begun: the sum of the next three.
    pub injected: u64,
    /// Those seen to bite.
    pub proven: u64,
    /// Those that were not applied after all.
    pub skipped: u64,
    /// Those of which it could not be seen.
    pub indeterminate: u64,
    /// Those that may have been applied and were then seen to be gone.
    pub healed: u64,
}

impl Coverage {
    /// Injections that may still be in force: applied, and never seen to be gone.
    pub const fn unhealed(&self) -> u64 {
        self.injected - self.skipped - self.healed
    }
}

/// How much of each fault was seen. A fault that a lane was to try and that was never injected is
/// there too, with zeroes.
pub fn coverage(history: &History) -> BTreeMap<String, Coverage> {
    let mut faults: BTreeMap<String, Coverage> = BTreeMap::new();
    for (_, event) in fault_events(history) {
        faults.entry(event.fault).or_default();
    }
    for episode in episodes(history) {
        let coverage = faults.entry(episode.fault.clone()).or_default();
        coverage.injected += 1;
        match episode.effect() {
            Effect::Proven => coverage.proven += 1,
            Effect::Skipped => coverage.skipped += 1,
            Effect::Indeterminate => coverage.indeterminate += 1,
        }
        if episode.effect() != Effect::Skipped && episode.is_healed() {
            coverage.healed += 1;
        }
    }
    faults
}

/// The events of the nemesis that are in this module's shape.
fn fault_events(history: &History) -> impl Iterator<Item = (OpRef<'_>, FaultEvent)> {
    history.ops().filter_map(|op| FaultEvent::parse(op).map(|event| (op, event)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Header;

    fn event(id: u64, action: FaultAction, effect: Option<Effect>) -> FaultEvent {
        FaultEvent {
            fault: "partition".into(),
            id,
            lane: "partition:one".into(),
            action,
            choice: Value::Map(vec![("shape".into(), "one".into())]),
            nodes: vec!["n1".into(), "n2".into()],
            seen: effect.map(|effect| Sighting {
                effect,
                summary: "12 packets dropped".into(),
                figures: Value::Map(vec![("n1".into(), Value::Int(12))]),
            }),
        }
    }

    fn history(events: &[FaultEvent]) -> History {
        let ops: Vec<Op> = events
            .iter()
            .enumerate()
            .map(|(i, event)| Op { time: i as u64 * 10, ..event.to_op() })
            .collect();
        History::from_ops(Header::default(), &ops)
    }

    /// What is recorded is read back unchanged, and only beginnings are invocations.
    #[test]
    fn payload_survives_a_history() {
        let events = [
            event(1, FaultAction::Inject, None),
            event(1, FaultAction::Inject, Some(Effect::Proven)),
            event(1, FaultAction::Hold, Some(Effect::Indeterminate)),
            event(1, FaultAction::Heal, None),
            event(1, FaultAction::Heal, Some(Effect::Proven)),
        ];
        let history = history(&events);
        let read: Vec<FaultEvent> = history.ops().filter_map(FaultEvent::parse).collect();
        assert_eq!(read, events);
        let invocations = history.ops().filter(|op| op.kind() == OpType::Invoke).count();
        assert_eq!(invocations, 2);
    }

    /// The last look before healing is the last word on whether a fault bit.
    #[test]
    fn the_last_look_counts() {
        let history = history(&[
            event(1, FaultAction::Inject, None),
            event(1, FaultAction::Inject, Some(Effect::Proven)),
            event(1, FaultAction::Hold, Some(Effect::Indeterminate)),
            event(1, FaultAction::Heal, None),
            event(1, FaultAction::Heal, Some(Effect::Proven)),
        ]);
        let episodes = episodes(&history);
        assert_eq!(episodes.len(), 1);
        assert_eq!(episodes[0].effect(), Effect::Indeterminate);
        assert_eq!(episodes[0].begin, Moment { position: 0, time: 0 });
        assert_eq!(episodes[0].healed, Some(Moment { position: 4, time: 40 }));
    }

    /// Overlapping injections, one cut short, one skipped and one never tried are counted apart.
    #[test]
    fn coverage_counts_what_was_seen() {
        let planned = FaultEvent {
            fault: "pause".into(),
            choice: Value::Nil,
            nodes: vec![],
            ..event(0, FaultAction::Plan, None)
        };
        let history = history(&[
            planned,
            event(1, FaultAction::Inject, None),
            event(2, FaultAction::Inject, None),
            event(1, FaultAction::Inject, Some(Effect::Proven)),
            event(2, FaultAction::Inject, Some(Effect::Skipped)),
            event(1, FaultAction::Heal, None),
            event(1, FaultAction::Heal, Some(Effect::Proven)),
            event(3, FaultAction::Inject, None),
        ]);
        let coverage = coverage(&history);
        assert_eq!(coverage["pause"], Coverage::default());
        let partition = coverage["partition"];
        assert_eq!(
            partition,
            Coverage { injected: 3, proven: 1, skipped: 1, indeterminate: 1, healed: 1 }
        );
        assert_eq!(partition.unhealed(), 1);
    }

    /// Nemesis events of other harnesses, and client events, are not mistaken for ours.
    #[test]
    fn foreign_events_are_ignored() {
        let foreign = Op::new(OpType::Info, Process::Nemesis, "start", Value::str("n1"));
        let client =
            Op { process: Process::Client(0), ..event(1, FaultAction::Inject, None).to_op() };
        let history = History::from_ops(Header::default(), &[foreign, client]);
        assert!(episodes(&history).is_empty());
        assert!(coverage(&history).is_empty());
    }
}
