//! The life of a run on a cluster: connect, set up, run, heal, collect, judge, clean up.
//!
//! Every step is bounded, and whatever happens, the steps that undo earlier ones are done. Nothing
//! here prints; everything worth knowing goes to [`Progress`], the run folder and the log.

use std::collections::BTreeMap;
use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use deposed_checkers::Verdict;
use deposed_core::{Client, ClientError, ClientFactory, FaultContext, Lane, Node, System};
use deposed_history::Header;
use deposed_nemeses::{
    Injection, Injections, Journal, LaneOptions, LaneSpec, heal_all, heal_run, lanes,
};
use deposed_report::{Ending, Environment, Host, Line, Plan};
use deposed_workloads::Workload;

use crate::inventory::{ClockOwner, NodeSpec};
use crate::logs::{self, Logs};
use crate::progress::{Progress, Step, Told};
use crate::records;
use crate::rig::{self, Description, Rig};
use crate::run::{self, Ended, Interrupt, LaneEnd, Outcome, Recorder, Recovered, RunSpec, Urgency};
use crate::run_folder::{RunFolder, Status};
use crate::settings::{EMBEDDED, Settings};
use crate::verdict::{self, Case};

/// How often a step that waits looks at the interrupt.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Whether the system is left running at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Keep {
    /// It is removed.
    Never,
    /// It is left running after a violation, to be looked at.
    OnViolation,
    /// It is left running.
    Always,
}

/// A run that was resolved: nothing is left to decide, and nothing was touched yet.
pub struct Resolved {
    /// What was decided.
    pub settings: Settings,
    /// The same, as it was written.
    pub plan: Plan,
    /// Where to log in.
    pub nodes: Vec<NodeSpec>,
    /// Faults.
    pub lanes: Vec<LaneSpec>,
    /// What they are to repeat, instead of drawing from the seed.
    pub repeat: Option<Vec<Injection>>,
    /// What clients do.
    pub workload: Box<dyn Workload>,
    /// What is tested.
    pub system: Arc<dyn System>,
    /// Where it is recorded.
    pub folder: RunFolder,
    /// Whether to leave the system running.
    pub keep: Keep,
}

/// How a run ended.
#[derive(Debug)]
pub struct Conclusion {
    /// How.
    pub ending: Ending,
    /// The verdict, if it came that far.
    pub verdict: Option<Verdict>,
    /// What to close with on a terminal.
    pub closing: Vec<Line>,
}

/// Lives a run from its first connection to its end.
pub async fn live(resolved: Resolved, progress: &Progress, interrupt: &Interrupt) -> Conclusion {
    let (folder, id) = (resolved.folder.clone(), resolved.plan.id.clone());
    let conclusion = attempt(resolved, progress, interrupt).await;
    let mut conclusion = conclusion.unwrap_or_else(|ending| Conclusion {
        ending,
        verdict: None,
        closing: Vec::new(),
    });
    if conclusion.verdict.is_none() && folder.status() == Status::Running {
        let status = if folder.history().is_file() { Status::Recorded } else { Status::Crashed };
        if let Err(error) = folder.set_status(status) {
            progress.warn(error.to_string());
        }
        if status == Status::Recorded {
            let judge =
                format!("what was recorded; to judge it: deposed check {}", folder.handle(&id));
            conclusion.closing.push(Line::new("kept", judge, None));
        }
    }
    conclusion
}

async fn attempt(
    resolved: Resolved,
    progress: &Progress,
    interrupt: &Interrupt,
) -> Result<Conclusion, Ending> {
    let infrastructure =
        |error: &dyn std::fmt::Display| Ending::Infrastructure { reason: error.to_string() };

    progress.begun(Step::Connect);
    let began = Instant::now();
    let connected = unless_interrupted(interrupt, rig::connect(&resolved.nodes)).await?;
    let (cluster, keys) = connected.map_err(|error| infrastructure(&error))?;
    for key in keys {
        progress.warn(key);
    }
    let names: Vec<&str> = cluster.nodes().map(|node| &*node.name).collect();
    progress.done(Step::Connect, names.join(" "), began.elapsed());
    let rig = Rig { cluster: cluster.clone(), system: Arc::clone(&resolved.system) };

    let id = resolved.plan.id.clone();
    rig::claim(&cluster, &id).await.map_err(|error| infrastructure(&error))?;
    let lived = tokio::select! {
        lived = on_claimed(resolved, rig, progress, interrupt) => lived,
        never = rig::keep(&cluster, &id) => match never {},
    };
    rig::release(&cluster, &id).await;
    lived
}

/// The part of a run's life in which the nodes are its own.
async fn on_claimed(
    mut resolved: Resolved,
    rig: Rig,
    progress: &Progress,
    interrupt: &Interrupt,
) -> Result<Conclusion, Ending> {
    let (folder, cluster) = (resolved.folder.clone(), rig.cluster.clone());
    let infrastructure =
        |error: &dyn std::fmt::Display| Ending::Infrastructure { reason: error.to_string() };

    progress.begun(Step::Setup);
    let began = Instant::now();
    // What an earlier run may have left in force would be taken for the store's own fault.
    for healed in heal_all(&cluster, &[]).await.into_values() {
        healed.map_err(|error| infrastructure(&error))?;
    }
    let lanes = unless_interrupted(interrupt, prepare_lanes(&resolved, &rig)).await??;
    let set_up = unless_interrupted(interrupt, rig.setup(|line| progress.warn(line))).await;
    let ready = match set_up {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(infrastructure(&error)),
        Err(interrupted) => Err(interrupted),
    };
    if let Err(ending) = ready {
        collect(&rig, &folder, progress).await;
        teardown(&rig, progress).await;
        return Err(ending);
    }
    let described = rig.describe().await;
    environment(&mut resolved.plan, &*resolved.system, &described);
    folder.write_json("plan.json", &resolved.plan).map_err(|error| infrastructure(&error))?;
    progress.done(Step::Setup, set_up_detail(&resolved.plan), began.elapsed());

    let ran = perform(&resolved, &rig, lanes, progress, interrupt).await;
    // The nodes are another's now, and what it did to them would be taken for the store's own fault.
    let lost = rig::lost(&cluster, &resolved.plan.id).await;
    if let Some((node, by)) = lost.first_key_value() {
        return Err(Ending::Infrastructure {
            reason: format!(
                "{node}: run {by} took it before this one was over, so this one says nothing of the store; what \
                 it recorded is kept. A claim ends where the node reboots, or is not renewed for 20 s"
            ),
        });
    }
    heal(&rig, &resolved.plan, &folder, progress).await;
    if interrupt.urgency() == Urgency::HealOnly {
        teardown(&rig, progress).await;
        return Err(interrupted(interrupt));
    }
    let logs = collect(&rig, &folder, progress).await;
    let ending = match ran {
        Ok(outcome) => {
            let began = Instant::now();
            let end = (outcome.events, outcome.time);
            match records::append(&rig, folder.path(), &logs, end).await {
                Ok(0) => {}
                Ok(count) => {
                    progress.done(Step::Collect, format!("{count} records"), began.elapsed())
                }
                Err(why) => progress.warn(format!("what the system recorded is left out: {why}")),
            }
            ending(&outcome, interrupt)
        }
        Err(ending) => {
            teardown(&rig, progress).await;
            return Err(ending);
        }
    };
    seal(&folder, progress).await;

    let zones = described.iter().map(|(node, said)| (node.clone(), said.zone_s)).collect();
    let judged = judge(&resolved, &ending, logs, zones, progress);
    let concluded = unless_interrupted_twice(interrupt, judged).await;
    let violated = matches!(&concluded, Ok(c) if c.verdict == Some(Verdict::Invalid));
    let kept = match resolved.keep {
        Keep::Never => false,
        Keep::OnViolation => violated,
        Keep::Always => true,
    };
    if kept {
        progress.warn(format!("{} was left running, as asked with --keep", rig.system.name()));
    } else {
        teardown(&rig, progress).await;
    }
    // A verdict that could not be written is the smaller trouble: why recording ended comes first.
    match (concluded, ending) {
        (Err(Ending::Infrastructure { reason: then }), Ending::Infrastructure { reason }) => {
            Err(Ending::Infrastructure { reason: format!("{reason}\nafter that: {then}") })
        }
        (concluded, _) => concluded,
    }
}

/// Has every fault look at the nodes, before the system is touched: one that cannot work there is refused.
async fn prepare_lanes(resolved: &Resolved, rig: &Rig) -> Result<Vec<Box<dyn Lane>>, Ending> {
    let Resolved { settings, folder, system, .. } = resolved;
    let infrastructure =
        |error: &dyn std::fmt::Display| Ending::Infrastructure { reason: error.to_string() };
    let journal =
        Journal::open(&folder.file(Journal::NAME)).map_err(|error| infrastructure(&error))?;
    let options = LaneOptions {
        timing: settings.timing,
        time_limit: Some(settings.time_limit),
        seed: settings.seed,
        journal,
        injections: Injections::create(&folder.file(Injections::NAME))
            .map_err(|error| infrastructure(&error))?,
        repeat: resolved.repeat.clone(),
    };
    let own = resolved.nodes.iter().filter(|node| node.clock == ClockOwner::Own);
    let own_clocks = own.map(|spec| spec.node.name.to_string()).collect();
    let cx = FaultContext { cluster: rig.cluster.clone(), system: Arc::clone(system), own_clocks };
    lanes(&resolved.lanes, &cx, &options).await.map_err(|error| infrastructure(&error))
}

/// Starts lanes and clients, and records until the run is over.
async fn perform(
    resolved: &Resolved,
    rig: &Rig,
    mut lanes: Vec<Box<dyn Lane>>,
    progress: &Progress,
    interrupt: &Interrupt,
) -> Result<Outcome, Ending> {
    let Resolved { settings, plan, workload, folder, system, .. } = resolved;
    let infrastructure =
        |error: &dyn std::fmt::Display| Ending::Infrastructure { reason: error.to_string() };
    let nodes: Vec<_> = rig.cluster.nodes().cloned().collect();
    let clients: Arc<dyn ClientFactory> = if settings.clients_on_nodes {
        let made = system.clients_on_nodes(&rig.cluster).await;
        Arc::from(made.map_err(|error| infrastructure(&error))?)
    } else {
        Arc::new(Clients(Arc::clone(system)))
    };
    for lane in &mut lanes {
        lane.baseline().await.map_err(|error| infrastructure(&error))?;
    }
    let workload_options = settings.workload_options(nodes.len());
    let generators = workload.generators(&workload_options);
    let spec = RunSpec {
        generator: generators.main,
        recovery: Some(Box::pin({
            let (rig, journal) = (rig.clone(), folder.file(Journal::NAME));
            async move {
                // What a lane could not heal is healed from outside, before anybody waits for it.
                let _ = heal_run(&rig.cluster, &journal).await;
                rig.ready().await.map_err(|failures| failures.to_string())
            }
        })),
        final_generator: generators.last,
        clients,
        concurrency: workload_options.concurrency,
        nodes,
        rate: settings.rate,
        op_deadline: settings.op_deadline,
        time_limit: settings.time_limit,
        heal_limit: RunSpec::HEAL_LIMIT,
        final_limit: RunSpec::FINAL_LIMIT,
        seed: settings.seed,
    };
    let header = Header {
        plan: Some(plan.id.clone()),
        system: Some(plan.system.name.clone()),
        workload: Some(plan.workload.name.clone()),
        keyed: workload.keyed(),
        ..Header::default()
    };
    let recorder =
        Recorder::create(folder.path(), header).map_err(|error| infrastructure(&error))?;
    let teller = progress.clone();
    let sink = Box::new(move |event| teller.tell(Told::Run { run: event }));
    let outcome = run::run(spec, lanes, recorder, sink, interrupt.clone()).await;
    if let Recovered::No { reason } = &outcome.recovered {
        progress.warn(format!("{} did not recover after healing: {reason}", system.name()));
    }
    Ok(outcome)
}

/// A system's clients, kept alive with the system.
struct Clients(Arc<dyn System>);

#[async_trait::async_trait]
impl ClientFactory for Clients {
    async fn connect(&self, node: &Node, process: u32) -> Result<Box<dyn Client>, ClientError> {
        self.0.clients().connect(node, process).await
    }
}

/// What to do about faults that a run could not undo.
pub fn heal_advice(plan: &Plan, folder: &Path) -> String {
    match &*plan.cluster.origin {
        EMBEDDED => "its lab, with every fault in it, is gone with it".into(),
        "--nodes" => {
            format!(
                "`deposed heal --nodes … {}` undoes what may still be in force",
                folder.display()
            )
        }
        file => format!(
            "`deposed heal --cluster {file} {}` undoes what may still be in force",
            folder.display()
        ),
    }
}

/// Undoes everything once more, whatever the lanes said, and starts what is not running.
async fn heal(rig: &Rig, plan: &Plan, folder: &RunFolder, progress: &Progress) {
    progress.begun(Step::Heal);
    let began = Instant::now();
    let healed = match heal_run(&rig.cluster, &folder.file(Journal::NAME)).await {
        Ok(healed) => healed,
        Err(error) => {
            progress.warn(format!("the journal of undos: {error}"));
            heal_all(&rig.cluster, &[]).await
        }
    };
    let mut healed_all = true;
    for (node, healed) in healed {
        if let Err(error) = healed {
            healed_all = false;
            progress.warn(format!(
                "{node} could not be healed: {error}; {}",
                heal_advice(plan, folder.path())
            ));
        }
    }
    if healed_all {
        progress.done(Step::Heal, "everything, verified", began.elapsed());
    }
}

async fn collect(rig: &Rig, folder: &RunFolder, progress: &Progress) -> Logs {
    progress.begun(Step::Collect);
    let began = Instant::now();
    let logs = logs::collect(rig, folder.path()).await;
    for missing in &logs.missing {
        progress.warn(missing.clone());
    }
    progress.done(Step::Collect, logs.summary(), began.elapsed());
    logs
}

async fn teardown(rig: &Rig, progress: &Progress) {
    progress.begun(Step::Teardown);
    let began = Instant::now();
    match rig.teardown().await {
        Ok(()) => progress.done(Step::Teardown, "", began.elapsed()),
        Err(error) => progress.warn(format!("the system could not be removed: {error}")),
    }
}

async fn seal(folder: &RunFolder, progress: &Progress) {
    progress.begun(Step::Seal);
    let began = Instant::now();
    let path = folder.path().to_owned();
    match tokio::task::spawn_blocking(move || run::seal(&path)).await {
        Ok(Ok(sealed)) => {
            let bytes = std::fs::metadata(sealed).map_or(0, |metadata| metadata.len());
            progress.done(Step::Seal, format!("{} KiB", bytes.div_ceil(1024)), began.elapsed());
        }
        Ok(Err(error)) => progress.warn(format!("{error}; the history stays as it was written")),
        Err(panic) => progress.warn(format!("sealing the history failed: {panic}")),
    }
    if let Err(error) = folder.set_status(Status::Recorded) {
        progress.warn(error.to_string());
    }
}

/// Judges on threads of its own, so that signals are still heard.
async fn judge(
    resolved: &Resolved,
    ending: &Ending,
    logs: Logs,
    zones: BTreeMap<String, i64>,
    progress: &Progress,
) -> Result<Conclusion, Ending> {
    let (folder, plan) = (resolved.folder.clone(), resolved.plan.clone());
    let checkers = verdict::checkers(
        &*resolved.workload,
        &plan.system.guarantees.unwrap_or_default(),
        plan.faults.required.clone(),
    );
    let crash_patterns = resolved.system.db().crash_patterns();
    let (limits, progress, ended) = (resolved.settings.check, progress.clone(), ending.clone());
    let concluded = tokio::task::spawn_blocking(move || {
        let case = Case {
            plan: &plan,
            ending: &ended,
            checkers,
            logs: &logs,
            crash_patterns,
            zones,
            limits,
        };
        verdict::conclude(&folder, case, &progress)
    });
    let concluded = concluded
        .await
        .map_err(|panic| Ending::Bug { reason: format!("judging failed: {panic}") })?
        .map_err(|error| Ending::Infrastructure { reason: error.to_string() })?;
    Ok(Conclusion {
        ending: ending.clone(),
        verdict: Some(concluded.verdict),
        closing: concluded.closing,
    })
}

/// Completes the plan with what the machines say of themselves.
fn environment(plan: &mut Plan, system: &dyn System, described: &BTreeMap<String, Description>) {
    let host = |said: &Description| Host {
        kernel: said.kernel.clone(),
        os: said.os.clone(),
        packages: said.packages.clone(),
    };
    let versions = described.values().filter_map(|said| {
        system.packages().values().find_map(|package| said.packages.get(package))
    });
    plan.environment = Some(Environment {
        system_version: versions.max().cloned(),
        controller: controller(),
        nodes: described.iter().map(|(node, said)| (node.clone(), host(said))).collect(),
    });
}

fn controller() -> Host {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let os = read("/etc/os-release");
    let name = os.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    Host {
        kernel: format!("Linux {}", read("/proc/sys/kernel/osrelease").trim()),
        os: name.unwrap_or_default().trim_matches('"').to_owned(),
        packages: BTreeMap::new(),
    }
}

fn set_up_detail(plan: &Plan) -> String {
    let version = plan.system_version().map_or_else(String::new, |version| format!(" {version}"));
    format!("{}{version} on {} nodes, ready", plan.system.name, plan.cluster.nodes.len())
}

/// What the outcome of the run loop means for the run.
fn ending(outcome: &Outcome, interrupt: &Interrupt) -> Ending {
    match &outcome.ended {
        Ended::GeneratorFailed { reason } => return Ending::Bug { reason: reason.clone() },
        Ended::NotRecorded { reason } => {
            return Ending::Infrastructure { reason: reason.clone() };
        }
        Ended::Exhausted | Ended::TimeLimit | Ended::Interrupted => {}
    }
    if let Some(reason) = &outcome.record_error {
        return Ending::Infrastructure { reason: reason.clone() };
    }
    let failed = outcome.lanes.iter().find_map(|lane| match &lane.end {
        LaneEnd::Healed => None,
        LaneEnd::Failed { reason } => Some(format!("the fault lane {}: {reason}", lane.lane)),
        LaneEnd::Abandoned => Some(format!("the fault lane {} did not heal in time", lane.lane)),
    });
    if let Some(reason) = failed {
        return Ending::Infrastructure { reason };
    }
    if outcome.interrupts > 0 { interrupted(interrupt) } else { Ending::Normal }
}

fn interrupted(interrupt: &Interrupt) -> Ending {
    Ending::Interrupted { by: interrupt.by().unwrap_or("a signal").to_owned() }
}

/// Waits for a step, unless somebody interrupts.
async fn unless_interrupted<T>(
    interrupt: &Interrupt,
    step: impl Future<Output = T>,
) -> Result<T, Ending> {
    tokio::select! {
        done = step => Ok(done),
        () = raised(interrupt, Urgency::Stop) => Err(interrupted(interrupt)),
    }
}

/// Waits for a step that a first interrupt does not end, but a second does.
async fn unless_interrupted_twice(
    interrupt: &Interrupt,
    step: impl Future<Output = Result<Conclusion, Ending>>,
) -> Result<Conclusion, Ending> {
    tokio::select! {
        done = step => done,
        () = raised(interrupt, Urgency::HealOnly) => Err(interrupted(interrupt)),
    }
}

async fn raised(interrupt: &Interrupt, urgency: Urgency) {
    while interrupt.urgency() < urgency {
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
