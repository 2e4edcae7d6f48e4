//! Checks a witness against the raw history, and shares nothing with the searches that found it.
//!
//! Every `invalid` passes here before it is reported, in release builds too. Two things are checked:
//! that each call of the history is in the witness or may be left out of it, and that what is in
//! the witness has no legal order, by trying all of them.

use deposed_history::{History, Outcome};
use rustc_hash::{FxHashMap, FxHashSet};

use super::NEVER;
use super::case::{Begin, Case, Kept};
use super::memory::Reservation;
use super::model::{CallView, Model};
use crate::{Budget, Exhausted};

/// Why a witness proves nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Flaw {
    /// A call of the witness is not one of the history, or not a weaker form of it.
    #[error("call {0} of the witness is not a weaker form of the history's")]
    Altered(u32),
    /// A call of the history is missing from the witness and matters.
    #[error("call {0} of the history matters and is not in the witness")]
    Missing(u32),
    /// The witness has a legal order.
    #[error("the calls of the witness have a legal order")]
    Legal,
    /// Checking took too long.
    #[error("{0}")]
    Exhausted(#[from] Exhausted),
}

/// How far every order gets, at most: the dead ends that all orders run into.
#[derive(Debug)]
pub(crate) struct Refutation<State> {
    /// The call, by its index in the witness, that has to return next and cannot have happened.
    pub(crate) stuck: usize,
    /// Orders of calls that come this far, and the states they lead to; a few of them.
    pub(crate) dead_ends: Vec<(Vec<usize>, State)>,
}

/// How many calls are tried between looks at the clock.
const CALLS_PER_LOOK: usize = 10_000;

/// How many dead ends are kept.
const DEAD_ENDS_MAX: usize = 4;

/// Checks that `case` proves that the calls of an object, by their indices, have no legal order.
pub(crate) fn verify<M: Model>(
    model: &M,
    history: &History,
    calls: &[u32],
    keyed: bool,
    case: &Case<M::Op>,
    budget: &Budget,
) -> Result<Refutation<M::State>, Flaw> {
    let mut kept: FxHashMap<u32, &Kept<M::Op>> =
        case.kept.iter().map(|kept| (kept.call, kept)).collect();
    if kept.len() != case.kept.len() || !case.kept.is_sorted_by_key(|kept| kept.inv) {
        return Err(Flaw::Altered(0));
    }
    let ops: Vec<&M::Op> = case.kept.iter().map(|kept| &kept.op).collect();
    let begin = match case.begin {
        Begin::Initially => 0,
        Begin::Anyhow(time) => time,
    };
    for &index in calls {
        let call = history.calls()[index as usize];
        let inv = call.invoke + 1;
        let ret = match call.complete() {
            Some(position) if call.outcome() != Outcome::Info => position + 1,
            _ => NEVER,
        };
        // What is outside of the witness's window may be missing from it, whatever it says.
        if (inv > case.until || ret < begin) && !kept.contains_key(&index) {
            continue;
        }
        let view = CallView::new(history, call, keyed);
        if call.outcome() == Outcome::Fail && !view.is_precondition() {
            continue;
        }
        let Some(op) = model.parse(&view).map_err(|_| Flaw::Altered(index))? else { continue };
        if let Some(kept) = kept.remove(&index) {
            let same_op = kept.op == op || model.relaxed(&op).as_ref() == Some(&kept.op);
            let certain = !kept.is_optional();
            let same_time = kept.inv <= inv.max(begin) && (kept.inv >= begin) && kept.ret >= ret;
            let certain_inside = !certain || inv >= begin && kept.ret <= case.until;
            if !same_op || !same_time || !certain_inside || inv > case.until {
                return Err(Flaw::Altered(index));
            }
        } else if !model.is_pure(&op) && !model.dispensable(&op, &ops) {
            return Err(Flaw::Missing(index));
        }
    }
    if let Some(&index) = kept.keys().min() {
        return Err(Flaw::Altered(index));
    }
    let start = match case.begin {
        Begin::Initially => model.init(),
        Begin::Anyhow(_) => model.anything().ok_or(Flaw::Altered(0))?,
    };
    refute(model, start, &case.kept, budget)
}

/// One way to get somewhere.
struct Node<State> {
    /// The node before and the call that took effect.
    from: Option<(usize, usize)>,
    event: usize,
    taken: Vec<u64>,
    state: State,
}

/// Tries all orders. Errs with [`Flaw::Legal`] if one is legal.
fn refute<M: Model>(
    model: &M,
    start: M::State,
    kept: &[Kept<M::Op>],
    budget: &Budget,
) -> Result<Refutation<M::State>, Flaw> {
    let mut events: Vec<(u32, usize, bool)> = Vec::new();
    for (index, kept) in kept.iter().enumerate() {
        events.push((kept.inv, index, false));
        if !kept.is_optional() {
            events.push((kept.ret, index, true));
        }
    }
    events.sort_unstable();
    let mut seen: FxHashSet<(usize, Vec<u64>, M::State)> = FxHashSet::default();
    let mut nodes =
        vec![Node { from: None, event: 0, taken: vec![0; kept.len().div_ceil(64)], state: start }];
    let mut pending = vec![0];
    let mut furthest: (usize, Vec<usize>) = (0, Vec::new());
    let mut memory = Reservation::new(budget);
    // A node, and what is remembered of it, each with a set of calls.
    let set = size_of::<Vec<u64>>() + kept.len().div_ceil(64) * size_of::<u64>();
    let node_bytes = 3 * (set + size_of::<Node<M::State>>());
    let nodes_per_look = (CALLS_PER_LOOK / kept.len().max(1)).max(1);
    let mut states = 0;
    for visited in 0_usize.. {
        let Some(at) = pending.pop() else { break };
        if visited.is_multiple_of(nodes_per_look) {
            budget.check()?;
            memory.hold((nodes.len() * node_bytes + states) as u64)?;
        }
        let has = |taken: &[u64], index: usize| taken[index / 64] >> (index % 64) & 1 == 1;
        let node = &nodes[at];
        let mut event = node.event;
        while event < events.len() && (!events[event].2 || has(&node.taken, events[event].1)) {
            event += 1;
        }
        if event == events.len() {
            return Err(Flaw::Legal);
        }
        if event > furthest.0 {
            furthest = (event, Vec::new());
        }
        if event == furthest.0 {
            furthest.1.push(at);
        }
        let invoked = events[..event].iter().filter(|(_, _, returns)| !returns);
        let mut next = Vec::new();
        for &(_, index, _) in invoked {
            if !has(&node.taken, index)
                && let Some(state) = model.step(&node.state, &kept[index].op)
            {
                let mut taken = node.taken.clone();
                taken[index / 64] |= 1 << (index % 64);
                if seen.insert((event, taken.clone(), state.clone())) {
                    states += 2 * model.bytes_inside(&state);
                    next.push(Node { from: Some((at, index)), event, taken, state });
                }
            }
        }
        for node in next {
            pending.push(nodes.len());
            nodes.push(node);
        }
    }
    let stuck = events.get(furthest.0).map_or(0, |event| event.1);
    let mut dead_ends: Vec<(Vec<usize>, M::State)> =
        furthest.1.iter().map(|&at| (path(&nodes, at), nodes[at].state.clone())).collect();
    dead_ends.sort_by(|one, other| (one.0.len(), &one.0).cmp(&(other.0.len(), &other.0)));
    dead_ends.truncate(DEAD_ENDS_MAX);
    Ok(Refutation { stuck, dead_ends })
}

fn path<State>(nodes: &[Node<State>], at: usize) -> Vec<usize> {
    let mut path = Vec::new();
    let mut at = at;
    while let Some((before, index)) = nodes[at].from {
        path.push(index);
        at = before;
    }
    path.reverse();
    path
}
