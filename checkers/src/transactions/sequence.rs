//! An order of events under edges that must hold and choices of which one edge must hold.
//!
//! The choices are not listed: they are found where a candidate order violates them. Each round sorts
//! the events topologically, as near to the time they completed as the edges allow; a choice that
//! this order violates, and of which a path rules one side out, is *forced*. If there is none left to
//! force, one is decided, and undone if it leads nowhere. Every branch is tried or ruled out, so
//! an answer is right either way.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rustc_hash::FxHashMap;

use super::graph::Graph;
use super::planted::{Bug, planted};
use crate::budget::{Budget, Exhausted, Held};

/// One event before another.
pub(crate) type Before = (u32, u32);

/// One of two edges has to hold. The first is the more likely one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Choice {
    pub(crate) one: Before,
    pub(crate) other: Before,
}

/// Where the choices come from.
pub(crate) trait Choices {
    /// Adds choices of which a total order, given as the place of each event, keeps neither side.
    /// None are added only if the order is right.
    fn violated(&mut self, place: &[u32], choices: &mut Vec<Choice>);
}

/// Rounds of guessing before every step is justified.
const GUESSING_ROUNDS_MAX: usize = 24;

/// Looks for an order.
pub(crate) struct Sequencer<'a, C> {
    graph: &'a Graph,
    /// Events of equal rank by the edges come in the order of these.
    priority: &'a [u32],
    choices: C,
    budget: &'a Budget,
    indegree: Vec<u32>,
    /// Edges added, in order, to be taken back.
    added: Vec<Before>,
    added_from: FxHashMap<u32, Vec<u32>>,
    visited: Vec<u32>,
    visit: u32,
    /// The memory it takes.
    #[expect(dead_code, reason = "it is given back when this is dropped")]
    held: Held,
}

enum Propagated {
    Solved,
    Conflict,
    Open(Choice),
}

impl<'a, C: Choices> Sequencer<'a, C> {
    pub(crate) fn new(
        graph: &'a Graph,
        priority: &'a [u32],
        choices: C,
        budget: &'a Budget,
    ) -> Result<Self, Exhausted> {
        // Per event: five words here and while sorting, and two for each entry of the heap.
        let held = budget.hold(28 * graph.nodes() as u64)?;
        let mut indegree = vec![0; graph.nodes()];
        for node in 0..graph.nodes() as u32 {
            graph.out(node).for_each(|(to, _)| indegree[to as usize] += 1);
        }
        Ok(Self {
            graph,
            priority,
            choices,
            budget,
            indegree,
            added: Vec::new(),
            added_from: FxHashMap::default(),
            visited: vec![0; graph.nodes()],
            visit: 0,
            held,
        })
    }

    /// Whether there is an order.
    pub(crate) fn succeeds(mut self) -> Result<bool, Exhausted> {
        if let Some(possible) = self.guess()? {
            return Ok(possible);
        }
        self.take_back(0);
        // Each decision: how many edges there were before it, and the side not tried yet.
        let mut decisions: Vec<(usize, Option<Before>)> = Vec::new();
        loop {
            match self.propagate()? {
                Propagated::Solved => return Ok(true),
                Propagated::Open(choice) => {
                    decisions.push((self.added.len(), Some(choice.other)));
                    self.add(choice.one);
                }
                Propagated::Conflict => loop {
                    let Some((length, other)) = decisions.pop() else { return Ok(false) };
                    self.take_back(length);
                    if let Some(other) = other.filter(|_| !planted(Bug::NoSecondTry)) {
                        decisions.push((length, None));
                        self.add(other);
                        break;
                    }
                },
            }
        }
    }

    /// Takes the likely side of every open choice at once: mostly that is an order. `None` if
    /// it came to nothing.
    fn guess(&mut self) -> Result<Option<bool>, Exhausted> {
        let mut guessed = false;
        let mut choices = Vec::new();
        for _ in 0..GUESSING_ROUNDS_MAX {
            self.budget.check()?;
            let Some(place) = self.sort() else { return Ok((!guessed).then_some(false)) };
            choices.clear();
            self.choices.violated(&place, &mut choices);
            if choices.is_empty() {
                return Ok(Some(true));
            }
            for &Choice { one, other } in &choices {
                match (self.is_blocked(one, &place), self.is_blocked(other, &place)) {
                    (true, true) => return Ok((!guessed).then_some(false)),
                    (true, false) => self.add(other),
                    (false, true) => self.add(one),
                    (false, false) => {
                        guessed = !planted(Bug::OnlyLikely);
                        self.add(one);
                    }
                }
            }
        }
        Ok(None)
    }

    /// Adds what is forced, until nothing more is.
    fn propagate(&mut self) -> Result<Propagated, Exhausted> {
        let mut choices = Vec::new();
        loop {
            self.budget.check()?;
            let Some(place) = self.sort() else { return Ok(Propagated::Conflict) };
            choices.clear();
            self.choices.violated(&place, &mut choices);
            if choices.is_empty() {
                return Ok(Propagated::Solved);
            }
            let (mut forced, mut open) = (false, None);
            for &choice in &choices {
                match (self.is_blocked(choice.one, &place), self.is_blocked(choice.other, &place)) {
                    (true, true) => return Ok(Propagated::Conflict),
                    (true, false) => self.add(choice.other),
                    (false, true) => self.add(choice.one),
                    (false, false) => {
                        open = open.or(Some(choice));
                        continue;
                    }
                }
                forced = true;
            }
            if let (false, Some(open)) = (forced, open) {
                return Ok(Propagated::Open(open));
            }
        }
    }

    fn add(&mut self, (from, to): Before) {
        self.added.push((from, to));
        self.added_from.entry(from).or_default().push(to);
        self.indegree[to as usize] += 1;
    }

    fn take_back(&mut self, length: usize) {
        while self.added.len() > length {
            let Some((from, to)) = self.added.pop() else { return };
            if let Some(tos) = self.added_from.get_mut(&from) {
                tos.pop();
            }
            self.indegree[to as usize] -= 1;
        }
    }

    fn after(&self, node: u32) -> impl Iterator<Item = u32> + '_ {
        let added = self.added_from.get(&node).map(Vec::as_slice).unwrap_or_default();
        self.graph.out(node).map(|(to, _)| to).chain(added.iter().copied())
    }

    /// The place of each event in a topological order; `None` if the edges have a cycle.
    fn sort(&self) -> Option<Vec<u32>> {
        let nodes = self.graph.nodes();
        let mut open = self.indegree.clone();
        let mut place = vec![0; nodes];
        let mut ready: BinaryHeap<Reverse<(u32, u32)>> = (0..nodes as u32)
            .filter(|&node| open[node as usize] == 0)
            .map(|node| Reverse((self.priority[node as usize], node)))
            .collect();
        let mut count = 0;
        while let Some(Reverse((_, node))) = ready.pop() {
            place[node as usize] = count;
            count += 1;
            for to in self.after(node) {
                let open = &mut open[to as usize];
                *open -= 1;
                if *open == 0 {
                    ready.push(Reverse((self.priority[to as usize], to)));
                }
            }
        }
        (count as usize == nodes).then_some(place)
    }

    /// Whether a path leads the other way. A path through edges added since the sort may be missed:
    /// the next sort will find the cycle.
    fn is_blocked(&mut self, (from, to): Before, place: &[u32]) -> bool {
        let last = place[from as usize];
        if place[to as usize] > last {
            return false;
        }
        self.visit += 1;
        let mut next = vec![to];
        while let Some(node) = next.pop() {
            if node == from {
                return true;
            }
            if std::mem::replace(&mut self.visited[node as usize], self.visit) == self.visit {
                continue;
            }
            let within = self.after(node).filter(|&to| place[to as usize] <= last);
            next.extend(within);
        }
        false
    }
}
