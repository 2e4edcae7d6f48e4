//! Which of many pairs of nodes are joined by a path: hundreds of questions at once, as bits.

use super::graph::{Graph, Rels};
use crate::budget::{Budget, Exhausted};

/// Words of a node's set: each round answers for 64 times as many ends.
const WORDS: usize = 8;
const ENDS_PER_ROUND: usize = 64 * WORDS;

/// The positions of those pairs `(end, start)` for which a path over `rels` leads from `start` to
/// `end`, possibly an empty one. Stops once `enough` are found.
///
/// The graph is condensed; then sets of ends flow against the edges, in one pass a round:
/// O((nodes + edges) · ends / 512) steps, and no search that could time out.
pub(crate) fn joined(
    graph: &Graph,
    rels: Rels,
    pairs: &[(u32, u32)],
    enough: usize,
    budget: &Budget,
) -> Result<Vec<usize>, Exhausted> {
    if pairs.is_empty() {
        return Ok(Vec::new());
    }
    let components = graph.components(rels, budget)?;
    let _nodes = budget.hold(4 * (graph.nodes() + pairs.len()) as u64)?;
    // Nodes by component. Edges lead to lower components, so this is against the edges.
    let mut nodes: Vec<u32> = (0..graph.nodes() as u32).collect();
    nodes.sort_by_key(|&node| components.of[node as usize]);
    let _sets = budget.hold((components.count() * size_of::<[u64; WORDS]>()) as u64)?;
    let of = &components.of;
    let mut by_end: Vec<u32> = (0..pairs.len() as u32).collect();
    by_end.sort_by_key(|&pair| of[pairs[pair as usize].0 as usize]);
    let end = |pair: u32| of[pairs[pair as usize].0 as usize];
    let mut reached = vec![[0u64; WORDS]; components.count()];
    let mut found = Vec::new();
    let mut rest = by_end.as_slice();
    while !rest.is_empty() && found.len() < enough {
        budget.check()?;
        // The pairs of this round have up to ENDS_PER_ROUND different ends.
        let mut ends: Vec<u32> = Vec::with_capacity(ENDS_PER_ROUND);
        let mut taken = 0;
        for &pair in rest {
            if ends.last() != Some(&end(pair)) {
                if ends.len() == ENDS_PER_ROUND {
                    break;
                }
                ends.push(end(pair));
            }
            taken += 1;
        }
        let (round, after) = rest.split_at(taken);
        rest = after;
        reached.fill([0; WORDS]);
        for (bit, &component) in ends.iter().enumerate() {
            reached[component as usize][bit / 64] |= 1 << (bit % 64);
        }
        for &node in &nodes {
            let own = of[node as usize] as usize;
            let mut set = reached[own];
            for (to, rel) in graph.out(node) {
                let to = of[to as usize] as usize;
                if rels.has(rel) && to != own {
                    for (word, more) in set.iter_mut().zip(reached[to]) {
                        *word |= more;
                    }
                }
            }
            reached[own] = set;
        }
        for &pair in round {
            let (_, start) = pairs[pair as usize];
            let Ok(bit) = ends.binary_search(&end(pair)) else { continue };
            if reached[of[start as usize] as usize][bit / 64] & (1 << (bit % 64)) != 0 {
                found.push(pair as usize);
            }
        }
    }
    found.sort_unstable();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transactions::graph::{Rel, Stop};

    /// Every answer is that of a plain search, over more ends than fit one round, with cycles.
    #[test]
    fn as_a_plain_search_finds() -> Result<(), Stop> {
        const NODES: u32 = 1500;
        let mut seed = 1u64;
        let mut random = |below: u32| {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) as u32 % below
        };
        let budget = Budget::unlimited();
        let mut edge = || {
            let rel = if random(5) == 0 { Rel::RW } else { Rel::WW };
            (random(NODES), random(NODES), rel)
        };
        let list: Vec<(u32, u32, Rel)> = (0..2600).map(|_| edge()).collect();
        let graph = Graph::of(NODES as usize, &budget, |edges| {
            list.iter().for_each(|&(from, to, rel)| edges.push(from, to, rel));
            NODES
        })?;
        let pairs: Vec<(u32, u32)> = (0..3000).map(|_| (random(NODES), random(NODES))).collect();
        let reaches = |end: u32, start: u32| {
            let mut seen = vec![false; NODES as usize];
            let mut next = vec![start];
            while let Some(node) = next.pop() {
                if !std::mem::replace(&mut seen[node as usize], true) {
                    next.extend(graph.out(node).filter(|(_, r)| *r == Rel::WW).map(|(to, _)| to));
                }
            }
            seen[end as usize]
        };
        let expected: Vec<usize> =
            (0..pairs.len()).filter(|&i| reaches(pairs[i].0, pairs[i].1)).collect();
        let found = joined(&graph, Rels::WW, &pairs, usize::MAX, &budget)?;
        assert!(expected.len() > 100 && expected.len() < 2900);
        assert_eq!(found, expected);
        Ok(())
    }
}
