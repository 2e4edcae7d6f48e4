//! Machines whose clock is their own, as the controller sees them: which machines nodes are, and how far
//! their clocks have gone, past the agents.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use deposed_agent::clock::Motion;
use deposed_core::{Cluster, Command, FaultContext, FaultError, RemoteError};
use tokio::task::JoinSet;

use crate::fanout::{SCRIPT_MAX, all, on_each};

/// Where a machine says which boot of which machine it is; the same in all its containers.
const BOOT: &str = "/proc/sys/kernel/random/boot_id";

/// How often a clock is asked for the time. The quickest answer counts.
const ROUNDS: u32 = 5;

/// By how much clocks may go at different rates when nobody makes them.
const RATE_ERROR: f64 = 1e-3;

/// For each node with a clock of its own, the boots of all other nodes and of the machine this runs on:
/// a node with one of them shares its clock.
pub(crate) async fn others(
    cx: &FaultContext,
) -> Result<BTreeMap<String, BTreeSet<String>>, FaultError> {
    if cx.own_clocks.is_empty() {
        return Ok(BTreeMap::new());
    }
    let scripts = cx.cluster.nodes().map(|node| (node.name.to_string(), format!("cat {BOOT}")));
    let boots = all(on_each(&cx.cluster, scripts.collect::<Vec<_>>()).await)?;
    // Elsewhere than on Linux there is no such file, and no node on this machine.
    let here = std::fs::read_to_string(BOOT).ok();
    let others = cx.own_clocks.iter().map(|own| {
        let boots = boots.iter().filter(|(node, _)| *node != own).map(|(_, boot)| boot);
        let boots = boots.chain(&here).map(|boot| boot.trim().to_owned());
        (own.clone(), boots.collect())
    });
    Ok(others.collect())
}

/// What a node's clock said.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Told {
    /// In nanoseconds since 1970.
    ns: i64,
    /// When, by this machine's clock that is never set: the middle of the exchange.
    at: Instant,
    /// How far off that may be, either way.
    error: Duration,
}

/// Asks nodes for the time.
pub(crate) async fn ask(
    cluster: &Cluster,
    nodes: impl IntoIterator<Item = &String>,
) -> Result<BTreeMap<String, Told>, FaultError> {
    let mut asked = JoinSet::new();
    for node in nodes {
        let Some(remote) = cluster.remote(node).cloned() else { continue };
        let node = node.clone();
        asked.spawn(async move {
            let mut best: Option<Told> = None;
            for _ in 0..ROUNDS {
                let began = Instant::now();
                let command = Command::new("date +%s%N").deadline(SCRIPT_MAX).idempotent();
                let said = remote.run(command).await?;
                let half = began.elapsed() / 2;
                let Ok(ns) = said.parse() else { continue };
                if best.is_none_or(|best| half < best.error) {
                    best = Some(Told { ns, at: began + half, error: half });
                }
            }
            Ok::<_, RemoteError>((node, best))
        });
    }
    let mut told = BTreeMap::new();
    while let Some(answer) = asked.join_next().await {
        let (node, best) = answer.expect("asking for the time does not panic")?;
        if let Some(best) = best {
            told.insert(node, best);
        }
    }
    Ok(told)
}

/// What speaks against a clock having gone as a motion would have it, or as usual if there is none.
pub(crate) fn doubt(before: Told, now: Told, motion: Option<&Motion>) -> Option<String> {
    let passed = now.at.saturating_duration_since(before.at);
    let moved = now.ns - before.ns - passed.as_nanos() as i64;
    let error = (before.error + now.error + passed.mul_f64(RATE_ERROR)).as_nanos() as i64;
    let asked = motion.map_or(0..=0, |motion| motion.reach(passed));
    if moved + error >= *asked.start() && moved - error <= *asked.end() {
        return None;
    }
    let ms = |ns: i64| ns as f64 / 1e6;
    let what = motion.map_or_else(|| "nothing".to_owned(), ToString::to_string);
    Some(format!("date went by {:+.1} ms ± {:.1} ms, which is not {what}", ms(moved), ms(error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    fn doubted(moved_ms: i64, motion: Option<&Motion>) -> bool {
        let at = Instant::now();
        let error = Duration::from_millis(4);
        let before = Told { ns: 5_000 * MS, at, error };
        let now = Told { ns: (7_000 + moved_ms) * MS, at: at + Duration::from_secs(2), error };
        doubt(before, now, motion).is_some()
    }

    /// A clock is believed to have gone where a motion may have brought it, to within what asking took.
    #[test]
    fn clocks_are_where_motions_bring_them() {
        let jump = Motion::Jump { offset_ms: -600 };
        assert_eq!(
            [-620, -605, -600, 0].map(|ms| doubted(ms, Some(&jump))),
            [true, false, false, true]
        );
        let strobe = Motion::Strobe { offset_ms: 300, period_ms: 5 };
        assert_eq!(
            [-20, 0, 300, 320].map(|ms| doubted(ms, Some(&strobe))),
            [true, false, false, true]
        );
        let drift = Motion::Drift { rate_ppm: -50_000.0 };
        assert_eq!(
            [-120, -100, 0, 20].map(|ms| doubted(ms, Some(&drift))),
            [true, false, false, true]
        );
        let scramble = Motion::Scramble { max_ms: 100, period_ms: 5, seed: 1 };
        assert_eq!(
            [-120, -100, 100, 120].map(|ms| doubted(ms, Some(&scramble))),
            [true, false, false, true]
        );
        assert_eq!([-20, 5, 20].map(|ms| doubted(ms, None)), [true, false, true]);
    }
}
