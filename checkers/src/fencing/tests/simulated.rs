//! A simulated lock service with the resources it guards and a replicated log, used by clients that
//! pause and lose connections. It is right, or has one planted mistake.

use deposed_history::fencing::{
    FencedWrite, Grant, LogEvent, Observation, STALE_TOKEN, Seen, Served, Stamp, Token,
};
use deposed_history::{Header, History, HistoryBuilder, Op, OpType, Process, Value};

/// A small generator of random numbers (SplitMix64), the same on every machine.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ x >> 31
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

/// What is wrong with the system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mistake {
    Nothing,
    /// The service counts its tokens from one again.
    TokensRestart,
    /// Two grants with one token.
    SameTokenTwice,
    /// The resource compares with the last token it saw rather than with the highest, and clients
    /// do not look at their leases.
    ComparesWithLast,
    /// The resource does not look at tokens, nor do clients at their leases.
    ComparesNothing,
    /// The service grants what another one still holds.
    GrantsTooEarly,
    /// Clients reckon their leases from the reply rather than from the request.
    ReckonsFromReply,
    /// Clients look at their lease, pause, and write.
    ChecksThenPauses,
    /// Clients write with a token they made up.
    ForgesTokens,
    /// The resource forgets some of what it accepted.
    Forgets,
    /// A deposed leader goes on serving.
    DeposedServes,
    /// Some reads are served from an old state.
    StaleReads,
    /// The resource applies some writes twice.
    AppliesTwice,
    /// The service renews what it took for expired, and clients do not look at their leases.
    RenewsExpired,
    /// Clients write once more after a release.
    WritesAfterRelease,
}

const LOCKS: [&str; 4] = ["lock0", "lock1", "lock2", "lock3"];
const LOG: &str = "log";
const NODES: [&str; 3] = ["n1", "n2", "n3"];
const CLIENTS: usize = 12;
const LEASE_MS: u64 = 20;
const LEASE_NS: u64 = LEASE_MS * 1_000_000;
const PAUSE_NS: u64 = 3 * LEASE_NS;
/// The error bound of the clocks of resources and service, as measured.
const ERROR_NS: u64 = 20_000;

#[derive(Default)]
struct Lock {
    holder: Option<(i64, u64)>,
    token: i64,
    /// What the resource compares with.
    seen: i64,
    seq: u64,
    applied: Vec<String>,
}

#[derive(Clone)]
struct Call {
    f: &'static str,
    lock: usize,
    token: i64,
    id: String,
    begin: u64,
    /// The value of the completion, or none if it was refused.
    done: Option<Option<Value>>,
}

#[derive(Clone, Copy)]
struct Hold {
    lock: usize,
    token: i64,
    valid_until: u64,
}

#[derive(Clone, Default)]
struct Client {
    process: u32,
    hold: Option<Hold>,
    released: Option<Hold>,
    call: Option<Call>,
    wakes: u64,
    serial: u64,
}

struct System {
    mistake: Mistake,
    random: Random,
    now: u64,
    locks: Vec<Lock>,
    epoch: i64,
    entries: Vec<String>,
    clients: Vec<Client>,
    loose: Vec<Call>,
    builder: HistoryBuilder,
    logs: Vec<Op>,
    events: usize,
}

/// A history of about so many events.
pub(crate) fn history(events: usize, mistake: Mistake, seed: u64) -> History {
    let client = |process| Client { process, ..Client::default() };
    let mut system = System {
        mistake,
        random: Random::new(seed),
        now: 0,
        locks: LOCKS.iter().map(|_| Lock::default()).collect(),
        epoch: 1,
        entries: Vec::new(),
        clients: (0..CLIENTS as u32).map(client).collect(),
        loose: Vec::new(),
        builder: HistoryBuilder::new(Header::default()),
        logs: Vec::new(),
        events: 0,
    };
    while system.events + system.logs.len() < events
        || system.clients.iter().any(|client| client.call.is_some())
    {
        let is_over = system.events + system.logs.len() >= events;
        system.step(is_over);
    }
    system.finish()
}

impl System {
    fn one_in(&mut self, n: u64) -> bool {
        self.random.below(n) == 0
    }

    /// With a mistake: now and then.
    fn errs(&mut self, mistake: Mistake, one_in: u64) -> bool {
        self.mistake == mistake && self.one_in(one_in)
    }

    fn stamp(&mut self) -> Option<Stamp> {
        let off = self.random.below(2 * ERROR_NS);
        Some(Stamp { at_ns: (self.now + off).saturating_sub(ERROR_NS), error_ns: ERROR_NS })
    }

    fn is_leased(lock: usize) -> bool {
        lock != LOCKS.len() - 1
    }

    fn step(&mut self, is_over: bool) {
        self.now += 1_000 + self.random.below(100_000);
        if self.one_in(3_000) {
            self.epoch += 1;
        }
        if !self.loose.is_empty() && self.one_in(50) {
            let mut call = self.loose.remove(0);
            self.execute(&mut call);
        }
        let who = self.random.below(CLIENTS as u64) as usize;
        if self.clients[who].wakes > self.now {
            return;
        }
        match self.clients[who].call.take() {
            None if is_over => {}
            None => self.begin(who),
            Some(call) if call.done.is_some() => self.end(who, call),
            Some(mut call) if self.one_in(500) => {
                match self.random.below(3) {
                    0 => self.execute(&mut call),
                    1 if matches!(call.f, "fenced-write" | "append") => {
                        self.loose.push(call.clone());
                    }
                    _ => {}
                }
                self.lose(who, &call);
            }
            Some(mut call) => {
                self.execute(&mut call);
                self.clients[who].call = Some(call);
            }
        }
        if self.one_in(2_000) {
            self.clients[who].wakes = self.now + PAUSE_NS;
        }
    }

    fn begin(&mut self, who: usize) {
        let (now, roll) = (self.now, self.random.below(12));
        let client = &mut self.clients[who];
        client.serial += 1;
        let id = format!("{}-{}", client.process, client.serial);
        let trusts = matches!(
            self.mistake,
            Mistake::ChecksThenPauses
                | Mistake::ComparesWithLast
                | Mistake::ComparesNothing
                | Mistake::RenewsExpired
        );
        if !trusts {
            client.hold = client.hold.filter(|hold| hold.valid_until > now);
        }
        let released = client.released.take();
        let again = released.filter(|_| self.mistake == Mistake::WritesAfterRelease);
        let (f, lock, mut token) = match (client.hold, again) {
            (None, Some(hold)) => ("fenced-write", hold.lock, hold.token),
            (Some(hold), _) => match roll {
                0..8 => ("fenced-write", hold.lock, hold.token),
                8 | 9 if Self::is_leased(hold.lock) => ("renew", hold.lock, hold.token),
                _ => ("release", hold.lock, hold.token),
            },
            (None, None) => match roll {
                0..5 => ("append", 0, 0),
                5..8 => ("read", 0, 0),
                _ => ("acquire", self.random.below(LOCKS.len() as u64) as usize, 0),
            },
        };
        if f == "fenced-write" && self.errs(Mistake::ForgesTokens, 20) {
            token += 1_000_000;
        }
        let call = Call { f, lock, token, id, begin: now, done: None };
        let asked = self.asked(&call);
        self.record(who, OpType::Invoke, &call, asked);
        self.clients[who].call = Some(call);
    }

    fn asked(&self, call: &Call) -> Value {
        match call.f {
            "renew" | "release" => Token(call.token).to_value(),
            "fenced-write" => FencedWrite {
                token: Some(call.token),
                id: &call.id,
                value: Value::Int(1),
                believed_valid: Self::is_leased(call.lock),
            }
            .to_value(),
            "append" => Value::Map(vec![
                ("id".into(), call.id.as_str().into()),
                ("value".into(), Value::Int(1)),
            ]),
            _ => Value::Nil,
        }
    }

    fn record(&mut self, who: usize, kind: OpType, call: &Call, value: Value) {
        let resource = match call.f {
            "append" | "read" => LOG,
            _ => LOCKS[call.lock],
        };
        let error = if kind == OpType::Fail { Value::str(STALE_TOKEN) } else { Value::Nil };
        let process = Process::Client(self.clients[who].process);
        let op = Op::new(kind, process, call.f, Value::pair(resource, value));
        self.builder.push(&Op { time: self.now, index: self.events as u64, error, ..op });
        self.events += 1;
    }

    /// Nobody knows what became of a call; its client goes on as another one, and the service
    /// takes back what it held without a lease.
    fn lose(&mut self, who: usize, call: &Call) {
        let asked = self.asked(call);
        self.record(who, OpType::Info, call, asked);
        let client = &mut self.clients[who];
        client.process += CLIENTS as u32;
        let held = client.hold.take().map(|hold| (hold.lock, hold.token));
        let acquired = match (call.f, &call.done) {
            ("acquire", Some(Some(Value::Int(token)))) => Some((call.lock, *token)),
            _ => None,
        };
        for (lock, token) in held.into_iter().chain(acquired) {
            let holder = &mut self.locks[lock].holder;
            if !Self::is_leased(lock) && holder.is_some_and(|(of, _)| of == token) {
                *holder = None;
            }
        }
    }

    fn end(&mut self, who: usize, call: Call) {
        let answer = call.done.clone().flatten();
        let (now, from_reply) = (self.now, self.mistake == Mistake::ReckonsFromReply);
        let from = if from_reply { now } else { call.begin };
        let valid_until = from + LEASE_NS;
        let is_grant = matches!(call.f, "acquire" | "renew");
        let leased = Self::is_leased(call.lock);
        let (kind, value) = match answer {
            None => (OpType::Fail, self.asked(&call)),
            Some(Value::Int(token)) if is_grant => {
                let lease_ms = leased.then_some(LEASE_MS);
                let valid_until_ns = leased.then_some(valid_until);
                (OpType::Ok, Grant { token, lease_ms, valid_until_ns }.to_value())
            }
            Some(value) => (OpType::Ok, value),
        };
        self.record(who, kind, &call, value);
        let client = &mut self.clients[who];
        let valid_until = if leased { valid_until } else { u64::MAX };
        match (call.f, &call.done) {
            ("acquire" | "renew", Some(Some(Value::Int(token)))) => {
                client.hold = Some(Hold { lock: call.lock, token: *token, valid_until });
            }
            ("release", _) => client.released = client.hold.take(),
            ("renew", Some(None)) => client.hold = None,
            _ => {}
        }
        if self.mistake == Mistake::ChecksThenPauses && self.one_in(200) {
            self.clients[who].wakes = self.now + PAUSE_NS;
        }
    }

    fn execute(&mut self, call: &mut Call) {
        let done = match call.f {
            "acquire" => self.grant(call.lock),
            "renew" => self.renew(call.lock, call.token),
            "release" => {
                let holder = &mut self.locks[call.lock].holder;
                *holder = holder.filter(|(token, _)| *token != call.token);
                Some(Token(call.token).to_value())
            }
            "fenced-write" => self.write(call),
            "append" => {
                let served = self.served();
                // What a deposed leader takes in goes nowhere.
                if served.epoch == self.epoch {
                    self.entries.push(call.id.clone());
                }
                Some(Served { id: Some(&call.id), ..served }.to_value())
            }
            _ => {
                let served = self.served();
                let back = if self.errs(Mistake::StaleReads, 50) { 20 } else { 1 };
                let last = self.entries.len().checked_sub(back).map(|at| &*self.entries[at]);
                Some(Observation { seen: Seen::Last(last), served: Some(served) }.to_value())
            }
        };
        call.done = Some(done);
    }

    fn served(&mut self) -> Served<'static> {
        let epoch = self.epoch - i64::from(self.epoch > 1 && self.errs(Mistake::DeposedServes, 50));
        Served { id: None, node: NODES[epoch as usize % NODES.len()], epoch, leader: true }
    }

    fn grant(&mut self, number: usize) -> Option<Value> {
        let early = self.errs(Mistake::GrantsTooEarly, 20);
        let restarts = self.errs(Mistake::TokensRestart, 20);
        let repeats = self.errs(Mistake::SameTokenTwice, 20);
        let (now, at) = (self.now, self.stamp());
        let lock = &mut self.locks[number];
        if lock.holder.is_some_and(|(_, expires)| expires > now) && !early {
            return None;
        }
        let resource = LOCKS[number];
        if let Some((token, _)) = lock.holder {
            let ended = LogEvent::Ended { resource, token, revoked: false, at };
            self.logs.push(ended.to_op());
        }
        lock.token = if restarts { 1 } else { lock.token + i64::from(!repeats || lock.token == 0) };
        let expires = if Self::is_leased(number) { now + LEASE_NS } else { u64::MAX };
        lock.holder = Some((lock.token, expires));
        let token = lock.token;
        self.logs.push(LogEvent::Granted { resource, token, at }.to_op());
        Some(Value::Int(token))
    }

    fn renew(&mut self, number: usize, token: i64) -> Option<Value> {
        let (now, at, resource) = (self.now, self.stamp(), LOCKS[number]);
        let lock = &mut self.locks[number];
        if lock.holder.is_some_and(|(holder, expires)| holder == token && expires > now) {
            lock.holder = Some((token, now + LEASE_NS));
            self.logs.push(LogEvent::Granted { resource, token, at }.to_op());
            return Some(Value::Int(token));
        }
        (self.mistake == Mistake::RenewsExpired).then_some(Value::Int(token))
    }

    fn write(&mut self, call: &Call) -> Option<Value> {
        let at = self.stamp();
        let twice = self.errs(Mistake::AppliesTwice, 50);
        let lock = &mut self.locks[call.lock];
        let accepted = call.token >= lock.seen || self.mistake == Mistake::ComparesNothing;
        if accepted || self.mistake == Mistake::ComparesWithLast {
            lock.seen = call.token;
        }
        for _ in 0..=u8::from(twice && accepted) {
            lock.seq += 1;
            let line = LogEvent::Write {
                resource: LOCKS[call.lock],
                seq: lock.seq,
                token: Some(call.token),
                id: Some(&call.id),
                value: Value::Int(1),
                accepted,
                at,
            };
            self.logs.push(line.to_op());
        }
        if !accepted {
            return None;
        }
        lock.applied.push(call.id.clone());
        Some(self.asked(call))
    }

    fn finish(mut self) -> History {
        let forgets = self.mistake == Mistake::Forgets;
        let snapshot = |resource, ids: &[String]| {
            let kept = ids.iter().enumerate().filter(|(i, _)| !forgets || i % 50 != 49);
            let seen = Seen::Every(kept.map(|(_, id)| id.as_str()).collect());
            let epoch = Some(1);
            LogEvent::Snapshot { resource, node: None, epoch, seen, value: Value::Nil }.to_op()
        };
        for (resource, lock) in LOCKS.into_iter().zip(&self.locks) {
            self.logs.push(snapshot(resource, &lock.applied));
        }
        self.logs.push(snapshot(LOG, &self.entries));
        for op in self.logs {
            self.builder.push(&Op { time: self.now, index: self.events as u64, ..op });
            self.events += 1;
        }
        self.builder.finish()
    }
}
