//! The faults `memory` and `cpu`: the store on some nodes gets little memory, or little processor time, by
//! a control group of its own.
//!
//! It bit if the kernel counted that the limit was met, and the store is in that group. It healed if the
//! group is gone, and the store runs and is ready.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use async_trait::async_trait;
use deposed_agent::{Limit as Limiting, Quota, Spec};
use deposed_core::{Choice, Evidence, FaultContext, FaultError, Nemesis};
use rand_chacha::ChaCha8Rng;
use serde_json::json;

use crate::agents::Agents;
use crate::claims::Claims;
use crate::disk_trouble::can_be_stopped;
use crate::fanout::{all, on_each};
use crate::findings::{Findings, healed};
use crate::kill::start_undone;
use crate::mistake::Mistake;
use crate::processes::{self, Prey};
use crate::target::{Target, node_names};
use crate::words::{self, Unknown, Word, with_targets};

/// The share of a processor that is left unless the user says otherwise, in percent.
const CPU_PERCENT: u64 = 5;

/// Limits the store.
pub(crate) struct Limit {
    quota: Quota,
    target: Option<Target>,
    claims: Claims,
    agents: Agents,
}

/// What is limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Resource {
    Memory,
    Cpu,
}

impl Resource {
    const fn of(quota: Quota) -> Self {
        match quota {
            Quota::Memory { .. } => Self::Memory,
            Quota::Cpu { .. } => Self::Cpu,
        }
    }

    const fn as_str(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Cpu => "cpu",
        }
    }

    /// Reads `64M` or `5%`; `None` if it is none, a mistake if it is too much or too little.
    fn parse(self, text: &str) -> Option<Result<Quota, Mistake>> {
        let (unit, least, most) = match self {
            Self::Memory => ("M", 4, 1 << 20),
            Self::Cpu => ("%", 1, 1000),
        };
        let number: u64 = text.strip_suffix(unit)?.parse().ok()?;
        if !(least..=most).contains(&number) {
            let problem = format!("how much is left? between {least}{unit} and {most}{unit}");
            return Some(Err(Mistake::new(text, problem)));
        }
        Some(Ok(match self {
            Self::Memory => Quota::Memory { bytes: Some(number << 20) },
            Self::Cpu => Quota::Cpu { percent: number },
        }))
    }
}

impl Limit {
    /// Words of `memory` for help and completions.
    pub(crate) const MEMORY_WORDS: [Word; 6] =
        with_targets(&[("64M", "how much it may have; else half of what it used")]);

    /// Words of `cpu`.
    pub(crate) const CPU_WORDS: [Word; 6] =
        with_targets(&[("5%", "how much of a processor it gets")]);

    /// Reads `64M`, `5%:one` or `one`.
    pub(crate) fn parse(
        resource: Resource,
        text: Option<&str>,
        nodes: &[String],
        claims: &Claims,
        agents: &Agents,
    ) -> Result<Self, Mistake> {
        let problem = match resource {
            Resource::Memory => "how much is left looks like 64M",
            Resource::Cpu => "how much is left looks like 5%",
        };
        let unknown = Unknown { problem, known: &[] };
        let (quota, target) = words::read(
            text,
            &unknown,
            |word| resource.parse(word),
            |word| Target::parse(word, nodes),
        )?;
        let quota = quota.unwrap_or(match resource {
            Resource::Memory => Quota::Memory { bytes: None },
            Resource::Cpu => Quota::Cpu { percent: CPU_PERCENT },
        });
        Ok(Self { quota, target, claims: claims.clone(), agents: agents.clone() })
    }

    /// Processes of the store that are in none of our groups, as nodes' own tools see it.
    async fn unlimited(
        &self,
        cx: &FaultContext,
        choice: &Choice,
    ) -> Result<BTreeMap<String, Vec<String>>, FaultError> {
        let resource = Resource::of(self.quota).as_str();
        let running = processes::list(cx, &choice.nodes).await?;
        let scripts = running.into_iter().map(|(node, processes)| {
            // Version 1 names the controller, version 2 names none. One that is about to end is in no
            // group any more, so what is found outside is looked at twice.
            let mut script = format!(
                "outside() {{ s=$(cat /proc/$1/stat 2>/dev/null) || return 1
                 case ${{s##*) }} in Z*|X*) return 1;; esac
                 ! grep -Eq '^[0-9]+:([^:]*{resource}[^:]*)?:/deposed-' /proc/$1/cgroup; }}\n"
            );
            for process in processes {
                let pid = process.pid;
                let _ =
                    writeln!(script, "outside {pid} && sleep 0.1 && outside {pid} && echo {pid}");
            }
            script.push_str("true\n");
            (node, script)
        });
        let printed = all(on_each(&cx.cluster, scripts).await)?;
        let words = |text: String| text.split_whitespace().map(str::to_owned).collect();
        Ok(printed.into_iter().map(|(node, text)| (node, words(text))).collect())
    }
}

#[async_trait]
impl Nemesis for Limit {
    fn fault(&self) -> &str {
        Resource::of(self.quota).as_str()
    }

    async fn prepare(&mut self, cx: &FaultContext) -> Result<(), FaultError> {
        can_be_stopped(cx)?;
        let resource = Resource::of(self.quota).as_str();
        let has = format!("grep -q '^{resource}[[:space:]].*1$' /proc/cgroups && echo yes; true");
        let scripts = node_names(cx).into_iter().map(|node| (node, has.clone()));
        let printed = all(on_each(&cx.cluster, scripts).await)?;
        if let Some((node, _)) = printed.iter().find(|(_, said)| said.is_empty()) {
            return Err(FaultError::Unsupported(format!(
                "the kernel of {node} has no control groups for {resource}: start it with \
                 cgroup_enable={resource}"
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
        choice.what["quota"] = json!(self.quota);
        Ok(choice)
    }

    async fn repeat(&mut self, cx: &FaultContext, earlier: &Choice) -> Result<Choice, FaultError> {
        processes::repeat(cx, earlier, &self.claims).await
    }

    /// The nodes' own journals know the group.
    fn undo(&self, _cx: &FaultContext, _choice: &Choice) -> Vec<(String, String)> {
        Vec::new()
    }

    async fn inject(
        &mut self,
        cx: &FaultContext,
        choice: &Choice,
        name: &str,
    ) -> Result<(), FaultError> {
        let quota: Quota =
            serde_json::from_value(choice.what["quota"].clone()).map_err(|error| {
                FaultError::Unsupported(format!("not a choice of a limit: {error}"))
            })?;
        let control = processes::control(cx)?;
        let mut prey = Prey::read(choice)?;
        let specs = cx.cluster.nodes().filter_map(|node| {
            let processes = prey.processes.remove(&*node.name)?;
            let limit = Limiting {
                processes: processes.into_iter().map(processes::of_agent).collect(),
                quota,
                stop: control.stop_script(node)?,
                start: control.start_script(&cx.cluster, node)?,
            };
            Some((node.name.to_string(), Spec::Limit(limit)))
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
        for (node, pids) in self.unlimited(cx, choice).await? {
            findings.doubt(pids.iter().map(|pid| format!("pid {pid} on {node} is not limited")));
        }
        Ok(findings.evidence())
    }

    async fn heal(
        &mut self,
        cx: &FaultContext,
        choice: &Choice,
        name: &str,
    ) -> Result<Evidence, FaultError> {
        let undone = self.agents.undo(name, &choice.nodes).await;
        let mut late = start_undone(cx, undone).await;
        let running = processes::list(cx, &choice.nodes).await?;
        let unlimited = self.unlimited(cx, choice).await?;
        for (node, processes) in running {
            let free = unlimited.get(&node).map_or(0, Vec::len);
            if free == 0 && !processes.is_empty() {
                late.push(format!("{node}: it is still limited"));
            }
        }
        Ok(healed(&self.claims, &choice.nodes, &late, |nodes| {
            format!("no limit any more, the store is ready on {nodes}")
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How much, a target, or both, in that order; mistakes are told.
    #[test]
    fn limits_and_targets() {
        let parse = |resource, text: &str| {
            let nodes = ["n1", "n2", "n3"].map(str::to_owned);
            let (claims, agents) = (Claims::default(), Agents::default());
            let read = Limit::parse(resource, Some(text), &nodes, &claims, &agents);
            read.map(|read| (read.quota, read.target)).map_err(|mistake| mistake.to_string())
        };
        let (memory, cpu) = (Resource::Memory, Resource::Cpu);
        let bytes = Some(64 << 20);
        assert_eq!(parse(memory, "64M"), Ok((Quota::Memory { bytes }, None)));
        assert_eq!(parse(cpu, "20%:one"), Ok((Quota::Cpu { percent: 20 }, Some(Target::One))));
        assert_eq!(parse(cpu, "all"), Ok((Quota::Cpu { percent: 5 }, Some(Target::All))));
        assert!(parse(memory, "1M:n1").unwrap_err().contains("between 4M and"));
        assert!(parse(cpu, "5:n1").unwrap_err().contains("looks like 5%"));
        assert!(parse(memory, "primaris").unwrap_err().contains("did you mean `primaries`?"));
    }
}
