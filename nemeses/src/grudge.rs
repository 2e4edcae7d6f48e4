//! Who drops packets from whom, as plain data, and the shapes of partitions that produce it.

use std::collections::{BTreeMap, BTreeSet};

use rand::RngExt;
use rand::seq::{IndexedRandom, SliceRandom};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use crate::mistake::{Mistake, node_list};
use crate::target::{majority, minority};

/// For each node, the nodes whose packets it drops. Nodes that drop nothing are absent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Grudge(BTreeMap<String, BTreeSet<String>>);

impl Grudge {
    /// Makes every node of `to` drop the packets of every node of `from`.
    fn deafen(&mut self, to: &[String], from: &[String]) {
        for (receiver, sender) in to.iter().flat_map(|t| from.iter().map(move |f| (t, f))) {
            if receiver != sender {
                self.0.entry(receiver.clone()).or_default().insert(sender.clone());
            }
        }
    }

    /// Cuts two groups from each other, both ways.
    fn cut(&mut self, a: &[String], b: &[String]) {
        self.deafen(a, b);
        self.deafen(b, a);
    }

    /// Whether `receiver` drops the packets of `sender`.
    pub fn drops(&self, receiver: &str, sender: &str) -> bool {
        self.0.get(receiver).is_some_and(|senders| senders.contains(sender))
    }

    /// Every cut link as `(receiver, sender)`, sorted.
    pub fn links(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().flat_map(|(receiver, senders)| {
            senders.iter().map(move |sender| (receiver.as_str(), sender.as_str()))
        })
    }

    /// The nodes that have something to drop, with whose packets, sorted.
    pub fn receivers(&self) -> impl Iterator<Item = (&str, &BTreeSet<String>)> {
        self.0.iter().map(|(receiver, senders)| (receiver.as_str(), senders))
    }

    /// Whether it cuts nothing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A kind of partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shape {
    /// Two groups as equal as can be: with an odd number of nodes, a majority and a minority.
    Halves,
    /// A node alone.
    One,
    /// A random minority apart from the rest.
    Minority,
    /// Every node sees a majority, and no two see the same one. Links are cut both ways.
    ///
    /// Nodes stand in a ring and each keeps the links to its nearest neighbours. With three nodes
    /// each neighbourhood is everyone, so nothing would be cut: it takes four.
    MajoritiesRing,
    /// Two groups that see only one node in common, which sees everyone.
    Bridge,
    /// Packets from one group to the rest are dropped, or those from the rest to the group.
    OneWay,
    /// Each node that claims to lead, alone.
    Primaries,
    /// These nodes apart from the rest.
    Nodes(Vec<String>),
    /// One side apart from the other, and nobody else: a leader that is cut off from those who choose
    /// another, and goes on writing to what they share.
    Between(Side, Side),
}

/// Nodes at one end of a cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Side {
    /// Those that claim to lead.
    Primaries,
    /// These.
    Nodes(Vec<String>),
}

impl Side {
    fn parse(text: &str, nodes: &[String]) -> Result<Self, Mistake> {
        match text {
            "primaries" => Ok(Self::Primaries),
            _ => Ok(Self::Nodes(node_list(text, nodes, &["primaries"])?)),
        }
    }

    fn word(&self) -> String {
        match self {
            Self::Primaries => "primaries".into(),
            Self::Nodes(names) => names.join("+"),
        }
    }

    fn nodes<'a>(&'a self, primaries: &'a [String]) -> &'a [String] {
        match self {
            Self::Primaries => primaries,
            Self::Nodes(names) => names,
        }
    }
}

/// A partition that was drawn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Partition {
    /// The word for its shape.
    pub shape: String,
    /// For people: `n2 | n1 n3`, `n1 -x-> n2 n3`.
    pub cut: String,
    /// Who drops packets from whom.
    pub grudge: Grudge,
}

impl Shape {
    /// The words and what they mean, for help and completions.
    pub const WORDS: [(&str, &str); 8] = [
        ("halves", "two groups as equal as can be"),
        ("one", "a node alone"),
        ("minority", "a random minority apart from the rest"),
        ("majorities-ring", "every node sees a majority, no two the same one (4 nodes or more)"),
        ("bridge", "two groups with one node in common (3 nodes or more)"),
        ("one-way", "a group can be heard but not hear, or hear but not be heard"),
        ("primaries", "each node that claims to lead, alone"),
        ("primaries/n1+n2", "each that leads from these nodes only; n1/n2 where it is known"),
    ];

    const MIX: [Self; 7] = [
        Self::Halves,
        Self::One,
        Self::Minority,
        Self::MajoritiesRing,
        Self::Bridge,
        Self::OneWay,
        Self::Primaries,
    ];

    /// Reads a word, names of nodes joined by `+`, or two sides with a `/` between.
    pub(crate) fn parse(text: &str, nodes: &[String]) -> Result<Self, Mistake> {
        let known = Self::MIX.into_iter().find(|shape| shape.word() == text);
        let shape = match (known, text.split_once('/')) {
            (Some(shape), _) => shape,
            (None, Some((a, b))) => Self::Between(Side::parse(a, nodes)?, Side::parse(b, nodes)?),
            (None, None) => {
                let words = Self::MIX.map(|shape| shape.word());
                Self::Nodes(node_list(text, nodes, &words.each_ref().map(String::as_str))?)
            }
        };
        match shape.impossible(nodes.len()) {
            Some(reason) => Err(Mistake::new(text, reason)),
            None => Ok(shape),
        }
    }

    /// The word the user would write for it.
    pub(crate) fn word(&self) -> String {
        match self {
            Self::Halves => "halves".into(),
            Self::One => "one".into(),
            Self::Minority => "minority".into(),
            Self::MajoritiesRing => "majorities-ring".into(),
            Self::Bridge => "bridge".into(),
            Self::OneWay => "one-way".into(),
            Self::Primaries => "primaries".into(),
            Self::Nodes(names) => names.join("+"),
            Self::Between(a, b) => format!("{}/{}", a.word(), b.word()),
        }
    }

    /// Whether it says which nodes it cuts, or some of them.
    pub(crate) const fn names_nodes(&self) -> bool {
        matches!(self, Self::Nodes(_) | Self::Between(..))
    }

    /// Whether one has to know who leads to draw it.
    pub(crate) fn needs_primaries(&self) -> bool {
        match self {
            Self::Primaries => true,
            Self::Between(a, b) => [a, b].contains(&&Side::Primaries),
            _ => false,
        }
    }

    /// Why this shape cuts nothing in a cluster of `n` nodes, if so.
    pub(crate) fn impossible(&self, n: usize) -> Option<String> {
        let needed = match self {
            Self::MajoritiesRing => 4,
            Self::Minority | Self::Bridge => 3,
            _ => 2,
        };
        if n < needed {
            return Some(format!("it takes {needed} nodes or more, and there are {n}"));
        }
        match self {
            Self::Nodes(names) if names.len() == n => {
                Some("these are all the nodes: there is nothing to cut them from".into())
            }
            Self::Between(a, b) if a == b && a.nodes(&[]).len() < 2 => {
                Some("these are the same on both sides".into())
            }
            _ => None,
        }
    }

    /// One of the shapes that make sense here.
    pub(crate) fn draw(n: usize, primaries: bool, rng: &mut ChaCha8Rng) -> Option<Self> {
        let possible: Vec<Self> = Self::MIX
            .into_iter()
            .filter(|shape| shape.impossible(n).is_none())
            .filter(|shape| primaries || *shape != Self::Primaries)
            .collect();
        possible.choose(rng).cloned()
    }

    /// Draws a partition of this shape. Its grudge is empty if there is nobody to cut: nobody leads, or
    /// who leads is alone on both sides.
    pub(crate) fn partition(
        &self,
        nodes: &[String],
        primaries: &[String],
        rng: &mut ChaCha8Rng,
    ) -> Partition {
        let mut order = nodes.to_vec();
        order.shuffle(rng);
        let n = order.len();
        let mut grudge = Grudge::default();
        let cut = match self {
            Self::Halves => split(&mut grudge, &mut order, n / 2),
            Self::One => split(&mut grudge, &mut order, 1),
            Self::Minority => split(&mut grudge, &mut order, rng.random_range(1..=minority(n))),
            Self::Nodes(names) => {
                order.sort_by_key(|node| !names.contains(node));
                split(&mut grudge, &mut order, names.len())
            }
            Self::MajoritiesRing => ring(&mut grudge, &order),
            Self::Bridge => {
                let bridge = order.pop().expect("three nodes or more");
                let sides = split(&mut grudge, &mut order, (n - 1) / 2);
                format!("{sides}, both see {bridge}")
            }
            Self::OneWay => {
                let (group, rest) = order.split_at_mut(rng.random_range(1..=n / 2));
                let (from, to) = if rng.random() { (group, rest) } else { (rest, group) };
                from.sort();
                to.sort();
                grudge.deafen(to, from);
                format!("{} -x-> {}", from.join(" "), to.join(" "))
            }
            Self::Primaries => {
                order.sort();
                let (leaders, rest): (Vec<String>, Vec<String>) =
                    order.into_iter().partition(|node| primaries.contains(node));
                grudge.cut(&leaders, &leaders);
                grudge.cut(&leaders, &rest);
                let mut groups = leaders;
                groups.extend((!rest.is_empty()).then(|| rest.join(" ")));
                groups.join(" | ")
            }
            Self::Between(a, b) => {
                let [a, b] = [a, b].map(|side| side.nodes(primaries));
                grudge.cut(a, b);
                let b: Vec<&str> =
                    b.iter().filter(|node| a != [(*node).clone()]).map(String::as_str).collect();
                format!("{} | {}, all else is whole", a.join(" "), b.join(" "))
            }
        };
        Partition { shape: self.word(), cut, grudge }
    }
}

/// Cuts the first `size` nodes from the rest.
fn split(grudge: &mut Grudge, order: &mut [String], size: usize) -> String {
    let (a, b) = order.split_at_mut(size);
    a.sort();
    b.sort();
    grudge.cut(a, b);
    format!("{} | {}", a.join(" "), b.join(" "))
}

/// Each node keeps the links to the nearest nodes of the ring, as few as make a majority with
/// itself. Where that number is odd and the ring even, the node opposite is the odd one; where both
/// are odd no such graph exists (the degrees of a graph sum to an even number), and one more link
/// is kept.
fn ring(grudge: &mut Grudge, order: &[String]) -> String {
    let n = order.len();
    let links = majority(n) - 1;
    let opposite = links % 2 == 1 && n.is_multiple_of(2);
    let reach = if opposite { links / 2 } else { links.div_ceil(2) };
    for (i, a) in order.iter().enumerate() {
        for (j, b) in order.iter().enumerate().skip(i + 1) {
            let apart = (j - i).min(n - (j - i));
            if apart > reach && !(opposite && apart == n / 2) {
                grudge.cut(std::slice::from_ref(a), std::slice::from_ref(b));
            }
        }
    }
    format!("ring {}", order.join(" "))
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    fn names(n: usize) -> Vec<String> {
        (1..=n).map(|i| format!("n{i}")).collect()
    }

    /// Draws a shape many times over for every cluster size at which it is possible.
    fn for_all(shape: &Shape, check: impl Fn(usize, &Grudge)) {
        let mut rng = ChaCha8Rng::seed_from_u64(42);
        for n in (1..=9).filter(|n| shape.impossible(*n).is_none()) {
            let nodes = names(n);
            for round in 0..100 {
                let leaders = [nodes[round % n].clone()];
                let partition = shape.partition(&nodes, &leaders, &mut rng);
                assert!(!partition.grudge.is_empty(), "{} of {n} cuts nothing", partition.cut);
                for (receiver, sender) in partition.grudge.links() {
                    assert_ne!(receiver, sender, "nobody drops its own packets");
                }
                check(n, &partition.grudge);
            }
        }
    }

    fn symmetric(grudge: &Grudge) -> bool {
        grudge.links().all(|(receiver, sender)| grudge.drops(sender, receiver))
    }

    /// The nodes a node hears, itself included.
    fn heard(grudge: &Grudge, n: usize, node: &str) -> BTreeSet<String> {
        names(n).into_iter().filter(|sender| !grudge.drops(node, sender)).collect()
    }

    /// The groups of nodes that hear the same nodes.
    fn views(grudge: &Grudge, n: usize) -> BTreeSet<BTreeSet<String>> {
        names(n).iter().map(|node| heard(grudge, n, node)).collect()
    }

    /// A split leaves exactly two groups, of the sizes its name says, cut both ways.
    #[test]
    fn splits_make_two_groups() {
        let two = |n: usize, grudge: &Grudge| {
            assert!(symmetric(grudge));
            let views = views(grudge, n);
            assert_eq!(views.len(), 2);
            assert_eq!(views.iter().map(BTreeSet::len).sum::<usize>(), n);
            views.iter().map(BTreeSet::len).min().unwrap()
        };
        for_all(&Shape::Halves, |n, grudge| assert_eq!(two(n, grudge), n / 2));
        for_all(&Shape::One, |n, grudge| assert_eq!(two(n, grudge), 1));
        for_all(&Shape::Primaries, |n, grudge| assert_eq!(two(n, grudge), 1));
        for_all(&Shape::Minority, |n, grudge| assert!(two(n, grudge) * 2 < n));
        for_all(&Shape::Nodes(vec!["n1".into()]), |n, grudge| {
            assert_eq!(two(n, grudge), 1);
            assert_eq!(heard(grudge, n, "n1").len(), 1);
        });
    }

    /// Between two sides nothing passes, and nothing else is touched; nobody is cut from itself.
    #[test]
    fn only_what_is_between_two_sides_is_cut() {
        let (nodes, mut rng) = (names(5), ChaCha8Rng::seed_from_u64(42));
        let mut draw = |text: &str, leaders: &[String]| {
            Shape::parse(text, &nodes).unwrap().partition(&nodes, leaders, &mut rng)
        };
        let drawn = draw("primaries/n1+n2+n4", &names(1));
        assert_eq!(drawn.cut, "n1 | n2 n4, all else is whole");
        let links: Vec<_> = drawn.grudge.links().collect();
        assert_eq!(links, [("n1", "n2"), ("n1", "n4"), ("n2", "n1"), ("n4", "n1")]);
        let drawn = draw("n2/n5", &[]);
        assert_eq!(drawn.grudge.links().collect::<Vec<_>>(), [("n2", "n5"), ("n5", "n2")]);
        assert!(draw("primaries/n1", &names(1)).grudge.is_empty());
        for wrong in ["n1/n1", "n1/n9", "n1/", "primaries/primaries/n1"] {
            assert!(Shape::parse(wrong, &nodes).is_err(), "{wrong}");
        }
    }

    /// In a ring, links are cut both ways, every node sees a majority that it sees alone, and it is
    /// the smallest one wherever a graph allows that.
    #[test]
    fn a_ring_gives_everyone_a_majority_of_its_own() {
        for_all(&Shape::MajoritiesRing, |n, grudge| {
            assert!(symmetric(grudge));
            assert_eq!(views(grudge, n).len(), n);
            let exact = n.is_multiple_of(2) || majority(n) % 2 == 1;
            for node in names(n) {
                let sees = heard(grudge, n, &node).len();
                assert_eq!(sees, majority(n) + usize::from(!exact), "{n} nodes");
            }
        });
        assert!(Shape::MajoritiesRing.impossible(3).is_some());
    }

    /// A bridge hears everyone; everyone else hears its own side and the bridge.
    #[test]
    fn a_bridge_joins_two_sides() {
        for_all(&Shape::Bridge, |n, grudge| {
            assert!(symmetric(grudge));
            let bridges: Vec<String> =
                names(n).into_iter().filter(|node| heard(grudge, n, node).len() == n).collect();
            assert_eq!(bridges.len(), 1);
            let sides: Vec<BTreeSet<String>> =
                views(grudge, n).into_iter().filter(|view| view.len() < n).collect();
            assert_eq!(sides.len(), 2);
            let common: Vec<&String> = sides[0].intersection(&sides[1]).collect();
            assert_eq!(common, [&bridges[0]]);
            assert_eq!(sides[0].len() + sides[1].len(), n + 1);
        });
    }

    /// One way blocks exactly one direction of every link it cuts, and only between two groups.
    #[test]
    fn one_way_blocks_one_direction() {
        for_all(&Shape::OneWay, |n, grudge| {
            for (receiver, sender) in grudge.links() {
                assert!(!grudge.drops(sender, receiver));
            }
            let to: BTreeSet<&str> = grudge.links().map(|(receiver, _)| receiver).collect();
            let from: BTreeSet<&str> = grudge.links().map(|(_, sender)| sender).collect();
            assert!(to.is_disjoint(&from));
            assert_eq!(to.len() + from.len(), n);
            assert_eq!(grudge.links().count(), to.len() * from.len());
        });
    }

    /// Several that claim to lead are cut from each other too; if nobody does, nothing is cut.
    #[test]
    fn every_primary_is_alone() {
        let nodes = names(5);
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        let drawn = Shape::Primaries.partition(&nodes, &nodes[1..3], &mut rng);
        assert_eq!(drawn.cut, "n2 | n3 | n1 n4 n5");
        assert_eq!(heard(&drawn.grudge, 5, "n2").len(), 1);
        assert_eq!(heard(&drawn.grudge, 5, "n3").len(), 1);
        assert_eq!(heard(&drawn.grudge, 5, "n1").len(), 3);
        assert!(Shape::Primaries.partition(&nodes, &[], &mut rng).grudge.is_empty());
    }

    /// A mix draws every shape that is possible and no other; the seed decides.
    #[test]
    fn a_mix_draws_what_is_possible() {
        let drawn = |n, primaries| {
            let mut rng = ChaCha8Rng::seed_from_u64(9);
            (0..300)
                .filter_map(|_| Shape::draw(n, primaries, &mut rng))
                .map(|shape| shape.word())
                .collect::<Vec<_>>()
        };
        let distinct = |words: Vec<String>| words.into_iter().collect::<BTreeSet<_>>();
        assert_eq!(distinct(drawn(5, true)).len(), 7);
        assert!(!distinct(drawn(3, true)).contains("majorities-ring"));
        assert!(!distinct(drawn(5, false)).contains("primaries"));
        assert!(drawn(1, true).is_empty());
        assert_eq!(drawn(5, true), drawn(5, true));
    }
}
