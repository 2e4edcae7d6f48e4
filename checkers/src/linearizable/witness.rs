//! A verified case as an [`Anomaly`]: the calls, what is known of their order, and the contradiction.

use deposed_history::{History, Value};

use super::NEVER;
use super::case::{Begin, Case};
use super::model::{CallView, Model};
use super::models::{Register, RegisterOp};
use super::register::{Compact, Conclusion, Proof};
use super::verify::Refutation;
use crate::{Anomaly, Edge, EdgeKind};

/// Real-time edges are listed for cases of up to this many calls.
const EDGES_MAX_CALLS: usize = 24;

/// How calls are spoken of.
struct Speaker<'a, M: Model> {
    model: &'a M,
    history: &'a History,
    keyed: bool,
    case: &'a Case<M::Op>,
}

impl<M: Model> Speaker<'_, M> {
    fn label(&self, at: usize) -> String {
        format!("T{}", at + 1)
    }

    /// What a call of the case did, as it stands in the history: `process 3 read 5`.
    fn deed(&self, at: usize) -> String {
        let kept = &self.case.kept[at];
        let call = self.history.calls()[kept.call as usize];
        let view = CallView::new(self.history, call, self.keyed);
        let op = self.model.parse(&view).ok().flatten();
        let deed = self.model.describe(op.as_ref().unwrap_or(&kept.op));
        format!("process {} {deed}", view.process())
    }

    fn introduction(&self, at: usize) -> String {
        let call = self.history.calls()[self.case.kept[at].call as usize];
        let begin = self.history.op(call.invoke).index();
        let (label, deed) = (self.label(at), self.deed(at));
        match call.complete().map(|position| self.history.op(position).index()) {
            Some(end) if super::case::interval(call).1 != NEVER => {
                format!("Let {label} = {deed} (ops {begin} to {end}).")
            }
            _ => {
                format!("Let {label} = {deed} (op {begin}; whether and when it happened is open).")
            }
        }
    }

    fn position(&self, at: usize) -> u32 {
        self.history.calls()[self.case.kept[at].call as usize].invoke
    }

    fn edge(&self, from: usize, to: usize, kind: EdgeKind, because: String) -> Edge {
        Edge { from: self.position(from), to: self.position(to), kind, because }
    }

    fn anomaly(
        &self,
        name: &str,
        summary: String,
        sentences: Vec<String>,
        edges: Vec<Edge>,
    ) -> Anomaly {
        let witness = (0..self.case.kept.len()).map(|at| self.position(at)).collect();
        let mut all: Vec<String> =
            (0..self.case.kept.len()).map(|at| self.introduction(at)).collect();
        all.extend(sentences);
        Anomaly { name: name.into(), key: None, summary, sentences: all, witness, edges }
    }
}

/// The anomaly of a case that a search found illegal.
pub(crate) fn from_refutation<M: Model>(
    model: &M,
    history: &History,
    keyed: bool,
    case: &Case<M::Op>,
    refutation: &Refutation<M::State>,
    name: &str,
) -> Anomaly {
    let speaker = Speaker { model, history, keyed, case };
    let edges = if case.kept.len() <= EDGES_MAX_CALLS { real_time(&speaker) } else { Vec::new() };
    let mut sentences = vec![match case.begin {
        Begin::Initially => format!("Initially {}.", model.describe_state(&model.init())),
        Begin::Anyhow(_) => "Whatever happened before, and whatever the state was then:".to_owned(),
    }];
    for edge in &edges {
        let at = |position| (0..case.kept.len()).find(|at| speaker.position(*at) == position);
        if let (Some(from), Some(to)) = (at(edge.from), at(edge.to)) {
            sentences.push(format!(
                "Then {} comes before {}, because {}.",
                speaker.label(from),
                speaker.label(to),
                edge.because
            ));
        }
    }
    let stuck = speaker.label(refutation.stuck);
    for (order, state) in &refutation.dead_ends {
        let state = model.describe_state(state);
        sentences.push(if order.is_empty() {
            format!("Before anything else {state}, so {stuck} cannot have happened yet.")
        } else {
            let order: Vec<String> = order.iter().map(|at| speaker.label(*at)).collect();
            format!("After {} {state}, so {stuck} cannot have happened yet.", order.join(", "))
        });
    }
    let deed = speaker.deed(refutation.stuck);
    sentences.push(format!(
        "No order lets {stuck} happen before it returned, and yet {deed}: a contradiction."
    ));
    let summary = format!("{deed}, which no order of {} calls allows", case.kept.len());
    speaker.anomaly(name, summary, sentences, edges)
}

/// Who had returned before whom was invoked, without what follows from the rest.
fn real_time<M: Model>(speaker: &Speaker<'_, M>) -> Vec<Edge> {
    let kept = &speaker.case.kept;
    let before = |a: usize, b: usize| kept[a].ret < kept[b].inv;
    let mut edges = Vec::new();
    for to in 0..kept.len() {
        for from in 0..kept.len() {
            let implied = || (0..kept.len()).any(|mid| before(from, mid) && before(mid, to));
            if before(from, to) && !implied() {
                let because = format!(
                    "{} had returned before {} was invoked",
                    speaker.label(from),
                    speaker.label(to)
                );
                edges.push(speaker.edge(from, to, EdgeKind::RealTime, because));
            }
        }
    }
    edges
}

/// The anomaly of a register's case that the zone algorithm found, with its argument.
pub(crate) fn from_proof(
    model: &Register,
    history: &History,
    keyed: bool,
    case: &Case<RegisterOp>,
    register: &Compact,
    proof: &Proof,
) -> Anomaly {
    let speaker = Speaker { model, history, keyed, case };
    let at = |index: u32| {
        let call = register.calls[index as usize].index(history);
        case.kept.iter().position(|kept| kept.call == call).unwrap_or(0)
    };
    let label = |index: u32| speaker.label(at(index));
    let value = |id: u32| value_text(register, case, id);
    let mut sentences = Vec::new();
    let mut edges = Vec::new();
    for (at, kept) in case.kept.iter().enumerate() {
        let seen = case.kept.iter().enumerate().find(|(other, by)| {
            *other != at && matches!((&kept.op, &by.op),
                (RegisterOp::Write(v) | RegisterOp::Cas(_, v), RegisterOp::Read(u) | RegisterOp::Cas(u, _)) if u == v)
        });
        if let (true, Some((other, _))) = (kept.is_optional(), seen) {
            sentences.push(format!(
                "{} must have happened, because {} saw what only it wrote.",
                speaker.label(at),
                speaker.label(other)
            ));
        }
    }
    for step in &proof.steps {
        let (from, to) = (label(step.from), label(step.to));
        let because = match step.kind {
            EdgeKind::RealTime => format!("{from} had returned before {to} was invoked"),
            EdgeKind::WriteRead => format!("{to} saw what {from}, and nobody else, wrote"),
            EdgeKind::ReadWrite => reason_to_precede(&proof.conclusion, &from, &to, &value),
            _ => "of their values".to_owned(),
        };
        sentences.push(format!("Then {from} comes before {to}, because {because}."));
        edges.push(speaker.edge(at(step.from), at(step.to), step.kind, because));
    }
    let deed = |index: u32| speaker.deed(at(index));
    let (summary, end) = match proof.conclusion {
        Conclusion::Unwritten { observer, value: v } => {
            let tried = failed_writer(history, keyed, model, case, at(observer));
            (
                format!("{}, which nobody wrote", deed(observer)),
                format!(
                    "No call that can have happened wrote {}{tried}, and the value was nil in the \
                     beginning: a contradiction.",
                    value(v)
                ),
            )
        }
        Conclusion::Future { observer, writer } => (
            format!("{} before {}", deed(observer), deed(writer)),
            "Each comes before the other: a contradiction.".to_owned(),
        ),
        Conclusion::Fork { first, second, value: v } => (
            format!("{} and {}, but it was {} only once", deed(first), deed(second), value(v)),
            format!(
                "The value was {} only once, and two calls replaced it: a contradiction.",
                value(v)
            ),
        ),
        Conclusion::Cycle => (
            "each of a ring of cas needs the value of the one before".to_owned(),
            "None of them can come first: a contradiction.".to_owned(),
        ),
        Conclusion::Backwards { earlier, after, .. } => (
            format!("{} after the value had become {}", deed(earlier), value(after)),
            "Each comes before the other: a contradiction.".to_owned(),
        ),
        Conclusion::Again { call, other, .. } => (
            format!("{} after the value had become {}", deed(call), value(other)),
            "Each comes before the other: a contradiction.".to_owned(),
        ),
    };
    sentences.push(end);
    speaker.anomaly(proof.name, summary, sentences, edges)
}

/// Why a call that saw or left a value comes before the one that replaced it.
fn reason_to_precede(
    conclusion: &Conclusion,
    from_label: &str,
    to_label: &str,
    value: &dyn Fn(u32) -> String,
) -> String {
    match *conclusion {
        Conclusion::Again { value: v, other, .. } => format!(
            "{v} was current before {other} and, written only once, never again after it, so \
             {from_label}, which saw {v}, precedes what replaced it",
            v = value(v),
            other = value(other),
        ),
        Conclusion::Fork { value: v, .. } => {
            format!("{to_label} replaced {}, which {from_label} still saw", value(v))
        }
        _ => format!("{to_label} replaced the value that {from_label} saw or wrote"),
    }
}

/// The text of a register's value, from a call of the case that has it.
fn value_text(register: &Compact, case: &Case<RegisterOp>, id: u32) -> String {
    if id == 0 {
        return Value::Nil.to_string();
    }
    for kept in &case.kept {
        let Some(call) = register.calls.iter().find(|call| call.inv == kept.inv) else {
            continue;
        };
        match &kept.op {
            RegisterOp::Read(v) | RegisterOp::Miss(v) if call.a == id => return v.to_string(),
            RegisterOp::Write(v) if call.product() == Some(id) => return v.to_string(),
            RegisterOp::Cas(from, _) if call.a == id => return from.to_string(),
            RegisterOp::Cas(_, to) if call.b == id => return to.to_string(),
            _ => {}
        }
    }
    "that value".into()
}

/// A remark on a call that failed to write what was seen.
fn failed_writer(
    history: &History,
    keyed: bool,
    model: &Register,
    case: &Case<RegisterOp>,
    observer: usize,
) -> String {
    let (RegisterOp::Read(seen) | RegisterOp::Cas(seen, _)) = &case.kept[observer].op else {
        return String::new();
    };
    let key_of = |position| history.op(position).value().as_list().and_then(|pair| pair.get(0));
    let own = history.calls()[case.kept[observer].call as usize];
    for call in history.calls() {
        if call.outcome() != deposed_history::Outcome::Fail
            || keyed && key_of(call.invoke) != key_of(own.invoke)
        {
            continue;
        }
        // As if it had been indeterminate: what it would have written.
        let open = deposed_history::Call::open(call.invoke);
        let view = CallView::new(history, open, keyed);
        if let Ok(Some(RegisterOp::Write(v) | RegisterOp::Cas(_, v))) = model.parse(&view)
            && v == *seen
        {
            return format!(
                " (the {} of process {} at op {} failed, so it did not happen)",
                view.f(),
                view.process(),
                history.op(call.invoke).index()
            );
        }
    }
    String::new()
}
