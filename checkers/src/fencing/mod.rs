//! What a deposed leader or holder can still do: tokens, leases, locks and failover.
//!
//! A history tells who was granted which token, what writes a resource accepted under which, who
//! served what as a leader, and what survived ([`deposed_history::fencing`]). [`Fencing`] looks for
//! sixteen anomalies in it. A guarantee that is *claimed* and broken is a violation; what is legal
//! under the [`Claims`] and yet dangerous is an *exposure*, measured in the analysis's details; what
//! the history cannot tell is undecided.
//!
//! | anomaly | when |
//! |---|---|
//! | `token-regression` | a resource's log accepts a token right after a greater one |
//! | `stale-token-accepted` | a write is accepted after a greater token was |
//! | `stale-token-after-newer-grant` | ... after a greater one was granted, though not yet used |
//! | `duplicate-token` | two acquires return one token, and the lock was not merely reentered |
//! | `token-grant-order` | an acquire returns a smaller token than one that had returned before it began |
//! | `unissued-token` | a token is accepted that nobody can have been given by then |
//! | `mutual-exclusion` | a lock is granted while another holder certainly holds it |
//! | `lease-overlap` | the same, while another lease is certainly in force |
//! | `overclaimed-lease` | a client takes its lease for valid when it is certainly over |
//! | `use-after-release` | a write is accepted that began after its owner had released |
//! | `lost-acked-write` | an acknowledged write is in no observation with the last word |
//! | `duplicate-apply` | a write takes effect twice |
//! | `dual-leader` | two nodes lead in one epoch, or serve in two epochs at once |
//! | `dual-leader-effect` | a leader serves after one of a later epoch had |
//! | `stale-read-under-lease` | a read misses a write acknowledged before it began |
//! | `lost-notification` | a renewal succeeds that began after the service had ended the grant |
//!
//! Each order involved (of calls in real time, of tokens, of a resource's log) is transitive, so
//! wherever a set of calls contradicts two of them, two calls do: sweeps that find those pairs find
//! all there is, in O(n log n). Each is told as the cycle it is.
//!
//! **Nobody is blamed for what may not have happened.** A hold begins when its acquire returned and
//! ends when its release was *invoked*, when its lease may have run out on the worst clocks
//! claimed, or when its holder lost its connection. An acquire of unknown outcome holds nothing, but
//! may have got any token. A write of unknown outcome counts as what the resource's log says of
//! it, and is never lost. A moment of another clock counts with its error bound. What a [`Fencing`]
//! reports is checked by a verifier of its own against the raw history.

mod claims;
mod event;
mod facts;
mod found;
mod holds;
mod leaders;
mod planted;
mod raw;
mod refusal;
mod tell;
#[cfg(test)]
mod tests;
mod tokens;
mod verify;
mod writes;

pub use claims::{Claims, LeaseClaim};
pub use found::NAMES as FENCING_NAMES;
pub use refusal::Refused;
use verify::Verifier;
pub use verify::verify;

use deposed_history::History;
use serde_json::{Map, Value, json};

use crate::analysis::with_beginning;
use crate::budget::Exhausted;
use crate::distribution::distribution;
use crate::parallel::in_parallel;
use crate::{Analysis, Anomaly, Budget, Checker, Undecided};
use facts::Facts;
use found::{Found, Kind, NAMES};

/// Judges histories of locks, leases, fenced writes and failover against what is claimed.
#[derive(Debug, Clone, Copy, Default)]
pub struct Fencing {
    /// What the system promises.
    pub claims: Claims,
}

impl Checker for Fencing {
    fn name(&self) -> &str {
        "fencing"
    }

    fn check(&self, history: &History, budget: &Budget) -> Analysis {
        with_beginning(history, "break no claim", |history| match self.find(history, budget) {
            Ok(found) => self.conclude(history, found, budget.threads),
            Err(exhausted) => Analysis::exhausted(self.name(), history, exhausted),
        })
    }
}

/// Memory taken for each event: its facts, and the sweeps over them.
const EVENT_BYTES: u64 = 200;

impl Fencing {
    fn find(&self, history: &History, budget: &Budget) -> Result<Found, Exhausted> {
        let bytes = history.len() as u64 * EVENT_BYTES;
        budget.reserve(bytes)?;
        let found = self.sweep(history, budget);
        budget.release(bytes);
        found
    }

    fn sweep(&self, history: &History, budget: &Budget) -> Result<Found, Exhausted> {
        let facts = Facts::of(history, budget)?;
        type Sweep = fn(&Facts<'_>, &Claims, &mut Found);
        let sweeps: Vec<Sweep> = vec![tokens::judge, holds::judge, writes::judge, leaders::judge];
        let swept = in_parallel(budget.threads, sweeps, |sweep| {
            budget.check()?;
            let mut found = Found::default();
            sweep(&facts, &self.claims, &mut found);
            Ok(found)
        });
        let mut found = Found::default();
        for of_one in swept {
            found.add(of_one?);
        }
        if facts.is_empty() {
            let reason = "vacuous: nothing was acquired, written or read";
            found.undecided.push((0, reason.into()));
        }
        for &position in &facts.oddities {
            let op = history.op(position);
            let (index, process, f) = (op.index(), op.process(), op.f());
            let reason = format!("op {index} ({process}'s {f}) is in no known shape");
            found.undecided.push((position, reason));
        }
        if facts.oddity_count > facts.oddities.len() as u64 {
            let first = facts.oddities.iter().min().copied().unwrap_or_default();
            let reason = format!("{} such ops in all", facts.oddity_count);
            found.undecided.push((first, reason));
        }
        Ok(found)
    }

    fn conclude(&self, history: &History, mut found: Found, threads: usize) -> Analysis {
        let kinds = || found.violations.values().chain(found.exposures.values());
        let told = kinds().flat_map(|kind| kind.told.iter());
        let verifier = Verifier::of(history, &self.claims, told, threads);
        let mut anomalies: Vec<Anomaly> = Vec::new();
        let (mut count, mut names) = (0, Vec::new());
        let mut violations = Map::new();
        for name in NAMES {
            let Some(kind) = found.violations.remove(name) else { continue };
            let (proven, refused) = prove(&verifier, kind.told);
            found.undecided.extend(refused);
            if proven.is_empty() {
                continue;
            }
            count += kind.count;
            let sizes = distribution(&kind.sizes);
            violations.insert(name.into(), json!({ "count": kind.count, "sizes": sizes }));
            names.push(format!("{} {name}", kind.count));
            anomalies.extend(proven);
            for size in kind.sizes {
                found.measure(name, size);
            }
        }
        let exposures: Map<String, Value> = std::mem::take(&mut found.exposures)
            .into_iter()
            .map(|(name, kind)| (name.to_owned(), exposure(&verifier, kind, &mut found)))
            .collect();
        let measures: Map<String, Value> = found
            .measures
            .iter()
            .map(|(name, values)| ((*name).to_owned(), distribution(values)))
            .collect();
        let get = |name| found.counts.get(name).copied().unwrap_or(0);
        let mut summary = format!(
            "{} holds, {} accepted and {} acknowledged writes, {} reads",
            get("holds"),
            get("accepted_with_token") + get("accepted_without_token"),
            get("acknowledged_writes"),
            get("reads")
        );
        for (what, names) in [("", names.join(", ")), ("exposed: ", listing(&exposures))] {
            if !names.is_empty() {
                summary = format!("{summary}; {what}{names}");
            }
        }
        let details = json!({
            "claims": self.claims,
            "counts": found.counts,
            "exposures": exposures,
            "measures": measures,
            "violations": violations,
        });
        let undecided = found.undecided.into_iter();
        let undecided = undecided.map(|(from, why)| Undecided::since(history, from, why)).collect();
        let analysis = Analysis::from_findings(self.name(), summary, anomalies, undecided);
        Analysis { anomaly_count: count, details, ..analysis }
    }
}

/// Keeps what the verifier confirms; the second says what it refused.
fn prove(verifier: &Verifier<'_>, told: Vec<Anomaly>) -> (Vec<Anomaly>, Vec<(u32, String)>) {
    let (mut proven, mut refused) = (Vec::new(), Vec::new());
    for anomaly in told {
        match verifier.verify(&anomaly) {
            Ok(()) => proven.push(anomaly),
            Err(why) => {
                let reason = format!(
                    "a {} that was found did not stand up to its verification ({why}): this is a \
                     fault of the checker, please report it with the history",
                    anomaly.name
                );
                refused.push((0, reason));
            }
        }
    }
    (proven, refused)
}

fn exposure(verifier: &Verifier<'_>, kind: Kind, found: &mut Found) -> Value {
    let (examples, refused) = prove(verifier, kind.told);
    found.undecided.extend(refused);
    json!({ "count": kind.count, "examples": examples, "sizes": distribution(&kind.sizes) })
}

/// `3 dual-leader, 1 duplicate-apply`.
fn listing(exposures: &Map<String, Value>) -> String {
    let names = exposures.iter().map(|(name, exposure)| format!("{} {name}", exposure["count"]));
    names.collect::<Vec<_>>().join(", ")
}
