//! Several searches for one answer: which of them is fast depends on the history.
//!
//! Depth first is fastest where little choice is left or little is needed, breadth first where many
//! calls are open at once. With two threads they race and the first answer wins; with one they take
//! turns, each turn longer than the one before.

use std::sync::atomic::{AtomicBool, Ordering};

use super::dfs::{Found, GaveUp, Limits, Searched, search};
use super::register::{RegisterAutomaton, frontier};
use crate::Budget;

/// Configurations each search may visit in the first turn, and how much longer each turn is.
const FIRST_TURN: u64 = 100_000;
const TURN_GROWTH: u64 = 8;

/// Searches a register's calls as long as the budget lasts.
pub(crate) fn race(register: &RegisterAutomaton, budget: &Budget, threads: usize) -> Searched {
    if threads < 2 {
        return take_turns(register, budget);
    }
    let decided = AtomicBool::new(false);
    let limits = Limits { budget, nodes_max: u64::MAX, cancelled: Some(&decided) };
    let run = |algorithm: &dyn Fn() -> Searched| {
        let searched = algorithm();
        if !matches!(searched.found, Found::GaveUp { .. }) {
            decided.store(true, Ordering::Relaxed);
        }
        searched
    };
    let searched = std::thread::scope(|scope| {
        let other = scope.spawn(|| run(&|| frontier(register, limits)));
        let one = run(&|| depth_first(register, limits));
        match other.join() {
            Ok(other) => better(one, other),
            Err(_) => one,
        }
    });
    // How far the loser came is chance, and what is reported must not be.
    Searched { nodes: 0, ..searched }
}

fn depth_first(register: &RegisterAutomaton, limits: Limits<'_>) -> Searched {
    search(&mut register.clone(), &register.entries(), limits)
}

fn take_turns(register: &RegisterAutomaton, budget: &Budget) -> Searched {
    let mut nodes_max = FIRST_TURN;
    loop {
        let limits = Limits { budget, nodes_max, cancelled: None };
        let one = depth_first(register, limits);
        if !is_cut_short(&one) {
            return one;
        }
        let both = better(one, frontier(register, limits));
        if !is_cut_short(&both) {
            return both;
        }
        nodes_max = nodes_max.saturating_mul(TURN_GROWTH);
    }
}

fn is_cut_short(searched: &Searched) -> bool {
    matches!(searched.found, Found::GaveUp { why: GaveUp::Nodes, .. })
}

/// The one with an answer; or else the one that came further.
fn better(one: Searched, other: Searched) -> Searched {
    let nodes = one.nodes + other.nodes;
    let found = match (one.found, other.found) {
        (Found::GaveUp { reached, why }, Found::GaveUp { reached: further, why: and }) => {
            let why = if why == GaveUp::Nodes || matches!(why, GaveUp::TooManyOpen(_)) {
                and
            } else {
                why
            };
            Found::GaveUp { reached: reached.max(further), why }
        }
        (Found::GaveUp { .. }, found) | (found, _) => found,
    };
    Searched { found, nodes }
}
