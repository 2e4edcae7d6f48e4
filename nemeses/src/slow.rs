//! The fault `slow`: the store on some nodes gets a fraction of its processor time.
//!
//! It bit if it was mostly found standing still, and yet did run in between. It healed if it is not found
//! standing still any more.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use async_trait::async_trait;
use deposed_agent::Spec;
use deposed_core::{Choice, Effect, Evidence, FaultContext, FaultError, Nemesis};
use rand_chacha::ChaCha8Rng;
use serde_json::json;

use crate::agents::Agents;
use crate::claims::Claims;
use crate::fanout::{all, on_each};
use crate::processes::{self, Prey};
use crate::target::Target;

/// Of every tenth of a second the store runs a tenth.
const RUN_MS: u64 = 10;
const STILL_MS: u64 = 90;

/// How often it is looked at, on the node, a little more than a period's worth apart in all.
const LOOKS: u32 = 40;

/// Slows the store down.
pub(crate) struct Slow {
    target: Option<Target>,
    claims: Claims,
    agents: Agents,
}

impl Slow {
    pub(crate) const fn new(target: Option<Target>, claims: Claims, agents: Agents) -> Self {
        Self { target, claims, agents }
    }
}

/// Prints `PID T LOOKS` for the leader on a node: how often it was in state T.
fn look_script(pid: u32) -> String {
    let mut script = "t=0\n".to_owned();
    let _ = writeln!(
        script,
        "for i in $(seq {LOOKS}); do
           s=$(cat /proc/{pid}/stat) || exit 0
           case ${{s##*) }} in T*) t=$((t+1));; esac
           sleep 0.017
         done 2>/dev/null
         echo $t"
    );
    script
}

/// How often the leader of the store was found stopped, by node. A node where it is gone is absent.
async fn stopped(
    cx: &FaultContext,
    prey: &Prey,
) -> Result<BTreeMap<String, Option<u32>>, FaultError> {
    let scripts = prey
        .processes
        .iter()
        .filter_map(|(node, processes)| Some((node.clone(), look_script(processes.first()?.pid))));
    let printed = all(on_each(&cx.cluster, scripts).await)?;
    Ok(printed.into_iter().map(|(node, text)| (node, text.trim().parse().ok())).collect())
}

#[async_trait]
impl Nemesis for Slow {
    fn fault(&self) -> &str {
        "slow"
    }

    async fn prepare(&mut self, cx: &FaultContext) -> Result<(), FaultError> {
        processes::control(cx)?;
        self.agents.start(&cx.cluster).await
    }

    async fn choose(
        &mut self,
        cx: &FaultContext,
        rng: &mut ChaCha8Rng,
    ) -> Result<Choice, FaultError> {
        processes::choose(cx, self.target.as_ref(), &self.claims, rng).await
    }

    async fn repeat(&mut self, cx: &FaultContext, earlier: &Choice) -> Result<Choice, FaultError> {
        processes::repeat(cx, earlier, &self.claims).await
    }

    fn undo(&self, _cx: &FaultContext, _choice: &Choice) -> Vec<(String, String)> {
        // Who holds it is known to the node's own journal alone.
        Vec::new()
    }

    async fn inject(
        &mut self,
        _cx: &FaultContext,
        choice: &Choice,
        name: &str,
    ) -> Result<(), FaultError> {
        let specs = Prey::read(choice)?.processes.into_iter().map(|(node, processes)| {
            let processes = processes.into_iter().map(processes::of_agent).collect();
            let slow = deposed_agent::Slow { processes, run_ms: RUN_MS, still_ms: STILL_MS };
            (node, Spec::Slow(slow))
        });
        self.agents.apply(name, specs.collect()).await
    }

    async fn evidence(
        &mut self,
        cx: &FaultContext,
        choice: &Choice,
        name: &str,
    ) -> Result<Evidence, FaultError> {
        let mut doubts = self.agents.objections(name, &choice.nodes).await?;
        let mut figures = serde_json::Map::new();
        let mut words = Vec::new();
        for (node, stopped) in stopped(cx, &Prey::read(choice)?).await? {
            match stopped {
                None => doubts.push(format!("the store of {node} is gone")),
                Some(n) if n < LOOKS / 2 => {
                    doubts.push(format!("{node} stood still in {n} of {LOOKS} looks only"));
                }
                Some(LOOKS) => doubts.push(format!("{node} does not run at all")),
                Some(n) => {
                    words.push(format!("{node} stood still in {n} of {LOOKS} looks"));
                    figures.insert(node, json!({ "still": n, "looks": LOOKS }));
                }
            }
        }
        let (effect, summary) = if doubts.is_empty() {
            (Effect::Proven, words.join(", "))
        } else {
            (Effect::Indeterminate, doubts.join("; "))
        };
        Ok(Evidence { effect, summary, figures: figures.into() })
    }

    async fn heal(
        &mut self,
        cx: &FaultContext,
        choice: &Choice,
        name: &str,
    ) -> Result<Evidence, FaultError> {
        for undone in self.agents.undo(name, &choice.nodes).await.into_values() {
            undone?;
        }
        let looked = stopped(cx, &Prey::read(choice)?).await?;
        let still: Vec<String> = (looked.iter())
            .filter_map(|(node, n)| n.filter(|n| *n > 0).map(|n| format!("{node} in {n}")))
            .collect();
        let (effect, summary) = if still.is_empty() {
            self.claims.release(&choice.nodes);
            let nodes = choice.nodes.join(" ");
            (Effect::Proven, format!("never found standing still on {nodes} in {LOOKS} looks"))
        } else {
            (Effect::Indeterminate, format!("still slow: {} of {LOOKS} looks", still.join(", ")))
        };
        Ok(Evidence { effect, summary, figures: serde_json::Value::Null })
    }
}
