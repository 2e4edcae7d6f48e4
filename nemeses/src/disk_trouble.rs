//! The faults `disk-error` and `slow-disk`: on some nodes the disk of the store's data fails, or takes its
//! time with syncs.
//!
//! The store is started anew on a file system of the agent's own, which passes everything through; then
//! the trouble begins. When it is over the store is started anew on its disk. It bit if what should fail
//! fails for the node's own tools, and a sync takes as long as it should. It healed if nothing of that is
//! so any more, and the store runs and is ready.

use std::collections::BTreeMap;

use async_trait::async_trait;
use deposed_agent::Spec;
use deposed_agent::disk::{Layer, Trouble, Use};
use deposed_core::{Choice, Evidence, FaultContext, FaultError, Nemesis, Node};
use rand::RngExt;
use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::agents::Agents;
use crate::claims::Claims;
use crate::fanout::{all, on_each};
use crate::findings::{Findings, healed};
use crate::kill::{start_all, start_undone};
use crate::mistake::Mistake;
use crate::power_cut::says_where_its_data_is;
use crate::processes;
use crate::target::{Target, node_names};
use crate::words::{self, Unknown, Word, with_targets};

/// What can fail, and what that means, in the order of [`USE`].
const USES: [Word; 3] = [
    ("read", "what is read fails; uses are joined by +"),
    ("write", "what is written fails"),
    ("fsync", "syncs fail, and leave unsynced what they should have synced"),
];
const USE: [Use; 3] = [Use::Read, Use::Write, Use::Fsync];

/// How long a sync may be made to take, in milliseconds; where nobody says, evenly on a logarithmic scale.
const FSYNC_MS: std::ops::RangeInclusive<u64> = 1..=60_000;
const FSYNC_DRAWN_MS: std::ops::Range<f64> = 50.0..2000.0;

/// What trouble is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Errors of these; without any, of what is drawn.
    Errors(Vec<Use>),
    /// Slow syncs, as slow as said.
    Slow(Option<u64>),
}

/// Makes trouble with the store's disk.
pub(crate) struct DiskTrouble {
    wanted: Wanted,
    target: Option<Target>,
    claims: Claims,
    agents: Agents,
}

/// What is done to the nodes of one injection.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Chosen {
    fail: Vec<Use>,
    fsync_ms: u64,
}

impl Chosen {
    fn read(choice: &Choice) -> Result<Self, FaultError> {
        serde_json::from_value(choice.what.clone())
            .map_err(|error| FaultError::Unsupported(format!("not a choice of disks: {error}")))
    }
}

fn parse_uses(text: &str) -> Option<Vec<Use>> {
    let named = |word| USES.iter().position(|(name, _)| *name == word).map(|at| USE[at]);
    text.split('+').map(named).collect()
}

/// Reads `200ms` or `1.5s`, in milliseconds; `None` if it is no time.
fn parse_fsync(text: &str) -> Option<Result<u64, Mistake>> {
    let (number, factor) = [("ms", 1.0), ("s", 1e3)]
        .iter()
        .find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, factor)))?;
    let ms = (number.parse::<f64>().ok()? * factor).round();
    Some(match FSYNC_MS.contains(&(ms as u64)) {
        true => Ok(ms as u64),
        false => Err(Mistake::new(text, "how long? between 1ms and 60s")),
    })
}

impl DiskTrouble {
    /// Words of `disk-error` for help and completions.
    pub(crate) const ERROR_WORDS: [Word; 8] = with_targets(&USES);

    /// Words of `slow-disk`.
    pub(crate) const SLOW_WORDS: [Word; 6] = with_targets(&[("500ms", "how long each sync takes")]);

    /// Reads what may follow `disk-error:`, as in `write+fsync:one`, or `slow-disk:`, as in `500ms:one`.
    pub(crate) fn parse(
        wanted: Wanted,
        text: Option<&str>,
        nodes: &[String],
        claims: &Claims,
        agents: &Agents,
    ) -> Result<Self, Mistake> {
        let unknown = match wanted {
            Wanted::Errors(_) => Unknown { problem: "it is not known", known: &USES },
            Wanted::Slow(_) => {
                Unknown { problem: "how long a sync takes looks like 500ms", known: &[] }
            }
        };
        let own = |word: &str| match wanted {
            Wanted::Errors(_) => parse_uses(word).map(|uses| Ok(Wanted::Errors(uses))),
            Wanted::Slow(_) => parse_fsync(word).map(|ms| Ok(Wanted::Slow(Some(ms?)))),
        };
        let (said, target) = words::read(text, &unknown, own, |word| Target::parse(word, nodes))?;
        let wanted = said.unwrap_or(wanted);
        Ok(Self { wanted, target, claims: claims.clone(), agents: agents.clone() })
    }

    fn draw(&self, rng: &mut ChaCha8Rng) -> Chosen {
        match &self.wanted {
            Wanted::Errors(uses) if uses.is_empty() => {
                let mixes: [&[Use]; 4] = [
                    &[Use::Read],
                    &[Use::Write],
                    &[Use::Fsync],
                    &[Use::Read, Use::Write, Use::Fsync],
                ];
                let fail = mixes.choose(rng).expect("there are some").to_vec();
                Chosen { fail, fsync_ms: 0 }
            }
            Wanted::Errors(uses) => Chosen { fail: uses.clone(), fsync_ms: 0 },
            Wanted::Slow(ms) => {
                let range = FSYNC_DRAWN_MS.start.ln()..FSYNC_DRAWN_MS.end.ln();
                let fsync_ms = ms.unwrap_or_else(|| rng.random_range(range).exp() as u64);
                Chosen { fail: Vec::new(), fsync_ms }
            }
        }
    }

    /// What each node's own tools find: which uses fail, and how long a sync takes in milliseconds.
    async fn look(
        cx: &FaultContext,
        nodes: &[String],
    ) -> Result<BTreeMap<String, Found>, FaultError> {
        let control = processes::control(cx)?;
        let hit = cx.cluster.nodes().filter(|node| nodes.contains(&node.name.to_string()));
        let scripts = hit.filter_map(|node| {
            let data = control.data(node)?;
            Some((node.name.to_string(), look_script(&data)))
        });
        let printed = all(on_each(&cx.cluster, scripts.collect::<Vec<_>>()).await)?;
        Ok(printed.into_iter().map(|(node, text)| (node, Found::parse(&text))).collect())
    }
}

/// Tries each use on a file of ours, which the agent has made for as long as there is trouble. Prints
/// `layer` where one is mounted, `failed USE`, and how long a sync took in ms.
fn look_script(data: &str) -> String {
    format!(
        r#"f='{data}/.deposed-probe'
grep -q ' {data} fuse[.]deposed ' /proc/mounts && echo layer
[ -e "$f" ] || f='{data}/.deposed-dd'
wrong() {{ case $1 in *[Ii]*/[Oo]*error*) echo "failed $2";; esac; }}
wrong "$(LC_ALL=C dd if="$f" of=/dev/null 2>&1)" read
wrong "$(LC_ALL=C dd if=/dev/zero of="$f" bs=512 count=1 conv=notrunc 2>&1)" write
start=$(date +%s%N)
wrong "$(LC_ALL=C sync "$f" 2>&1)" fsync
echo "sync $((($(date +%s%N)-start)/1000000))"
rm -f '{data}/.deposed-dd' 2>/dev/null; true"#
    )
}

/// What [`look_script`] printed.
#[derive(Debug, Default, PartialEq, Eq)]
struct Found {
    layer: bool,
    failed: Vec<String>,
    sync_ms: u64,
}

impl Found {
    fn parse(text: &str) -> Self {
        let mut found = Self::default();
        for line in text.lines() {
            match line.split_once(' ') {
                None if line == "layer" => found.layer = true,
                Some(("failed", what)) => found.failed.push(what.to_owned()),
                Some(("sync", ms)) => found.sync_ms = ms.parse().unwrap_or(0),
                _ => {}
            }
        }
        found
    }

    /// What speaks against the trouble that was asked for.
    fn doubts(&self, chosen: &Chosen) -> Vec<String> {
        let uses = USE.iter().zip(USES.map(|(name, _)| name));
        let expected = uses.filter(|(wrong, _)| chosen.fail.contains(wrong));
        let works = expected.filter(|(_, name)| !self.failed.iter().any(|failed| failed == name));
        let mut doubts: Vec<String> =
            works.map(|(_, name)| format!("{name} works for the node's own tools")).collect();
        if self.sync_ms < chosen.fsync_ms {
            doubts.push(format!("a sync takes {} ms only", self.sync_ms));
        }
        doubts
    }
}

/// The name under which the layer of an injection is known to the agents.
fn layer_of(name: &str) -> String {
    format!("{name}-layer")
}

/// Refuses a system of which it is not known how it is stopped and started.
pub(crate) fn can_be_stopped(cx: &FaultContext) -> Result<(), FaultError> {
    let control = processes::control(cx)?;
    let cannot = |node: &&Node| {
        control.stop_script(node).is_none() || control.start_script(&cx.cluster, node).is_none()
    };
    match cx.cluster.nodes().find(cannot) {
        Some(node) => Err(FaultError::Unsupported(format!(
            "{} does not say how it is stopped and started on {}; its data cannot be worked on",
            cx.system.name(),
            node.name
        ))),
        None => Ok(()),
    }
}

#[async_trait]
impl Nemesis for DiskTrouble {
    fn fault(&self) -> &str {
        match self.wanted {
            Wanted::Errors(_) => "disk-error",
            Wanted::Slow(_) => "slow-disk",
        }
    }

    async fn prepare(&mut self, cx: &FaultContext) -> Result<(), FaultError> {
        says_where_its_data_is(cx)?;
        can_be_stopped(cx)?;
        let has = "(exec 3<>/dev/fuse) 2>/dev/null && echo fuse; true";
        let scripts = node_names(cx).into_iter().map(|node| (node, has.to_owned()));
        let printed = all(on_each(&cx.cluster, scripts).await)?;
        if let Some((node, _)) = printed.iter().find(|(_, said)| said.is_empty()) {
            return Err(FaultError::Unsupported(format!(
                "{node} has no /dev/fuse that can be used, which {} needs: `modprobe fuse` there",
                self.fault()
            )));
        }
        self.agents.start(&cx.cluster).await
    }

    async fn choose(
        &mut self,
        cx: &FaultContext,
        rng: &mut ChaCha8Rng,
    ) -> Result<Choice, FaultError> {
        let mut choice = processes::choose(cx, self.target.as_ref(), &self.claims, rng).await?;
        let Chosen { fail, fsync_ms } = self.draw(rng);
        choice.what["fail"] = json!(fail);
        choice.what["fsync_ms"] = json!(fsync_ms);
        Ok(choice)
    }

    async fn repeat(&mut self, cx: &FaultContext, earlier: &Choice) -> Result<Choice, FaultError> {
        processes::repeat(cx, earlier, &self.claims).await
    }

    /// The nodes' own journals know what is mounted where.
    fn undo(&self, _cx: &FaultContext, _choice: &Choice) -> Vec<(String, String)> {
        Vec::new()
    }

    async fn inject(
        &mut self,
        cx: &FaultContext,
        choice: &Choice,
        name: &str,
    ) -> Result<(), FaultError> {
        let Chosen { fail, fsync_ms } = Chosen::read(choice)?;
        let control = processes::control(cx)?;
        let hit =
            || cx.cluster.nodes().filter(|node| choice.nodes.contains(&node.name.to_string()));
        let layers = hit().filter_map(|node| {
            let layer = Layer {
                data: control.data(node)?.into(),
                stop: control.stop_script(node)?,
                start: control.start_script(&cx.cluster, node)?,
            };
            Some((node.name.to_string(), Spec::DiskLayer(layer)))
        });
        let layers = layers.collect();
        self.agents.apply(&layer_of(name), layers).await?;
        // Trouble finds a store that serves; one that other faults keep from that has it all the same.
        for late in start_all(cx, choice.nodes.clone()).await {
            tracing::debug!("not ready on its layer: {late}");
        }
        let troubles = hit().filter_map(|node| {
            let data = control.data(node)?.into();
            Some((
                node.name.to_string(),
                Spec::DiskTrouble(Trouble { data, fail: fail.clone(), fsync_ms }),
            ))
        });
        let troubles = troubles.collect();
        self.agents.apply(name, troubles).await
    }

    async fn evidence(
        &mut self,
        cx: &FaultContext,
        choice: &Choice,
        name: &str,
    ) -> Result<Evidence, FaultError> {
        let chosen = Chosen::read(choice)?;
        let doubts = self.agents.objections(&layer_of(name), &choice.nodes).await?;
        let mut findings = Findings { doubts, ..Findings::default() };
        findings.ask(&self.agents, name, &choice.nodes).await?;
        for (node, found) in Self::look(cx, &choice.nodes).await? {
            findings
                .doubt(found.doubts(&chosen).into_iter().map(|doubt| format!("{node}: {doubt}")));
        }
        Ok(findings.evidence())
    }

    async fn heal(
        &mut self,
        cx: &FaultContext,
        choice: &Choice,
        name: &str,
    ) -> Result<Evidence, FaultError> {
        // Whatever comes of it: without its layer there is no trouble either.
        self.agents.undo(name, &choice.nodes).await;
        let undone = self.agents.undo(&layer_of(name), &choice.nodes).await;
        let mut late = start_undone(cx, undone).await;
        for (node, found) in Self::look(cx, &choice.nodes).await? {
            if found.layer {
                late.push(format!("{node}: a layer is still mounted"));
            }
            late.extend(found.failed.iter().map(|what| format!("{node}: {what} still fails")));
        }
        Ok(healed(&self.claims, &choice.nodes, &late, |nodes| {
            format!("nothing lies over the disk, started again and ready on {nodes}")
        }))
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    fn parse(wanted: Wanted, text: &str) -> Result<(Wanted, Option<Target>), String> {
        let nodes = ["n1", "n2", "n3"].map(str::to_owned);
        let (claims, agents) = (Claims::default(), Agents::default());
        let read = DiskTrouble::parse(wanted, Some(text), &nodes, &claims, &agents);
        read.map(|read| (read.wanted, read.target)).map_err(|mistake| mistake.to_string())
    }

    /// What fails or how slow it is, a target, or both, in that order; mistakes are told.
    #[test]
    fn troubles_and_targets() {
        let errors = |text| parse(Wanted::Errors(Vec::new()), text);
        let slow = |text| parse(Wanted::Slow(None), text);
        let (read, fsync) = (Use::Read, Use::Fsync);
        assert_eq!(errors("read"), Ok((Wanted::Errors(vec![read]), None)));
        let both = Wanted::Errors(vec![read, fsync]);
        assert_eq!(errors("read+fsync:one"), Ok((both, Some(Target::One))));
        assert_eq!(errors("all"), Ok((Wanted::Errors(Vec::new()), Some(Target::All))));
        assert_eq!(errors("raed").unwrap_err(), "`raed`: it is not known; did you mean `read`?");
        assert_eq!(
            errors("fsnc:n1").unwrap_err(),
            "`fsnc`: it is not known; did you mean `fsync`?"
        );
        assert_eq!(
            slow("1.5s:n2"),
            Ok((Wanted::Slow(Some(1500)), Some(Target::Nodes(vec!["n2".into()]))))
        );
        assert_eq!(slow("primaries"), Ok((Wanted::Slow(None), Some(Target::Primaries))));
        assert!(slow("0ms").unwrap_err().contains("between 1ms and 60s"));
        assert!(slow("2h:one").unwrap_err().contains("looks like 500ms"));
    }

    /// What is said is done; what is not is drawn, all of it sooner or later.
    #[test]
    fn what_is_not_said_is_drawn() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let mut draws = |wanted| {
            let trouble = DiskTrouble {
                wanted,
                target: None,
                claims: Claims::default(),
                agents: Agents::default(),
            };
            (0..200).map(|_| trouble.draw(&mut rng)).collect::<Vec<_>>()
        };
        assert!(draws(Wanted::Slow(Some(7))).iter().all(|chosen| chosen.fsync_ms == 7));
        assert!(
            draws(Wanted::Slow(None)).iter().all(|chosen| (49..2000).contains(&chosen.fsync_ms))
        );
        let drawn = draws(Wanted::Errors(Vec::new()));
        for wrong in USE {
            assert!(drawn.iter().any(|chosen| chosen.fail == [wrong]));
        }
    }

    /// What a node prints is read, and what should have failed and did not is doubted.
    #[test]
    fn what_works_is_doubted() {
        let found = Found::parse("layer\nfailed read\nsync 320\n");
        assert_eq!(found, Found { layer: true, failed: vec!["read".into()], sync_ms: 320 });
        assert!(found.doubts(&Chosen { fail: vec![Use::Read], fsync_ms: 300 }).is_empty());
        let doubts = found.doubts(&Chosen { fail: vec![Use::Read, Use::Write], fsync_ms: 400 });
        assert_eq!(doubts, ["write works for the node's own tools", "a sync takes 320 ms only"]);
    }
}
