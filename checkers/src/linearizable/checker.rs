//! The checker: objects in parallel, and what is said of all of them together.

use deposed_history::{History, Outcome};

use super::aspects::aspects;
use super::judge::{BySearch, ByZones, Effort, Judge, Judged, Method, Scope, exhausted_at};
use super::memory::Reservation;
use super::model::Model;
use super::models::{
    Counter, FifoQueue, Kv, List, Lock, MultiRegister, Mutex, Register, Semaphore, Set,
};
use super::object::{Object, Objects, split};
use crate::parallel::in_parallel;
use crate::{Analysis, Anomaly, Budget, Checker, Exhausted, Undecided};

/// Violations that are listed; more are counted.
const ANOMALIES_MAX: usize = 32;

/// Undecided objects that are listed.
const UNDECIDED_MAX: usize = 32;

/// The models that come with the product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelKind {
    /// `read`, `write`: [`Register`].
    Register,
    /// `read`, `write`, `cas [from to]`: [`Register`].
    CasRegister,
    /// `get`, `put`, `append` of strings by key: [`Kv`].
    Kv,
    /// `txn` of reads and writes of several registers: [`MultiRegister`].
    MultiRegister,
    /// `acquire`, `release` by anyone: [`Mutex`].
    Mutex,
    /// `acquire`, `release` by the owner: [`Lock`].
    Lock,
    /// The same, and the owner may acquire it several times.
    ReentrantLock,
    /// `enqueue`, `dequeue`: [`FifoQueue`].
    FifoQueue,
    /// `add`, `read` of all elements: [`Set`].
    Set,
    /// `add n`, `read`: [`Counter`].
    Counter,
    /// `append`, `read` of all elements: [`List`].
    List,
    /// `acquire n`, `release n` of so many permits: [`Semaphore`].
    Semaphore {
        /// How many there are.
        permits: u32,
    },
}

impl ModelKind {
    /// All of them; a semaphore has one permit unless its name says otherwise.
    pub const ALL: &[Self] = &[
        Self::Register,
        Self::CasRegister,
        Self::Kv,
        Self::MultiRegister,
        Self::Mutex,
        Self::Lock,
        Self::ReentrantLock,
        Self::FifoQueue,
        Self::Set,
        Self::Counter,
        Self::List,
        Self::Semaphore { permits: 1 },
    ];

    /// Its name on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Register => "register",
            Self::CasRegister => "cas-register",
            Self::Kv => "kv",
            Self::MultiRegister => "multi-register",
            Self::Mutex => "mutex",
            Self::Lock => "lock",
            Self::ReentrantLock => "reentrant-lock",
            Self::FifoQueue => "fifo-queue",
            Self::Set => "set",
            Self::Counter => "counter",
            Self::List => "list",
            Self::Semaphore { .. } => "semaphore",
        }
    }

    /// The inverse of [`ModelKind::as_str`]; `semaphore:3` has three permits.
    pub fn parse(name: &str) -> Option<Self> {
        if let Some(permits) = name.strip_prefix("semaphore:") {
            let permits = permits.parse().ok().filter(|permits| *permits > 0);
            return permits.map(|permits| Self::Semaphore { permits });
        }
        Self::ALL.iter().copied().find(|kind| kind.as_str() == name)
    }

    /// Whether its histories always consist of `[key, value]` pairs.
    const fn is_keyed(self) -> bool {
        matches!(self, Self::Kv)
    }
}

/// Decides whether a history is linearizable.
pub struct Linearizable {
    judge: Box<dyn Judge>,
    keyed: bool,
}

impl Linearizable {
    /// Against one of the product's models.
    pub fn new(kind: ModelKind) -> Self {
        let judge: Box<dyn Judge> = match kind {
            ModelKind::Register => Box::new(ByZones(Register { cas: false })),
            ModelKind::CasRegister => Box::new(ByZones(Register { cas: true })),
            ModelKind::Kv => Box::new(BySearch::new(Kv)),
            ModelKind::MultiRegister => Box::new(BySearch::new(MultiRegister)),
            ModelKind::Mutex => Box::new(BySearch::new(Mutex)),
            ModelKind::Lock => Box::new(BySearch::new(Lock { reentrant: false })),
            ModelKind::ReentrantLock => Box::new(BySearch::new(Lock { reentrant: true })),
            ModelKind::FifoQueue => Box::new(BySearch::with_shortcut(FifoQueue, aspects)),
            ModelKind::Set => Box::new(BySearch::new(Set)),
            ModelKind::Counter => Box::new(BySearch::new(Counter)),
            ModelKind::List => Box::new(BySearch::new(List)),
            ModelKind::Semaphore { permits } => Box::new(BySearch::new(Semaphore { permits })),
        };
        Self { judge, keyed: kind.is_keyed() }
    }

    /// Against a model of your own.
    pub fn with_model(model: impl Model + 'static) -> Self {
        Self { judge: Box::new(BySearch::new(model)), keyed: false }
    }

    /// With one algorithm alone.
    #[cfg(test)]
    pub(crate) fn judged_by(judge: Box<dyn Judge>) -> Self {
        Self { judge, keyed: false }
    }

    /// Whether values are `[key, value]` pairs, one object for each key. A history whose header
    /// says so is keyed in any case.
    #[must_use]
    pub fn keyed(mut self, keyed: bool) -> Self {
        self.keyed |= keyed;
        self
    }

    /// Judges every object of a history.
    fn judge_all(&self, history: &History, keyed: bool, budget: &Budget) -> Judgements {
        let threads = budget.threads;
        match self.judge.screen(history, keyed, budget) {
            Ok(Some(fine)) => return Judgements { fine, ..Judgements::default() },
            Ok(None) => {}
            Err(exhausted) => return Judgements::of_nothing(history, exhausted),
        }
        let mut memory = Reservation::new(budget);
        if let Err(exhausted) = memory.hold(history.calls().len() as u64 * BYTES_PER_CALL) {
            return Judgements::of_nothing(history, exhausted);
        }
        let Objects { objects, keyless } = split(history, keyed);
        let judge = |at: usize, effort| {
            if let Err(exhausted) = budget.check() {
                return exhausted_at(0, exhausted);
            }
            let scope = Scope { history, keyed, calls: &objects[at].calls, budget };
            self.judge.judge(scope, effort)
        };
        // A hard object must not keep the others from being judged at all.
        let all = (0..objects.len()).collect();
        let mut judged = in_parallel(threads, all, |at| judge(at, Effort::Quick));
        let hard: Vec<usize> = (0..objects.len())
            .filter(|at| matches!(judged[*at], Judged::Undecided { again: true, .. }))
            .collect();
        // Either each object has one thread, or one after the other has all.
        let (at_once, each) = if hard.len() >= threads { (threads, 1) } else { (1, threads) };
        let full =
            in_parallel(at_once, hard.clone(), |at| judge(at, Effort::Full { threads: each }));
        for (at, answer) in hard.into_iter().zip(full) {
            judged[at] = answer;
        }
        Judgements { fine: 0, objects, judged, keyless }
    }
}

/// Bytes a call takes when a history is split, as vectors grow.
const BYTES_PER_CALL: u64 = 2 * size_of::<u32>() as u64;

/// The answers for all objects.
#[derive(Default)]
struct Judgements {
    /// Objects that were found to be fine at first sight, and are not listed.
    fine: usize,
    objects: Vec<Object>,
    judged: Vec<Judged>,
    /// Calls that belong to no object.
    keyless: Vec<u32>,
}

impl Judgements {
    /// The budget ran out before a single object was judged.
    fn of_nothing(history: &History, exhausted: Exhausted) -> Self {
        let calls = (0..history.calls().len() as u32).collect();
        let objects = vec![Object { key: None, calls }];
        Self { objects, judged: vec![exhausted_at(0, exhausted)], ..Self::default() }
    }
}

impl Checker for Linearizable {
    fn name(&self) -> &str {
        "linearizable"
    }

    fn check(&self, history: &History, budget: &Budget) -> Analysis {
        let keyed = self.keyed || history.header().keyed;
        let Judgements { fine, objects, judged, keyless } = self.judge_all(history, keyed, budget);
        let mut report =
            Report { linearizable: fine as u64, direct: fine as u64, ..Report::default() };
        let objects_count = fine + objects.len();
        for (object, judged) in objects.iter().zip(judged) {
            report.add(history, object, judged);
        }
        if let Some(&call) = keyless.first() {
            let invoke = history.calls()[call as usize].invoke;
            report.undecided.push(Undecided {
                key: None,
                window: (invoke, invoke),
                reason: format!(
                    "{} calls have no [key value] pair as value, the first at op {}",
                    keyless.len(),
                    history.op(invoke).index()
                ),
                known: None,
            });
        }
        if let Some(vacuous) = vacuous(history)
            && report.anomalies.is_empty()
        {
            report.undecided = vec![vacuous];
        }
        report.finish(self, history.calls().len(), keyed.then_some(objects_count))
    }
}

/// Nothing was put to the test: no call succeeded. (If all of them certainly failed, that is an answer:
/// nothing happened, and that is legal.)
pub(crate) fn vacuous(history: &History) -> Option<Undecided> {
    let has = |outcome| history.calls().iter().any(|call| call.outcome() == outcome);
    let is_tested = has(Outcome::Ok) || has(Outcome::Fail) && !has(Outcome::Info);
    (!is_tested).then(|| Undecided::whole(history, "vacuous: no operation succeeded"))
}

/// What was found of all objects.
#[derive(Default)]
struct Report {
    anomalies: Vec<Anomaly>,
    undecided: Vec<Undecided>,
    linearizable: u64,
    direct: u64,
    searched: u64,
    nodes: u64,
}

impl Report {
    fn add(&mut self, history: &History, object: &Object, judged: Judged) {
        let key = object.key.as_ref().map(ToString::to_string);
        match judged {
            Judged::Linearizable(method) => {
                self.linearizable += 1;
                match method {
                    Method::Direct => self.direct += 1,
                    Method::Search(nodes) => {
                        self.searched += 1;
                        self.nodes += nodes;
                    }
                }
            }
            Judged::Violation(anomaly) => {
                let summary = match &key {
                    Some(key) => format!("key {key}: {}", anomaly.summary),
                    None => anomaly.summary,
                };
                self.anomalies.push(Anomaly { key, summary, ..*anomaly });
            }
            Judged::Undecided { reached, why, .. } => {
                self.undecided.push(undecided(history, object, key, reached, why));
            }
        }
    }

    fn finish(mut self, checker: &Linearizable, calls: usize, objects: Option<usize>) -> Analysis {
        let count = self.anomalies.len() as u64;
        self.anomalies.truncate(ANOMALIES_MAX);
        let undecided = self.undecided.len();
        self.undecided.truncate(UNDECIDED_MAX);
        let on = objects.map_or_else(String::new, |objects| format!(" on {objects} keys"));
        let found = match (count, undecided) {
            (0, 0) => "a legal order exists".to_owned(),
            (0, n) => format!("{n} not decided"),
            (n, 0) => format!("{n} without a legal order"),
            (n, m) => format!("{n} without a legal order, {m} not decided"),
        };
        let summary = format!("{calls} calls{on} as {}: {found}", checker.judge.model_name());
        let details = serde_json::json!({
            "calls": calls,
            "linearizable": self.linearizable,
            "model": checker.judge.model_name(),
            "objects": objects.unwrap_or(1),
            "search_nodes": self.nodes,
            "searched": self.searched,
            "undecided": undecided,
            "violations": count,
            "without_search": self.direct,
        });
        Analysis {
            anomaly_count: count,
            details,
            ..Analysis::from_findings(checker.name(), summary, self.anomalies, self.undecided)
        }
    }
}

fn undecided(
    history: &History,
    object: &Object,
    key: Option<String>,
    reached: u32,
    reason: String,
) -> Undecided {
    let calls = object.calls.iter().map(|&index| history.calls()[index as usize]);
    let last =
        calls.clone().map(|call| call.complete().unwrap_or(call.invoke)).max().unwrap_or_default();
    let first = object.calls.first().map_or(0, |&index| history.calls()[index as usize].invoke);
    // Times are positions + 1.
    let from = reached.checked_sub(1).map_or(first, |position| position.min(last));
    let fine = calls.filter(|call| call.complete().is_some_and(|position| position < from)).count();
    let known = (fine > 0).then(|| {
        format!(
            "the {fine} calls that returned before op {} have a legal order",
            history.op(from).index()
        )
    });
    Undecided { key, window: (from, last), reason, known }
}
