//! Which nodes a fault hits: a word, resolved to names at the moment of injection.

use std::time::Duration;

use deposed_core::{FaultContext, FaultError};
use rand::seq::{IndexedRandom, SliceRandom};
use rand_chacha::ChaCha8Rng;

use crate::claims::Claims;
use crate::mistake::{Mistake, node_list};

/// How long the system may take to say who leads.
const PRIMARIES_WITHIN: Duration = Duration::from_secs(5);

/// A symbolic target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A node at random.
    One,
    /// As many nodes at random as a majority can do without: 1 of 3, 2 of 5.
    Minority,
    /// The smallest majority, at random: 2 of 3, 3 of 5.
    Majority,
    /// Those that claim to lead.
    Primaries,
    /// Every node.
    All,
    /// These.
    Nodes(Vec<String>),
}

/// How many nodes of `n` can be missing while a majority remains.
pub(crate) const fn minority(n: usize) -> usize {
    n.saturating_sub(1) / 2
}

/// How many nodes of `n` are a majority.
pub(crate) const fn majority(n: usize) -> usize {
    n / 2 + 1
}

impl Target {
    /// The words and what they mean, for help and completions.
    pub const WORDS: [(&str, &str); 5] = [
        ("one", "a node at random"),
        ("minority", "as many as a majority can do without: 1 of 3, 2 of 5"),
        ("majority", "the smallest majority: 2 of 3, 3 of 5"),
        ("primaries", "those that claim to lead"),
        ("all", "every node"),
    ];

    /// Reads a word, or names of nodes joined by `+`.
    pub(crate) fn parse(word: &str, nodes: &[String]) -> Result<Self, Mistake> {
        let target = match word {
            "one" => Self::One,
            "minority" => Self::Minority,
            "majority" => Self::Majority,
            "primaries" => Self::Primaries,
            "all" => Self::All,
            _ => Self::Nodes(node_list(word, nodes, &Self::WORDS.map(|(word, _)| word))?),
        };
        match target.impossible(nodes.len()) {
            Some(reason) => Err(Mistake::new(word, reason)),
            None => Ok(target),
        }
    }

    /// Why this target never hits anything in a cluster of `n` nodes, if so.
    fn impossible(&self, n: usize) -> Option<String> {
        (*self == Self::Minority && minority(n) == 0)
            .then(|| format!("{n} nodes have no minority; it takes 3"))
    }

    /// One of the targets that make sense here, a leader or a single node more often than most.
    pub(crate) fn draw(n: usize, primaries: bool, rng: &mut ChaCha8Rng) -> Self {
        let weighted = [(Self::One, 3), (Self::Minority, 2), (Self::Majority, 1), (Self::All, 1)]
            .into_iter()
            .chain(primaries.then_some((Self::Primaries, 3)))
            .filter(|(target, _)| target.impossible(n).is_none())
            .collect::<Vec<_>>();
        let (target, _) = weighted
            .choose_weighted(rng, |(_, weight)| *weight)
            .expect("one and all are always possible, and no weight is zero");
        target.clone()
    }

    /// The word the user would write for it.
    pub(crate) fn word(&self) -> String {
        match self {
            Self::One => "one".into(),
            Self::Minority => "minority".into(),
            Self::Majority => "majority".into(),
            Self::Primaries => "primaries".into(),
            Self::All => "all".into(),
            Self::Nodes(names) => names.join("+"),
        }
    }

    /// The nodes to hit among those that are `free`, given who leads. Sorted; empty if there is
    /// nothing to hit. When too few are free, all of them are hit.
    pub(crate) fn pick(
        &self,
        nodes: &[String],
        free: &[String],
        primaries: &[String],
        rng: &mut ChaCha8Rng,
    ) -> Vec<String> {
        let some = |count: usize, rng: &mut ChaCha8Rng| {
            let mut shuffled = free.to_vec();
            shuffled.shuffle(rng);
            shuffled.truncate(count);
            shuffled
        };
        let these = |wanted: &[String]| {
            free.iter().filter(|name| wanted.contains(name)).cloned().collect::<Vec<_>>()
        };
        let mut picked = match self {
            Self::One => some(1, rng),
            Self::Minority => some(minority(nodes.len()), rng),
            Self::Majority => some(majority(nodes.len()), rng),
            Self::All => free.to_vec(),
            Self::Primaries => these(primaries),
            Self::Nodes(names) => these(names),
        };
        picked.sort();
        picked
    }
}

/// Chooses nodes that no other fault claims, and claims them; without a target, draws one. Where a leader was
/// drawn and none is free, or known, any free node will do.
pub(crate) async fn claim(
    cx: &FaultContext,
    target: Option<&Target>,
    claims: &Claims,
    rng: &mut ChaCha8Rng,
) -> Result<(Target, Vec<String>), FaultError> {
    let drawn =
        || Target::draw(cx.cluster.nodes().count(), cx.system.db().primaries().is_some(), rng);
    let mut wanted = target.cloned().unwrap_or_else(drawn);
    let mut picked = claim_these(cx, &wanted, claims, rng).await;
    if let (None, Target::Primaries, Err(FaultError::Nothing(_))) = (target, &wanted, &picked) {
        wanted = Target::One;
        picked = claim_these(cx, &wanted, claims, rng).await;
    }
    Ok((wanted, picked?))
}

/// Chooses nodes for a target that no other fault claims, and claims them.
async fn claim_these(
    cx: &FaultContext,
    target: &Target,
    claims: &Claims,
    rng: &mut ChaCha8Rng,
) -> Result<Vec<String>, FaultError> {
    let nodes = node_names(cx);
    let leaders = match target {
        Target::Primaries => primaries(cx).await?,
        _ => Vec::new(),
    };
    let picked = claims.take(&nodes, |free| target.pick(&nodes, free, &leaders, rng));
    if picked.is_empty() {
        return Err(FaultError::Nothing(match target {
            Target::Primaries => "no free node claims to lead".to_owned(),
            _ => format!("no node is free for `{}`", target.word()),
        }));
    }
    Ok(picked)
}

/// The nodes that claim to lead, by name, or why nobody can be asked.
pub(crate) async fn primaries(cx: &FaultContext) -> Result<Vec<String>, FaultError> {
    let Some(primaries) = cx.system.db().primaries() else {
        let system = cx.system.name();
        return Err(FaultError::Unsupported(format!("{system} does not say who leads")));
    };
    let asked = tokio::time::timeout(PRIMARIES_WITHIN, primaries.primaries(&cx.cluster));
    let leaders = asked.await.map_err(|_| {
        FaultError::Nothing(format!("nobody said within {PRIMARIES_WITHIN:?} who leads"))
    })??;
    Ok(leaders.iter().map(|node| node.name.to_string()).collect())
}

/// Every node of the cluster, by name, in the order of the inventory.
pub(crate) fn node_names(cx: &FaultContext) -> Vec<String> {
    cx.cluster.nodes().map(|node| node.name.to_string()).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rand::SeedableRng;

    use super::*;

    fn names(n: usize) -> Vec<String> {
        (1..=n).map(|i| format!("n{i}")).collect()
    }

    /// Whatever the size of the cluster, each target hits as many nodes as it says, and every node
    /// sooner or later.
    #[test]
    fn targets_hit_as_many_as_they_say() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        for n in 1..=9 {
            let nodes = names(n);
            let leader = [nodes[n / 2].clone()];
            let mut seen: BTreeSet<String> = BTreeSet::new();
            for _ in 0..200 {
                let mut hit = |target: Target| target.pick(&nodes, &nodes, &leader, &mut rng);
                assert_eq!(hit(Target::One).len(), 1);
                assert_eq!(hit(Target::Majority).len(), n / 2 + 1);
                assert_eq!(hit(Target::All), nodes);
                assert_eq!(hit(Target::Primaries), leader);
                assert_eq!(hit(Target::Minority).len(), (n - 1) / 2);
                seen.extend(hit(Target::One));
            }
            assert_eq!(seen.len(), n);
        }
    }

    /// Nodes another fault holds are left alone.
    #[test]
    fn only_free_nodes_are_hit() {
        let nodes = names(3);
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        assert_eq!(Target::All.pick(&nodes, &nodes[1..], &[], &mut rng), nodes[1..]);
        assert_eq!(Target::Majority.pick(&nodes, &nodes[2..], &[], &mut rng), nodes[2..]);
        assert!(Target::Primaries.pick(&nodes, &nodes[1..], &nodes[..1], &mut rng).is_empty());
        assert!(Target::One.pick(&nodes, &[], &[], &mut rng).is_empty());
    }

    /// A mix never draws what is impossible, and draws everything else.
    #[test]
    fn a_mix_draws_what_is_possible() {
        let mut rng = ChaCha8Rng::seed_from_u64(7);
        let mut drawn = |n, primaries| {
            (0..300)
                .map(|_| Target::draw(n, primaries, &mut rng).word())
                .collect::<BTreeSet<String>>()
        };
        assert_eq!(drawn(5, true).len(), 5);
        assert!(!drawn(2, true).contains("minority"));
        assert!(!drawn(3, false).contains("primaries"));
    }
}
