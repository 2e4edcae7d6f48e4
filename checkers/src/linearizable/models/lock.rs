//! Mutual exclusion: with owners, without, and with several permits.

use deposed_history::{Outcome, Value};

use crate::linearizable::model::{CallView, Leads, Malformed, Model};

/// A mutex as Knossos knows it: `acquire` and `release`; anyone may release. Initially free.
#[derive(Debug, Clone, Copy)]
pub struct Mutex;

/// What a call on a mutex says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MutexOp {
    /// It was free and is held from now on.
    Acquire,
    /// It was held and is free from now on.
    Release,
}

/// Whether a mutex is held: `None` if that is not known.
type Held = Option<bool>;

impl Model for Mutex {
    type State = Held;
    type Op = MutexOp;

    fn name(&self) -> &str {
        "mutex"
    }

    fn parse(&self, call: &CallView<'_>) -> Result<Option<MutexOp>, Malformed> {
        match (call.f(), call.outcome()) {
            ("acquire" | "release", Outcome::Fail) => Ok(None),
            ("acquire", _) => Ok(Some(MutexOp::Acquire)),
            ("release", _) => Ok(Some(MutexOp::Release)),
            _ => Err(call.unknown_function(self.name(), "acquire, release")),
        }
    }

    fn init(&self) -> Held {
        Some(false)
    }

    fn step(&self, state: &Held, op: &MutexOp) -> Option<Held> {
        let held = *op == MutexOp::Release;
        (*state != Some(!held)).then_some(Some(!held))
    }

    fn describe(&self, op: &MutexOp) -> String {
        match op {
            MutexOp::Acquire => "acquired".into(),
            MutexOp::Release => "released".into(),
        }
    }

    fn describe_state(&self, state: &Held) -> String {
        match state {
            Some(true) => "it is held".into(),
            Some(false) => "it is free".into(),
            None => "it could be held or free".into(),
        }
    }

    fn requires(&self, op: &MutexOp) -> Option<Held> {
        Some(Some(*op == MutexOp::Release))
    }

    fn leads_to(&self, op: &MutexOp) -> Leads<Held> {
        Leads::To(Some(*op == MutexOp::Acquire))
    }

    fn is_exact(&self, _op: &MutexOp) -> bool {
        true
    }

    fn fork_name(&self) -> Option<&'static str> {
        Some("held-twice")
    }

    fn anything(&self) -> Option<Held> {
        Some(None)
    }
}

/// A lock that knows its owner: only the owner releases it. The owner is the value of the call, or
/// else the process. Initially free.
#[derive(Debug, Clone, Copy)]
pub struct Lock {
    /// Whether the owner may acquire it again, and then has to release it as often.
    pub reentrant: bool,
}

/// What a call on a lock says.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum LockOp {
    /// It is held by this owner from now on, once more than before.
    Acquire(Value),
    /// It was held by this owner, and is once less from now on.
    Release(Value),
}

/// Who holds a lock.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum LockState {
    /// Nobody.
    Free,
    /// This owner, so many times.
    Held(Value, u32),
    /// This owner, at least once.
    HeldSomehow(Value),
    /// Anybody or nobody.
    Unknown,
}

impl Model for Lock {
    type State = LockState;
    type Op = LockOp;

    fn name(&self) -> &str {
        if self.reentrant { "reentrant-lock" } else { "lock" }
    }

    fn parse(&self, call: &CallView<'_>) -> Result<Option<LockOp>, Malformed> {
        let owner = || match call.argument().to_value() {
            Value::Nil => Value::Int(i64::from(call.process())),
            owner => owner,
        };
        match (call.f(), call.outcome()) {
            ("acquire" | "release", Outcome::Fail) => Ok(None),
            ("acquire", _) => Ok(Some(LockOp::Acquire(owner()))),
            ("release", _) => Ok(Some(LockOp::Release(owner()))),
            _ => Err(call.unknown_function(self.name(), "acquire, release")),
        }
    }

    fn init(&self) -> LockState {
        LockState::Free
    }

    fn step(&self, state: &LockState, op: &LockOp) -> Option<LockState> {
        use LockState::{Free, Held, HeldSomehow, Unknown};
        match (op, state) {
            (LockOp::Acquire(who), Free) => Some(Held(who.clone(), 1)),
            (LockOp::Acquire(who), Held(owner, times)) if self.reentrant && owner == who => {
                Some(Held(who.clone(), times + 1))
            }
            (LockOp::Acquire(who), HeldSomehow(owner)) if owner == who => Some(state.clone()),
            (LockOp::Acquire(who), Unknown) if self.reentrant => Some(HeldSomehow(who.clone())),
            (LockOp::Acquire(who), Unknown) => Some(Held(who.clone(), 1)),
            (LockOp::Release(who), Held(owner, 1)) if owner == who => Some(Free),
            (LockOp::Release(who), Held(owner, times)) if owner == who => {
                Some(Held(who.clone(), times - 1))
            }
            (LockOp::Release(who), HeldSomehow(owner)) if owner == who => Some(Unknown),
            (LockOp::Release(_), Unknown) => Some(if self.reentrant { Unknown } else { Free }),
            _ => None,
        }
    }

    fn describe(&self, op: &LockOp) -> String {
        match op {
            LockOp::Acquire(who) => format!("acquired the lock as {who}"),
            LockOp::Release(who) => format!("released the lock as {who}"),
        }
    }

    fn describe_state(&self, state: &LockState) -> String {
        match state {
            LockState::Free => "the lock is free".into(),
            LockState::Held(owner, 1) => format!("{owner} holds the lock"),
            LockState::Held(owner, times) => format!("{owner} holds the lock {times} times"),
            LockState::HeldSomehow(owner) => format!("{owner} holds the lock"),
            LockState::Unknown => "the lock could be held or free".into(),
        }
    }

    fn requires(&self, op: &LockOp) -> Option<LockState> {
        match op {
            _ if self.reentrant => None,
            LockOp::Acquire(_) => Some(LockState::Free),
            LockOp::Release(who) => Some(LockState::Held(who.clone(), 1)),
        }
    }

    fn leads_to(&self, op: &LockOp) -> Leads<LockState> {
        match op {
            _ if self.reentrant => Leads::Anywhere,
            LockOp::Acquire(who) => Leads::To(LockState::Held(who.clone(), 1)),
            LockOp::Release(_) => Leads::To(LockState::Free),
        }
    }

    fn is_exact(&self, _op: &LockOp) -> bool {
        !self.reentrant
    }

    fn fork_name(&self) -> Option<&'static str> {
        Some("held-twice")
    }

    fn anything(&self) -> Option<LockState> {
        Some(LockState::Unknown)
    }
}

/// Permits that are taken and given back: `acquire n`, `release n` (1 where there is no value).
/// Initially none is taken; more cannot be given back than were taken.
#[derive(Debug, Clone, Copy)]
pub struct Semaphore {
    /// How many there are.
    pub permits: u32,
}

/// What a call on a semaphore says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SemaphoreOp {
    /// So many more are taken.
    Acquire(u32),
    /// So many are given back.
    Release(u32),
}

impl Model for Semaphore {
    /// How many permits are taken: `None` if that is not known.
    type State = Option<u32>;
    type Op = SemaphoreOp;

    fn name(&self) -> &str {
        "semaphore"
    }

    fn parse(&self, call: &CallView<'_>) -> Result<Option<SemaphoreOp>, Malformed> {
        let count = || match call.argument().to_value() {
            Value::Nil => Ok(1),
            value => value
                .as_int()
                .and_then(|n| u32::try_from(n).ok())
                .ok_or_else(|| call.bad_value("a number of permits")),
        };
        match (call.f(), call.outcome()) {
            ("acquire" | "release", Outcome::Fail) => Ok(None),
            ("acquire", _) => count().map(|n| Some(SemaphoreOp::Acquire(n))),
            ("release", _) => count().map(|n| Some(SemaphoreOp::Release(n))),
            _ => Err(call.unknown_function(self.name(), "acquire, release")),
        }
    }

    fn init(&self) -> Option<u32> {
        Some(0)
    }

    fn step(&self, state: &Option<u32>, op: &SemaphoreOp) -> Option<Option<u32>> {
        match (*op, *state) {
            (SemaphoreOp::Acquire(n), None) => (n <= self.permits).then_some(None),
            (SemaphoreOp::Release(n), None) => (n <= self.permits).then_some(None),
            (SemaphoreOp::Acquire(n), Some(taken)) => {
                taken.checked_add(n).filter(|taken| *taken <= self.permits).map(Some)
            }
            (SemaphoreOp::Release(n), Some(taken)) => taken.checked_sub(n).map(Some),
        }
    }

    fn describe(&self, op: &SemaphoreOp) -> String {
        match op {
            SemaphoreOp::Acquire(n) => format!("acquired {n} permits"),
            SemaphoreOp::Release(n) => format!("released {n} permits"),
        }
    }

    fn describe_state(&self, state: &Option<u32>) -> String {
        match state {
            Some(taken) => format!("{taken} of {} permits are taken", self.permits),
            None => "any number of permits could be taken".into(),
        }
    }

    fn anything(&self) -> Option<Option<u32>> {
        Some(None)
    }
}
