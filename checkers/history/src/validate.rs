//! Whether a history can be judged at all.

use rustc_hash::FxHashMap;

use crate::pairing::PerClient;
use crate::{Flaw, Flaws, History, OpRef, OpType, Process};

/// How strict to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rules {
    /// Our own recorder keeps every rule: what breaks one shows a bug or a damaged file.
    Own,
    /// Other recorders number processes and stamp times as they like. Checkers go by the order of
    /// events, so two things are only worth a warning: times that run backwards (Knossos's own data
    /// have them), and a process that goes on after an `info`.
    Foreign,
}

/// Looks for everything that contradicts what a history is. The first result is what makes it
/// unfit to be judged, the second what is merely odd.
///
/// - A client has one operation outstanding at a time, and completes what it invoked, under the
///   same function. After an `info` it is never heard of again.
/// - Times do not run backwards. (Two events with the same time are concurrent.)
/// - No index is used twice.
/// - In a keyed history the value of an invocation is `[key, value]`, and that of a completion too,
///   unless it has none.
pub fn validate(history: &History, rules: Rules) -> (Flaws, Flaws) {
    look(history, rules, false)
}

/// [`validate()`]; of clients that are orderly, as [pairing](crate::pairing::Pairing::is_orderly) shows, nothing
/// is to be found.
pub(crate) fn look(history: &History, rules: Rules, orderly: bool) -> (Flaws, Flaws) {
    let mut check = Check { flaws: Flaws::default(), warnings: Flaws::default(), rules };
    if !orderly {
        check.processes(history);
    }
    check.times(history);
    check.indices(history);
    if history.header().keyed {
        check.keys(history);
    }
    (check.flaws, check.warnings)
}

struct Check {
    flaws: Flaws,
    warnings: Flaws,
    rules: Rules,
}

fn flaw(op: OpRef<'_>, what: String, mend: &str) -> Flaw {
    Flaw::of_line(op.line().unwrap_or(0), what, mend)
}

/// "line 7", or "event 6" if there are no lines.
fn place(op: OpRef<'_>) -> String {
    match op.line() {
        Some(line) => format!("line {line}"),
        None => format!("event {}", op.position()),
    }
}

impl Check {
    /// A flaw of our own histories, odd in others.
    fn own_flaw(&mut self, flaw: Flaw) {
        match self.rules {
            Rules::Own => self.flaws.push(flaw),
            Rules::Foreign => self.warnings.push(flaw),
        }
    }

    fn processes(&mut self, history: &History) {
        let columns = history.columns();
        let mut open = PerClient::default();
        // Clients whose last operation ended in an info, and where.
        let mut lost = PerClient::default();
        for position in 0..history.len() {
            let Process::Client(client) = columns.process(position) else { continue };
            let op = history.op(position as u32);
            let kind = op.kind();
            if kind == OpType::Invoke {
                if let Some(before) = open.insert(client, op.position()) {
                    self.flaws.push(twice(op, history.op(before), client));
                }
                if let Some(before) = lost.take(client) {
                    self.own_flaw(goes_on(op, history.op(before), client));
                }
                continue;
            }
            let Some(invoke) = open.take(client) else {
                self.flaws.push(orphan(op, client));
                continue;
            };
            if columns.f(invoke as usize) != columns.f(position) {
                self.flaws.push(other_function(op, history.op(invoke), client));
            }
            if kind == OpType::Info {
                lost.insert(client, op.position());
            }
        }
    }

    fn times(&mut self, history: &History) {
        if !history.is_timed() {
            return;
        }
        let columns = history.columns();
        let runs_back = |&at: &usize| columns.time(at) < columns.time(at - 1);
        let mut places = (1..history.len()).filter(runs_back);
        let Some(first) = places.next() else { return };
        let (before, time) = (columns.time(first - 1), columns.time(first));
        let more = places.count();
        let what =
            format!("the time runs back from {before} to {time} here, and {more} times more");
        let mend = "events are in the order in which they happened";
        self.own_flaw(flaw(history.op(first as u32), what, mend));
    }

    fn indices(&mut self, history: &History) {
        let columns = history.columns();
        if !columns.has_own_indices() {
            return;
        }
        let mut first: FxHashMap<u64, u32> = FxHashMap::default();
        for position in 0..history.len() {
            let index = columns.index(position);
            if let Some(before) = first.insert(index, position as u32) {
                let before = place(history.op(before));
                let what = format!("index {index} was used before, on {before}");
                let mend = "number the events, or leave indices out";
                self.flaws.push(flaw(history.op(position as u32), what, mend));
            }
        }
    }

    fn keys(&mut self, history: &History) {
        for op in history.ops().filter(|op| op.process().client().is_some()) {
            let may_lack = op.kind() != OpType::Invoke && op.value().is_nil();
            if op.pair().is_none() && !may_lack {
                let what = format!("the value is not [key, value] but {}", op.value());
                self.flaws.push(flaw(op, what, "read the file as one object's, not keyed"));
            }
        }
    }
}

#[cold]
fn twice(op: OpRef<'_>, before: OpRef<'_>, client: u32) -> Flaw {
    let before = place(before);
    let what = format!(
        "process {client} invokes {:?} while its operation from {before} is outstanding",
        op.f()
    );
    flaw(op, what, "a process does one thing at a time: give each its own number")
}

#[cold]
fn goes_on(op: OpRef<'_>, before: OpRef<'_>, client: u32) -> Flaw {
    let before = place(before);
    let what = format!("process {client} goes on after the info on {before}");
    flaw(op, what, "an operation of unknown outcome is never over: go on under a new process")
}

#[cold]
fn orphan(op: OpRef<'_>, client: u32) -> Flaw {
    let what = format!("process {client} completes {:?}, but has invoked nothing", op.f());
    flaw(op, what, "the invocation must come first")
}

#[cold]
fn other_function(op: OpRef<'_>, invoke: OpRef<'_>, client: u32) -> Flaw {
    let (f, before, invoked) = (op.f(), place(invoke), invoke.f());
    let what = format!("process {client} completes {f:?}, but invoked {invoked:?} on {before}");
    flaw(op, what, "")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::pairing::Pairing;
    use crate::{Header, HistoryBuilder, Op, Value};

    proptest! {
        /// Pairing and validation have the same notion of clients that are orderly.
        #[test]
        fn who_is_orderly(events in prop::collection::vec((0_usize..4, 0_u32..3, 0_usize..9), 0..12)) {
            let mut builder = HistoryBuilder::new(Header::default());
            for (kind, client, f) in events {
                let kind = [OpType::Invoke, OpType::Ok, OpType::Fail, OpType::Info][kind];
                let f = if f == 0 { "write" } else { "read" };
                builder.push(&Op::new(kind, Process::Client(client), f, Value::Nil));
            }
            let mut pairing = Pairing::default();
            pairing.go_on(&builder.columns);
            let orderly = pairing.is_orderly();
            let history = builder.paired(pairing);
            let rules = Rules::Own;
            let mut check = Check { flaws: Flaws::default(), warnings: Flaws::default(), rules };
            check.processes(&history);
            prop_assert_eq!(orderly, check.flaws.is_empty());
        }
    }
}
