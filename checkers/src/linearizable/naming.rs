//! What a violation is called that a search found: by the names of the field where one fits for
//! certain, whatever else happened.

use super::automaton::{Entry, REFUSED, Traits, Weaken};

/// What it is called when nothing better is certain.
const OTHERWISE: &str = "not-linearizable";

/// The name of a violation in which the entry `stuck` of an object cannot have happened. All of its
/// entries count, also those that no proof needs. `fork` is the name of a
/// [fork](super::model::Model::fork_name).
pub(crate) fn name(
    automaton: &mut dyn Weaken,
    fork: Option<&'static str>,
    entries: &[Entry],
    stuck: usize,
) -> &'static str {
    let init = automaton.init();
    let traits: Vec<Traits> = entries.iter().map(|entry| automaton.traits(entry.kind)).collect();
    let all = || entries.iter().zip(&traits);
    let before = |at: usize| at != stuck && entries[at].inv < entries[stuck].ret;
    let (late, looks) = (entries[stuck], traits[stuck].pure);
    if traits.iter().all(|traits| traits.pure || traits.leads_to.is_some()) {
        let Some(needed) = traits[stuck].requires else { return OTHERWISE };
        let leads = |traits: &Traits| traits.leads_to.filter(|_| !traits.pure);
        let makers: Vec<usize> =
            (0..entries.len()).filter(|&at| leads(&traits[at]) == Some(needed)).collect();
        let leaves = |traits: &Traits| leads(traits).is_some_and(|state| state != needed);
        if !looks {
            let change = |(entry, traits): &(&Entry, &Traits)| {
                !entry.is_optional() && traits.requires == Some(needed) && leaves(traits)
            };
            let once = makers.len() + usize::from(init == needed) <= 1;
            let twice = all().filter(change).count() > 1;
            return fork.filter(|_| once && twice).unwrap_or(OTHERWISE);
        }
        if init != needed {
            if makers.is_empty() {
                return "read-of-unwritten-value";
            }
            if !makers.iter().any(|&at| before(at)) {
                return "future-read";
            }
        }
        let makers: Vec<Entry> =
            makers.into_iter().filter(|&at| before(at)).map(|at| entries[at]).collect();
        let overwrote = |(entry, traits): (&Entry, &Traits)| {
            entry.ret < late.inv
                && leaves(traits)
                && makers.iter().all(|maker| maker.ret < entry.inv)
        };
        return if all().any(overwrote) { "stale-read" } else { OTHERWISE };
    }
    // What only grows has whatever was done before the read began.
    if !looks || !traits.iter().all(|traits| traits.pure || traits.further) {
        return OTHERWISE;
    }
    let Some(anything) = automaton.anything() else { return OTHERWISE };
    let misses = |entry: &Entry| {
        entry.ret < late.inv
            && !automaton.traits(entry.kind).pure
            && match automaton.step(anything, entry.kind) {
                REFUSED => false,
                with => automaton.rules_out(with, late.kind),
            }
    };
    if entries.iter().any(misses) { "stale-read" } else { OTHERWISE }
}
