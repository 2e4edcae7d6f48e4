//! Drives one fault through a run: quiet, choose, inject, look, hold, look, heal, look, and again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use deposed_core::{
    Choice, Effect, EventSender, Evidence, FaultContext, FaultError, Lane, Nemesis, NotRecorded,
    Stop,
};
use deposed_history::{FaultAction, FaultEvent, Sighting, Value};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use tokio::time::{Instant, sleep, sleep_until};

use crate::agents::Agents;
use crate::claims::Claims;
use crate::injections::{Injection, Injections};
use crate::journal::{Entry, Journal, Undo};
use crate::schedule::{Schedule, Timing};
use crate::spec::LaneSpec;
use crate::target::node_names;

/// How often healing is tried when a fault is due to be healed, and how far apart.
const HEAL_TRIES: u32 = 2;
const HEAL_TRY_EVERY: Duration = Duration::from_secs(1);

/// How often healing is tried at the end of a run.
const LAST_HEAL_TRIES: u32 = 4;

/// What lanes need besides what they do.
#[derive(Debug, Clone)]
pub struct LaneOptions {
    /// How often and how long.
    pub timing: Timing,
    /// Length of the run, if it has one: short runs are scheduled so that every lane injects.
    pub time_limit: Option<Duration>,
    /// Seed of choices and times. Each lane draws from a stream of its own.
    pub seed: u64,
    /// Where undos are written before anything is applied.
    pub journal: Journal,
    /// Where injections are written down, so that they can be repeated.
    pub injections: Injections,
    /// The injections of an earlier run, to be repeated instead of drawing any.
    pub repeat: Option<Vec<Injection>>,
}

/// Makes the lanes of a run and lets every fault look at the nodes. Call it before the store is set up,
/// when what an earlier run may have left on the nodes has been undone (see [`heal_all`](crate::heal_all));
/// when the store serves take the [`baseline`](Lane::baseline) of each, then [`drive`](Lane::drive) them.
///
/// # Errors
/// If a node cannot be reached, or a fault cannot work on this cluster or system
/// ([`FaultError::Unsupported`]).
pub async fn lanes(
    specs: &[LaneSpec],
    cx: &FaultContext,
    options: &LaneOptions,
) -> Result<Vec<Box<dyn Lane>>, FaultError> {
    if specs.is_empty() {
        return Ok(Vec::new());
    }
    let (claims, agents) = (Claims::default(), Agents::default());
    let ids = Arc::new(AtomicU64::new(1));
    let nodes = node_names(cx);
    let mut lanes: Vec<Box<dyn Lane>> = Vec::new();
    let (count, mut number) = (specs.len() as u32, 0);
    for spec in specs {
        let refused = |mistake| FaultError::Unsupported(format!("{mistake}"));
        if let Some(mistake) = spec.unsupported(&*cx.system) {
            return Err(refused(mistake));
        }
        let claims = claims.for_another_lane();
        let mut nemesis = spec.nemesis(&nodes, &claims, &agents).map_err(refused)?;
        nemesis.prepare(cx).await.map_err(|error| match error {
            FaultError::Unsupported(why) => {
                FaultError::Unsupported(format!("{}: {why}", spec.text))
            }
            other => other,
        })?;
        let mut rng = ChaCha8Rng::seed_from_u64(options.seed);
        rng.set_stream(u64::from(number) + 1);
        let schedule = Schedule::new(options.timing, number, count, options.time_limit);
        let repeat = options.repeat.as_ref().map(|injections| {
            injections.iter().filter(|injection| injection.lane == spec.text).cloned().collect()
        });
        lanes.push(Box::new(FaultLane {
            text: spec.text.clone(),
            nemesis,
            claims,
            schedule,
            rng,
            cx: cx.clone(),
            journal: options.journal.clone(),
            injections: options.injections.clone(),
            repeat,
            start: Instant::now(),
            ids: Arc::clone(&ids),
            open: None,
        }));
        number += 1;
    }
    Ok(lanes)
}

/// An injection that was chosen and not yet seen to be healed.
#[derive(Clone)]
struct Open {
    id: u64,
    choice: Choice,
    name: String,
}

struct FaultLane {
    text: String,
    nemesis: Box<dyn Nemesis>,
    claims: Claims,
    schedule: Schedule,
    rng: ChaCha8Rng,
    cx: FaultContext,
    journal: Journal,
    injections: Injections,
    /// What is to be repeated, if anything is.
    repeat: Option<Vec<Injection>>,
    /// When it began to be driven.
    start: Instant,
    /// The next injection of any lane.
    ids: Arc<AtomicU64>,
    /// The injection in force, or one that resists healing.
    open: Option<Open>,
}

/// Records events until one is refused.
struct Recorder {
    events: EventSender,
    refused: Option<NotRecorded>,
}

impl Recorder {
    async fn record(&mut self, event: FaultEvent) {
        if self.refused.is_none() {
            let op = event.to_op();
            self.refused = self.events.record_nemesis(&op.f, op.kind, op.value).await.err();
        }
    }
}

fn doubt(effect: Effect, summary: impl Into<String>) -> Sighting {
    Sighting { effect, summary: summary.into(), figures: Value::Nil }
}

fn sighting(seen: Result<Evidence, FaultError>) -> Sighting {
    match seen {
        Ok(Evidence { effect, summary, figures }) => {
            Sighting { effect, summary, figures: figures.into() }
        }
        Err(error) => doubt(Effect::Indeterminate, format!("could not be seen: {error}")),
    }
}

impl FaultLane {
    fn event(&self, id: u64, action: FaultAction, choice: Option<&Choice>) -> FaultEvent {
        FaultEvent {
            fault: self.nemesis.fault().to_owned(),
            id,
            lane: self.text.clone(),
            action,
            choice: choice.map_or(Value::Nil, |choice| choice.what.clone().into()),
            nodes: choice.map_or_else(Vec::new, |choice| choice.nodes.clone()),
            seen: None,
        }
    }

    /// One injection, from choice to healing, drawn or as it was in an earlier run. Returns whether
    /// there was anything to hit.
    async fn episode(
        &mut self,
        earlier: Option<&Injection>,
        recorder: &mut Recorder,
        stop: &mut Stop,
    ) -> bool {
        let at = self.start.elapsed();
        let chosen = match earlier {
            None => self.nemesis.choose(&self.cx, &mut self.rng).await,
            Some(earlier) => self.nemesis.repeat(&self.cx, &earlier.choice).await,
        };
        let id = self.ids.fetch_add(1, Ordering::Relaxed);
        recorder.record(self.event(id, FaultAction::Inject, chosen.as_ref().ok())).await;
        let choice = match chosen {
            Ok(choice) => choice,
            Err(error) => {
                let skipped = doubt(Effect::Skipped, error.to_string());
                let event = self.event(id, FaultAction::Inject, None);
                recorder.record(FaultEvent { seen: Some(skipped), ..event }).await;
                return false;
            }
        };
        let hold = match earlier {
            None => self.schedule.hold(&mut self.rng),
            Some(earlier) => Duration::from_millis(earlier.hold_ms),
        };
        let injection = Injection {
            at_ms: at.as_millis() as u64,
            hold_ms: hold.as_millis() as u64,
            lane: self.text.clone(),
            choice: choice.clone(),
        };
        if let Err(error) = self.injections.append(&injection) {
            tracing::warn!(id, %error, "an injection cannot be written down to be repeated");
        }
        let name = format!("{}-{id}", self.nemesis.fault());
        self.open = Some(Open { id, choice: choice.clone(), name: name.clone() });
        if recorder.refused.is_none() {
            self.hurt(id, &choice, &name, hold, recorder, stop).await;
        }
        self.mend(recorder, HEAL_TRIES).await;
        true
    }

    /// Injects again and again, as the seed has it, until the run is over.
    async fn draw(&mut self, recorder: &mut Recorder, stop: &mut Stop) {
        let mut wait = self.schedule.first();
        while recorder.refused.is_none() {
            tokio::select! {
                () = sleep(wait) => {}
                () = stop.wait() => return,
            }
            if !self.schedule.fits(self.start.elapsed()) {
                return stop.wait().await;
            }
            self.mend(recorder, 1).await;
            if self.open.is_none() && !self.episode(None, recorder, stop).await {
                wait = self.schedule.retry();
                continue;
            }
            wait = self.schedule.pause(&mut self.rng);
        }
    }

    /// Injects what an earlier run did, when it did, and waits until the run is over. One that comes
    /// due while another resists healing is left out.
    async fn redo(&mut self, earlier: &[Injection], recorder: &mut Recorder, stop: &mut Stop) {
        for injection in earlier {
            tokio::select! {
                () = sleep_until(self.start + Duration::from_millis(injection.at_ms)) => {}
                () = stop.wait() => return,
            }
            self.mend(recorder, 1).await;
            if self.open.is_none() && recorder.refused.is_none() {
                self.episode(Some(injection), recorder, stop).await;
            }
        }
        stop.wait().await;
    }

    /// Writes the undo down, applies the fault, and holds it until its time is over or the run is.
    async fn hurt(
        &mut self,
        id: u64,
        choice: &Choice,
        name: &str,
        hold: Duration,
        recorder: &mut Recorder,
        stop: &mut Stop,
    ) {
        let event = self.event(id, FaultAction::Inject, Some(choice));
        let undo = self.nemesis.undo(&self.cx, choice);
        let entry = Entry {
            id,
            fault: event.fault.clone(),
            nodes: choice.nodes.clone(),
            undo: undo.into_iter().map(|(node, script)| Undo { node, script }).collect(),
        };
        if let Err(error) = self.journal.begin(entry).await {
            let skipped = doubt(Effect::Skipped, format!("its undo cannot be written: {error}"));
            recorder.record(FaultEvent { seen: Some(skipped), ..event }).await;
            return;
        }
        let losses = self.claims.losses();
        let applied = self.nemesis.inject(&self.cx, choice, name).await;
        let until = Instant::now() + hold;
        let in_force = applied.is_ok();
        let seen = match applied {
            Ok(()) => sighting(self.nemesis.evidence(&self.cx, choice, name).await),
            Err(error) => doubt(Effect::Indeterminate, format!("not applied everywhere: {error}")),
        };
        tracing::info!(fault = event.fault, id, effect = %seen.effect, "{}", seen.summary);
        recorder.record(FaultEvent { seen: Some(seen), ..event }).await;
        if !in_force || recorder.refused.is_some() {
            return;
        }
        tokio::select! {
            () = sleep_until(until) => {}
            () = stop.wait() => {}
        }
        // What a node did before it froze or lost its power cannot be asked any more: what was seen stands.
        let lost = self.claims.lost_since(losses, &choice.nodes);
        if !lost.is_empty() {
            tracing::info!(name, ?lost, "not looked at again: nodes were frozen or off meanwhile");
            return;
        }
        let seen = sighting(self.nemesis.evidence(&self.cx, choice, name).await);
        let event = self.event(id, FaultAction::Hold, Some(choice));
        recorder.record(FaultEvent { seen: Some(seen), ..event }).await;
    }

    /// Heals what is open, if anything is, in so many tries.
    async fn mend(&mut self, recorder: &mut Recorder, tries: u32) {
        let Some(Open { id, choice, name }) = self.open.clone() else { return };
        let event = self.event(id, FaultAction::Heal, Some(&choice));
        recorder.record(event.clone()).await;
        let mut seen = doubt(Effect::Indeterminate, "not tried");
        for attempt in 0..tries {
            if attempt > 0 {
                sleep(HEAL_TRY_EVERY).await;
            }
            seen = sighting(self.nemesis.heal(&self.cx, &choice, &name).await);
            if seen.effect == Effect::Proven {
                break;
            }
        }
        tracing::info!(fault = event.fault, id, effect = %seen.effect, "{}", seen.summary);
        if seen.effect == Effect::Proven {
            self.open = None;
            if let Err(error) = self.journal.undone(id).await {
                tracing::warn!(id, %error, "the journal cannot say that a fault is undone");
            }
        }
        recorder.record(FaultEvent { seen: Some(seen), ..event }).await;
    }
}

#[async_trait]
impl Lane for FaultLane {
    fn name(&self) -> String {
        self.text.clone()
    }

    async fn baseline(&mut self) -> Result<(), FaultError> {
        self.nemesis.baseline(&self.cx).await
    }

    async fn drive(
        mut self: Box<Self>,
        events: EventSender,
        mut stop: Stop,
    ) -> Result<(), FaultError> {
        self.start = Instant::now();
        let mut recorder = Recorder { events, refused: None };
        recorder.record(self.event(0, FaultAction::Plan, None)).await;
        match self.repeat.take() {
            None => self.draw(&mut recorder, &mut stop).await,
            Some(injections) => self.redo(&injections, &mut recorder, &mut stop).await,
        }
        self.mend(&mut recorder, LAST_HEAL_TRIES).await;
        match self.open {
            None => Ok(()),
            Some(open) => {
                Err(FaultError::InForce { fault: open.name, nodes: open.choice.nodes.join(" ") })
            }
        }
    }
}
