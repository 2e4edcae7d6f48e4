//! The fault `clock`: the store's wall clock goes wrong on some nodes. Where the machine's clock is the
//! node's own, that is set; elsewhere the store's processes are made to see another time.
//!
//! It bit if the clock, read from inside of every process of the store, shows what was asked for, to
//! within what the reading took. It healed if all of them show the node's own time again. Clocks that
//! count from boot (`CLOCK_MONOTONIC`) are left alone, as on a real machine.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::Duration;

use async_trait::async_trait;
use deposed_agent::clock::{Clock as Moving, Motion};
use deposed_agent::{Spec, Wall};
use deposed_core::{Choice, Effect, Evidence, FaultContext, FaultError, Nemesis, WrongTime};
use deposed_history::{Episode, Value};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use crate::agents::Agents;
use crate::claims::Claims;
use crate::fanout::{all, on_each};
use crate::findings::Findings;
use crate::mistake::{Mistake, suggest};
use crate::processes::{self, Prey, of_agent};
use crate::target::Target;
use crate::wall::{self, Told};
use crate::words::{self, Unknown, Word, with_targets};

/// Its name, as histories have it.
const FAULT: &str = "clock";

/// What `clock:` may be followed by, beside a target.
const MOTIONS: [Word; 4] = [
    ("jump", "set once, at random or as in jump=-600s"),
    ("strobe", "there and back again and again: strobe=200ms"),
    ("drift", "too fast or too slow: drift=-500ppm"),
    ("scramble", "set again and again, at random within scramble=10s"),
];

/// How far clocks are moved where nobody says: evenly on a logarithmic scale, as errors of a second
/// and of minutes find different mistakes.
const OFFSET_MS: std::ops::Range<f64> = 10.0..600_000.0;
const RATE_PPM: std::ops::Range<f64> = 100.0..90_000.0;
const STROBE_PERIOD_MS: std::ops::Range<f64> = 1.0..1000.0;
const SCRAMBLE_PERIOD_MS: std::ops::Range<f64> = 50.0..1000.0;

/// A kind of motion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Jump,
    Strobe,
    Drift,
    Scramble,
}

const KINDS: [Kind; 4] = [Kind::Jump, Kind::Strobe, Kind::Drift, Kind::Scramble];

impl Kind {
    const fn word(self) -> &'static str {
        MOTIONS[self as usize].0
    }
}

/// How clocks are to be moved: drawn as far as the user does not say.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Wanted {
    kind: Option<Kind>,
    /// Milliseconds; for a drift parts per million.
    amount: Option<f64>,
}

impl Wanted {
    /// Reads `jump` or `jump=-600s`; `None` if it is no motion.
    fn parse(text: &str) -> Option<Result<Self, Mistake>> {
        let (word, amount) = match text.split_once('=') {
            Some((word, amount)) => (word, Some(amount)),
            None => (text, None),
        };
        let kind = KINDS.into_iter().find(|kind| kind.word() == word);
        let Some(kind) = kind else {
            let hint = || suggest(word, MOTIONS.map(|(word, _)| word));
            return amount.map(|_| Err(Mistake::new(text, format!("no such motion; {}", hint()))));
        };
        let amount = match (amount.map(|amount| parse_amount(kind, amount)), kind) {
            (None, _) => None,
            (Some(None), Kind::Drift) => {
                let problem = "how fast? for instance 500ppm or -2%, below 100%";
                return Some(Err(Mistake::new(text, problem)));
            }
            (Some(None), _) => {
                let problem = "how far? for instance 200ms, -1.5s or 10m, at most 10 years";
                return Some(Err(Mistake::new(text, problem)));
            }
            (Some(amount), _) => amount,
        };
        Some(Ok(Self { kind: Some(kind), amount }))
    }

    fn draw(self, rng: &mut ChaCha8Rng) -> Motion {
        let kind = self.kind.unwrap_or_else(|| KINDS[rng.random_range(0..KINDS.len())]);
        let mut signed = |range: std::ops::Range<f64>| {
            let sign = if rng.random_bool(0.5) { 1.0 } else { -1.0 };
            self.amount.unwrap_or(sign * logarithmic(range, rng))
        };
        match kind {
            Kind::Jump => Motion::Jump { offset_ms: whole(signed(OFFSET_MS)) },
            Kind::Drift => Motion::Drift { rate_ppm: signed(RATE_PPM).round() },
            Kind::Strobe => Motion::Strobe {
                offset_ms: whole(signed(OFFSET_MS)),
                period_ms: logarithmic(STROBE_PERIOD_MS, rng) as u64,
            },
            Kind::Scramble => Motion::Scramble {
                max_ms: whole(signed(OFFSET_MS)).unsigned_abs(),
                period_ms: logarithmic(SCRAMBLE_PERIOD_MS, rng) as u64,
                seed: rng.random(),
            },
        }
    }
}

fn whole(ms: f64) -> i64 {
    ms.round() as i64
}

fn logarithmic(range: std::ops::Range<f64>, rng: &mut ChaCha8Rng) -> f64 {
    rng.random_range(range.start.ln()..range.end.ln()).exp()
}

/// Milliseconds, or for a drift parts per million.
fn parse_amount(kind: Kind, text: &str) -> Option<f64> {
    /// Ten years.
    const MS_MAX: f64 = 3.2e11;
    let units: &[(&str, f64)] = match kind {
        Kind::Drift => &[("ppm", 1.0), ("%", 1e4)],
        _ => &[("ms", 1.0), ("s", 1e3), ("m", 6e4), ("h", 3.6e6)],
    };
    let max = if kind == Kind::Drift { 1e6 } else { MS_MAX };
    let (number, factor) =
        units.iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, factor)))?;
    let amount = number.parse::<f64>().ok()? * factor;
    (amount.is_finite() && amount != 0.0 && amount.abs() < max).then_some(amount)
}

/// Moves the store's wall clocks.
pub(crate) struct Clock {
    wanted: Wanted,
    target: Option<Target>,
    claims: Claims,
    agents: Agents,
    /// For each node with a clock of its own, the machines that are not to be moved.
    others: BTreeMap<String, BTreeSet<String>>,
    /// What the clocks of such nodes said before they were moved.
    before: BTreeMap<String, Told>,
}

/// What is done to the nodes of one injection, beside what [`Prey`] says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Motions {
    motions: BTreeMap<String, Motion>,
}

impl Motions {
    fn read(choice: &Choice) -> Result<Self, FaultError> {
        serde_json::from_value(choice.what.clone())
            .map_err(|error| FaultError::Unsupported(format!("not a choice of clocks: {error}")))
    }
}

impl Clock {
    /// Words for help and completions.
    pub(crate) const WORDS: [Word; 9] = with_targets(&MOTIONS);

    /// Reads `MOTION`, `TARGET` or `MOTION:TARGET`.
    pub(crate) fn parse(
        text: Option<&str>,
        nodes: &[String],
        claims: &Claims,
        agents: &Agents,
    ) -> Result<Self, Mistake> {
        let unknown = Unknown { problem: "no such motion", known: &MOTIONS };
        let (wanted, target) =
            words::read(text, &unknown, Wanted::parse, |word| Target::parse(word, nodes))?;
        let wanted = wanted.unwrap_or_default();
        Ok(Self {
            wanted,
            target,
            claims: claims.clone(),
            agents: agents.clone(),
            others: BTreeMap::new(),
            before: BTreeMap::new(),
        })
    }

    /// What a node's agent is to do: one that owns its clock moves that.
    fn wall(&self, node: &str, motion: Motion) -> Option<Spec> {
        let others = self.others.get(node)?.clone();
        Some(Spec::Wall(Wall { others, motion }))
    }

    /// What `date` says, past the agents, against clocks of machines having been moved, or not any more.
    async fn doubts(
        &self,
        cx: &FaultContext,
        nodes: &[String],
        motions: &BTreeMap<String, Motion>,
    ) -> Result<Vec<String>, FaultError> {
        let own = nodes.iter().filter(|node| self.before.contains_key(*node));
        let now = wall::ask(&cx.cluster, own).await?;
        let doubts = now.into_iter().filter_map(|(node, now)| {
            let doubt = wall::doubt(self.before[&node], now, motions.get(&node))?;
            Some(format!("{node}: {doubt}"))
        });
        Ok(doubts.collect())
    }

    /// The nodes of a choice whose store is moved, process by process.
    fn sharing(&self, choice: &Choice) -> Vec<String> {
        let sharing = choice.nodes.iter().filter(|node| !self.others.contains_key(*node));
        sharing.cloned().collect()
    }
}

#[async_trait]
impl Nemesis for Clock {
    fn fault(&self) -> &str {
        FAULT
    }

    async fn prepare(&mut self, cx: &FaultContext) -> Result<(), FaultError> {
        processes::control(cx)?;
        self.agents.start(&cx.cluster).await?;
        self.others = wall::others(cx).await?;
        // Whether they may be set is for the machines themselves to say.
        let motion = self.wanted.draw(&mut ChaCha8Rng::seed_from_u64(0));
        let own = self
            .others
            .keys()
            .filter_map(|node| Some((node.clone(), self.wall(node, motion.clone())?)));
        self.agents.check(own.collect()).await
    }

    async fn choose(
        &mut self,
        cx: &FaultContext,
        rng: &mut ChaCha8Rng,
    ) -> Result<Choice, FaultError> {
        let mut choice = processes::choose(cx, self.target.as_ref(), &self.claims, rng).await?;
        let motions: BTreeMap<&String, Motion> =
            choice.nodes.iter().map(|node| (node, self.wanted.draw(rng))).collect();
        choice.what["motions"] = serde_json::json!(motions);
        Ok(choice)
    }

    async fn repeat(&mut self, cx: &FaultContext, earlier: &Choice) -> Result<Choice, FaultError> {
        processes::repeat(cx, earlier, &self.claims).await
    }

    /// The nodes' own journals know it: a cell of shared memory, and who has it mapped.
    fn undo(&self, _cx: &FaultContext, _choice: &Choice) -> Vec<(String, String)> {
        Vec::new()
    }

    async fn inject(
        &mut self,
        cx: &FaultContext,
        choice: &Choice,
        name: &str,
    ) -> Result<(), FaultError> {
        let own = choice.nodes.iter().filter(|node| self.others.contains_key(*node));
        self.before = wall::ask(&cx.cluster, own).await?;
        let Motions { mut motions } = Motions::read(choice)?;
        let specs = Prey::read(choice)?.processes.into_iter().filter_map(|(node, processes)| {
            let motion = motions.remove(&node)?;
            let spec = self.wall(&node, motion.clone()).unwrap_or_else(|| {
                let processes = processes.into_iter().map(of_agent).collect();
                Spec::Clock(Moving { processes, motion })
            });
            Some((node, spec))
        });
        self.agents.apply(name, specs.collect()).await
    }

    async fn evidence(
        &mut self,
        cx: &FaultContext,
        choice: &Choice,
        name: &str,
    ) -> Result<Evidence, FaultError> {
        let mut findings = Findings::of(&self.agents, name, &choice.nodes).await?;
        // Past the agents: whether every process has a cell mapped. One that has just begun gets it.
        let (mut without, sharing) = (Vec::new(), self.sharing(choice));
        for look in 0..LOOKS {
            if look > 0 {
                tokio::time::sleep(LOOK_EVERY).await;
            }
            let cells = cells(cx, &sharing).await?;
            without = cells.into_iter().filter(|has| has.cell.is_none()).collect();
            if without.is_empty() {
                break;
            }
        }
        let without = without.into_iter();
        findings
            .doubt(without.map(|has| format!("{}: pid {} sees the true time", has.node, has.pid)));
        findings.doubt(self.doubts(cx, &choice.nodes, &Motions::read(choice)?.motions).await?);
        Ok(findings.evidence())
    }

    async fn heal(
        &mut self,
        cx: &FaultContext,
        choice: &Choice,
        name: &str,
    ) -> Result<Evidence, FaultError> {
        let mut findings = Findings::default();
        for (node, undone) in self.agents.undo(name, &choice.nodes).await {
            match undone {
                Ok(sight) => findings.add(node, sight),
                Err(error) => findings.doubts.push(error.to_string()),
            }
        }
        findings.doubt(self.doubts(cx, &choice.nodes, &BTreeMap::new()).await?);
        findings.doubt(cells(cx, &self.sharing(choice)).await?.into_iter().filter_map(|has| {
            Some(format!("{}: pid {} still has {} mapped", has.node, has.pid, has.cell?))
        }));
        if findings.doubts.is_empty() {
            self.claims.release(&choice.nodes);
        }
        Ok(findings.evidence())
    }
}

/// How often processes that have just begun are looked at again, and how far apart.
const LOOKS: u32 = 20;
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A process, and the cell it has mapped.
struct Has {
    node: String,
    pid: u32,
    cell: Option<String>,
}

/// Which cells the store's processes have mapped, as the nodes' own tools see it. Processes that have
/// ended are absent.
async fn cells(cx: &FaultContext, nodes: &[String]) -> Result<Vec<Has>, FaultError> {
    let running = processes::list(cx, nodes).await?.into_iter().map(|(node, processes)| {
        let mut script = String::from(
            "look() { maps=$(cat /proc/$1/maps 2>/dev/null) && [ -n \"$maps\" ] || return 0
             echo \"$1 $(echo \"$maps\" | sed -n 's|.*/\\(clock-[0-9-]*\\.cell\\).*|\\1|p')\"; }\n",
        );
        for process in processes {
            let _ = writeln!(script, "look {}", process.pid);
        }
        (node, script)
    });
    let printed = all(on_each(&cx.cluster, running).await)?;
    let mut found = Vec::new();
    for (node, text) in printed {
        for line in text.lines() {
            let (pid, cell) = line.split_once(' ').unwrap_or((line, ""));
            let cell = (!cell.trim().is_empty()).then(|| cell.trim().to_owned());
            found.extend(pid.parse().ok().map(|pid| Has { node: node.clone(), pid, cell }));
        }
    }
    Ok(found)
}

/// When this fault may have had the wall clocks of nodes wrong, and how far, as a history tells that
/// ended at `end_ns`. Whatever stamps of theirs say of such times is to be read with that.
pub fn wrong_times(episodes: &[Episode], end_ns: u64) -> BTreeMap<String, Vec<WrongTime>> {
    let mut wrong: BTreeMap<String, Vec<WrongTime>> = BTreeMap::new();
    let bit = |episode: &&Episode| episode.fault == FAULT && episode.effect() != Effect::Skipped;
    for episode in episodes.iter().filter(bit) {
        let healed = episode.healed.filter(|_| episode.is_healed());
        let (from_ns, to_ns) = (episode.begin.time, healed.map_or(end_ns, |moment| moment.time));
        for node in &episode.nodes {
            let motion = episode.choice.get("motions").and_then(|motions| motions.get(node));
            let Some((ahead_min_ns, ahead_max_ns)) =
                motion.and_then(|motion| farthest(motion, to_ns.saturating_sub(from_ns)))
            else {
                continue;
            };
            let time = WrongTime { from_ns, to_ns, ahead_min_ns, ahead_max_ns };
            wrong.entry(node.clone()).or_default().push(time);
        }
    }
    wrong
}

/// How far ahead a clock is at least and at most that is moved for so long.
fn farthest(motion: &Value, for_ns: u64) -> Option<(i64, i64)> {
    let number = |name: &str| match motion.get(name)? {
        Value::Int(whole) => Some(*whole as f64),
        Value::Float(number) => Some(*number),
        _ => None,
    };
    // Numbers too great become the greatest there are.
    let ms = |name: &str| Some((number(name)? * 1e6) as i64);
    Some(match motion.get("motion")?.as_str()? {
        "drift" => {
            let at_last = (number("rate_ppm")? * 1e-6 * for_ns as f64) as i64;
            (at_last.min(0), at_last.max(0))
        }
        "scramble" => (-ms("max_ms")?, ms("max_ms")?),
        _ => (ms("offset_ms")?, ms("offset_ms")?),
    })
}

#[cfg(test)]
mod tests {
    use deposed_history::{Moment, Sighting};
    use rand::SeedableRng;

    use super::*;

    fn parse(text: &str) -> Result<(Wanted, Option<Target>), String> {
        let nodes = ["n1", "n2", "n3"].map(str::to_owned);
        let clock = Clock::parse(Some(text), &nodes, &Claims::default(), &Agents::default());
        clock.map(|clock| (clock.wanted, clock.target)).map_err(|mistake| mistake.to_string())
    }

    /// A motion, a target, or both, in that order.
    #[test]
    fn motions_and_targets() {
        let jump = |amount| Wanted { kind: Some(Kind::Jump), amount };
        assert_eq!(parse("jump"), Ok((jump(None), None)));
        assert_eq!(parse("primaries"), Ok((Wanted::default(), Some(Target::Primaries))));
        let nodes = Target::Nodes(vec!["n1".into(), "n3".into()]);
        assert_eq!(parse("jump=-600s:n1+n3"), Ok((jump(Some(-600_000.0)), Some(nodes))));
        let drift = Wanted { kind: Some(Kind::Drift), amount: Some(-20_000.0) };
        assert_eq!(parse("drift=-2%:all"), Ok((drift, Some(Target::All))));
    }

    /// Each mistake is told with what was probably meant.
    #[test]
    fn mistakes() {
        let said = |text: &str| parse(text).unwrap_err();
        assert_eq!(said("jmp"), "`jmp`: no such motion; did you mean `jump`?");
        assert_eq!(said("jmp:n1"), "`jmp`: no such motion; did you mean `jump`?");
        assert_eq!(said("strob=1s"), "`strob=1s`: no such motion; did you mean `strobe`?");
        assert!(said("primaris").contains("did you mean `primaries`?"));
        for text in ["jump=600", "jump=0s", "jump=1y", "jump=", "jump=nans", "jump=9999999h"] {
            assert!(said(text).contains("how far?"), "{text}");
        }
        assert!(said("drift=1s").contains("how fast?"));
        assert!(said("drift=-100%").contains("how fast?"));
    }

    /// What is said is done; what is not is drawn, in both directions, and the same for a seed.
    #[test]
    fn what_is_not_said_is_drawn() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let said = Wanted { kind: Some(Kind::Jump), amount: Some(-600_000.0) };
        assert_eq!(said.draw(&mut rng), Motion::Jump { offset_ms: -600_000 });
        let drawn: Vec<Motion> = (0..200).map(|_| Wanted::default().draw(&mut rng)).collect();
        let jumps = drawn.iter().filter_map(|motion| match motion {
            Motion::Jump { offset_ms } => Some(*offset_ms),
            _ => None,
        });
        assert!(jumps.clone().all(|ms| (9..=600_001).contains(&ms.abs())));
        assert!(jumps.clone().any(|ms| ms < 0) && jumps.clone().any(|ms| ms > 0));
        assert!(
            jumps.clone().any(|ms| ms.abs() < 1000) && jumps.clone().any(|ms| ms.abs() > 10_000)
        );
        let again = |seed| Wanted::default().draw(&mut ChaCha8Rng::seed_from_u64(seed));
        assert_eq!(again(3), again(3));
    }

    /// Every motion says how far it goes, until it was seen to be healed or else to the end.
    #[test]
    fn times_that_are_wrong() {
        let moment = |time| Moment { position: 0, time };
        let sighting =
            |effect| Some(Sighting { effect, summary: String::new(), figures: Value::Nil });
        let episode = |motion: Motion, healing| Episode {
            fault: FAULT.into(),
            id: 1,
            lane: FAULT.into(),
            choice: serde_json::json!({ "motions": { "n4": motion } }).into(),
            nodes: vec!["n4".into()],
            begin: moment(1_000),
            applied: Some(moment(1_100)),
            heal: Some(moment(1_900)),
            healed: Some(moment(2_000)),
            bite: sighting(Effect::Proven),
            healing: sighting(healing),
        };
        let told = |episode: Episode| {
            let wrong = wrong_times(&[episode], 9_000);
            let WrongTime { from_ns, to_ns, ahead_min_ns, ahead_max_ns } = wrong["n4"][0];
            (from_ns, to_ns, ahead_min_ns, ahead_max_ns)
        };
        let jump = Motion::Jump { offset_ms: -5 };
        let ahead = -5_000_000;
        assert_eq!(told(episode(jump.clone(), Effect::Proven)), (1_000, 2_000, ahead, ahead));
        assert_eq!(told(episode(jump.clone(), Effect::Indeterminate)).1, 9_000);
        let drift = Motion::Drift { rate_ppm: 500_000.0 };
        assert_eq!(told(episode(drift, Effect::Proven)), (1_000, 2_000, 0, 500));
        let scramble = Motion::Scramble { max_ms: 3, period_ms: 1, seed: 1 };
        assert_eq!(told(episode(scramble, Effect::Proven)), (1_000, 2_000, -3_000_000, 3_000_000));
        let skipped = Episode { bite: sighting(Effect::Skipped), ..episode(jump, Effect::Skipped) };
        assert!(wrong_times(&[skipped], 9_000).is_empty());
    }
}
