//! Violations made small: the same by every automaton of a register, and nothing is left that the
//! proof does not need.

use super::oracle::{Random, history, random_calls, rounds, show};
use super::{NEVER, SPECS};
use crate::Budget;
use crate::linearizable::automaton::{Automaton as _, Entry, Weaken};
use crate::linearizable::case::{Begin, Case, Draft, parse};
use crate::linearizable::dfs::{Found, Limits};
use crate::linearizable::minimise::minimise;
use crate::linearizable::models::{Register, RegisterOp};
use crate::linearizable::register::{RegisterKinds, Renumbering, compact, load};
use crate::linearizable::table::TableAutomaton;
use deposed_history::History;

const MODEL: Register = Register { cas: true };

/// Random histories of up to nine calls.
fn histories() -> impl Iterator<Item = History> {
    SPECS.into_iter().flat_map(|spec| {
        (0..rounds()).map(move |round| {
            let mut random = Random::new(round);
            let size = 1 + random.below(9) as usize;
            let info = [0, 0, 10, 30, 60][random.below(5) as usize];
            history(&spec, &random_calls(&spec, &mut random, size, info))
        })
    })
}

fn all(history: &History) -> Vec<u32> {
    (0..history.calls().len() as u32).collect()
}

fn found(automaton: &mut dyn Weaken, draft: &Draft) -> Found {
    let start = match draft.begin {
        Begin::Initially => automaton.init(),
        Begin::Anyhow(_) => automaton.anything().expect("a state that stands for any"),
    };
    automaton.begin_in(start);
    let entries: Vec<Entry> = draft.kept.iter().map(|kept| kept.entry).collect();
    let budget = Budget::unlimited();
    automaton
        .search(&entries, Limits { budget: &budget, nodes_max: u64::MAX, cancelled: None })
        .found
}

/// What is left of a violation; `None` if there is a legal order.
fn minimised(automaton: &mut dyn Weaken, entries: &[Entry]) -> Option<Draft> {
    match found(automaton, &Draft::whole(entries)) {
        Found::Illegal { reached } => {
            Some(minimise(automaton, entries, reached, &Budget::unlimited()))
        }
        _ => None,
    }
}

fn told(draft: &Draft, history: &History, entries: &[Entry]) -> Case<RegisterOp> {
    draft.spelt_out(&MODEL, history, false, entries).expect("a register")
}

/// A register's own automaton and that of its model make the same of a violation.
#[test]
fn a_register_is_weakened_as_its_model_says() {
    let mut violations = 0;
    for history in histories() {
        let register = compact(&history, &all(&history), false, MODEL).expect("a register");
        let (mut own, entries) = RegisterKinds::of(&register);
        let this = minimised(&mut own, &entries).map(|draft| told(&draft, &history, &entries));
        let mut table = TableAutomaton::new(&MODEL);
        let entry = |call| {
            let kept = parse(&MODEL, &history, call, false).expect("a register")?;
            Some(Entry { kind: table.kind(&kept.op), inv: kept.inv, ret: kept.ret })
        };
        let entries: Vec<Entry> = all(&history).into_iter().filter_map(entry).collect();
        let mut table = table.with_weaker();
        let that = minimised(&mut table, &entries).map(|draft| told(&draft, &history, &entries));
        assert_eq!(format!("{this:?}"), format!("{that:?}"), "{}", show(&history));
        violations += u64::from(this.is_some());
    }
    assert!(violations > rounds() / 10, "{violations}");
}

/// Whatever else is left out or weakened, there is a legal order.
#[test]
fn nothing_is_left_that_is_not_needed() {
    for history in histories() {
        let register = compact(&history, &all(&history), false, MODEL).expect("a register");
        let (mut own, entries) = RegisterKinds::of(&register);
        let Some(draft) = minimised(&mut own, &entries) else { continue };
        for (at, kept) in draft.kept.iter().enumerate() {
            let kind = kept.entry.kind;
            let mut weaker = Vec::new();
            if own.traits(kind).pure {
                let mut without = draft.clone();
                without.kept.remove(at);
                weaker.push(without);
            } else {
                for entry in [
                    (!kept.entry.is_optional()).then_some(Entry { ret: NEVER, ..kept.entry }),
                    own.relaxed(kind).map(|kind| Entry { kind, ..kept.entry }),
                ] {
                    let mut other = draft.clone();
                    other.kept[at].entry = entry.unwrap_or(kept.entry);
                    weaker.extend(entry.map(|_| other));
                }
            }
            for weaker in weaker {
                assert_eq!(found(&mut own, &weaker), Found::Legal, "{at}: {}", show(&history));
            }
        }
    }
}

/// What is read of all registers at once is what is read of one alone.
#[test]
fn registers_are_read_at_once_as_they_are_alone() {
    let budget = Budget::unlimited();
    for history in histories() {
        let alone = compact(&history, &all(&history), false, MODEL).expect("a register");
        let registers = load(&history, false, MODEL, &budget).expect("time").expect("registers");
        let read: Vec<String> = (registers.pieces.into_iter())
            .map(|pieces| format!("{:?}", Renumbering::new().dense(pieces)))
            .collect();
        assert_eq!(read, [format!("{alone:?}")], "{}", show(&history));
    }
}
