//! The models a history can be judged by on its own: `deposed check FILE --model MODEL`.
//!
//! Adding one is a line here.

use crate::{
    Bank, Checker, Consistency, CounterBounds, Fencing, LeaseExpiry, Linearizable, ListAppend,
    LongFork, ModelKind, RwRegister, SetFull, Staleness, TotalQueue, UniqueIds,
};

/// What a user may say of a model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModelOptions {
    /// Values are `[key, value]` pairs, one object for each key.
    pub keyed: bool,
    /// The level that is demanded, named as Elle names it; `None`: the model's strongest.
    pub consistency: Option<String>,
}

/// Makes the checker of a model, or says what is wrong with the options.
type Make = fn(&ModelOptions) -> Result<Box<dyn Checker>, String>;

/// A model by its name.
pub struct NamedModel {
    /// Its name.
    pub name: &'static str,
    /// What it judges, in one line.
    pub about: &'static str,
    make: Make,
}

/// The checker of a model by its name: one of [`MODELS`], or `semaphore:3` for one of three
/// permits. `None` if no model has the name.
///
/// # Errors
/// If the options make no sense for this model: says what would.
pub fn checker(name: &str, options: &ModelOptions) -> Option<Result<Box<dyn Checker>, String>> {
    if let Some(kind @ ModelKind::Semaphore { .. }) = ModelKind::parse(name) {
        return Some(linearizable(options, kind));
    }
    MODELS.iter().find(|model| model.name == name).map(|model| (model.make)(options))
}

/// A checker that knows no levels and no keys.
fn plain(
    options: &ModelOptions,
    checker: impl Checker + 'static,
) -> Result<Box<dyn Checker>, String> {
    if let Some(level) = &options.consistency {
        return Err(format!("this model has no levels of consistency, so not {level:?} either"));
    }
    if options.keyed {
        return Err("this model judges one object; --keyed makes no sense".into());
    }
    Ok(Box::new(checker))
}

/// A checker of linearizability.
fn linearizable(options: &ModelOptions, kind: ModelKind) -> Result<Box<dyn Checker>, String> {
    match options.consistency.as_deref() {
        None | Some("linearizable") => Ok(Box::new(Linearizable::new(kind).keyed(options.keyed))),
        Some(level) => Err(format!("this model knows one level, linearizable, and not {level:?}")),
    }
}

/// A checker of transactions, at a level: strict serializability if none is demanded.
fn transactional<C: Checker + 'static>(
    options: &ModelOptions,
    checker: impl FnOnce(Consistency) -> C,
) -> Result<Box<dyn Checker>, String> {
    if options.keyed {
        return Err("transactions have their keys inside; --keyed makes no sense".into());
    }
    let level = options.consistency.as_deref().map(Consistency::parse).transpose();
    let level = level.map_err(|unknown| unknown.to_string())?.unwrap_or_default();
    Ok(Box::new(checker(level)))
}

/// Every model there is.
pub static MODELS: &[NamedModel] = &[
    NamedModel {
        name: "register",
        about: "a register: read, write; linearizable",
        make: |options| linearizable(options, ModelKind::Register),
    },
    NamedModel {
        name: "cas-register",
        about: "a register with compare-and-set; linearizable",
        make: |options| linearizable(options, ModelKind::CasRegister),
    },
    NamedModel {
        name: "kv",
        about: "strings by key: get, put, append; linearizable",
        make: |options| linearizable(options, ModelKind::Kv),
    },
    NamedModel {
        name: "multi-register",
        about: "registers read and written together by txn; linearizable",
        make: |options| linearizable(options, ModelKind::MultiRegister),
    },
    NamedModel {
        name: "mutex",
        about: "acquire, release by anyone; linearizable",
        make: |options| linearizable(options, ModelKind::Mutex),
    },
    NamedModel {
        name: "lock",
        about: "acquire, release by the owner alone; linearizable",
        make: |options| linearizable(options, ModelKind::Lock),
    },
    NamedModel {
        name: "reentrant-lock",
        about: "a lock that its owner may acquire again; linearizable",
        make: |options| linearizable(options, ModelKind::ReentrantLock),
    },
    NamedModel {
        name: "semaphore",
        about: "acquire, release of one permit, or of three with semaphore:3; linearizable",
        make: |options| linearizable(options, ModelKind::Semaphore { permits: 1 }),
    },
    NamedModel {
        name: "fifo-queue",
        about: "enqueue, dequeue in order; linearizable",
        make: |options| linearizable(options, ModelKind::FifoQueue),
    },
    NamedModel {
        name: "set",
        about: "add, read of all elements; linearizable",
        make: |options| linearizable(options, ModelKind::Set),
    },
    NamedModel {
        name: "list",
        about: "append, read of all elements; linearizable",
        make: |options| linearizable(options, ModelKind::List),
    },
    NamedModel {
        name: "counter",
        about: "add, read; linearizable",
        make: |options| linearizable(options, ModelKind::Counter),
    },
    NamedModel {
        name: "staleness",
        about: "how far reads of a register lag; only measures",
        make: |options| {
            let ModelOptions { keyed, consistency } = options.clone();
            plain(&ModelOptions { keyed: false, consistency }, Staleness { keyed })
        },
    },
    NamedModel {
        name: "set-full",
        about: "a set by all of its reads: nothing acknowledged is lost",
        make: |options| match options.consistency.as_deref() {
            None => plain(options, SetFull::default()),
            Some("linearizable") => {
                let options = ModelOptions { consistency: None, ..options.clone() };
                plain(&options, SetFull { linearizable: true })
            }
            Some(_) => Err("set-full knows one level: linearizable".into()),
        },
    },
    NamedModel {
        name: "total-queue",
        about: "a queue in any order: what was enqueued comes out once",
        make: |options| plain(options, TotalQueue),
    },
    NamedModel {
        name: "counter-bounds",
        about: "a counter: reads between what must and what may have been added",
        make: |options| plain(options, CounterBounds),
    },
    NamedModel {
        name: "unique-ids",
        about: "ids: none is handed out twice",
        make: |options| plain(options, UniqueIds),
    },
    NamedModel {
        name: "lease-expiry",
        about: "keys put under leases that nobody renews: gone with the lease, at most 5 s later",
        make: |options| plain(options, LeaseExpiry { late_max_ns: 5_000_000_000 }),
    },
    NamedModel {
        name: "list-append",
        about: "transactions of appends to lists and reads of them, at a level of consistency",
        make: |options| transactional(options, |consistency| ListAppend { consistency }),
    },
    NamedModel {
        name: "fenced-lock",
        about: "locks, leases, fencing tokens and failover: what a deposed holder could still do",
        make: |options| plain(options, Fencing::default()),
    },
    NamedModel {
        name: "rw-register",
        about: "transactions of writes to registers and reads of them, at a level of consistency",
        make: |options| transactional(options, |consistency| RwRegister { consistency }),
    },
    NamedModel {
        name: "bank",
        about: "transfers between accounts: every read of all balances has the same total",
        make: |options| plain(options, Bank::default()),
    },
    NamedModel {
        name: "long-fork",
        about: "single writes: all reads see them in one order",
        make: |options| plain(options, LongFork),
    },
];

#[cfg(test)]
mod tests {
    use deposed_history::{Header, History, Op, OpType, Process, Value};

    use super::*;
    use crate::{Budget, Verdict};

    /// Every model of the list has a checker under its name.
    #[test]
    fn every_model_has_a_checker() {
        for model in MODELS {
            assert!(checker(model.name, &ModelOptions::default()).is_some_and(|made| made.is_ok()));
        }
        for name in ["", "semaphor", "semaphore:", "semaphore:0", "semaphore:-1", "register:2"] {
            assert!(checker(name, &ModelOptions::default()).is_none(), "{name}");
        }
    }

    /// A semaphore has as many permits as its name says.
    #[test]
    fn a_semaphore_has_as_many_permits_as_its_name_says() {
        let acquire =
            |process, kind| Op::new(kind, Process::Client(process), "acquire", Value::Nil);
        let ops: Vec<Op> =
            (0..3).flat_map(|p| [acquire(p, OpType::Invoke), acquire(p, OpType::Ok)]).collect();
        let history = History::from_ops(Header::default(), &ops);
        let verdict = |name| {
            let checker = checker(name, &ModelOptions::default()).expect("a model");
            checker.expect("no options").check(&history, &Budget::unlimited()).verdict
        };
        assert_eq!(verdict("semaphore:3"), Verdict::Valid);
        assert_eq!(verdict("semaphore:2"), Verdict::Invalid);
        assert_eq!(verdict("semaphore"), Verdict::Invalid);
    }
}
