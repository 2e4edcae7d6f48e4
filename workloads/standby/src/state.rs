//! What the replicated log makes: keys and values, a list, locks. Pure and deterministic.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One thing that can be written to the log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "kebab-case")]
pub(crate) enum Op {
    /// A new leader makes sure of its log.
    Nothing,
    Write {
        key: String,
        value: Value,
    },
    Cas {
        key: String,
        old: Value,
        new: Value,
    },
    /// Adds to a list.
    Append {
        list: String,
        value: Value,
    },
    /// Takes a lock that is free, or whose holder the leader has seen expire.
    Acquire {
        lock: String,
        owner: String,
        ttl_ms: u64,
        /// The token to give; without it, the position in the log.
        token: Option<u64>,
        /// Where in the log the holder took or last renewed it, if its time was over: one that renewed since
        /// keeps it.
        expired: Option<u64>,
    },
    Renew {
        lock: String,
        token: u64,
    },
    Release {
        lock: String,
        token: u64,
    },
}

/// What came of one.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Outcome {
    Done,
    /// A comparison was false.
    Precondition,
    /// A lock was taken, with this token.
    Taken(u64),
    /// The lock is not the caller's to take, renew or release.
    Held(String),
}

/// Who holds a lock.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Holder {
    pub(crate) owner: String,
    pub(crate) token: u64,
    pub(crate) ttl_ms: u64,
    /// Where in the log it was taken or last renewed.
    pub(crate) renewed: u64,
}

/// Everything the log says, up to some position.
#[derive(Debug, Clone, Default)]
pub(crate) struct State {
    pub(crate) keys: BTreeMap<String, Value>,
    pub(crate) lists: BTreeMap<String, Vec<Value>>,
    pub(crate) locks: BTreeMap<String, Holder>,
}

impl State {
    /// Applies the entry at a position.
    pub(crate) fn apply(&mut self, index: u64, op: &Op) -> Outcome {
        match op {
            Op::Nothing => Outcome::Done,
            Op::Write { key, value } => {
                self.keys.insert(key.clone(), value.clone());
                Outcome::Done
            }
            Op::Cas { key, old, new } => {
                if self.keys.get(key).unwrap_or(&Value::Null) != old {
                    return Outcome::Precondition;
                }
                self.keys.insert(key.clone(), new.clone());
                Outcome::Done
            }
            Op::Append { list, value } => {
                self.lists.entry(list.clone()).or_default().push(value.clone());
                Outcome::Done
            }
            Op::Acquire { lock, owner, ttl_ms, token, expired } => {
                if let Some(holder) = self.locks.get(lock)
                    && Some(holder.renewed) != *expired
                {
                    return Outcome::Held(format!("held by {}", holder.owner));
                }
                let token = token.unwrap_or(index);
                let owner = owner.clone();
                let holder = Holder { owner, token, ttl_ms: *ttl_ms, renewed: index };
                self.locks.insert(lock.clone(), holder);
                Outcome::Taken(token)
            }
            Op::Renew { lock, token } => match self.locks.get_mut(lock) {
                Some(holder) if holder.token == *token => {
                    holder.renewed = index;
                    Outcome::Done
                }
                _ => Outcome::Held("it is not held with this token".into()),
            },
            Op::Release { lock, token } => match self.locks.get(lock) {
                Some(holder) if holder.token == *token => {
                    self.locks.remove(lock);
                    Outcome::Done
                }
                _ => Outcome::Held("it is not held with this token".into()),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acquire(owner: &str, expired: Option<u64>) -> Op {
        let (lock, owner) = ("a".to_owned(), owner.to_owned());
        Op::Acquire { lock, owner, ttl_ms: 100, token: None, expired }
    }

    /// A lock has one holder, who alone can renew and release it; one that expired is taken over
    /// with a greater token, but only if nobody took or renewed it meanwhile.
    #[test]
    fn locks() {
        let mut state = State::default();
        let lock = || "a".to_owned();
        assert_eq!(state.apply(1, &acquire("p", None)), Outcome::Taken(1));
        assert!(matches!(state.apply(2, &acquire("q", None)), Outcome::Held(_)));
        assert_eq!(state.apply(3, &acquire("q", Some(1))), Outcome::Taken(3));
        assert!(matches!(state.apply(4, &acquire("r", Some(1))), Outcome::Held(_)));
        assert!(matches!(state.apply(5, &Op::Renew { lock: lock(), token: 1 }), Outcome::Held(_)));
        assert_eq!(state.apply(6, &Op::Renew { lock: lock(), token: 3 }), Outcome::Done);
        assert_eq!(state.locks["a"].renewed, 6);
        assert!(matches!(state.apply(7, &acquire("r", Some(3))), Outcome::Held(_)));
        let release = |token| Op::Release { lock: lock(), token };
        assert!(matches!(state.apply(8, &release(1)), Outcome::Held(_)));
        assert_eq!(state.apply(9, &release(3)), Outcome::Done);
        assert_eq!(state.apply(10, &acquire("r", None)), Outcome::Taken(10));
    }

    /// A cas compares; an absent key is null.
    #[test]
    fn comparisons() {
        let mut state = State::default();
        let cas = |old: Value, new: i64| Op::Cas { key: "k".into(), old, new: new.into() };
        assert_eq!(state.apply(1, &cas(Value::Null, 1)), Outcome::Done);
        assert_eq!(state.apply(2, &cas(2.into(), 3)), Outcome::Precondition);
        assert_eq!(state.keys["k"], 1);
    }
}
