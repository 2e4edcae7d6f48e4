//! The faults `pause` and `freeze`: the store on some nodes stands still, stopped by a signal or frozen by
//! the kernel, and later goes on.
//!
//! It bit if every thread stood still and none of them ran until it was let go: the kernel counts how
//! often each was switched, so a process that somebody else continued in between shows. It healed if the
//! same processes run again.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use deposed_agent::{Freeze, Spec, Stop};
use deposed_core::{Choice, Effect, Evidence, FaultContext, FaultError, Nemesis, Process};
use rand_chacha::ChaCha8Rng;
use serde_json::json;

use crate::agents::Agents;
use crate::claims::Claims;
use crate::processes::{self, Look, Prey, Standstill};
use crate::target::Target;

/// How long threads may take to stop or to go on, and how often that is looked at. A thread in an
/// uninterruptible wait stops only after it.
const LOOKS: u32 = 20;
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Pauses the store.
pub(crate) struct Pause {
    by: Standstill,
    target: Option<Target>,
    claims: Claims,
    agents: Agents,
    still: Option<Still>,
}

/// Of the pause in force.
struct Still {
    /// When everything was first seen to stand still.
    since: Instant,
    /// How often each process had been switched by then.
    switches: Switches,
}

/// By node and pid.
type Switches = BTreeMap<(String, u32), u64>;

impl Pause {
    pub(crate) const fn new(
        by: Standstill,
        target: Option<Target>,
        claims: Claims,
        agents: Agents,
    ) -> Self {
        Self { by, target, claims, agents, still: None }
    }
}

#[async_trait]
impl Nemesis for Pause {
    fn fault(&self) -> &str {
        match self.by {
            Standstill::Signal => "pause",
            Standstill::Freezer => "freeze",
        }
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

    fn undo(&self, _cx: &FaultContext, choice: &Choice) -> Vec<(String, String)> {
        // The freezer's group is known to the node's own journal alone.
        if self.by == Standstill::Freezer {
            return Vec::new();
        }
        let Ok(prey) = Prey::read(choice) else { return Vec::new() };
        let resume = |(node, processes): (String, Vec<_>)| {
            (node, processes::signal_script("CONT", &processes))
        };
        prey.processes.into_iter().map(resume).collect()
    }

    async fn inject(
        &mut self,
        _cx: &FaultContext,
        choice: &Choice,
        name: &str,
    ) -> Result<(), FaultError> {
        self.still = None;
        let prey = Prey::read(choice)?;
        let stop = |processes: Vec<Process>| {
            let processes = processes.into_iter().map(processes::of_agent).collect();
            match self.by {
                Standstill::Signal => Spec::Stop(Stop { processes }),
                Standstill::Freezer => Spec::Freeze(Freeze { processes }),
            }
        };
        let specs = prey.processes.into_iter().map(|(node, processes)| (node, stop(processes)));
        self.agents.apply(name, specs.collect()).await
    }

    async fn evidence(
        &mut self,
        cx: &FaultContext,
        choice: &Choice,
        name: &str,
    ) -> Result<Evidence, FaultError> {
        let mut prey = Prey::read(choice)?;
        // What was forked between the choice and the stop belongs to it too.
        for (node, running) in processes::list(cx, &choice.nodes).await? {
            let known = prey.processes.entry(node).or_default();
            let new: Vec<Process> = running.into_iter().filter(|p| !known.contains(p)).collect();
            known.extend(new);
        }
        let mut switches = Switches::new();
        let mut doubts = Vec::new();
        let objections = self.agents.objections(name, &choice.nodes).await?;
        // The first look may find threads still on their way to a stop; the last may not.
        let looks = if self.still.is_none() { LOOKS } else { 1 };
        for look in 0..looks {
            if look > 0 {
                tokio::time::sleep(LOOK_EVERY).await;
            }
            (switches, doubts) =
                stillness(processes::look(cx, &prey, self.by).await?, self.still.is_some());
            if doubts.is_empty() {
                break;
            }
        }
        let mut held = Duration::ZERO;
        if let Some(still) = &self.still {
            held = still.since.elapsed();
            // One that is gone by now was stopped for as long as it was there: somebody shot it.
            let has_run = |(process, n): &(&(String, u32), &u64)| {
                switches.get(process).is_some_and(|now| now != *n)
            };
            let ran = still.switches.iter().filter(has_run);
            doubts.extend(ran.map(|((node, pid), _)| {
                format!("pid {pid} on {node} did not stand still all the time")
            }));
        } else if doubts.is_empty() {
            self.still = Some(Still { since: Instant::now(), switches });
        }
        doubts.extend(objections);
        let nodes = choice.nodes.join(" ");
        let word = match self.by {
            Standstill::Signal => "state T",
            Standstill::Freezer => "frozen",
        };
        let (effect, summary) = if !doubts.is_empty() {
            (Effect::Indeterminate, doubts.join("; "))
        } else if held.is_zero() {
            (Effect::Proven, format!("{word} on {nodes}"))
        } else {
            (Effect::Proven, format!("{word} on {nodes} for {:.1} s", held.as_secs_f64()))
        };
        let mut figures = serde_json::Map::new();
        for (node, processes) in &prey.processes {
            let pids: Vec<u32> = processes.iter().map(|process| process.pid).collect();
            let held_ms = held.as_millis() as u64;
            figures.insert(node.clone(), json!({ "pids": pids, "held_ms": held_ms }));
        }
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
        let prey = Prey::read(choice)?;
        let mut stopped = Vec::new();
        let mut gone = Vec::new();
        for look in 0..LOOKS {
            if look > 0 {
                tokio::time::sleep(LOOK_EVERY).await;
            }
            (stopped, gone) = (Vec::new(), Vec::new());
            for (node, looks) in processes::look(cx, &prey, self.by).await? {
                for (pid, look) in looks {
                    match look {
                        Look::Running => {}
                        Look::Gone => gone.push(format!("pid {pid} on {node}")),
                        Look::Stopped { .. } => stopped.push(format!("pid {pid} on {node}")),
                    }
                }
            }
            if stopped.is_empty() {
                break;
            }
        }
        let (effect, summary) = if !stopped.is_empty() {
            (Effect::Indeterminate, format!("still stopped: {}", stopped.join(", ")))
        } else {
            self.claims.release(&choice.nodes);
            let nodes = choice.nodes.join(" ");
            let summary = match gone.is_empty() {
                true => format!("the same processes run again on {nodes}"),
                // A store that gave up while it stood still is a finding about the store; the
                // pause is over all the same.
                false => format!("nothing is stopped on {nodes}, but gone: {}", gone.join(", ")),
            };
            (Effect::Proven, summary)
        };
        Ok(Evidence { effect, summary, figures: serde_json::Value::Null })
    }
}

/// How often each process that stands still was switched, and what speaks against a pause: a
/// process that runs, or a node on which nothing is left to stand still. One that ended before it
/// was stopped does not, nor does one that was killed after it had been seen to stand still (`stood`).
fn stillness(looks: BTreeMap<String, BTreeMap<u32, Look>>, stood: bool) -> (Switches, Vec<String>) {
    let mut switches = Switches::new();
    let mut doubts = Vec::new();
    for (node, looks) in looks {
        let mut still = 0;
        let mut running = 0;
        for (pid, look) in looks {
            match look {
                Look::Gone => {}
                Look::Running => {
                    running += 1;
                    doubts.push(format!("pid {pid} on {node} is not stopped"));
                }
                Look::Stopped { switches: n } => {
                    still += 1;
                    switches.insert((node.clone(), pid), n);
                }
            }
        }
        if still + running == 0 && !stood {
            doubts.push(format!("nothing of the store is left on {node}"));
        }
    }
    (switches, doubts)
}
