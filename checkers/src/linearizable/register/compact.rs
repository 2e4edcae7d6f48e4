//! The calls on registers as numbers: values are interned, events are times.

use std::sync::Mutex;

use deposed_history::{Call, History, Outcome, PRECONDITION, Symbol, ValueRef, Word};
use rustc_hash::FxHashMap;

use crate::linearizable::NEVER;
use crate::linearizable::memory::Reservation;
use crate::linearizable::model::{CallView, Malformed, Model as _};
use crate::linearizable::models::Register;
use crate::parallel::in_parallel;
use crate::{Budget, Exhausted};

/// What a call does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum F {
    /// The value was `a`.
    Read,
    /// The value becomes `a`.
    Write,
    /// The value was `a` and becomes `b`.
    Cas,
    /// The value was not `a`.
    Miss,
}

/// One call that matters.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RegisterCall {
    /// Time of the invocation: its position + 1, so that 0 is before everything.
    pub(crate) inv: u32,
    /// Time of the return, [`NEVER`] if it may or may not have happened.
    pub(crate) ret: u32,
    pub(crate) a: u32,
    pub(crate) b: u32,
    pub(crate) f: F,
}

impl RegisterCall {
    /// Its index among the calls of the history it was read from.
    pub(crate) fn index(&self, history: &History) -> u32 {
        history.calls().partition_point(|call| call.invoke + 1 < self.inv) as u32
    }

    /// Whether nobody knows if it happened.
    pub(crate) const fn is_optional(&self) -> bool {
        self.ret == NEVER
    }

    /// The value it leaves behind, if it changes anything.
    pub(crate) const fn product(&self) -> Option<u32> {
        match self.f {
            F::Write => Some(self.a),
            F::Cas => Some(self.b),
            F::Read | F::Miss => None,
        }
    }

    /// The one value it needs.
    pub(crate) const fn observed(&self) -> Option<u32> {
        match self.f {
            F::Read | F::Cas => Some(self.a),
            F::Write | F::Miss => None,
        }
    }
}

/// The calls on one register, in the order of their invocations.
#[derive(Debug)]
pub(crate) struct Compact {
    pub(crate) calls: Vec<RegisterCall>,
    /// Values are `0..values`; 0 is nil, the initial one.
    pub(crate) values: u32,
}

/// Reads the calls of one object; `calls` are indices into the history's. Indeterminate reads,
/// failed calls that observed nothing and indeterminate cas to the same value are left out, and
/// a cas to the same value that happened is a read. Errs with the first call that does not fit.
pub(crate) fn compact(
    history: &History,
    calls: &[u32],
    keyed: bool,
    model: Register,
) -> Result<Compact, (u32, Malformed)> {
    let functions = Functions::of(history, model);
    let raw = RawValues::default();
    let mut compact = Vec::with_capacity(calls.len());
    for &index in calls {
        let call = history.calls()[index as usize];
        let view = CallView::new(history, call, keyed);
        let symbol = history.op(call.invoke).f_symbol();
        match functions.classify(history, symbol, call, || view.word(history)) {
            Said::Nothing => {}
            Said::This(said) => compact.push(register_call(history, &raw, call, said)),
            Said::Nonsense => {
                // The model itself says best what is wrong with a call.
                let why = model.parse(&view).err();
                return Err((index, why.unwrap_or_else(|| view.bad_value("a register's value"))));
            }
        }
    }
    Ok(Renumbering::new().dense(vec![compact]))
}

/// The calls on one register as they were found, piece by piece, under a numbering of values that is
/// yet to be made [dense](Renumbering::dense).
pub(crate) type Pieces = Vec<Vec<RegisterCall>>;

/// All registers of a history.
pub(crate) struct Registers<'b> {
    /// In the order of their first call.
    pub(crate) pieces: Vec<Pieces>,
    /// Of all calls.
    pub(crate) memory: Reservation<'b>,
}

/// Calls that are read without a look at the clock.
const CALLS_PER_LOOK: usize = 1 << 16;

/// Reads all registers of a history at once, on as many threads as the budget allows. One pass:
/// histories of many keys are much larger than caches. `None` if some call does not fit.
pub(crate) fn load<'b>(
    history: &History,
    keyed: bool,
    model: Register,
    budget: &'b Budget,
) -> Result<Option<Registers<'b>>, Exhausted> {
    let calls = history.calls();
    let mut memory = Reservation::new(budget);
    // One register needs no more pieces than threads; of several, small pieces stay in caches.
    let share = if keyed { 0 } else { calls.len().div_ceil(budget.threads) };
    let share = share.max(CALLS_PER_LOOK);
    // The pieces of one register are copied behind the first.
    let copied = if keyed { 0 } else { calls.len().saturating_sub(share) };
    memory.hold(((calls.len() + copied) * size_of::<RegisterCall>()) as u64)?;
    let raw = RawValues::default();
    let functions = Functions::of(history, model);
    let loader = Loader { history, keyed, functions: &functions, raw: &raw };
    let starts: Vec<usize> = (0..calls.len()).step_by(share).collect();
    let pieces = in_parallel(budget.threads, starts, |start| {
        let end = (start + share).min(calls.len());
        let room = if start == 0 { calls.len() } else { end - start };
        loader.piece(&calls[start..end], room, budget)
    });
    let mut keys = Keys::default();
    let mut registers: Vec<Pieces> = Vec::new();
    if !keyed {
        registers.push(Vec::with_capacity(pieces.len()));
    }
    for piece in pieces {
        let Some(piece) = piece? else { return Ok(None) };
        for (key, calls) in piece {
            let at = key.map_or(0, |key| keys.number(history, key));
            if at == registers.len() {
                registers.push(Vec::new());
            }
            registers[at].push(calls);
        }
    }
    Ok(Some(Registers { pieces: registers, memory }))
}

/// Reads pieces of a history.
struct Loader<'a> {
    history: &'a History,
    keyed: bool,
    functions: &'a Functions,
    raw: &'a RawValues<'a>,
}

impl Loader<'_> {
    /// Calls by their key, in the order of the keys' first call. Without keys there is room for
    /// so many. `None` if some call does not fit.
    fn piece(
        &self,
        calls: &[Call],
        room: usize,
        budget: &Budget,
    ) -> Result<Option<Vec<Keyed>>, Exhausted> {
        let mut keys = Keys::default();
        let mut registers: Vec<Keyed> = Vec::new();
        if !self.keyed {
            registers.push((None, Vec::with_capacity(room)));
        }
        for calls in calls.chunks(CALLS_PER_LOOK) {
            budget.check()?;
            if !self.append(calls, &mut keys, &mut registers) {
                return Ok(None);
            }
        }
        Ok(Some(registers))
    }

    /// Appends calls to their registers. False if one does not fit.
    fn append<'h>(
        &'h self,
        calls: &[Call],
        keys: &mut Keys<'h>,
        registers: &mut Vec<Keyed>,
    ) -> bool {
        let Self { history, keyed, functions, raw } = *self;
        for &call in calls {
            let invoke = history.op(call.invoke);
            let (at, argument) = if keyed {
                let Some((key, argument)) = history.word_pair(invoke.word()) else {
                    // Without a key it must at least say nothing.
                    let silent = call.complete().is_none_or(|at| history.op(at).pair().is_none());
                    if call.outcome() == Outcome::Fail && silent {
                        continue;
                    }
                    return false;
                };
                let at = keys.number(history, key);
                if at == registers.len() {
                    registers.push((Some(key), Vec::new()));
                }
                (at, argument)
            } else {
                (0, invoke.word())
            };
            let value = || {
                let result = call.complete().and_then(|at| {
                    let result = history.op(at).word();
                    if keyed { history.word_pair(result).map(|pair| pair.1) } else { Some(result) }
                });
                result.filter(|value| !value.is_nil()).unwrap_or(argument)
            };
            match functions.classify(history, invoke.f_symbol(), call, value) {
                Said::Nothing => {}
                Said::This(said) => {
                    registers[at].1.push(register_call(history, raw, call, said));
                }
                Said::Nonsense => return false,
            }
        }
        true
    }
}

/// Calls on one register, with its key if there are several.
type Keyed = (Option<Word>, Vec<RegisterCall>);

#[inline]
fn register_call<'h>(
    history: &'h History,
    raw: &RawValues<'h>,
    call: Call,
    (f, a, b): (F, Word, Word),
) -> RegisterCall {
    let ret = match (call.outcome(), call.complete()) {
        (Outcome::Ok | Outcome::Fail, Some(position)) => position + 1,
        _ => NEVER,
    };
    let (a, b) = (raw.number(history, a), raw.number(history, b));
    // A cas to the same value, if it happened, only looked.
    let (f, b) = if f == F::Cas && a == b { (F::Read, 0) } else { (f, b) };
    RegisterCall { inv: call.invoke + 1, ret, a, b, f }
}

/// What a call says.
enum Said {
    Nothing,
    /// Nil stands for a value that there is none of.
    This((F, Word, Word)),
    Nonsense,
}

/// The functions of a register as a history numbers them.
struct Functions {
    read: Option<Symbol>,
    write: Option<Symbol>,
    cas: Option<Symbol>,
}

impl Functions {
    fn of(history: &History, model: Register) -> Self {
        Self {
            read: history.symbol("read"),
            write: history.symbol("write"),
            cas: history.symbol("cas").filter(|_| model.cas),
        }
    }

    #[inline]
    fn classify(
        &self,
        history: &History,
        f: Symbol,
        call: Call,
        value: impl FnOnce() -> Word,
    ) -> Said {
        let f = Some(f);
        if f == self.read {
            return match call.outcome() {
                Outcome::Ok => Said::This((F::Read, value(), Word::NIL)),
                _ => Said::Nothing,
            };
        }
        if f == self.write {
            return match call.outcome() {
                Outcome::Fail => Said::Nothing,
                _ => Said::This((F::Write, value(), Word::NIL)),
            };
        }
        let observed = || {
            let error = |at| history.op(at).error();
            call.complete().is_some_and(|at| error(at).as_str() == Some(PRECONDITION))
        };
        if call.outcome() == Outcome::Fail && !observed() {
            return Said::Nothing;
        }
        if f != self.cas {
            return Said::Nonsense;
        }
        let Some((from, to)) = history.word_pair(value()) else { return Said::Nonsense };
        match call.outcome() {
            Outcome::Fail => Said::This((F::Miss, from, Word::NIL)),
            Outcome::Info if history.view(from) == history.view(to) => Said::Nothing,
            _ => Said::This((F::Cas, from, to)),
        }
    }
}

/// Keys as numbers from 0, in the order of their first call.
#[derive(Default)]
struct Keys<'h> {
    /// Of small whole numbers, the number of the key + 1.
    small: Vec<u32>,
    others: FxHashMap<ValueRef<'h>, u32>,
    count: u32,
}

/// Keys below this need no hashing.
const SMALL_KEYS: i64 = 1 << 16;

impl<'h> Keys<'h> {
    #[inline]
    fn number(&mut self, history: &'h History, key: Word) -> usize {
        let at = match key.small_int() {
            Some(n) if (0..SMALL_KEYS).contains(&n) => {
                let n = n as usize;
                if n >= self.small.len() {
                    self.small.resize((n + 1).next_power_of_two(), 0);
                }
                &mut self.small[n]
            }
            _ => self.others.entry(history.view(key)).or_insert(0),
        };
        if *at == 0 {
            self.count += 1;
            *at = self.count;
        }
        *at as usize - 1
    }
}

/// Values as sparse numbers: nil is 0, small whole numbers are themselves and one more, texts go by
/// their symbols from [`TEXTS`] on, and the others are counted from [`OTHERS`] on. Threads share it.
#[derive(Default)]
struct RawValues<'h> {
    others: Mutex<FxHashMap<ValueRef<'h>, u32>>,
}

const TEXTS: u32 = 1 << 31;
const OTHERS: u32 = TEXTS + (1 << 30);

impl<'h> RawValues<'h> {
    #[inline]
    fn number(&self, history: &'h History, value: Word) -> u32 {
        match value.small_int() {
            Some(n) if (0..i64::from(TEXTS) - 1).contains(&n) => n as u32 + 1,
            _ if value.is_nil() => 0,
            _ => self.other(history, value),
        }
    }

    fn other(&self, history: &'h History, value: Word) -> u32 {
        if let Some(symbol) = value.symbol()
            && symbol.index() < 1 << 29
        {
            return TEXTS + 2 * symbol.index() as u32 + u32::from(value.is_keyword());
        }
        // Which number a value gets depends on the threads; what it is made dense to does not.
        let mut others = self.others.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let next = OTHERS + others.len() as u32;
        *others.entry(history.view(value)).or_insert(next)
    }
}

/// Makes the values of one register after the other dense. Keeps its tables in between.
pub(crate) struct Renumbering {
    /// Of small values.
    small: Vec<u32>,
    small_max: usize,
    others: FxHashMap<u32, u32>,
    /// Entries of `small` that are in use.
    used: Vec<u32>,
}

impl Renumbering {
    pub(crate) fn new() -> Self {
        Self { small: Vec::new(), small_max: 0, others: FxHashMap::default(), used: Vec::new() }
    }

    /// The calls of one register in one piece.
    pub(crate) fn dense(&mut self, pieces: Pieces) -> Compact {
        let mut pieces = pieces.into_iter();
        let mut calls = pieces.next().unwrap_or_default();
        calls.reserve_exact(pieces.as_slice().iter().map(Vec::len).sum());
        pieces.for_each(|piece| calls.extend_from_slice(&piece));
        // As good as dense: no value is much greater than there are calls.
        let raw_max = calls.iter().map(|call| call.a.max(call.b)).max().unwrap_or(0);
        if (raw_max as usize) < 2 * calls.len() {
            return Compact { calls, values: raw_max + 1 };
        }
        let mut values = 1;
        // A table much larger than its register would be slower than hashing: it does not fit
        // into caches.
        self.small_max = calls.len().saturating_mul(4) + 1024;
        for call in &mut calls {
            call.a = self.number(call.a, &mut values);
            if call.f == F::Cas {
                call.b = self.number(call.b, &mut values);
            }
        }
        for &raw in &self.used {
            self.small[raw as usize] = 0;
        }
        self.used.clear();
        self.others.clear();
        Compact { calls, values }
    }

    fn number(&mut self, raw: u32, values: &mut u32) -> u32 {
        if raw == 0 {
            return 0;
        }
        let at = if (raw as usize) < self.small_max {
            if raw as usize >= self.small.len() {
                let len = (raw as usize + 1).next_power_of_two().min(self.small_max);
                self.small.resize(len, 0);
            }
            let at = &mut self.small[raw as usize];
            if *at == 0 {
                self.used.push(raw);
            }
            at
        } else {
            self.others.entry(raw).or_insert(0)
        };
        if *at == 0 {
            *at = *values;
            *values += 1;
        }
        *at
    }
}
