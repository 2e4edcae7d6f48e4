//! Edges from every reader of a version to every writer that comes later, without one for each
//! pair.

use super::graph::{Edges, Rel};
use super::planted::{Bug, planted};

/// Readers and writers are joined directly up to this many edges; beyond, through auxiliary nodes.
const DIRECT_MAX: usize = 4;

/// Joins every reader to every writer but itself. Writers are in ascending order, without
/// repetition. Auxiliary nodes are numbered from `nodes`; returns how many nodes there are then.
///
/// Of the auxiliary nodes, number `i` leads to writers `0..=i`, and number `len + i` to writers
/// `i..`. A reader that is writer `i` goes to the nodes of `i - 1` and `i + 1`, so that it does not
/// lead to itself.
pub(crate) fn join(
    readers: impl ExactSizeIterator<Item = u32>,
    writers: &[u32],
    nodes: u32,
    edges: &mut Edges<'_>,
) -> u32 {
    if readers.len() * writers.len() <= DIRECT_MAX {
        for reader in readers {
            let itself = planted(Bug::FanToItself);
            for &writer in writers.iter().filter(|&&writer| writer != reader || itself) {
                edges.push(reader, writer, Rel::RW);
            }
        }
        return nodes;
    }
    let len = writers.len() as u32;
    let (upto, since) = (|i: u32| nodes + i, |i: u32| nodes + len + i);
    for (i, &writer) in (0..).zip(writers) {
        edges.push(upto(i), writer, Rel::ON);
        edges.push(since(i), writer, Rel::ON);
        if i > 0 {
            edges.push(upto(i), upto(i - 1), Rel::ON);
            edges.push(since(i - 1), since(i), Rel::ON);
        }
    }
    for reader in readers {
        match writers.binary_search(&reader) {
            _ if planted(Bug::FanToItself) => edges.push(reader, since(0), Rel::RW),
            Ok(i) => {
                let i = i as u32;
                if i > 0 && !planted(Bug::FanHalf) {
                    edges.push(reader, upto(i - 1), Rel::RW);
                }
                if i + 1 < len {
                    edges.push(reader, since(i + 1), Rel::RW);
                }
            }
            Err(_) => edges.push(reader, since(0), Rel::RW),
        }
    }
    nodes + 2 * len
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Budget;
    use crate::transactions::graph::{Graph, Stop};

    /// Whatever way they are joined, each reader reaches every writer but itself by a rw.
    #[test]
    fn readers_lead_to_all_others() -> Result<(), Stop> {
        let budget = Budget::unlimited();
        for writers in [&[1, 3][..], &[0, 2, 3, 5, 6], &[4]] {
            let graph = Graph::of(8, &budget, |edges| join(0..8, writers, 8, edges))?;
            for reader in 0..8 {
                let mut reached: Vec<u32> = Vec::new();
                let mut next: Vec<u32> = graph.out(reader).map(|(to, _)| to).collect();
                while let Some(node) = next.pop() {
                    if node < 8 {
                        reached.push(node);
                    } else {
                        next.extend(graph.out(node).map(|(to, _)| to));
                    }
                }
                reached.sort_unstable();
                reached.dedup();
                let expected: Vec<u32> =
                    writers.iter().copied().filter(|&writer| writer != reader).collect();
                assert_eq!(reached, expected, "{reader}");
            }
        }
        Ok(())
    }
}
