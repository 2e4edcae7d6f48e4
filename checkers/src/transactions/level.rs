//! Consistency levels, anomalies, and which rule out which.
//!
//! Names and relations are those of Elle's `consistency_model.clj` (Kingsbury & Alvaro; with Adya,
//! Bailis, Cerone, Daudjee & Salem behind it), so that results compare one to one. Ours alone are
//! `garbage-read`, which no level can explain: a value was read that nobody wrote; and those named
//! after levels that Elle's do not describe (`prefix-cycle-exists`, `monotonic-reads-cycle-exists`, ...),
//! which are looked for only where such a level is demanded.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::LazyLock;

/// A consistency level, by any of its names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Consistency {
    given: &'static str,
    model: usize,
}

/// A name that is not one of a consistency level.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no consistency level is called {name:?}; known are {}", known().collect::<Vec<_>>().join(", "))]
pub struct UnknownLevel {
    /// The name.
    pub name: String,
}

/// A level and the weaker ones it directly implies.
const MODELS: &[(&str, &[&str])] = &[
    ("PL-1", &[]),
    ("PL-2", &["PL-1"]),
    ("PL-2+", &["PL-CS", "PL-2L"]),
    ("PL-2.99", &["PL-CS", "monotonic-atomic-view"]),
    ("PL-2L", &["PL-2"]),
    ("PL-3", &["PL-2.99", "PL-3U", "PL-SI", "view-serializable"]),
    ("PL-3U", &["PL-FCV"]),
    ("PL-CS", &["PL-2"]),
    ("PL-FCV", &["PL-2+"]),
    ("PL-MSR", &["PL-2"]),
    (
        "PL-SI",
        &["PL-FCV", "monotonic-atomic-view", "PL-MSR", "parallel-snapshot-isolation", "prefix"],
    ),
    (
        "PL-SS",
        &[
            "PL-3",
            "PL-SI",
            "linearizable",
            "session-serializable",
            "strong-session-serializable",
            "strong-snapshot-isolation",
        ],
    ),
    ("1SR", &[]),
    ("PRAM", &["monotonic-reads", "monotonic-writes", "read-your-writes"]),
    ("update-atomic", &["read-atomic"]),
    ("causal", &["writes-follow-reads", "PRAM"]),
    ("causal-cerone", &["read-atomic"]),
    ("linearizable", &["sequential"]),
    ("monotonic-atomic-view", &["PL-2"]),
    ("monotonic-reads", &[]),
    ("monotonic-writes", &[]),
    ("parallel-snapshot-isolation", &["causal-cerone", "update-atomic"]),
    ("prefix", &["causal-cerone"]),
    ("read-atomic", &["monotonic-atomic-view"]),
    ("read-your-writes", &[]),
    ("sequential", &["causal"]),
    ("session-serializable", &["1SR"]),
    ("strong-PL-1", &["strong-session-PL-1"]),
    ("strong-PL-2", &["strong-session-PL-2", "strong-PL-1"]),
    ("strong-session-PL-1", &["PL-1"]),
    ("strong-session-PL-2", &["PL-2", "strong-session-PL-1"]),
    ("strong-session-serializable", &["PL-3", "strong-session-snapshot-isolation"]),
    ("strong-session-snapshot-isolation", &["PL-SI", "strong-session-PL-2"]),
    ("strong-snapshot-isolation", &["strong-session-snapshot-isolation", "strong-PL-2"]),
    ("view-serializable", &[]),
    ("writes-follow-reads", &[]),
];

/// Other names of levels. The first one given for a level is the friendly one.
const ALIASES: &[(&str, &str)] = &[
    ("consistent-view", "PL-2+"),
    ("cursor-stability", "PL-CS"),
    ("forward-consistent-view", "PL-FCV"),
    ("monotonic-snapshot-read", "PL-MSR"),
    ("monotonic-view", "PL-2L"),
    ("read-committed", "PL-2"),
    ("read-uncommitted", "PL-1"),
    ("repeatable-read", "PL-2.99"),
    ("serializable", "PL-3"),
    ("conflict-serializable", "PL-3"),
    ("snapshot-isolation", "PL-SI"),
    ("strong-serializable", "PL-SS"),
    ("strict-serializable", "PL-SS"),
    ("update-atomic", "update-atomic"),
    ("ROLA", "update-atomic"),
    ("update-serializable", "PL-3U"),
    ("strong-session-read-uncommitted", "strong-session-PL-1"),
    ("strong-session-read-committed", "strong-session-PL-2"),
    ("strong-read-uncommitted", "strong-PL-1"),
    ("strong-read-committed", "strong-PL-2"),
];

/// An anomaly and what it is a special case of, worst first.
const ANOMALIES: &[(&str, &[&str])] = &[
    ("garbage-read", &[]),
    ("duplicate-elements", &[]),
    ("cyclic-versions", &[]),
    ("G0", &["G1c", "G0-process"]),
    ("dirty-update", &["G1a"]),
    ("incompatible-order", &["G1a"]),
    ("G1a", &["G1"]),
    ("G1b", &["G1"]),
    ("future-read", &["G1c"]),
    ("G1c", &["G1", "G1c-process"]),
    ("G1", &["G1-process"]),
    ("internal", &[]),
    ("lost-update", &["write-skew", "G2-item"]),
    ("predicate-read-miss", &[]),
    ("G-single-item", &["G-single", "G-single-item-process", "G-nonadjacent-item"]),
    ("G-single", &["G-nonadjacent", "GSIb", "G-single-process"]),
    ("G-nonadjacent-item", &["G-nonadjacent", "G2-item", "G-nonadjacent-item-process"]),
    ("G-nonadjacent", &["G2", "G-nonadjacent-process"]),
    ("G2-item", &["G2", "G2-item-process"]),
    ("write-skew", &["G2"]),
    ("G2", &["G2-process"]),
    ("GSIa", &["GSI"]),
    ("GSIb", &["GSI"]),
    ("GSI", &[]),
    ("G0-process", &["G1c-process", "G0-realtime"]),
    ("G1c-process", &["G1c-realtime", "G1-process"]),
    ("G1-process", &["G1-realtime"]),
    (
        "G-single-item-process",
        &["G-single-process", "G-single-item-realtime", "G-nonadjacent-item-process"],
    ),
    ("G-single-process", &["G-nonadjacent-process", "G-single-realtime"]),
    (
        "G-nonadjacent-item-process",
        &["G-nonadjacent-process", "G2-item-process", "G-nonadjacent-item-realtime"],
    ),
    ("G-nonadjacent-process", &["G2-process", "G-nonadjacent-realtime"]),
    ("G2-item-process", &["G2-process", "G2-item-realtime"]),
    ("G2-process", &["G2-realtime"]),
    ("G0-realtime", &["G1c-realtime"]),
    ("G1c-realtime", &["G1-realtime"]),
    ("G1-realtime", &[]),
    ("G-single-item-realtime", &["G-single-realtime", "G-nonadjacent-item-realtime"]),
    ("G-single-realtime", &["G-nonadjacent-realtime"]),
    ("G-nonadjacent-item-realtime", &["G2-item-realtime", "G-nonadjacent-realtime"]),
    ("G-nonadjacent-realtime", &["G2-realtime"]),
    ("G2-item-realtime", &["G2-realtime"]),
    ("G2-realtime", &[]),
    ("G-cursor", &[]),
    ("G-monotonic", &[]),
    ("G-MSR", &[]),
    ("G-SIb", &[]),
    ("G-SI", &[]),
    ("G-update", &[]),
    ("PL-1-cycle-exists", &[]),
    ("PL-2-cycle-exists", &[]),
    ("PL-SI-cycle-exists", &[]),
    ("PL-2.99-cycle-exists", &[]),
    ("PL-3-cycle-exists", &[]),
    ("strong-session-PL-1-cycle-exists", &[]),
    ("strong-session-PL-2-cycle-exists", &[]),
    ("strong-session-snapshot-isolation-cycle-exists", &[]),
    ("strong-session-serializable-cycle-exists", &[]),
    ("strong-PL-1-cycle-exists", &[]),
    ("strong-PL-2-cycle-exists", &[]),
    ("strong-snapshot-isolation-cycle-exists", &[]),
    ("PL-SS-cycle-exists", &[]),
    ("read-atomic-cycle-exists", &[]),
    ("causal-cerone-cycle-exists", &[]),
    ("prefix-cycle-exists", &[]),
    ("parallel-snapshot-isolation-cycle-exists", &[]),
    ("view-serializable-cycle-exists", &[]),
    ("1SR-cycle-exists", &[]),
    ("monotonic-reads-cycle-exists", &[]),
    ("monotonic-writes-cycle-exists", &[]),
    ("read-your-writes-cycle-exists", &[]),
    ("writes-follow-reads-cycle-exists", &[]),
];

/// What a level forbids beyond what the weaker ones do.
const PROSCRIBED: &[(&str, &[&str])] = &[
    ("causal-cerone", &["internal", "G1a", "causal-cerone-cycle-exists"]),
    ("PL-CS", &["G1", "G-cursor", "lost-update"]),
    ("PL-2L", &["G1", "G-monotonic"]),
    ("PL-MSR", &["G1", "G-MSR"]),
    ("PL-2+", &["G1", "G-single"]),
    ("PL-FCV", &["G1", "G-SIb"]),
    (
        "parallel-snapshot-isolation",
        &["internal", "G1a", "parallel-snapshot-isolation-cycle-exists"],
    ),
    ("PL-3", &["G1", "G2", "internal", "predicate-read-miss", "PL-3-cycle-exists"]),
    ("PL-2", &["G1", "PL-2-cycle-exists"]),
    ("PL-1", &["G0", "duplicate-elements", "cyclic-versions", "garbage-read", "PL-1-cycle-exists"]),
    ("prefix", &["internal", "G1a", "prefix-cycle-exists"]),
    ("PL-SI", &["internal", "G1", "G-SI", "G-nonadjacent", "PL-SI-cycle-exists"]),
    ("read-atomic", &["internal", "G1a", "future-read", "read-atomic-cycle-exists"]),
    ("PL-2.99", &["G1", "G2-item", "lost-update", "PL-2.99-cycle-exists"]),
    ("update-atomic", &["lost-update"]),
    ("PL-SS", &["G1", "G1c-realtime", "G2-realtime", "PL-SS-cycle-exists"]),
    ("strong-session-PL-1", &["strong-session-PL-1-cycle-exists", "G0-process"]),
    ("strong-session-PL-2", &["strong-session-PL-2-cycle-exists", "G1c-process"]),
    ("strong-PL-1", &["strong-PL-1-cycle-exists", "G0-realtime"]),
    ("strong-PL-2", &["strong-PL-2-cycle-exists", "G1c-realtime"]),
    (
        "strong-session-snapshot-isolation",
        &[
            "internal",
            "G1-process",
            "G-nonadjacent-process",
            "strong-session-snapshot-isolation-cycle-exists",
        ],
    ),
    (
        "strong-snapshot-isolation",
        &[
            "internal",
            "G1-realtime",
            "G-nonadjacent-realtime",
            "strong-snapshot-isolation-cycle-exists",
        ],
    ),
    (
        "strong-session-serializable",
        &["G1-process", "G2-process", "strong-session-serializable-cycle-exists"],
    ),
    ("PL-3U", &["G1", "G-update"]),
    ("view-serializable", &["view-serializable-cycle-exists"]),
    ("1SR", &["1SR-cycle-exists"]),
    ("monotonic-reads", &["monotonic-reads-cycle-exists"]),
    ("monotonic-writes", &["monotonic-writes-cycle-exists"]),
    ("read-your-writes", &["read-your-writes-cycle-exists"]),
    ("writes-follow-reads", &["writes-follow-reads-cycle-exists"]),
];

/// Every name a level can be given by, in order.
fn known() -> impl Iterator<Item = &'static str> {
    let names: BTreeSet<&str> =
        MODELS.iter().map(|(name, _)| *name).chain(ALIASES.iter().map(|(name, _)| *name)).collect();
    names.into_iter()
}

fn model(name: &str) -> Option<usize> {
    let canonical = ALIASES.iter().find(|(alias, _)| *alias == name).map_or(name, |(_, to)| to);
    MODELS.iter().position(|(model, _)| *model == canonical)
}

fn friendly(model: usize) -> &'static str {
    let canonical = MODELS[model].0;
    ALIASES.iter().find(|(_, to)| *to == canonical).map_or(canonical, |(alias, _)| alias)
}

/// Everything reached from some names over a table of names, the names themselves included.
fn closure<'a>(
    table: &[(&'a str, &[&'a str])],
    from: impl IntoIterator<Item = &'a str>,
) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut next: Vec<&str> = from.into_iter().collect();
    while let Some(name) = next.pop() {
        if reached.insert(name) {
            let implied = table.iter().find(|(of, _)| *of == name).map(|(_, to)| *to);
            next.extend(implied.unwrap_or_default());
        }
    }
    reached
}

/// What follows from the tables, once and for all. A set of anomalies is a word with a bit for each, by its
/// place in [`ANOMALIES`]; so is one of levels.
struct Consequences {
    /// By anomaly: all it is a special case of, itself included.
    general: Vec<u128>,
    /// By anomaly: the levels it rules out.
    rules_out: Vec<u64>,
    /// By level: the weaker ones, itself included.
    weaker: Vec<u64>,
}

const _: () = assert!(ANOMALIES.len() <= 128 && MODELS.len() <= 64);

static CONSEQUENCES: LazyLock<Consequences> = LazyLock::new(|| {
    let general = |name| closure(ANOMALIES, [name]);
    let weaker = |model| closure(MODELS, [model]);
    let rules_out = |anomaly| {
        let implied = general(anomaly);
        let forbids = |model: &str| {
            let mut of = PROSCRIBED.iter().filter(|(of, _)| *of == model);
            of.any(|(_, what)| what.iter().any(|a| implied.contains(a)))
        };
        let out = MODELS.iter().map(|(m, _)| weaker(m).into_iter().any(forbids));
        (0..).zip(out).map(|(at, out)| u64::from(out) << at).sum()
    };
    let models = |set: BTreeSet<&str>| -> u64 {
        (0..).zip(MODELS).map(|(at, (m, _))| u64::from(set.contains(m)) << at).sum()
    };
    Consequences {
        general: ANOMALIES
            .iter()
            .map(|(name, _)| general(name).into_iter().map(|a| 1 << severity(a)).sum())
            .collect(),
        rules_out: ANOMALIES.iter().map(|(name, _)| rules_out(name)).collect(),
        weaker: MODELS.iter().map(|(model, _)| models(weaker(model))).collect(),
    }
});

/// The levels that some anomalies rule out, by a bit each.
fn ruled_out<'a>(anomalies: impl IntoIterator<Item = &'a str>) -> u64 {
    let rules_out = |anomaly| CONSEQUENCES.rules_out.get(severity(anomaly)).copied();
    anomalies.into_iter().filter_map(rules_out).fold(0, |all, out| all | out)
}

/// Which order, beyond that of the data, a level promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum OrderKind {
    /// None.
    Data,
    /// Each process sees its own transactions in order.
    Process,
    /// A transaction that ended before another began precedes it.
    RealTime,
}

impl Consistency {
    /// The level of a name.
    ///
    /// # Errors
    /// If no level has that name; the error lists those known.
    pub fn parse(name: &str) -> Result<Self, UnknownLevel> {
        let mut names = MODELS.iter().map(|(n, _)| *n).chain(ALIASES.iter().map(|(n, _)| *n));
        match (names.find(|known| *known == name), model(name)) {
            (Some(given), Some(model)) => Ok(Self { given, model }),
            _ => Err(UnknownLevel { name: name.to_owned() }),
        }
    }

    /// Every name a level can be given by, in order.
    pub fn names() -> impl Iterator<Item = &'static str> {
        known()
    }

    /// The name it was given by.
    pub const fn as_str(self) -> &'static str {
        self.given
    }

    /// Whether every history of this level is one of another level.
    pub fn implies(self, weaker: Self) -> bool {
        CONSEQUENCES.weaker[self.model] & 1 << weaker.model != 0
    }

    /// Whether another name means the same level.
    pub fn is_same(self, other: Self) -> bool {
        self.model == other.model
    }

    /// Whether it lets transactions see what was never committed, as long as their writes are in order.
    pub(crate) fn allows_dirty_reads(self) -> bool {
        self.is_ruled_out_by("G0") && !self.is_ruled_out_by("G1a")
    }

    /// Whether an anomaly of that name rules this level out.
    pub fn is_ruled_out_by(self, anomaly: &str) -> bool {
        ruled_out([anomaly]) & 1 << self.model != 0
    }
}

impl Default for Consistency {
    /// Strict serializability.
    fn default() -> Self {
        Self { given: "strict-serializable", model: model("PL-SS").unwrap_or_default() }
    }
}

impl fmt::Display for Consistency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.given)
    }
}

/// What anomalies say of levels, by their friendly names.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Boundary {
    /// The weakest levels that do not hold.
    pub not: BTreeSet<&'static str>,
    /// The stronger ones, which therefore do not hold either.
    pub also_not: BTreeSet<&'static str>,
}

/// Which levels some anomalies rule out.
pub fn boundary<'a>(anomalies: impl IntoIterator<Item = &'a str>) -> Boundary {
    let out = ruled_out(anomalies);
    let mut boundary = Boundary::default();
    for level in (0..MODELS.len()).filter(|level| out & 1 << level != 0) {
        let is_weakest = CONSEQUENCES.weaker[level] & out == 1 << level;
        let side = if is_weakest { &mut boundary.not } else { &mut boundary.also_not };
        side.insert(friendly(level));
    }
    boundary
}

/// How bad an anomaly is, the worst lowest.
pub(crate) fn severity(anomaly: &str) -> usize {
    ANOMALIES.iter().position(|(name, _)| *name == anomaly).unwrap_or(ANOMALIES.len())
}

/// Whether an anomaly is a special case of another, or the same.
pub(crate) fn implies(anomaly: &str, general: &str) -> bool {
    let of = CONSEQUENCES.general.get(severity(anomaly)).copied().unwrap_or_default();
    of.checked_shr(severity(general) as u32).unwrap_or_default() & 1 != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(name: &str) -> Consistency {
        Consistency::parse(name).unwrap_or_else(|e| panic!("{e}"))
    }

    /// Every name in the tables is one that is defined, and nothing implies itself through others.
    #[test]
    fn the_tables_are_closed() {
        for (_, weaker) in MODELS {
            assert!(weaker.iter().all(|w| MODELS.iter().any(|(m, _)| m == w)), "{weaker:?}");
        }
        for (name, general) in ANOMALIES {
            assert!(general.iter().all(|g| severity(g) < ANOMALIES.len()), "{general:?}");
            assert!(general.iter().all(|g| !closure(ANOMALIES, [*g]).contains(name)), "{name}");
        }
        for (model, anomalies) in PROSCRIBED {
            assert!(MODELS.iter().any(|(m, _)| m == model), "{model}");
            assert!(anomalies.iter().all(|a| severity(a) < ANOMALIES.len()), "{anomalies:?}");
        }
        assert!(ALIASES.iter().all(|(_, to)| MODELS.iter().any(|(m, _)| m == to)));
    }

    /// An unknown level is refused with the list of those known.
    #[test]
    fn an_unknown_level_is_refused() {
        let message =
            Consistency::parse("serialisable").map_or_else(|e| e.to_string(), |_| String::new());
        assert!(message.contains("\"serialisable\""), "{message}");
        assert!(
            message.contains("PL-2.99, ") && message.contains(", strict-serializable"),
            "{message}"
        );
    }

    /// The classic cases: write skew rules out repeatable read but not snapshot isolation, and so on.
    #[test]
    fn anomalies_rule_out_levels() {
        let skew = boundary(["G2-item"]);
        assert_eq!(skew.not, BTreeSet::from(["repeatable-read"]));
        assert!(skew.also_not.contains("serializable"));
        assert!(!skew.also_not.contains("snapshot-isolation"));
        assert_eq!(boundary(["G0"]).not, BTreeSet::from(["read-uncommitted"]));
        assert_eq!(boundary(["G1b"]).not, BTreeSet::from(["read-committed"]));
        assert_eq!(
            boundary(["G-nonadjacent-item"]).not,
            BTreeSet::from(["repeatable-read", "snapshot-isolation"])
        );
        assert_eq!(
            boundary(["G-single-item"]).not,
            BTreeSet::from(["consistent-view", "repeatable-read"])
        );
        assert_eq!(boundary(["G2-item-realtime"]).not, BTreeSet::from(["strong-serializable"]));
        assert_eq!(boundary([]), Boundary::default());
        assert!(!level("snapshot-isolation").is_ruled_out_by("G2-item"));
        assert!(level("strong-snapshot-isolation").is_ruled_out_by("G-single-item-realtime"));
        assert!(
            !level("strong-session-snapshot-isolation").is_ruled_out_by("G-single-item-realtime")
        );
    }

    /// Of the levels that forbid anything, only the variants of read uncommitted let pass what failed.
    #[test]
    fn only_read_uncommitted_allows_dirty_reads() {
        let allow = Consistency::names().filter(|name| level(name).allows_dirty_reads());
        for name in allow {
            let weakest = ["PL-1", "strong-session-PL-1", "strong-PL-1"].map(level);
            assert!(weakest.iter().any(|weak| weak.is_same(level(name))), "{name}");
        }
        assert!(level("strong-read-uncommitted").allows_dirty_reads());
        assert!(!level("monotonic-reads").allows_dirty_reads());
    }

    /// The default is the strongest.
    #[test]
    fn the_default_implies_all_others() {
        for name in Consistency::names() {
            assert!(Consistency::default().implies(level(name)), "{name}");
        }
    }
}
