//! The dependency graph in one array, and its strongly connected components without recursion.
//!
//! petgraph's `DiGraph` is for showing a witness; millions of edges go here.

/// Why one transaction precedes another, as a bit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Rel(u8);

impl Rel {
    /// The second overwrote what the first wrote.
    pub(crate) const WW: Self = Self(0);
    /// The second read what the first wrote.
    pub(crate) const WR: Self = Self(1);
    /// The second overwrote what the first read.
    pub(crate) const RW: Self = Self(2);
    /// The first comes earlier in time, or in its process.
    pub(crate) const ORDER: Self = Self(3);
    /// Leads on from an auxiliary node: no relation of its own.
    pub(crate) const ON: Self = Self(4);

    const BITS: u32 = 3;
    const MASK: u32 = (1 << Self::BITS) - 1;

    pub(crate) const fn set(self) -> Rels {
        Rels(1 << self.0)
    }
}

/// A set of relations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rels(pub(crate) u8);

impl Rels {
    /// Writes over writes, through auxiliary nodes too.
    pub(crate) const WW: Self = Self(Rel::WW.set().0 | Rel::ON.set().0);
    /// The flow of information.
    pub(crate) const FLOW: Self = Self(Self::WW.0 | Rel::WR.set().0);
    /// All that the data say.
    pub(crate) const DATA: Self = Self(Self::FLOW.0 | Rel::RW.set().0);

    pub(crate) const fn with(self, rel: Rel) -> Self {
        Self(self.0 | rel.set().0)
    }

    pub(crate) const fn and(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    pub(crate) const fn has(self, rel: Rel) -> bool {
        self.0 & rel.set().0 != 0
    }
}

/// Edges as they are found: where from, and where to with the relation in the low bits.
#[derive(Debug, Default)]
pub(crate) struct Edges(Vec<(u32, u32)>);

/// The most nodes a graph can have: a word holds a node and a relation.
const NODES_MAX: usize = 1 << (32 - Rel::BITS);

impl Edges {
    pub(crate) fn with_capacity(edges: usize) -> Self {
        Self(Vec::with_capacity(edges))
    }

    #[inline]
    pub(crate) fn push(&mut self, from: u32, to: u32, rel: Rel) {
        self.0.push((from, to << Rel::BITS | u32::from(rel.0)));
    }

    pub(crate) const fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether a graph of so many nodes can be made of them.
    pub(crate) const fn fit(&self, nodes: u32) -> bool {
        nodes as usize <= NODES_MAX && self.0.len() < u32::MAX as usize
    }

    /// Sorts the edges by where they start: a counting sort.
    pub(crate) fn into_graph(self, nodes: usize) -> Graph {
        let mut first = vec![0u32; nodes + 1];
        for &(from, _) in &self.0 {
            first[from as usize + 1] += 1;
        }
        for node in 0..nodes {
            first[node + 1] += first[node];
        }
        let mut to = vec![0u32; self.0.len()];
        let mut at = first.clone();
        for &(from, edge) in &self.0 {
            let slot = &mut at[from as usize];
            to[*slot as usize] = edge;
            *slot += 1;
        }
        Graph { first, to }
    }
}

/// A directed graph: the edges of node `n` are `to[first[n]..first[n + 1]]`.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    first: Vec<u32>,
    to: Vec<u32>,
}

impl Graph {
    pub(crate) const fn nodes(&self) -> usize {
        self.first.len() - 1
    }

    pub(crate) const fn edges(&self) -> usize {
        self.to.len()
    }

    /// The edges of a node: where they lead, and their relation.
    #[inline]
    pub(crate) fn out(&self, node: u32) -> impl ExactSizeIterator<Item = (u32, Rel)> + '_ {
        let node = node as usize;
        self.to[self.first[node] as usize..self.first[node + 1] as usize]
            .iter()
            .map(|&edge| (edge >> Rel::BITS, Rel((edge & Rel::MASK) as u8)))
    }

    /// The strongly connected components over some relations.
    ///
    /// Tarjan's algorithm (1972) with its stack on the heap: a chain of any length takes no more of
    /// the thread's stack than one node.
    pub(crate) fn components(&self, rels: Rels) -> Components {
        const UNSEEN: u32 = 0;
        let nodes = self.nodes();
        let mut of = vec![u32::MAX; nodes];
        let mut seen = vec![UNSEEN; nodes];
        let mut low = vec![0u32; nodes];
        let (mut path, mut calls): (Vec<u32>, Vec<(u32, u32)>) = (Vec::new(), Vec::new());
        let (mut count, mut time) = (0u32, 0u32);
        for root in 0..nodes as u32 {
            if seen[root as usize] != UNSEEN {
                continue;
            }
            time += 1;
            seen[root as usize] = time;
            low[root as usize] = time;
            path.push(root);
            calls.push((root, self.first[root as usize]));
            while let Some((node, edge)) = calls.last_mut() {
                let at = *node as usize;
                if *edge < self.first[at + 1] {
                    let word = self.to[*edge as usize];
                    *edge += 1;
                    if !rels.has(Rel((word & Rel::MASK) as u8)) {
                        continue;
                    }
                    let next = word >> Rel::BITS;
                    let to = next as usize;
                    if seen[to] == UNSEEN {
                        time += 1;
                        seen[to] = time;
                        low[to] = time;
                        path.push(next);
                        calls.push((next, self.first[to]));
                    } else if of[to] == u32::MAX {
                        low[at] = low[at].min(seen[to]);
                    }
                    continue;
                }
                calls.pop();
                if let Some(&(caller, _)) = calls.last() {
                    let caller = caller as usize;
                    low[caller] = low[caller].min(low[at]);
                }
                if low[at] == seen[at] {
                    while let Some(member) = path.pop() {
                        of[member as usize] = count;
                        if member as usize == at {
                            break;
                        }
                    }
                    count += 1;
                }
            }
        }
        Components { of, count }
    }

    /// The part of the graph inside a component, its nodes numbered as in `members`.
    pub(crate) fn inside(
        &self,
        members: &[u32],
        number: &mut [u32],
        components: &Components,
    ) -> Self {
        for (local, &member) in members.iter().enumerate() {
            number[member as usize] = local as u32;
        }
        let component = members.first().map(|&m| components.of[m as usize]);
        let mut inside = Self { first: vec![0], to: Vec::new() };
        for &member in members {
            for (to, rel) in self.out(member) {
                if Some(components.of[to as usize]) == component {
                    inside.to.push(number[to as usize] << Rel::BITS | u32::from(rel.0));
                }
            }
            inside.first.push(inside.to.len() as u32);
        }
        inside
    }
}

/// Which component each node belongs to. Components are numbered against the edges: an edge never
/// leads to a component with a higher number.
#[derive(Debug)]
pub(crate) struct Components {
    pub(crate) of: Vec<u32>,
    count: u32,
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

    /// Whether any component has more than one node.
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

    fn graph(nodes: usize, edges: &[(u32, u32, Rel)]) -> Graph {
        let mut all = Edges::default();
        for &(from, to, rel) in edges {
            all.push(from, to, rel);
        }
        all.into_graph(nodes)
    }

    /// A cycle counts only over the relations asked for.
    #[test]
    fn components_by_relation() {
        let g = graph(4, &[(0, 1, Rel::WW), (1, 0, Rel::RW), (1, 2, Rel::WR), (2, 3, Rel::ORDER)]);
        assert!(g.components(Rels::FLOW).is_acyclic());
        let data = g.components(Rels::DATA);
        assert_eq!(data.cyclic(), [vec![0, 1]]);
        assert!(data.of[2] < data.of[0], "edges lead to lower components");
    }

    /// Ten million nodes in a chain, closed to a ring, on a stack of 2 MiB.
    #[test]
    fn a_long_chain_needs_no_stack() {
        const NODES: u32 = 10_000_000;
        let work = || {
            let mut edges = Edges::with_capacity(NODES as usize);
            (0..NODES).for_each(|n| edges.push(n, (n + 1) % NODES, Rel::WW));
            edges.into_graph(NODES as usize).components(Rels::WW).count()
        };
        let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(work);
        assert_eq!(thread.map(|t| t.join().unwrap_or(0)).unwrap_or(0), 1);
    }
}
