//! What the faults of processes share: choosing the store's processes, signalling them by pid and
//! start time, and looking at them.
//!
//! A pid alone names nothing: between a look and a signal it may have passed to another process.
//! Every script here compares the start time first.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use deposed_core::{Choice, FaultContext, FaultError, Process, ProcessControl};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::task::JoinSet;

use crate::claims::Claims;
use crate::fanout::{all, on_each};
use crate::target::{self, Target};

/// Shell functions. `fields PID` sets `$s` to the words of `/proc/PID/stat` from the state on, so that the
/// start time is number 20; the name before them may hold blanks and parentheses.
const PROC: &str = r#"
fields() { s=$(cat "/proc/$1/stat" 2>/dev/null) && s=${s##*) }; }
"#;

/// The processes of one injection, by node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Prey {
    /// The word for the target.
    pub(crate) target: String,
    /// What runs there, leaders of process groups first.
    pub(crate) processes: BTreeMap<String, Vec<Process>>,
}

impl Prey {
    /// Reads it back from a choice.
    pub(crate) fn read(choice: &Choice) -> Result<Self, FaultError> {
        serde_json::from_value(choice.what.clone())
            .map_err(|error| FaultError::Unsupported(format!("not a choice of processes: {error}")))
    }
}

/// The system's control of its processes, or a refusal.
pub(crate) fn control(cx: &FaultContext) -> Result<&dyn ProcessControl, FaultError> {
    let system = cx.system.name();
    cx.system.db().processes().ok_or_else(|| {
        FaultError::Unsupported(format!("{system} does not say which processes are its own"))
    })
}

/// Chooses nodes that no other fault of processes holds, claims them, and lists what runs there.
/// On success exactly the nodes of the choice are claimed; otherwise none.
pub(crate) async fn choose(
    cx: &FaultContext,
    target: Option<&Target>,
    claims: &Claims,
    rng: &mut ChaCha8Rng,
) -> Result<Choice, FaultError> {
    control(cx)?;
    let (target, picked) = target::claim(cx, target, claims, rng).await?;
    let listed = list(cx, &picked).await;
    let idle: Vec<&String> = match &listed {
        Ok(found) => picked.iter().filter(|node| !found.contains_key(*node)).collect(),
        Err(_) => picked.iter().collect(),
    };
    claims.release(idle);
    let processes = listed?;
    if processes.is_empty() {
        let reason = format!("nothing of the store runs on {}", picked.join(" "));
        return Err(FaultError::Nothing(reason));
    }
    let nodes = processes.keys().cloned().collect();
    Ok(Choice { nodes, what: json!(Prey { target: target.word(), processes }) })
}

/// Chooses the nodes of an earlier choice, with all it says but what ran there: that is looked up.
pub(crate) async fn repeat(
    cx: &FaultContext,
    earlier: &Choice,
    claims: &Claims,
) -> Result<Choice, FaultError> {
    let target = Target::Nodes(earlier.nodes.clone());
    // Named nodes leave nothing to the seed.
    let now = choose(cx, Some(&target), claims, &mut ChaCha8Rng::seed_from_u64(0)).await?;
    let mut what = earlier.what.clone();
    what["processes"] = now.what["processes"].clone();
    Ok(Choice { nodes: now.nodes, what })
}

/// What runs on each of some nodes; nodes where nothing does are absent.
pub(crate) async fn list(
    cx: &FaultContext,
    nodes: &[String],
) -> Result<BTreeMap<String, Vec<Process>>, FaultError> {
    let mut asked = JoinSet::new();
    for node in nodes {
        let (cx, node) = (cx.clone(), node.clone());
        asked.spawn(async move {
            let remote = cx.cluster.remote(&node).map(Arc::clone);
            let remote = remote.expect("targets are nodes of the cluster");
            let processes = control(&cx)?.processes(&*remote).await?;
            Ok::<_, FaultError>((node, processes))
        });
    }
    let mut found = BTreeMap::new();
    while let Some(answer) = asked.join_next().await {
        let (node, processes) = answer.expect("listing processes does not panic")?;
        if !processes.is_empty() {
            found.insert(node, processes);
        }
    }
    Ok(found)
}

/// Sends a signal to each process that is still the one it was, and with a leader to its group.
pub(crate) fn signal_script(signal: &str, processes: &[Process]) -> String {
    let mut script = format!(
        r#"{PROC}
hit() {{
  fields "$1" || return 0
  pid=$1 start=$2
  set -- $s
  [ "${{20}}" = "$start" ] || return 0
  if [ "$3" = "$pid" ]; then kill -s {signal} -- "-$pid"; else kill -s {signal} "$pid"; fi || true
}}
"#
    );
    for Process { pid, start_ticks } in processes {
        let _ = writeln!(script, "hit {pid} {start_ticks}");
    }
    script
}

/// A process, as the agents know it.
pub(crate) fn of_agent(process: Process) -> deposed_agent::Process {
    let Process { pid, start_ticks } = process;
    deposed_agent::Process { pid, start_ticks }
}

/// How a process looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look {
    /// It has ended, or another process has its pid.
    Gone,
    /// It stands still. `switches`: how often they were ever switched off a processor; it
    /// grows whenever one of them runs again, however briefly.
    Stopped {
        /// Voluntary and involuntary, of all threads.
        switches: u64,
    },
    /// It does not stand still.
    Running,
}

/// By what a process is made to stand still.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standstill {
    /// A signal: every thread is in state T.
    Signal,
    /// The kernel's freezer: it is in a control group of ours. That it does not run shows in its
    /// switches alone.
    Freezer,
}

/// Prints `PID gone`, `PID running` or `PID stopped SWITCHES` for each process.
pub(crate) fn look_script(processes: &[Process], by: Standstill) -> String {
    let still = match by {
        Standstill::Signal => "case $s in T*|t*) ;; *) false;; esac",
        Standstill::Freezer => "grep -q :/deposed- \"/proc/$pid/cgroup\"",
    };
    let mut script = format!(
        r#"{PROC}
still() {{ {still}; }}
look() {{
  pid=$1 start=$2
  fields "$pid" || {{ echo "$pid gone"; return; }}
  set -- $s
  [ "${{20}}" = "$start" ] || {{ echo "$pid gone"; return; }}
  case $1 in Z|X) echo "$pid gone"; return;; esac
  sum=0
  for t in /proc/"$pid"/task/[0-9]*; do
    s=$(cat "$t/stat" 2>/dev/null) || continue
    s=${{s##*) }}
    still || {{ echo "$pid running"; return; }}
    for n in $(sed -n 's/.*ctxt_switches:[[:space:]]*//p' "$t/status" 2>/dev/null); do
      sum=$((sum+n))
    done
  done
  echo "$pid stopped $sum"
}}
"#
    );
    for Process { pid, start_ticks } in processes {
        let _ = writeln!(script, "look {pid} {start_ticks}");
    }
    script
}

/// Reads what [`look_script`] printed.
pub(crate) fn parse_looks(text: &str) -> BTreeMap<u32, Look> {
    let line = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (pid, look) = match words[..] {
            [pid, "gone"] => (pid, Look::Gone),
            [pid, "running"] => (pid, Look::Running),
            [pid, "stopped", n] => (pid, Look::Stopped { switches: n.parse().ok()? }),
            _ => return None,
        };
        Some((pid.parse().ok()?, look))
    };
    text.lines().filter_map(line).collect()
}

/// How the processes look, by node and pid. Every one of them is there.
pub(crate) async fn look(
    cx: &FaultContext,
    prey: &Prey,
    by: Standstill,
) -> Result<BTreeMap<String, BTreeMap<u32, Look>>, FaultError> {
    let scripts = prey.processes.iter().map(|(node, p)| (node.clone(), look_script(p, by)));
    let printed = all(on_each(&cx.cluster, scripts).await)?;
    let mut looks = BTreeMap::new();
    for (node, text) in printed {
        let seen = parse_looks(&text);
        let missing = prey.processes[&node].iter().find(|p| !seen.contains_key(&p.pid));
        if let Some(Process { pid, .. }) = missing {
            let reason = format!("{node} says nothing of pid {pid}: is /proc mounted there?");
            return Err(FaultError::Unsupported(reason));
        }
        looks.insert(node, seen);
    }
    Ok(looks)
}
