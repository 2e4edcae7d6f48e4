//! What a violation is called that a search found: by the names of the field where one fits for
//! certain, whatever else happened.

use super::case::Kept;
use super::model::{Leads, Model};

/// What it is called when nothing better is certain.
const OTHERWISE: &str = "not-linearizable";

/// The name of a violation in which `stuck`, one of the `calls` of an object, cannot have happened.
/// All of them count, also those that no proof needs.
pub(crate) fn name<M: Model>(
    model: &M,
    calls: &[Kept<M::Op>],
    stuck: &Kept<M::Op>,
) -> &'static str {
    let before = |kept: &&Kept<M::Op>| kept.call != stuck.call && kept.inv < stuck.ret;
    let calls: Vec<&Kept<M::Op>> = calls.iter().collect();
    if calls
        .iter()
        .all(|kept| !matches!(model.leads_to(&kept.op), Leads::Further | Leads::Anywhere))
    {
        let Some(needed) = model.requires(&stuck.op) else { return OTHERWISE };
        let leads = |kept: &Kept<M::Op>| match model.leads_to(&kept.op) {
            Leads::To(state) => Some(state),
            _ => None,
        };
        let makers: Vec<&&Kept<M::Op>> =
            calls.iter().filter(|kept| leads(kept).as_ref() == Some(&needed)).collect();
        if !model.is_pure(&stuck.op) {
            let change = |kept: &&&Kept<M::Op>| {
                !kept.is_optional()
                    && !model.is_pure(&kept.op)
                    && model.requires(&kept.op).as_ref() == Some(&needed)
                    && leads(kept).is_some_and(|state| state != needed)
            };
            let once = makers.len() + usize::from(model.init() == needed) <= 1;
            let twice = calls.iter().filter(change).count() > 1;
            return model.fork_name().filter(|_| once && twice).unwrap_or(OTHERWISE);
        }
        if model.init() != needed {
            if makers.is_empty() {
                return "read-of-unwritten-value";
            }
            if !makers.iter().any(|kept| before(kept)) {
                return "future-read";
            }
        }
        let makers: Vec<_> = makers.into_iter().filter(|kept| before(kept)).collect();
        let overwrote = |kept: &&&Kept<M::Op>| {
            kept.ret < stuck.inv
                && leads(kept).is_some_and(|state| state != needed)
                && makers.iter().all(|maker| maker.ret < kept.inv)
        };
        return if calls.iter().any(|kept| overwrote(&kept)) { "stale-read" } else { OTHERWISE };
    }
    // What only grows has whatever was done before the read began.
    let grows =
        |kept: &&Kept<M::Op>| matches!(model.leads_to(&kept.op), Leads::Further | Leads::Nowhere);
    let misses = |kept: &Kept<M::Op>| {
        let with = model.anything().and_then(|state| model.step(&state, &kept.op));
        kept.ret < stuck.inv
            && !model.is_pure(&kept.op)
            && with.is_some_and(|state| model.rules_out(&state, &stuck.op))
    };
    if model.is_pure(&stuck.op) && calls.iter().all(grows) && calls.iter().any(|kept| misses(kept))
    {
        return "stale-read";
    }
    OTHERWISE
}
