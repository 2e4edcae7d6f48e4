//! Strongly connected components, of graphs that need not be built, without recursion.
//!
//! Tarjan's algorithm (SIAM J. Comput. 1(2), 1972) with one word a node, as Pearce ("A space-efficient
//! algorithm for finding strongly connected components", IPL 116, 2016) has it: a node is unseen (0),
//! on the way (the number of its visit), or done (its component, counted down from the number of
//! nodes, so that it is higher than every visit's number). Its stack is on the heap: a chain of any
//! length takes no more of the thread's stack than one node.

use crate::budget::{Budget, Exhausted, Held};

/// A graph as the search sees it: a node has numbered slots, each of which may lead to a node.
pub(crate) trait Walk {
    fn nodes(&self) -> usize;

    /// The first slot of a node, and the one after its last.
    fn slots(&self, node: u32) -> (u32, u32);

    /// Where a slot of a node leads, if anywhere.
    fn step(&self, node: u32, slot: u32) -> Option<u32>;
}

/// Which component each node belongs to. Components are numbered against the edges: an edge never
/// leads to a component with a higher number.
#[derive(Debug)]
pub(crate) struct Components {
    pub(crate) of: Vec<u32>,
    count: u32,
    /// The memory it takes.
    #[expect(dead_code, reason = "it is given back when this is dropped")]
    held: Held,
}

/// A node whose edges are being followed.
struct Visit {
    node: u32,
    slot: u32,
    end: u32,
    /// The lowest visit that is known to be reached from it.
    low: u32,
}

/// Nodes visited between two looks at the clock.
const NODES_PER_LOOK: u32 = 1 << 16;

/// Finds them.
pub(crate) fn of(graph: &impl Walk, budget: &Budget) -> Result<Components, Exhausted> {
    const UNSEEN: u32 = 0;
    let nodes = graph.nodes();
    let held = budget.hold(4 * nodes as u64)?;
    let mut stacks = Vec::new();
    let mut mark = vec![UNSEEN; nodes];
    let (mut path, mut visits): (Vec<u32>, Vec<Visit>) = (Vec::new(), Vec::new());
    // The number of the next visit: one more than there are nodes on the way.
    let mut next = 1u32;
    let mut component = nodes as u32;
    let mut looked = 0u32;
    let visit = |node: u32, number: u32| {
        let (slot, end) = graph.slots(node);
        Visit { node, slot, end, low: number }
    };
    // Edges mostly lead on in time, to what was given a higher number: from there, what is reached was
    // visited before, and the stacks stay short.
    for root in (0..nodes as u32).rev() {
        if mark[root as usize] != UNSEEN {
            continue;
        }
        mark[root as usize] = next;
        budget.make_room(&mut visits, 1, &mut stacks)?;
        visits.push(visit(root, next));
        next += 1;
        'visits: while let Some(Visit { node, slot, end, low }) = visits.last_mut() {
            while *slot < *end {
                let to = graph.step(*node, *slot);
                *slot += 1;
                let Some(to) = to else { continue };
                let reached = &mut mark[to as usize];
                if *reached == UNSEEN {
                    *reached = next;
                    budget.make_room(&mut visits, 1, &mut stacks)?;
                    visits.push(visit(to, next));
                    next += 1;
                    looked += 1;
                    if looked.is_multiple_of(NODES_PER_LOOK) {
                        budget.check()?;
                    }
                    continue 'visits;
                }
                *low = (*low).min(*reached);
            }
            let (node, low) = (*node, *low);
            visits.pop();
            if low < mark[node as usize] {
                mark[node as usize] = low;
                budget.make_room(&mut path, 1, &mut stacks)?;
                path.push(node);
            } else {
                next -= 1;
                while let Some(member) = path.pop_if(|member| mark[*member as usize] >= low) {
                    mark[member as usize] = component;
                    next -= 1;
                }
                mark[node as usize] = component;
                component -= 1;
            }
            if let Some(caller) = visits.last_mut() {
                caller.low = caller.low.min(mark[node as usize]);
            }
        }
    }
    for mark in &mut mark {
        *mark = nodes as u32 - *mark;
    }
    Ok(Components { of: mark, count: nodes as u32 - component, held })
}

impl Components {
    pub(crate) fn same(&self, a: u32, b: u32) -> bool {
        self.of[a as usize] == self.of[b as usize]
    }

    /// The components of more than one node, each with its members in order, by their first member.
    pub(crate) fn cyclic(&self) -> Vec<Vec<u32>> {
        let mut sizes = vec![0u32; self.count as usize];
        for &component in &self.of {
            sizes[component as usize] += 1;
        }
        let mut slots = vec![u32::MAX; self.count as usize];
        let mut cyclic: Vec<Vec<u32>> = Vec::new();
        for (node, &component) in self.of.iter().enumerate() {
            let component = component as usize;
            if sizes[component] < 2 {
                continue;
            }
            if slots[component] == u32::MAX {
                slots[component] = cyclic.len() as u32;
                cyclic.push(Vec::with_capacity(sizes[component] as usize));
            }
            cyclic[slots[component] as usize].push(node as u32);
        }
        cyclic
    }

    /// Whether no component has more than one node.
    pub(crate) fn is_acyclic(&self) -> bool {
        self.count as usize == self.of.len()
    }

    pub(crate) const fn count(&self) -> usize {
        self.count as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transactions::graph::{Graph, Rel, Rels, Stop};

    /// Two nodes are in one component if and only if each reaches the other, and edges lead to
    /// components of no higher number, on many random graphs.
    #[test]
    fn components_are_mutual_reachability() -> Result<(), Stop> {
        let mut seed = 7u64;
        let mut random = |below: u32| {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) as u32 % below
        };
        let budget = Budget::unlimited();
        for _ in 0..2_000 {
            let nodes = 1 + random(9);
            let list: Vec<(u32, u32)> =
                (0..random(2 * nodes)).map(|_| (random(nodes), random(nodes))).collect();
            let graph = Graph::of(nodes as usize, &budget, |edges| {
                list.iter().for_each(|&(from, to)| edges.push(from, to, Rel::WW));
                nodes
            })?;
            let found = graph.components(Rels::WW, &budget)?;
            let reach = |from| reached(&graph, from);
            for a in 0..nodes {
                for b in 0..nodes {
                    let mutual = reach(a).contains(&b) && reach(b).contains(&a);
                    assert_eq!(found.same(a, b), mutual, "{a} {b} of {list:?}");
                }
            }
            assert!(list.iter().all(|&(a, b)| found.of[b as usize] <= found.of[a as usize]));
            let different: std::collections::BTreeSet<u32> = found.of.iter().copied().collect();
            assert_eq!(different.len(), found.count());
            assert!(different.into_iter().eq(0..found.count() as u32));
        }
        Ok(())
    }

    fn reached(graph: &Graph, from: u32) -> Vec<u32> {
        let mut reached = Vec::new();
        let mut next = vec![from];
        while let Some(node) = next.pop() {
            if !reached.contains(&node) {
                reached.push(node);
                next.extend(graph.out(node).map(|(to, _)| to));
            }
        }
        reached
    }

    /// Ten million nodes in a chain, closed to a ring, on a stack of 2 MiB.
    #[test]
    fn a_long_chain_needs_no_stack() {
        const NODES: u32 = 10_000_000;
        let work = || -> Result<usize, Stop> {
            let budget = Budget::unlimited();
            let ring = Graph::of(NODES as usize, &budget, |edges| {
                (0..NODES).for_each(|n| edges.push(n, (n + 1) % NODES, Rel::WW));
                NODES
            })?;
            Ok(ring.components(Rels::WW, &budget)?.count())
        };
        let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(work);
        assert_eq!(thread.map(|t| t.join().ok()).ok().flatten(), Some(Ok(1)));
    }
}
