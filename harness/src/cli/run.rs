//! `deposed run SYSTEM`: from flags to an exit code.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use chrono::Utc;
use deposed_checkers::Claims;
use deposed_core::{Node, System};
use deposed_lab::packages::{self, Requirement};
use deposed_lab::{Hub, Lab, LabSpec, MAX_NODES};
use deposed_nemeses::{Injection, Injections, LaneSpec, Preset, parse};
use deposed_report::{Ending, Plan};
use deposed_workloads::{LoadError, Workload, load_system, workload, workloads};

use super::screen::Output;
use super::{Failure, ResultsArgs, duration, lab, note, run_log, signals};
use crate::exit;
use crate::inventory::{ClusterArgs, Inventory, NodeSpec, Surroundings};
use crate::life::{self, Conclusion, Keep, Resolved};
use crate::run::Interrupt;
use crate::run_folder::RunFolder;
use crate::settings::{EMBEDDED, Occasion, Settings};
use crate::verdict;

/// Hurt a store, record what its clients see, and judge it.
///
/// Without a cluster, a lab of a few nodes is made on this machine and is gone when the run ends
/// (this needs root). With one, nothing but SSH is used:
///
///     deposed run etcd --time 30s --faults partition,kill,pause
///     deposed run etcd --read serializable --faults partition --time 30s
///     deposed run etcd --cluster cluster.toml
///     deposed run --plan latest
///
/// Ctrl-C once: stop, heal, collect, judge what is there. Twice: heal only.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(super) struct Args {
    /// A bundled system (see `deposed list`), or the path of your own system.toml
    #[arg(required_unless_present = "plan")]
    system: Option<String>,

    /// Repeat an earlier run, given as its folder, id, or `latest`: same seed, same settings;
    /// flags given besides outweigh it
    #[arg(long, value_name = "RUN")]
    plan: Option<String>,

    #[command(flatten)]
    choices: Choices,

    #[command(flatten)]
    cluster: ClusterArgs,

    /// Nodes of the lab that is made where no cluster is named [default: 5]
    #[arg(
        long,
        value_name = "N",
        help_heading = "Cluster",
        value_parser = clap::value_parser!(u8).range(1..=i64::from(MAX_NODES))
    )]
    lab_nodes: Option<u8>,

    /// Refuse if packages are missing, here or on the nodes, instead of installing them
    #[arg(long, help_heading = "Cluster")]
    no_install: bool,

    /// Whether the store is left running at the end, on a cluster of your own
    #[arg(long, value_enum, default_value_t = Keep::Never, help_heading = "Cluster")]
    keep: Keep,

    #[command(flatten)]
    results: ResultsArgs,

    /// What to print: bars on a terminal and lines elsewhere, lines, or one JSON object a line
    #[arg(long, value_enum, default_value_t = Output::Auto)]
    output: Output,
}

/// What a user may decide of a run; what is not given comes from the plan or the defaults.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Run")]
struct Choices {
    /// What clients do: see `deposed list` [default: register]
    #[arg(long)]
    workload: Option<String>,

    /// FAULT[:TARGET],…, or one of storm, calm, leader-hunt, none: see `deposed list` [default:
    /// partition,kill,pause]
    #[arg(long)]
    faults: Option<String>,

    /// Inject what an earlier run injected, when it did and into the same nodes: its folder, id,
    /// `latest`, or a schedule.jsonl
    #[arg(long, value_name = "RUN|FILE", conflicts_with_all = ["faults", "fault_every", "fault_hold"])]
    schedule: Option<PathBuf>,

    /// FAULT:N,…: a run in which a fault was proven less often than N times is no test of the store,
    /// and its verdict unknown [default: each once]
    #[arg(long, value_name = "FAULT:N", value_delimiter = ',', value_parser = requirement)]
    require: Vec<(String, u64)>,

    /// How long clients and faults are active [default: 60s]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    time: Option<Duration>,

    /// Operations a second over all clients, or max: as fast as they are answered [default: 300]
    #[arg(long, value_name = "N|max", value_parser = rate)]
    rate: Option<Rate>,

    /// Logical clients [default: three for each node]
    #[arg(long, value_name = "N", value_parser = positive)]
    concurrency: Option<usize>,

    /// Where clients run: here, or each on the node it speaks to, whose links it then shares
    /// [default: on-controller]
    #[arg(long, value_enum)]
    clients: Option<Place>,

    /// How long one operation may take before it counts as indeterminate [default: 5s]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    op_deadline: Option<Duration>,

    /// How clients read, for systems with such an option: linearizable, serializable, …
    #[arg(long, value_name = "KIND")]
    read: Option<String>,

    /// An option of the system: see `deposed list`
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = assignment)]
    set: Vec<(String, String)>,

    /// Draw written values from so many, instead of writing each only once
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    values: Option<u32>,

    /// Operations on a key before it is retired for a fresh one [default: 300]
    #[arg(long, value_name = "N", value_parser = positive)]
    ops_per_key: Option<usize>,

    /// Clients that share a key at a time [default: 5]
    #[arg(long, value_name = "N", value_parser = positive)]
    clients_per_key: Option<usize>,

    /// From one injection of a fault to the next, on average [default: 10s]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    fault_every: Option<Duration>,

    /// How long a fault is held, on average [default: 5s]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    fault_hold: Option<Duration>,

    /// Of every choice of clients and faults, to make them again [default: a new one]
    #[arg(long, value_parser = seed)]
    seed: Option<u64>,

    /// Time each checker may take [default: 60s]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    check_time: Option<Duration>,
}

/// Where clients run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Place {
    /// Where deposed runs
    OnController,
    /// On the node it speaks to, over SSH
    OnNodes,
}

#[derive(Debug, Clone, Copy)]
struct Rate(Option<f64>);

fn rate(text: &str) -> Result<Rate, String> {
    if text == "max" {
        return Ok(Rate(None));
    }
    match text.parse::<f64>() {
        Ok(rate) if rate.is_finite() && rate > 0.0 => Ok(Rate(Some(rate))),
        _ => Err("a number above 0, or max".into()),
    }
}

fn positive(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|&n| n > 0).ok_or_else(|| "a whole number above 0".into())
}

fn assignment(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("NAME=VALUE")?;
    Ok((name.into(), value.into()))
}

fn requirement(text: &str) -> Result<(String, u64), String> {
    text.split_once(':')
        .and_then(|(fault, n)| Some((fault.to_owned(), n.parse().ok().filter(|&n| n > 0)?)))
        .ok_or_else(|| "FAULT:N, with N a whole number above 0".into())
}

/// Decimal, or hexadecimal as it is printed.
fn seed(text: &str) -> Result<u64, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| "a whole number below 2^64, decimal or 0x…".into())
}

impl Choices {
    fn apply(self, settings: &mut Settings) {
        fn set<T>(place: &mut T, given: Option<T>) {
            if let Some(value) = given {
                *place = value;
            }
        }
        set(&mut settings.workload, self.workload);
        if let Some(preset) = self.faults.as_deref().and_then(Preset::named) {
            settings.faults = preset.faults();
            settings.timing = preset.timing;
        } else {
            set(&mut settings.faults, self.faults);
        }
        set(&mut settings.time_limit, self.time);
        set(&mut settings.rate, self.rate.map(|Rate(rate)| rate));
        set(&mut settings.clients_on_nodes, self.clients.map(|place| place == Place::OnNodes));
        set(&mut settings.op_deadline, self.op_deadline);
        set(&mut settings.ops_per_key, self.ops_per_key);
        set(&mut settings.threads_per_key, self.clients_per_key);
        set(&mut settings.timing.every, self.fault_every);
        set(&mut settings.timing.hold, self.fault_hold);
        set(&mut settings.seed, self.seed);
        set(&mut settings.check.time, self.check_time);
        if !self.require.is_empty() {
            settings.required = self.require.into_iter().collect();
        }
        settings.concurrency = self.concurrency.or(settings.concurrency);
        settings.values = self.values.or(settings.values);
        settings.system_options.extend(self.read.map(|read| ("read".to_owned(), read)));
        settings.system_options.extend(self.set);
    }
}

/// The packages that a system needs on its nodes.
pub(super) fn requirements(system: &str) -> Result<Vec<Requirement>, Failure> {
    let summary = deposed_workloads::describe_system(system).map_err(load_failure)?;
    let requirement = |(program, package): (&String, &String)| Requirement::new(program, package);
    Ok(summary.packages.iter().map(requirement).collect())
}

fn load_failure(error: LoadError) -> Failure {
    match error {
        LoadError::Unknown { .. } => Failure::nothing_selected(error),
        error => Failure::usage(error),
    }
}

pub(super) fn main(args: Args) -> Result<u8, Failure> {
    let repeated = repeated(&args)?;
    let mut settings = settings(&args, repeated.as_ref())?;
    let injections = match &settings.schedule {
        Some(path) => Some(schedule(path)?),
        None => None,
    };
    if let Some(injections) = &injections {
        settings.faults = Injections::lanes(injections);
    }
    let workload = find_workload(&settings.workload)?;
    if args.cluster.name_a_cluster() {
        let inventory = args.cluster.inventory(&Surroundings::here()).map_err(Failure::usage)?;
        for line in &inventory.notes {
            note(line);
        }
        let origin = args.cluster.origin();
        return on_cluster(&args, settings, injections, workload, inventory, origin);
    }
    if args.keep != Keep::Never {
        let advice = "the lab of a run ends with it, so there is nothing to --keep: use \
                      `deposed lab up` and `deposed lab exec -- deposed run …`";
        return Err(Failure::usage(anyhow!(advice)));
    }
    let mut nodes = args.lab_nodes;
    if let Some(plan) = &repeated {
        if plan.cluster.origin != EMBEDDED {
            let origin = &plan.cluster.origin;
            let advice = format!("that run was on a cluster ({origin}): name it, with --cluster");
            return Err(Failure::usage(anyhow!(advice)));
        }
        nodes = nodes.or(u8::try_from(plan.cluster.nodes.len()).ok());
    }
    in_a_lab(&args, settings, injections, workload, nodes)
}

/// The plan that is to be repeated, if one is.
fn repeated(args: &Args) -> Result<Option<Plan>, Failure> {
    let Some(run) = &args.plan else { return Ok(None) };
    let folder = RunFolder::find(&args.results.results, run).map_err(Failure::nothing_selected)?;
    verdict::read_json(&folder, "plan.json").map(Some).map_err(Failure::usage)
}

/// The plan's settings or the defaults, outweighed by flags.
fn settings(args: &Args, repeated: Option<&Plan>) -> Result<Settings, Failure> {
    // JSON readers that keep numbers as floats would round a longer one.
    let fresh = rand::random::<u64>() >> 11;
    let mut settings = match repeated {
        None => Settings::new(args.system.clone().unwrap_or_default(), fresh),
        Some(plan) => {
            let settings = Settings::of(plan).map_err(|what| {
                Failure::usage(anyhow!("the plan of {}: {what} is not known here", plan.id))
            })?;
            Settings { system: args.system.clone().unwrap_or(settings.system), ..settings }
        }
    };
    args.choices.clone().apply(&mut settings);
    if let Some(named) = &args.choices.schedule {
        let path = if named.is_file() {
            named.clone()
        } else {
            RunFolder::find(&args.results.results, &named.to_string_lossy())
                .map_err(Failure::nothing_selected)?
                .file(Injections::NAME)
        };
        settings.schedule = Some(std::path::absolute(&path).unwrap_or(path));
    } else if args.choices.faults.is_some() {
        // Other faults than those of a plan are not on its schedule.
        settings.schedule = None;
    }
    Ok(settings)
}

/// The injections of an earlier run.
fn schedule(path: &Path) -> Result<Vec<Injection>, Failure> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("read the schedule {}", path.display()))
        .map_err(Failure::usage)?;
    let injections = Injections::parse(&text).map_err(|mut mistakes| {
        // A file of another kind is wrong on every line.
        let more = mistakes.len().saturating_sub(3);
        if more > 0 {
            mistakes.truncate(3);
            mistakes.push(format!("and {more} more"));
        }
        Failure::usage(anyhow!("{} is no schedule:\n  {}", path.display(), mistakes.join("\n  ")))
    })?;
    if injections.is_empty() {
        return Err(Failure::usage(anyhow!("{}: nothing was injected", path.display())));
    }
    Ok(injections)
}

fn find_workload(name: &str) -> Result<Box<dyn Workload>, Failure> {
    workload(name).ok_or_else(|| {
        let known: Vec<_> = workloads().iter().map(|workload| workload.name()).collect();
        Failure::nothing_selected(anyhow!(
            "no workload is called {name:?}; there are {}",
            known.join(", ")
        ))
    })
}

/// A run on nodes that were there before.
fn on_cluster(
    args: &Args,
    settings: Settings,
    injections: Option<Vec<Injection>>,
    workload: Box<dyn Workload>,
    inventory: Inventory,
    origin: String,
) -> Result<u8, Failure> {
    let nodes: Vec<Node> = inventory.nodes.iter().map(|spec| spec.node.clone()).collect();
    let chosen = choose(args, &settings, injections, &*workload, &nodes)?;
    start(args, settings, workload, chosen, inventory.nodes, origin)
}

/// A run on a lab of its own.
fn in_a_lab(
    args: &Args,
    settings: Settings,
    injections: Option<Vec<Injection>>,
    workload: Box<dyn Workload>,
    nodes: Option<u8>,
) -> Result<u8, Failure> {
    let mut spec = LabSpec::default();
    spec.nodes = nodes.unwrap_or(spec.nodes);
    let nodes: Vec<Node> = (1..=spec.nodes).map(lab_node).collect();
    let chosen = choose(args, &settings, injections, &*workload, &nodes)?;

    let mut needed = packages::lab_requirements(&spec);
    needed.extend(requirements(&settings.system)?);
    lab::ensure(&needed, args.no_install)?;
    // From here on this process lives in the lab's network; so must every thread it starts, which
    // is why there is no runtime yet.
    let hub = Hub::enter().map_err(lab::failure)?;
    let lab = Lab::up(&hub, &spec).map_err(lab::failure)?;
    let way_in = ClusterArgs { cluster: Some(lab.nodes_file()), ..ClusterArgs::default() };
    let around = Surroundings { ssh_config: None, agent: None, ..Surroundings::here() };
    let inventory = way_in.inventory(&around).map_err(Failure::bug)?;
    start(args, settings, workload, chosen, inventory.nodes, EMBEDDED.into())
}

fn lab_node(index: u8) -> Node {
    Node { name: format!("n{index}").into(), addr: deposed_lab::node_v4(index).into() }
}

/// What follows from the settings once the nodes are known.
struct Chosen {
    system: Arc<dyn System>,
    options: BTreeMap<String, String>,
    claims: BTreeMap<String, String>,
    guarantees: Claims,
    lanes: Vec<LaneSpec>,
    repeat: Option<Vec<Injection>>,
}

/// Resolves system and faults. Nothing is touched, and every mistake is told at once.
fn choose(
    args: &Args,
    settings: &Settings,
    repeat: Option<Vec<Injection>>,
    workload: &dyn Workload,
    nodes: &[Node],
) -> Result<Chosen, Failure> {
    let mut mistakes = Vec::new();
    let names: Vec<String> = nodes.iter().map(|node| node.name.to_string()).collect();
    let lanes = parse(&settings.faults, &names).unwrap_or_else(|wrong| {
        mistakes.extend(wrong.iter().map(|mistake| format!("--faults: {mistake}")));
        Vec::new()
    });
    let touched: BTreeSet<&String> =
        repeat.iter().flatten().flat_map(|i| &i.choice.nodes).collect();
    let strangers: Vec<&str> =
        touched.into_iter().filter(|node| !names.contains(node)).map(String::as_str).collect();
    if !strangers.is_empty() {
        mistakes.push(format!(
            "--schedule: it hits {}, and the nodes here are {}",
            strangers.join(", "),
            names.join(", ")
        ));
    }
    for fault in settings.required.keys() {
        // Lanes that were mistaken are told already.
        if mistakes.is_empty() && !lanes.iter().any(|lane| lane.kind.name == fault) {
            mistakes.push(format!("--require: no lane of --faults injects `{fault}`"));
        }
    }
    let options = settings.system_options(!args.no_install);
    let system = match load_system(&settings.system, nodes, &options) {
        Ok(system) => Some(system),
        Err(LoadError::Mistakes(wrong)) => {
            // A template that is rendered for every node repeats its mistake for each.
            let new = wrong.into_iter().filter(|mistake| !mistakes.contains(mistake));
            mistakes.extend(new.collect::<BTreeSet<_>>());
            None
        }
        Err(error) => return Err(load_failure(error)),
    };
    if let Some(system) = &system {
        let unfit = lanes.iter().filter_map(|lane| lane.unsupported(system));
        mistakes.extend(unfit.map(|mistake| format!("--faults: {mistake}")));
        let requires = workload.requires();
        let lacking: Vec<_> = requires.difference(system.supports()).cloned().collect();
        if !lacking.is_empty() {
            mistakes.push(format!(
                "--workload: {} needs {}, which {} does not support",
                workload.name(),
                lacking.join(", "),
                system.name()
            ));
        }
    }
    match system {
        Some(system) if mistakes.is_empty() => {
            let (options, claims) = (system.options().clone(), system.summary().claims.clone());
            let guarantees = *system.guarantees();
            Ok(Chosen { options, claims, guarantees, system: Arc::new(system), lanes, repeat })
        }
        _ => Err(Failure::usage(anyhow!(mistakes.join("\n  ")))),
    }
}

/// Writes the plan, lives the run, and turns its conclusion into an exit code.
fn start(
    args: &Args,
    settings: Settings,
    workload: Box<dyn Workload>,
    chosen: Chosen,
    nodes: Vec<NodeSpec>,
    origin: String,
) -> Result<u8, Failure> {
    let now = Utc::now();
    let addresses: Vec<Node> = nodes.iter().map(|spec| spec.node.clone()).collect();
    let mut checkers: Vec<String> =
        verdict::checkers(&*workload, &chosen.guarantees, settings.required.clone())
            .iter()
            .map(|checker| checker.name().to_owned())
            .collect();
    checkers.insert(1, "log-patterns".into());
    let plan = settings.plan(Occasion {
        id: format!("{:06x}", rand::random::<u32>() >> 8),
        now,
        argv: std::env::args().collect(),
        system_name: chosen.system.name(),
        system_options: &chosen.options,
        claims: &chosen.claims,
        guarantees: &chosen.guarantees,
        lanes: chosen.lanes.iter().map(|lane| lane.text.clone()).collect(),
        origin,
        nodes: &addresses,
        checkers,
    });
    let folder =
        RunFolder::create(&args.results.results, &plan.system.name, &plan.cell(), now, &plan.id)
            .map_err(Failure::infrastructure)?;
    let _held = folder.hold().map_err(Failure::infrastructure)?;
    folder.write_json("plan.json", &plan).map_err(Failure::infrastructure)?;
    run_log::start(&folder.file("run.log")).map_err(Failure::infrastructure)?;

    let screen = args.output.screen(&plan, folder.path());
    let progress = screen.progress();
    let runtime = tokio::runtime::Runtime::new()
        .context("start the asynchronous runtime")
        .map_err(Failure::infrastructure)?;
    let interrupt = Interrupt::new();
    let advice = life::heal_advice(&plan, folder.path());
    let resolved = Resolved {
        settings,
        plan,
        nodes,
        lanes: chosen.lanes,
        repeat: chosen.repeat,
        workload,
        system: chosen.system,
        folder: folder.clone(),
        keep: args.keep,
    };
    let conclusion = runtime.block_on(async {
        signals::listen(&interrupt, advice)
            .context("listen for signals")
            .map_err(Failure::infrastructure)?;
        Ok::<_, Failure>(life::live(resolved, &progress, &interrupt).await)
    })?;
    // Whatever still runs is a call that did not come back in time; nobody waits for it.
    runtime.shutdown_background();
    let code = code(&conclusion);
    screen.close(&conclusion, code)?;
    Ok(code)
}

/// A violation that was found stands, however the run ended.
fn code(conclusion: &Conclusion) -> u8 {
    let verdict = conclusion.verdict.map(exit::of);
    match &conclusion.ending {
        _ if verdict == Some(exit::INVALID) => exit::INVALID,
        Ending::Bug { .. } => exit::BUG,
        Ending::Infrastructure { .. } => exit::INFRASTRUCTURE,
        Ending::Interrupted { by } if by == signals::TERMINATE => exit::TERMINATED,
        Ending::Interrupted { .. } => exit::INTERRUPTED,
        Ending::Normal | Ending::Untold => verdict.unwrap_or(exit::UNKNOWN),
    }
}
