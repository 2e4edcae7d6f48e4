//! `--faults partition:one,kill,pause:n1+n2`: one lane for each fault, read without touching
//! anything, every mistake reported at once.

use std::collections::BTreeSet;

use deposed_agent::{Protocol, Scope};
use deposed_core::{Hold, Nemesis, ProcessControl, System};
use deposed_history::{History, episodes};

use crate::agents::Agents;
use crate::claims::Claims;
use crate::clock::Clock;
use crate::damage::{self, Damage};
use crate::disk_full::DiskFull;
use crate::disk_trouble::{DiskTrouble, Wanted};
use crate::grudge::Shape;
use crate::kill::Kill;
use crate::limit::{Limit, Resource};
use crate::machine::HeldMachine;
use crate::mistake::{Mistake, suggest};
use crate::packets::Packets;
use crate::partition::{Manner, PartitionNemesis};
use crate::pause::Pause;
use crate::power_cut::PowerCut;
use crate::processes::Standstill;
use crate::restart::Restart;
use crate::slow::Slow;
use crate::supervisor::Supervisor;
use crate::target::Target;

/// A kind of fault, as the command line knows it.
pub struct Kind {
    /// Its word.
    pub name: &'static str,
    /// What it does, in a line.
    pub about: &'static str,
    /// What may follow its colon, and what that means. Names of nodes joined by `+` may too.
    pub words: &'static [(&'static str, &'static str)],
    /// Checks what follows the colon and makes the fault.
    make: Make,
    /// What a system must offer for it.
    needs_processes: bool,
    /// It must name a process that supervises it, too.
    needs_supervisor: bool,
    /// Whether a store that gives up for it does right.
    excuses_end: bool,
}

type Make = fn(Option<&str>, &[String], &Claims, &Agents) -> Result<Box<dyn Nemesis>, Mistake>;

/// Every fault there is. A new one is a line here and a file of its own.
pub static KINDS: [Kind; 21] = [
    links(
        "partition",
        "cut the network between nodes, or a port alone (partition:one@tcp/2380)",
        |arg, nodes, claims, agents| partition(Manner::Drop, arg, nodes, claims, agents),
    ),
    links(
        "reject",
        "refuse connections between nodes, with a reset",
        |arg, nodes, claims, agents| partition(Manner::Reject, arg, nodes, claims, agents),
    ),
    links(
        "flap",
        "cut and mend links between nodes, about once a second",
        |arg, nodes, claims, agents| partition(Manner::Flap, arg, nodes, claims, agents),
    ),
    store(
        "kill",
        "kill the store with SIGKILL, later start it again on its data",
        |arg, nodes, claims, agents| {
            Ok(Box::new(Kill::new(target(arg, nodes)?, claims.clone(), agents.clone())))
        },
    ),
    store(
        "restart",
        "kill the store and start it again, over and over",
        |arg, nodes, claims, agents| {
            Ok(Box::new(Restart::new(target(arg, nodes)?, claims.clone(), agents.clone())))
        },
    ),
    store(
        "pause",
        "stop the store with SIGSTOP, later let it go on",
        |arg, nodes, claims, agents| {
            let (by, target) = (Standstill::Signal, target(arg, nodes)?);
            Ok(Box::new(Pause::new(by, target, claims.clone(), agents.clone())))
        },
    ),
    store(
        "freeze",
        "freeze the store by the kernel, which it cannot notice, later let it go on",
        |arg, nodes, claims, agents| {
            let (by, target) = (Standstill::Freezer, target(arg, nodes)?);
            Ok(Box::new(Pause::new(by, target, claims.clone(), agents.clone())))
        },
    ),
    store("slow", "let the store run a tenth of the time", |arg, nodes, claims, agents| {
        Ok(Box::new(Slow::new(target(arg, nodes)?, claims.clone(), agents.clone())))
    }),
    Kind {
        needs_processes: false,
        ..store(
            "node-freeze",
            "freeze whole nodes of a lab, sshd and all",
            |arg, nodes, claims, agents| held(Hold::Frozen, arg, nodes, claims, agents),
        )
    },
    store(
        "power-off",
        "switch nodes of a lab off: what was not synced is gone; later boot them again",
        |arg, nodes, claims, agents| held(Hold::Off, arg, nodes, claims, agents),
    ),
    Kind {
        name: "clock",
        about: "set the store's wall clock wrong, later right again",
        words: &Clock::WORDS,
        make: |arg, nodes, claims, agents| Ok(Box::new(Clock::parse(arg, nodes, claims, agents)?)),
        needs_processes: true,
        needs_supervisor: false,
        excuses_end: false,
    },
    Kind {
        name: "packets",
        about: "make links between nodes lose, delay, double, reorder, corrupt or throttle packets",
        words: &Packets::WORDS,
        make: |arg, nodes, claims, agents| {
            Ok(Box::new(Packets::parse(arg, nodes, claims, agents)?))
        },
        needs_processes: false,
        needs_supervisor: false,
        excuses_end: false,
    },
    store(
        "power-cut",
        "cut the power of the store and its disk: what was not synced is gone",
        |arg, nodes, claims, agents| {
            Ok(Box::new(PowerCut::new(target(arg, nodes)?, claims.clone(), agents.clone())))
        },
    ),
    Kind {
        excuses_end: true,
        ..store("disk-full", "leave no room on the store's disk", |arg, nodes, claims, agents| {
            Ok(Box::new(DiskFull::new(target(arg, nodes)?, claims.clone(), agents.clone())))
        })
    },
    Kind {
        name: "disk-error",
        about: "let reads, writes or syncs of the store's data fail (input/output error)",
        words: &DiskTrouble::ERROR_WORDS,
        make: |arg, nodes, claims, agents| {
            let wanted = Wanted::Errors(Vec::new());
            Ok(Box::new(DiskTrouble::parse(wanted, arg, nodes, claims, agents)?))
        },
        needs_processes: true,
        needs_supervisor: false,
        excuses_end: true,
    },
    Kind {
        name: "slow-disk",
        about: "let syncs of the store's data take long",
        words: &DiskTrouble::SLOW_WORDS,
        make: |arg, nodes, claims, agents| {
            let wanted = Wanted::Slow(None);
            Ok(Box::new(DiskTrouble::parse(wanted, arg, nodes, claims, agents)?))
        },
        needs_processes: true,
        needs_supervisor: false,
        excuses_end: false,
    },
    Kind {
        name: "corrupt",
        about: "kill the store, flip a bit of its data or cut a file short, start it on that",
        words: &Damage::CORRUPT_WORDS,
        make: |arg, nodes, claims, agents| {
            let wanted = damage::Wanted::Corrupt(None);
            Ok(Box::new(Damage::parse(wanted, arg, nodes, claims, agents)?))
        },
        needs_processes: true,
        needs_supervisor: false,
        excuses_end: true,
    },
    Kind {
        name: "wipe",
        about: "kill the store, take all its data away, start it without; never of a majority",
        words: &Damage::WIPE_WORDS,
        make: |arg, nodes, claims, agents| {
            Ok(Box::new(Damage::parse(damage::Wanted::Wipe, arg, nodes, claims, agents)?))
        },
        needs_processes: true,
        needs_supervisor: false,
        excuses_end: true,
    },
    Kind {
        needs_supervisor: true,
        words: &Supervisor::WORDS,
        ..store(
            "supervisor",
            "kill or stop the process that supervises the store, alone",
            |arg, nodes, claims, agents| {
                Ok(Box::new(Supervisor::parse(arg, nodes, claims, agents)?))
            },
        )
    },
    Kind {
        words: &Limit::MEMORY_WORDS,
        ..store(
            "memory",
            "start the store anew with little memory",
            |arg, nodes, claims, agents| {
                Ok(Box::new(Limit::parse(Resource::Memory, arg, nodes, claims, agents)?))
            },
        )
    },
    Kind {
        words: &Limit::CPU_WORDS,
        ..store("cpu", "let the store have little of a processor", |arg, nodes, claims, agents| {
            Ok(Box::new(Limit::parse(Resource::Cpu, arg, nodes, claims, agents)?))
        })
    },
];

/// A fault of the links between nodes.
const fn links(name: &'static str, about: &'static str, make: Make) -> Kind {
    Kind {
        name,
        about,
        words: &Shape::WORDS,
        make,
        needs_processes: false,
        needs_supervisor: false,
        excuses_end: false,
    }
}

/// A fault of the store's processes.
const fn store(name: &'static str, about: &'static str, make: Make) -> Kind {
    Kind {
        name,
        about,
        words: &Target::WORDS,
        make,
        needs_processes: true,
        needs_supervisor: false,
        excuses_end: false,
    }
}

/// The nodes of a run on which its store may have given up, rightly, for what was done to its data.
pub fn may_give_up(history: &History) -> BTreeSet<String> {
    let excuses = |fault: &str| KINDS.iter().any(|kind| kind.name == fault && kind.excuses_end);
    let hurt = episodes(history).into_iter().filter(|episode| excuses(&episode.fault));
    hurt.flat_map(|episode| episode.nodes).collect()
}

fn target(arg: Option<&str>, nodes: &[String]) -> Result<Option<Target>, Mistake> {
    arg.map(|arg| Target::parse(arg, nodes)).transpose()
}

fn held(
    how: Hold,
    arg: Option<&str>,
    nodes: &[String],
    claims: &Claims,
    agents: &Agents,
) -> Result<Box<dyn Nemesis>, Mistake> {
    Ok(Box::new(HeldMachine::new(how, target(arg, nodes)?, claims.clone(), agents.clone())))
}

fn partition(
    manner: Manner,
    arg: Option<&str>,
    nodes: &[String],
    claims: &Claims,
    agents: &Agents,
) -> Result<Box<dyn Nemesis>, Mistake> {
    let (shape, scope) = match arg.and_then(|arg| arg.split_once('@')) {
        None => (arg, None),
        Some((_, port)) if manner != Manner::Drop => {
            return Err(Mistake::new(port, "only `partition` can be of one port"));
        }
        Some((shape, port)) => (Some(shape).filter(|shape| !shape.is_empty()), Some(scope(port)?)),
    };
    let shape = shape.map(|shape| Shape::parse(shape, nodes)).transpose()?;
    if nodes.len() < 2 {
        return Err(Mistake::new("partition", "it takes 2 nodes or more"));
    }
    Ok(Box::new(PartitionNemesis::new(manner, shape, scope, claims.clone(), agents.clone())))
}

/// Reads `tcp/2380`.
fn scope(text: &str) -> Result<Scope, Mistake> {
    let read = || {
        let (protocol, port) = text.split_once('/')?;
        let protocol =
            [Protocol::Tcp, Protocol::Udp].into_iter().find(|p| p.as_str() == protocol)?;
        Some(Scope { protocol, port: Some(port.parse().ok().filter(|port| *port > 0)?) })
    };
    read().ok_or_else(|| Mistake::new(text, "no port; what can be cut alone looks like tcp/2380"))
}

/// One lane as the user wrote it: a fault, and what it is to hit.
#[derive(Clone)]
pub struct LaneSpec {
    /// As written: `partition:one`.
    pub text: String,
    /// What follows the colon; without it, a seeded mix of what is possible.
    pub arg: Option<String>,
    /// The fault.
    pub kind: &'static Kind,
}

impl std::fmt::Debug for LaneSpec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LaneSpec({})", self.text)
    }
}

impl LaneSpec {
    /// Makes the fault for a cluster of these nodes.
    ///
    /// # Errors
    /// None for the nodes [`parse`] has checked it with.
    pub fn nemesis(
        &self,
        nodes: &[String],
        claims: &Claims,
        agents: &Agents,
    ) -> Result<Box<dyn Nemesis>, Mistake> {
        (self.kind.make)(self.arg.as_deref(), nodes, claims, agents)
    }

    /// Whether it aims at who leads.
    fn names_primaries(&self) -> bool {
        let target = self.arg.as_deref().and_then(|arg| arg.rsplit(':').next()).unwrap_or_default();
        target.split(['@', '/']).any(|word| word == "primaries")
    }

    /// Why `system` cannot suffer this fault, if so.
    pub fn unsupported(&self, system: &dyn System) -> Option<Mistake> {
        let db = system.db();
        let lacks = if self.kind.needs_processes && db.processes().is_none() {
            "does not say which processes are its own"
        } else if self.kind.needs_supervisor
            && !db.processes().is_some_and(ProcessControl::is_supervised)
        {
            "names no process that supervises it (`supervised` in its service)"
        } else if self.names_primaries() && db.primaries().is_none() {
            "does not say who leads"
        } else {
            return None;
        };
        Some(Mistake::new(&self.text, format!("{} {lacks}", system.name())))
    }
}

/// Reads what follows `--faults` for a cluster of these nodes: `FAULT[:TARGET]`, comma-separated,
/// each fault at most once, or `none`.
///
/// # Errors
/// Every mistake there is, in the order of the text.
pub fn parse(faults: &str, nodes: &[String]) -> Result<Vec<LaneSpec>, Vec<Mistake>> {
    if matches!(faults.trim(), "" | "none") {
        return Ok(Vec::new());
    }
    let mut specs: Vec<LaneSpec> = Vec::new();
    let mut mistakes = Vec::new();
    for text in faults.split(',').map(str::trim) {
        match parse_one(text, nodes, &specs) {
            Ok(spec) => specs.push(spec),
            Err(mistake) => mistakes.push(mistake),
        }
    }
    if mistakes.is_empty() { Ok(specs) } else { Err(mistakes) }
}

fn parse_one(text: &str, nodes: &[String], before: &[LaneSpec]) -> Result<LaneSpec, Mistake> {
    let (name, arg) = match text.split_once(':') {
        Some((name, arg)) => (name, Some(arg.to_owned())),
        None => (text, None),
    };
    let Some(kind) = KINDS.iter().find(|kind| kind.name == name) else {
        let problem = match name {
            "" => "a fault is missing here".to_owned(),
            "none" => "`none` stands alone".to_owned(),
            _ => format!("no such fault; {}", suggest(name, KINDS.iter().map(|kind| kind.name))),
        };
        return Err(Mistake::new(text, problem));
    };
    if before.iter().any(|spec| spec.kind.name == name) {
        let problem = "each fault has one lane; name one target, or none for a mix of all";
        return Err(Mistake::new(text, problem));
    }
    let spec = LaneSpec { text: text.to_owned(), arg, kind };
    match spec.nemesis(nodes, &Claims::default(), &Agents::default()) {
        Ok(_) => Ok(spec),
        Err(Mistake { at, problem }) if at == text => Err(Mistake { at, problem }),
        Err(Mistake { at, problem }) => Err(Mistake::new(text, format!("{at}: {problem}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(n: usize) -> Vec<String> {
        (1..=n).map(|i| format!("n{i}")).collect()
    }

    fn problems(faults: &str, n: usize) -> Vec<String> {
        parse(faults, &nodes(n)).unwrap_err().iter().map(ToString::to_string).collect()
    }

    /// Every fault is accepted alone, with every word of its own, and with nodes.
    #[test]
    fn every_word_is_accepted() {
        for kind in &KINDS {
            assert_eq!(parse(kind.name, &nodes(5)).unwrap().len(), 1);
            for (word, _) in kind.words.iter().chain(&[("n1", ""), ("n1+n3", "")]) {
                let text = format!("{}:{word}", kind.name);
                assert_eq!(parse(&text, &nodes(5)).unwrap()[0].text, text);
            }
        }
    }

    /// Lanes are separated by commas; nothing and `none` are no lanes.
    #[test]
    fn lanes_are_separated_by_commas() {
        let specs = parse("partition:one, kill ,pause:minority", &nodes(3)).unwrap();
        let read: Vec<_> = specs.iter().map(|s| (s.kind.name, s.arg.as_deref())).collect();
        let expected = [("partition", Some("one")), ("kill", None), ("pause", Some("minority"))];
        assert_eq!(read, expected);
        assert!(parse("none", &nodes(3)).unwrap().is_empty());
        assert!(parse("", &nodes(3)).unwrap().is_empty());
    }

    /// All mistakes are reported together, each with what was probably meant.
    #[test]
    fn all_mistakes_at_once() {
        assert_eq!(
            problems("partitoin,kill:primaris,pause:n9,partition:majorities-ring,kill,,none", 3),
            [
                "`partitoin`: no such fault; did you mean `partition`?",
                "`kill:primaris`: primaris: neither a node nor a known word; did you mean \
                 `primaries`?",
                "`pause:n9`: n9: neither a node nor a known word; known are one, minority, majority, \
                 primaries, all, n1, n2, n3",
                "`partition:majorities-ring`: majorities-ring: it takes 4 nodes or more, and there \
                 are 3",
                "``: a fault is missing here",
                "`none`: `none` stands alone",
            ]
        );
        assert_eq!(
            problems("kill,kill:all", 3),
            ["`kill:all`: each fault has one lane; name one target, or none for a mix of all"]
        );
        assert_eq!(
            problems("weather", 3),
            ["`weather`: no such fault; known are partition, reject, flap, kill, \
             restart, pause, freeze, slow, node-freeze, power-off, clock, packets, power-cut, \
             disk-full, disk-error, slow-disk, corrupt, wipe, supervisor, memory, cpu"]
        );
    }

    /// A port may follow the shape of a partition, and of nothing else.
    #[test]
    fn a_port_may_follow() {
        for text in ["partition:one@tcp/2380", "partition:@udp/53", "partition:n1+n2@tcp/1"] {
            assert_eq!(parse(text, &nodes(3)).unwrap()[0].text, text);
        }
        let wrong = "partition:one@2380,reject:one@tcp/2380,kill:one@tcp/2380";
        let said = problems(wrong, 3);
        assert!(said[0].contains("looks like tcp/2380"), "{said:?}");
        assert!(said[1].contains("only `partition`"), "{said:?}");
        assert!(said[2].contains("neither a node nor a known word"), "{said:?}");
    }

    /// Where the name of a node should stand and nothing does, that is what is said.
    #[test]
    fn a_missing_name_is_told() {
        for text in ["kill:", "kill:n1+", "partition:primaries/", "partition:/n1", "reject:+n1"] {
            let said = problems(text, 3);
            assert!(said[0].contains("the name of a node is missing"), "{said:?}");
        }
    }

    /// A node that is named twice is a slip of the pen.
    #[test]
    fn a_name_stands_once() {
        for text in ["kill:n1+n2+n1", "flap:n1+n1", "partition:n1/n2+n2"] {
            let said = problems(text, 3);
            assert!(said[0].contains("is named twice"), "{said:?}");
        }
    }

    /// What a cluster of this size cannot suffer is refused before anything is touched.
    #[test]
    fn impossible_targets_are_refused() {
        assert!(problems("partition", 1)[0].contains("2 nodes or more"));
        assert!(problems("kill:minority", 2)[0].contains("no minority"));
        assert!(problems("partition:bridge", 2)[0].contains("3 nodes or more"));
        assert!(problems("partition:n1+n2", 2)[0].contains("all the nodes"));
    }
}
