//! What a user may decide of a run. A plan holds it too, so that a run can be repeated.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use chrono::{DateTime, Utc};
use deposed_checkers::Claims;
use deposed_core::Node;
use deposed_nemeses::Timing;
use deposed_report::{
    Claim, ClusterPlan, FaultPlan, Limits, Load, PLAN_SCHEMA, Plan, PlannedNode, SystemPlan,
    WorkloadPlan,
};
use deposed_workloads::{SystemOptions, WorkloadOptions};

use crate::judge;
use crate::run::RunSpec;

/// Everything a user may decide, with nothing left open but the cluster.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// A bundled system, or the path of a `system.toml`.
    pub system: String,
    /// Options of the system that differ from its defaults.
    pub system_options: BTreeMap<String, String>,
    /// What clients do.
    pub workload: String,
    /// Threads that share one key at a time.
    pub threads_per_key: usize,
    /// Operations on a key before it is retired.
    pub ops_per_key: usize,
    /// Written values are drawn from so many; `None`: each is unique.
    pub values: Option<u32>,
    /// Fault lanes, as for `--faults`.
    pub faults: String,
    /// The schedule of an earlier run that is to be repeated: a file.
    pub schedule: Option<PathBuf>,
    /// How often each fault must be proven for the run to count as a test.
    pub required: BTreeMap<String, u64>,
    /// How often and how long.
    pub timing: Timing,
    /// Logical clients; `None`: three for each node.
    pub concurrency: Option<usize>,
    /// Whether clients run on the nodes they speak to.
    pub clients_on_nodes: bool,
    /// Operations a second over all clients; `None`: as fast as they are answered.
    pub rate: Option<f64>,
    /// How long clients and faults are active.
    pub time_limit: Duration,
    /// How long one operation may take.
    pub op_deadline: Duration,
    /// Steers every choice.
    pub seed: u64,
    /// What each checker may use.
    pub check: judge::Limits,
}

/// What a plan says of a cluster that its run makes for itself.
pub const EMBEDDED: &str = "embedded lab";

/// Clients for each node, unless the user says otherwise.
const CLIENTS_PER_NODE: usize = 3;

impl Settings {
    /// What is used unless the user says otherwise.
    pub fn new(system: String, seed: u64) -> Self {
        Self {
            system,
            system_options: BTreeMap::new(),
            workload: "register".into(),
            threads_per_key: 5,
            ops_per_key: 300,
            values: None,
            faults: "partition,kill,pause".into(),
            schedule: None,
            required: BTreeMap::new(),
            timing: Timing::default(),
            concurrency: None,
            clients_on_nodes: false,
            rate: Some(300.0),
            time_limit: Duration::from_secs(60),
            op_deadline: RunSpec::OP_DEADLINE,
            seed,
            check: judge::Limits::default(),
        }
    }

    /// The settings of an earlier run.
    ///
    /// # Errors
    /// With the name of an option that this build does not know or cannot read.
    pub fn of(plan: &Plan) -> Result<Self, String> {
        let mut settings = Self::new(plan.system.name.clone(), plan.seed);
        if let Some(path) = plan.system.options.get(FILE) {
            settings.system.clone_from(path);
        }
        settings.system_options = plan.system.options.clone();
        settings.system_options.remove(FILE);
        settings.workload.clone_from(&plan.workload.name);
        for (name, value) in &plan.workload.options {
            let unreadable = || format!("the option {name} = {value} of the workload");
            match name.as_str() {
                "threads_per_key" => {
                    settings.threads_per_key = value.parse().map_err(|_| unreadable())?;
                }
                "ops_per_key" => settings.ops_per_key = value.parse().map_err(|_| unreadable())?,
                "values" => settings.values = Some(value.parse().map_err(|_| unreadable())?),
                _ => return Err(unreadable()),
            }
        }
        settings.faults = plan.faults.lanes.join(",");
        settings.schedule = plan.faults.schedule.as_ref().map(PathBuf::from);
        settings.required.clone_from(&plan.faults.required);
        settings.timing.every = Duration::from_millis(plan.faults.interval_ms);
        for (name, value) in &plan.faults.options {
            let unreadable = || format!("the option {name} = {value} of the faults");
            let ms = Duration::from_millis(value.parse().map_err(|_| unreadable())?);
            match name.as_str() {
                "hold_ms" => settings.timing.hold = ms,
                "quiet_ms" => settings.timing.quiet = ms,
                _ => return Err(unreadable()),
            }
        }
        settings.concurrency = Some(plan.load.concurrency as usize);
        settings.clients_on_nodes = plan.load.on_nodes;
        settings.rate = plan.load.rate;
        settings.time_limit = Duration::from_millis(plan.limits.time_ms);
        settings.op_deadline = Duration::from_millis(plan.limits.op_ms);
        settings.check.time = Duration::from_millis(plan.limits.check_ms);
        settings.check.memory = plan.limits.check_memory_bytes;
        Ok(settings)
    }

    /// How many clients there are on so many nodes.
    pub fn clients(&self, nodes: usize) -> usize {
        self.concurrency.unwrap_or(CLIENTS_PER_NODE * nodes)
    }

    /// What the workload is to know.
    pub fn workload_options(&self, nodes: usize) -> WorkloadOptions {
        let concurrency = self.clients(nodes);
        WorkloadOptions {
            concurrency,
            threads_per_key: self.threads_per_key.min(concurrency),
            ops_per_key: self.ops_per_key,
            values: self.values,
        }
    }

    /// What the system is to know.
    pub fn system_options(&self, install: bool) -> SystemOptions {
        SystemOptions {
            set: self.system_options.clone(),
            op_limit: self.op_deadline,
            install,
            clients_on_nodes: self.clients_on_nodes,
        }
    }

    /// The plan of a run with these settings.
    pub fn plan(&self, of: Occasion<'_>) -> Plan {
        let millis = |duration: Duration| duration.as_millis() as u64;
        let mut workload = BTreeMap::from([
            ("threads_per_key".to_owned(), self.threads_per_key.to_string()),
            ("ops_per_key".to_owned(), self.ops_per_key.to_string()),
        ]);
        if let Some(values) = self.values {
            workload.insert("values".into(), values.to_string());
        }
        let mut system_options = of.system_options.clone();
        if of.system_name != self.system {
            system_options.insert(FILE.into(), self.system.clone());
        }
        Plan {
            schema: PLAN_SCHEMA,
            id: of.id,
            created: of.now,
            deposed: env!("CARGO_PKG_VERSION").into(),
            argv: of.argv,
            seed: self.seed,
            system: SystemPlan {
                name: of.system_name.to_owned(),
                version: None,
                options: system_options,
                claims: claims(of.claims),
                guarantees: Some(*of.guarantees),
            },
            workload: WorkloadPlan { name: self.workload.clone(), options: workload },
            faults: FaultPlan {
                lanes: of.lanes,
                interval_ms: millis(self.timing.every),
                options: BTreeMap::from([
                    ("hold_ms".to_owned(), millis(self.timing.hold).to_string()),
                    ("quiet_ms".to_owned(), millis(self.timing.quiet).to_string()),
                ]),
                schedule: self.schedule.as_ref().map(|path| path.display().to_string()),
                required: self.required.clone(),
            },
            cluster: ClusterPlan {
                origin: of.origin,
                nodes: of
                    .nodes
                    .iter()
                    .map(|node| PlannedNode {
                        name: node.name.to_string(),
                        addr: node.addr.to_string(),
                    })
                    .collect(),
            },
            load: Load {
                concurrency: self.clients(of.nodes.len()) as u32,
                on_nodes: self.clients_on_nodes,
                rate: self.rate,
            },
            limits: Limits {
                time_ms: millis(self.time_limit),
                op_ms: millis(self.op_deadline),
                check_ms: millis(self.check.time),
                check_memory_bytes: self.check.memory,
            },
            checkers: of.checkers,
            environment: None,
        }
    }
}

/// Under this name a plan keeps the path of a system that is not bundled.
const FILE: &str = "file";

/// Promises by checker, each a quotation with its source in parentheses at the end.
fn claims(by_checker: &BTreeMap<String, String>) -> Vec<Claim> {
    by_checker
        .iter()
        .map(|(checker, text)| {
            let cited = text.trim_end().strip_suffix(')').and_then(|text| text.rsplit_once(" ("));
            let (quote, source) = cited.unwrap_or((text, ""));
            Claim { checker: Some(checker.clone()), quote: quote.into(), source: source.into() }
        })
        .collect()
}

/// What a plan holds beside the settings.
#[derive(Debug, Clone)]
pub struct Occasion<'a> {
    /// The run's id.
    pub id: String,
    /// When it is planned.
    pub now: DateTime<Utc>,
    /// The command line.
    pub argv: Vec<String>,
    /// The system's own name.
    pub system_name: &'a str,
    /// Its options in force, defaults included.
    pub system_options: &'a BTreeMap<String, String>,
    /// What its vendor promises, by checker.
    pub claims: &'a BTreeMap<String, String>,
    /// What holds with these options.
    pub guarantees: &'a Claims,
    /// Fault lanes as the user wrote them.
    pub lanes: Vec<String>,
    /// `embedded lab`, or the inventory.
    pub origin: String,
    /// The nodes.
    pub nodes: &'a [Node],
    /// Names of the checkers.
    pub checkers: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_gives_back_the_settings_it_was_made_from() {
        let mut settings = Settings::new("./mine/system.toml".into(), 7);
        settings.system_options.insert("read".into(), "any".into());
        settings.values = Some(5);
        settings.concurrency = Some(12);
        settings.clients_on_nodes = true;
        settings.faults = "kill:all,pause".into();
        settings.required.insert("pause".into(), 3);
        settings.schedule = Some("/runs/3eb8da/schedule.jsonl".into());
        settings.timing.hold = Duration::from_millis(1500);
        settings.rate = None;
        let plan = settings.plan(Occasion {
            id: "abcd".into(),
            now: DateTime::from_timestamp(1_700_000_000, 0).unwrap(),
            argv: vec!["deposed".into()],
            system_name: "mine",
            system_options: &settings.system_options,
            claims: &BTreeMap::from([("linearizable".into(), "Always. (the manual)".into())]),
            guarantees: &Claims::default(),
            lanes: vec!["kill:all".into(), "pause".into()],
            origin: "embedded lab".into(),
            nodes: &[],
            checkers: Vec::new(),
        });
        assert_eq!(Settings::of(&plan).unwrap(), settings);
        let claim = &plan.system.claims[0];
        assert_eq!((&*claim.quote, &*claim.source), ("Always.", "the manual"));
    }
}
