//! The faults `corrupt` and `wipe`: on some nodes the store is killed, its data is damaged or gone, and
//! later it is started on what is there.
//!
//! It bit if the node's own tools find the byte, the length or the empty folder that the agent says. It
//! healed if the store runs and is ready: on the damaged data, or, where it gives up on that, on what it had.
//!
//! Never more than a minority of the nodes is damaged in a run, unless `corrupt` is told which: a majority
//! of a replicated store is to keep what it acknowledged.

use std::collections::BTreeMap;

use async_trait::async_trait;
use deposed_agent::disk::{Damage as Damaging, Harm};
use deposed_agent::{Sight, Spec};
use deposed_core::{Choice, Evidence, FaultContext, FaultError, Nemesis, Node};
use rand::RngExt;
use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::agents::Agents;
use crate::claims::Claims;
use crate::disk_trouble::can_be_stopped;
use crate::fanout::{all, on_each};
use crate::findings::{Findings, healed};
use crate::kill::{start_all, start_undone};
use crate::mistake::Mistake;
use crate::power_cut::says_where_its_data_is;
use crate::processes;
use crate::target::{Target, minority, node_names};
use crate::words::{self, Unknown, Word, with_targets};

/// What `corrupt:` may be followed by, beside a target.
const MANNERS: [Word; 2] = [
    ("flip", "a bit of a file is flipped, any or as in flip=*.wal"),
    ("truncate", "the end of a file is cut off, any or as in truncate=*.db"),
];

/// What harm is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Data is corrupted: like that, or as is drawn.
    Corrupt(Option<Harm>),
    /// Data is gone.
    Wipe,
}

/// Damages the store's data.
pub(crate) struct Damage {
    wanted: Wanted,
    target: Option<Target>,
    claims: Claims,
    agents: Agents,
}

/// What is done to the nodes of one injection.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Chosen {
    harm: Harm,
    seed: u64,
}

impl Chosen {
    fn read(choice: &Choice) -> Result<Self, FaultError> {
        serde_json::from_value(choice.what.clone())
            .map_err(|error| FaultError::Unsupported(format!("not a choice of damage: {error}")))
    }
}

/// Reads `flip` or `flip=*.wal`; `None` if it is none.
fn parse_harm(text: &str) -> Option<Harm> {
    let (word, files) = text.split_once('=').unwrap_or((text, "*"));
    let files = files.to_owned();
    match word {
        _ if files.is_empty() => None,
        "flip" => Some(Harm::Flip { files }),
        "truncate" => Some(Harm::Truncate { files }),
        _ => None,
    }
}

impl Damage {
    /// Words of `corrupt` for help and completions.
    pub(crate) const CORRUPT_WORDS: [Word; 7] = with_targets(&MANNERS);

    /// Words of `wipe`.
    pub(crate) const WIPE_WORDS: [(&str, &str); 2] = [Target::WORDS[0], Target::WORDS[1]];

    /// Reads what may follow `corrupt:`, as in `flip=*.wal:one`, or `wipe:`, which is a target.
    pub(crate) fn parse(
        wanted: Wanted,
        text: Option<&str>,
        nodes: &[String],
        claims: &Claims,
        agents: &Agents,
    ) -> Result<Self, Mistake> {
        let target = |word: &str| Target::parse(word, nodes);
        let (wanted, target) = match wanted {
            Wanted::Corrupt(_) => {
                let unknown = Unknown { problem: "no such corruption", known: &MANNERS };
                let harm = |word: &str| match parse_harm(word) {
                    None if word.contains('=') => Some(Err(unknown.own(word))),
                    harm => harm.map(Ok),
                };
                let (harm, target) = words::read(text, &unknown, harm, target)?;
                (Wanted::Corrupt(harm), target)
            }
            Wanted::Wipe => (Wanted::Wipe, text.map(target).transpose()?),
        };
        if wanted == Wanted::Wipe {
            let most = minority(nodes.len());
            let fits = match &target {
                None | Some(Target::One | Target::Minority) => most > 0,
                Some(Target::Nodes(names)) => names.len() <= most,
                Some(Target::Primaries | Target::Majority | Target::All) => false,
            };
            if !fits {
                return Err(Mistake::new(
                    text.unwrap_or("wipe"),
                    format!(
                        "a majority has to keep its data: of {} nodes at most {most} can be wiped",
                        nodes.len()
                    ),
                ));
            }
        }
        let (claims, agents) = (claims.clone(), agents.clone());
        Ok(Self { wanted, target, claims, agents })
    }

    fn draw(&self, rng: &mut ChaCha8Rng) -> Chosen {
        let files = || "*".to_owned();
        let harm = match &self.wanted {
            Wanted::Wipe => Harm::Wipe,
            Wanted::Corrupt(Some(harm)) => harm.clone(),
            Wanted::Corrupt(None) if rng.random_bool(0.5) => Harm::Flip { files: files() },
            Wanted::Corrupt(None) => Harm::Truncate { files: files() },
        };
        Chosen { harm, seed: rng.random_range(0..=u64::from(u32::MAX)) }
    }

    /// How many nodes may be damaged in a run, if that is not left to the user.
    fn most(&self, nodes: &[String]) -> Option<usize> {
        let bounded = self.wanted == Wanted::Wipe || self.target.is_none();
        bounded.then(|| minority(nodes.len()).max(1))
    }

    /// Whom to damage: what was said; or a minority at most, and of nodes that were damaged before if
    /// these are one.
    fn aim(&self, nodes: &[String], rng: &mut ChaCha8Rng) -> Target {
        let damaged = self.claims.damaged();
        match (&self.target, self.most(nodes)) {
            (Some(target), None) => target.clone(),
            (Some(Target::Nodes(names)), _) => Target::Nodes(names.clone()),
            (Some(Target::Minority), _) if damaged.is_empty() => Target::Minority,
            (Some(Target::Minority), _) => Target::Nodes(damaged.into_iter().collect()),
            (_, Some(most)) if damaged.len() < most => Target::One,
            _ => {
                let damaged: Vec<&String> = damaged.iter().collect();
                Target::Nodes(damaged.choose(rng).map(|node| (*node).clone()).into_iter().collect())
            }
        }
    }

    /// What speaks against the change the agent of a node tells of, by the node's own tools.
    async fn doubts(
        cx: &FaultContext,
        changes: BTreeMap<String, Option<Change>>,
    ) -> Result<Vec<String>, FaultError> {
        let mut doubts = Vec::new();
        let mut expected = BTreeMap::new();
        let mut scripts = Vec::new();
        for (node, change) in changes {
            let data = cx.cluster.nodes().find(|known| *known.name == *node);
            let data = data.and_then(|known| processes::control(cx).ok()?.data(known));
            let (Some(change), Some(data)) = (change, data) else {
                doubts.push(format!("{node} does not say what was changed"));
                continue;
            };
            let (script, should) = change.check(&data);
            scripts.push((node.clone(), script));
            expected.insert(node, should);
        }
        for (node, found) in all(on_each(&cx.cluster, scripts).await)? {
            if found.trim() != expected[&node] {
                doubts.push(format!("{node}: found {}, not {}", found.trim(), expected[&node]));
            }
        }
        Ok(doubts)
    }
}

/// Prints what the agent has put aside, if it is there.
fn aside_script(data: &str) -> String {
    format!(
        "d=$(readlink -f '{data}') && a=\"${{d%/*}}/.deposed-aside-${{d##*/}}\"
         [ ! -e \"$a\" ] || echo \"$a\""
    )
}

/// What an agent says it changed.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Change {
    Byte { file: String, offset: u64, is: u8 },
    Length { file: String, is: u64 },
    Everything {},
}

impl Change {
    fn read(sight: &Sight) -> Option<Self> {
        serde_json::from_value(sight.figures["change"].clone()).ok()
    }

    /// A script that looks, and what it prints if it is so.
    fn check(&self, data: &str) -> (String, String) {
        let quoted = |text: &str| format!("'{}'", text.replace('\'', r"'\''"));
        match self {
            Self::Byte { file, offset, is } => {
                let file = quoted(file);
                (format!("od -An -tu1 -j {offset} -N 1 {file} | tr -d ' '"), is.to_string())
            }
            Self::Length { file, is } => (format!("stat -c %s {}", quoted(file)), is.to_string()),
            Self::Everything {} => (format!("ls -A {} | wc -l", quoted(data)), "0".into()),
        }
    }
}

#[async_trait]
impl Nemesis for Damage {
    fn fault(&self) -> &str {
        match self.wanted {
            Wanted::Corrupt(_) => "corrupt",
            Wanted::Wipe => "wipe",
        }
    }

    async fn prepare(&mut self, cx: &FaultContext) -> Result<(), FaultError> {
        says_where_its_data_is(cx)?;
        can_be_stopped(cx)?;
        self.agents.start(&cx.cluster).await
    }

    async fn choose(
        &mut self,
        cx: &FaultContext,
        rng: &mut ChaCha8Rng,
    ) -> Result<Choice, FaultError> {
        let nodes = node_names(cx);
        let target = self.aim(&nodes, rng);
        let mut choice = processes::choose(cx, Some(&target), &self.claims, rng).await?;
        // Another lane may have damaged others meanwhile.
        if !self.claims.damage(&choice.nodes, self.most(&nodes).unwrap_or(usize::MAX)) {
            self.claims.release(&choice.nodes);
            let reason = "as many nodes were damaged as a majority can do without";
            return Err(FaultError::Nothing(reason.into()));
        }
        let Chosen { harm, seed } = self.draw(rng);
        choice.what["harm"] = json!(harm);
        choice.what["seed"] = json!(seed);
        Ok(choice)
    }

    async fn repeat(&mut self, cx: &FaultContext, earlier: &Choice) -> Result<Choice, FaultError> {
        processes::repeat(cx, earlier, &self.claims).await
    }

    /// The nodes' own journals know what was put aside.
    fn undo(&self, _cx: &FaultContext, _choice: &Choice) -> Vec<(String, String)> {
        Vec::new()
    }

    async fn inject(
        &mut self,
        cx: &FaultContext,
        choice: &Choice,
        name: &str,
    ) -> Result<(), FaultError> {
        let Chosen { harm, seed } = Chosen::read(choice)?;
        let control = processes::control(cx)?;
        let hit = cx.cluster.nodes().filter(|node| choice.nodes.contains(&node.name.to_string()));
        let specs = hit.filter_map(|node| {
            let damage = Damaging {
                data: control.data(node)?.into(),
                harm: harm.clone(),
                seed,
                stop: control.stop_script(node)?,
                start: control.start_script(&cx.cluster, node)?,
                runs: control.runs_script(node)?,
            };
            Some((node.name.to_string(), Spec::Damage(damage)))
        });
        let specs = specs.collect();
        self.agents.apply(name, specs).await
    }

    async fn evidence(
        &mut self,
        cx: &FaultContext,
        choice: &Choice,
        name: &str,
    ) -> Result<Evidence, FaultError> {
        let mut findings = Findings::of(&self.agents, name, &choice.nodes).await?;
        let changes = findings.seen.iter().map(|(node, sight)| (node.clone(), Change::read(sight)));
        findings.doubt(Self::doubts(cx, changes.collect()).await?);
        Ok(findings.evidence())
    }

    async fn heal(
        &mut self,
        cx: &FaultContext,
        choice: &Choice,
        name: &str,
    ) -> Result<Evidence, FaultError> {
        // Whether a store can live on its data shows when it should be ready. One that neither ends nor
        // gets ready has given up all the same, and is ended.
        let gave_up = start_all(cx, choice.nodes.clone()).await;
        let gave_up =
            |node: &&Node| gave_up.iter().any(|late| late.starts_with(&format!("{}: ", node.name)));
        let control = processes::control(cx)?;
        let stops = cx.cluster.nodes().filter(gave_up);
        let stops =
            stops.filter_map(|node| Some((node.name.to_string(), control.stop_script(node)?)));
        all(on_each(&cx.cluster, stops.collect::<Vec<_>>()).await)?;
        let undone = self.agents.undo(name, &choice.nodes).await;
        let told = |(node, sight): (&String, &Result<Sight, FaultError>)| {
            sight.as_ref().ok().map(|sight| format!("{node}: {}", sight.summary))
        };
        let told: Vec<String> = undone.iter().filter_map(told).collect();
        let mut late = start_undone(cx, undone).await;
        let hit = cx.cluster.nodes().filter(|node| choice.nodes.contains(&node.name.to_string()));
        let looks = hit
            .filter_map(|node| Some((node.name.to_string(), aside_script(&control.data(node)?))));
        let printed = all(on_each(&cx.cluster, looks.collect::<Vec<_>>()).await)?;
        let aside = printed.into_iter().filter(|(_, said)| !said.is_empty());
        late.extend(aside.map(|(node, path)| format!("{node}: {path} is still put aside")));
        Ok(healed(&self.claims, &choice.nodes, &late, |nodes| {
            format!("ready on {nodes}: {}", told.join("; "))
        }))
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    fn parse(wanted: Wanted, text: Option<&str>, nodes: usize) -> Result<Damage, String> {
        let nodes: Vec<String> = (1..=nodes).map(|i| format!("n{i}")).collect();
        let (claims, agents) = (Claims::default(), Agents::default());
        Damage::parse(wanted, text, &nodes, &claims, &agents).map_err(|mistake| mistake.to_string())
    }

    /// How, a target, or both, in that order.
    #[test]
    fn manners_and_targets() {
        let corrupt = |text| parse(Wanted::Corrupt(None), Some(text), 3);
        let read = corrupt("flip=*.wal:n2").unwrap();
        assert_eq!(read.wanted, Wanted::Corrupt(Some(Harm::Flip { files: "*.wal".into() })));
        assert_eq!(read.target, Some(Target::Nodes(vec!["n2".into()])));
        assert_eq!(corrupt("all").unwrap().target, Some(Target::All));
        let said = |text| corrupt(text).err().unwrap();
        assert_eq!(said("flp:one"), "`flp`: no such corruption; did you mean `flip`?");
        assert!(said("flip=").contains("no such corruption"));
        assert!(said("primaris").contains("did you mean `primaries`?"));
    }

    /// A majority keeps its data, however often something is wiped.
    #[test]
    fn only_a_minority_is_wiped() {
        for (text, nodes) in
            [("all", 3), ("majority", 5), ("primaries", 3), ("n1+n2", 3), ("one", 2)]
        {
            let said = parse(Wanted::Wipe, Some(text), nodes).err().unwrap();
            assert!(said.contains("a majority has to keep its data"), "{said}");
        }
        assert!(
            parse(Wanted::Wipe, None, 1).is_err() && parse(Wanted::Wipe, Some("n1+n2"), 5).is_ok()
        );
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let nodes: Vec<String> = (1..=5).map(|i| format!("n{i}")).collect();
        for text in [None, Some("one"), Some("minority")] {
            let wipe = parse(Wanted::Wipe, text, 5).unwrap();
            for _ in 0..100 {
                let picked = wipe.aim(&nodes, &mut rng).pick(&nodes, &nodes, &[], &mut rng);
                assert!(wipe.claims.damage(&picked, wipe.most(&nodes).unwrap()), "{picked:?}");
            }
            assert_eq!(wipe.claims.damaged().len(), 2, "{text:?}");
            // Nor by another lane.
            let others: Vec<String> =
                nodes.iter().filter(|n| !wipe.claims.damaged().contains(*n)).cloned().collect();
            assert!(!wipe.claims.damage(&others[..1], 2));
        }
    }
}
