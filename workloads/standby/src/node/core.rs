//! What a node knows, and how that changes. Nothing here waits; all of it happens under one lock.
//!
//! Log positions count from 1. The rules of the log are Raft's (Ongaro and Ousterhout 2014, figure
//! 2), whoever issues the terms: where an observer decides, a term is its token, and `prepare` takes
//! the place of the vote.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::clock::wall_ns;
use crate::journal::{self, Journal};
use crate::lease::{Granted, Lease};
use crate::state::{Op, Outcome, State};
use crate::wire::Entry;
use crate::{Acks, Clock, Config, Failover, Mistake, OnStale, Reads, Reply};

/// At most so many entries go into one message.
const ENTRIES_MAX: usize = 500;

/// What a node must never forget besides its log.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Promises {
    term: u64,
    voted_for: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Follower,
    Candidate,
    Leader,
}

/// What the leader knows of a follower.
#[derive(Debug, Clone)]
struct Progress {
    /// The position to send next.
    next: u64,
    /// Up to here the logs are alike.
    matched: u64,
    /// When the latest message that it confirmed was sent.
    confirmed: Option<Instant>,
}

/// A line of `led.jsonl`: a time in which it took itself for the leader, by the wall clock.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Led {
    node: String,
    token: u64,
    from_wall_ns: u64,
    /// When it noticed that it leads no more.
    wall_ns: u64,
    /// How long its lease had been over by then.
    over_ns: u64,
}

/// A write to the volume that was acknowledged before it was delivered.
#[derive(Debug, Clone)]
pub(super) struct Undelivered {
    pub(super) token: u64,
    pub(super) id: String,
    pub(super) value: Value,
}

pub(super) struct Core {
    config: Config,
    journal: Journal,
    promises_at: PathBuf,
    promises: Promises,
    part: Part,
    log: Vec<Entry>,
    commit: u64,
    pub(super) state: State,
    /// Who leads, as far as this node knows.
    pub(super) leader: Option<String>,
    /// When the leader was last heard of. A node that starts has just heard of it, for all it knows.
    heard: Instant,
    /// The token it leads by, and since when by the wall clock.
    leading: Option<(u64, u64)>,
    led: Journal,
    /// The right to lead, if it is a lease.
    pub(super) lease: Lease,
    /// The right to answer reads as a follower.
    pub(super) read_lease: Lease,
    pub(super) undelivered: VecDeque<Undelivered>,

    // What follows means something to the leader only, and is new with each term.
    /// The position of the first entry of its own.
    led_from: u64,
    followers: BTreeMap<String, Progress>,
    /// The latest moment that somebody wants followers to confirm.
    confirm_from: Option<Instant>,
    /// Who was promised that nothing is committed without it.
    readers: BTreeMap<String, Granted>,
    /// When the promises of the leader before have ended.
    settled: Option<Granted>,
    /// Positions somebody waits for, and what came of them.
    waiting: BTreeSet<u64>,
    outcomes: BTreeMap<u64, Outcome>,
    /// By lock: where it was last renewed, and when the time of that is over.
    lock_ends: BTreeMap<String, (u64, Duration)>,
    /// Locks granted, counted as one does who keeps no record of it.
    locks_granted: u64,
}

impl Core {
    pub(super) fn open(config: &Config) -> io::Result<Self> {
        let promises_at = config.data.join("promises.json");
        let promises = journal::load(&promises_at)?.unwrap_or_default();
        let (journal, log) = Journal::open(config.data.join("log.jsonl"))?;
        let (led, _) = Journal::open::<Led>(config.data.join("led.jsonl"))?;
        Ok(Self {
            config: config.clone(),
            journal,
            leading: None,
            led,
            promises_at,
            promises,
            part: Part::Follower,
            log,
            commit: 0,
            state: State::default(),
            leader: None,
            heard: Instant::now(),
            lease: Lease::new(config),
            read_lease: Lease::new(config),
            undelivered: VecDeque::new(),
            led_from: 0,
            followers: BTreeMap::new(),
            confirm_from: None,
            readers: BTreeMap::new(),
            settled: None,
            waiting: BTreeSet::new(),
            outcomes: BTreeMap::new(),
            lock_ends: BTreeMap::new(),
            locks_granted: 0,
        })
    }

    pub(super) const fn term(&self) -> u64 {
        self.promises.term
    }

    fn last_index(&self) -> u64 {
        self.log.len() as u64
    }

    fn term_at(&self, index: u64) -> u64 {
        let at = usize::try_from(index).expect("a position in memory");
        at.checked_sub(1).and_then(|at| self.log.get(at)).map_or(0, |entry| entry.term)
    }

    /// Where its log ends, as logs are compared.
    pub(super) fn end(&self) -> (u64, u64) {
        (self.term_at(self.last_index()), self.last_index())
    }

    pub(super) fn status(&self) -> Reply {
        let (last_term, last_index) = self.end();
        Reply::Status {
            node: self.config.name.clone(),
            leads: self.leads().is_some(),
            term: self.term(),
            last_index,
            last_term,
            commit: self.commit,
        }
    }

    /// Whether it takes itself for the leader, lease or no lease.
    pub(super) fn leads_by_itself(&self) -> bool {
        self.part == Part::Leader
    }

    /// The token it leads by, if it may act on that now as far as it can know by itself.
    pub(super) fn leads(&self) -> Option<u64> {
        let may = self.config.failover != Failover::Lease || self.lease.valid();
        (self.leads_by_itself() && may).then_some(self.term())
    }

    /// Where the observer or a voter knows of a newer leader.
    pub(super) fn step_down_for(&mut self, term: u64) {
        if self.leads_by_itself() && term > self.term() {
            self.demote(None);
        }
    }

    fn demote(&mut self, leader: Option<String>) {
        self.note_end();
        self.part = Part::Follower;
        self.leader = leader;
        self.lease.end();
        self.outcomes.clear();
        self.waiting.clear();
        // A silent leader hopes to deliver one day what it has acknowledged.
        if self.config.on_stale == OnStale::Disconnect {
            self.undelivered.clear();
        }
    }

    /// Writes down that it led. What ran out by a clock that can be set ended nobody knows when.
    fn note_end(&mut self) {
        let Some((token, from_wall_ns)) = self.leading.take() else { return };
        let over = match (self.config.failover, self.config.clock) {
            (Failover::Lease, Clock::Wall) => None,
            (Failover::Lease, _) => self.lease.over_for(),
            _ => Some(Duration::ZERO),
        };
        let Some(over) = over else { return };
        let over_ns = u64::try_from(over.as_nanos()).unwrap_or(u64::MAX);
        let node = self.config.name.clone();
        let led = Led { node, token, from_wall_ns, wall_ns: wall_ns(), over_ns };
        self.persist(|core| core.led.append(&[led]));
    }

    fn promise(&mut self, term: u64, voted_for: Option<String>) {
        let promises = Promises { term, voted_for };
        self.persist(|core| journal::store(&core.promises_at, &promises));
        if term != self.promises.term {
            self.read_lease.end();
        }
        self.promises = promises;
    }

    /// A node that cannot keep its promises must not go on.
    fn persist(&mut self, write: impl FnOnce(&mut Self) -> io::Result<()>) {
        if let Err(error) = write(self) {
            panic!("write to {}: {error}", self.config.data.display());
        }
    }

    // The log of a follower.

    /// Takes what a leader sends.
    pub(super) fn follow(
        &mut self,
        term: u64,
        leader: String,
        prev_index: u64,
        prev_term: u64,
        entries: Vec<Entry>,
        commit: u64,
    ) -> Reply {
        if term < self.term() {
            return Reply::Stale { token: self.term() };
        }
        if term > self.term() {
            self.promise(term, None);
        }
        if self.part != Part::Follower || self.leader.as_ref() != Some(&leader) {
            self.demote(Some(leader));
        }
        self.heard = Instant::now();
        if prev_index > self.last_index() || self.term_at(prev_index) != prev_term {
            let index = self.last_index().min(prev_index.saturating_sub(1));
            return Reply::Position { fits: false, index };
        }
        let matched = prev_index + entries.len() as u64;
        let known = (prev_index + 1..).zip(&entries);
        let known = known.take_while(|(at, entry)| self.term_at(*at) == entry.term).count();
        if known < entries.len() {
            self.cut(prev_index + known as u64);
            self.extend(&entries[known..]);
        }
        self.commit_up_to(commit.min(matched));
        Reply::Position { fits: true, index: matched }
    }

    /// Forgets what comes after a position.
    fn cut(&mut self, index: u64) {
        if index == self.last_index() {
            return;
        }
        self.log.truncate(usize::try_from(index).expect("a position in memory"));
        self.persist(|core| core.journal.replace(&core.log));
        // Only a store that acknowledges before others have it ever takes back what it committed.
        if self.commit > index {
            self.state = State::default();
            let commit = std::mem::take(&mut self.commit).min(index);
            self.commit_up_to(commit);
        }
    }

    fn extend(&mut self, entries: &[Entry]) {
        self.persist(|core| core.journal.append(entries));
        self.log.extend_from_slice(entries);
    }

    fn commit_up_to(&mut self, index: u64) {
        while self.commit < index {
            self.commit += 1;
            let entry = &self.log[usize::try_from(self.commit - 1).expect("in memory")];
            let outcome = self.state.apply(self.commit, &entry.op);
            if let (Op::Acquire { lock, .. } | Op::Renew { lock, .. }, true) =
                (&entry.op, self.part == Part::Leader)
            {
                let lock = lock.clone();
                self.lock_end(&lock);
            }
            if self.waiting.remove(&self.commit) {
                self.outcomes.insert(self.commit, outcome);
            }
        }
    }

    /// Everything it has is committed: nothing is under way that others may have seen.
    pub(super) fn all_committed(&self, up_to: u64) -> bool {
        self.commit >= up_to
    }

    pub(super) fn last(&self) -> u64 {
        self.last_index()
    }

    // Becoming the leader.

    /// Whether the leader was heard of lately, so that no other is needed.
    fn leader_is_well(&self) -> bool {
        if self.leads_by_itself() { self.sure() } else { self.heard.elapsed() < self.config.term() }
    }

    /// Votes, or says whether it would.
    pub(super) fn vote(
        &mut self,
        term: u64,
        candidate: &str,
        end: (u64, u64),
        canvass: bool,
    ) -> Reply {
        let free = term > self.term()
            || (term == self.term()
                && self.promises.voted_for.as_ref().is_none_or(|name| name == candidate));
        let granted = free && end >= self.end() && !self.leader_is_well();
        if granted && !canvass {
            if self.leads_by_itself() {
                self.demote(None);
            }
            self.promise(term, Some(candidate.to_owned()));
            self.heard = Instant::now();
        }
        Reply::Voted { granted, term: self.term() }
    }

    /// Whether it is time to stand for election: the next term, unless it leads or hears a leader.
    pub(super) fn next_term(&self, patience: Duration) -> Option<u64> {
        (!self.leads_by_itself() && self.heard.elapsed() > patience).then(|| self.term() + 1)
    }

    /// Stands for election.
    pub(super) fn stand(&mut self, term: u64) -> bool {
        if self.term() + 1 != term || self.leads_by_itself() {
            return false;
        }
        self.promise(term, Some(self.config.name.clone()));
        self.part = Part::Candidate;
        self.leader = None;
        self.heard = Instant::now();
        true
    }

    /// Leads, if it still stands in that term.
    pub(super) fn elected(&mut self, term: u64) {
        if self.part == Part::Candidate && self.term() == term {
            self.take_over();
        }
    }

    /// Listens to no leader before this token, from now on.
    pub(super) fn prepare(&mut self, token: u64) -> Reply {
        // Planted: if tokens begin again after a crash, nobody may remember older ones.
        if token < self.term() && !self.config.has(Mistake::TokensRestart) {
            return Reply::Stale { token: self.term() };
        }
        if token != self.term() {
            self.promise(token, None);
            self.demote(None);
        }
        self.status()
    }

    /// Leads by a token of the observer.
    pub(super) fn promote(&mut self, token: u64) -> Reply {
        if token != self.term() {
            return Reply::Stale { token: self.term() };
        }
        if !self.leads_by_itself() {
            self.take_over();
        }
        self.status()
    }

    fn take_over(&mut self) {
        self.part = Part::Leader;
        self.leading = Some((self.term(), wall_ns()));
        self.leader = Some(self.config.name.clone());
        self.lease.end();
        let progress = Progress { next: self.last_index() + 1, matched: 0, confirmed: None };
        let others = self.config.others();
        self.followers = others.map(|peer| (peer.name.clone(), progress.clone())).collect();
        self.confirm_from = None;
        self.readers.clear();
        self.settled =
            (self.config.reads == Reads::FollowerLease).then(|| Granted::now(&self.config));
        self.lock_ends.clear();
        self.locks_granted = 0;
        self.led_from = self.last_index() + 1;
        self.append(Op::Nothing);
    }

    // The log of the leader.

    fn append(&mut self, op: Op) -> u64 {
        self.extend(&[Entry { term: self.term(), op }]);
        self.advance();
        self.last_index()
    }

    /// Takes a write, whose outcome will be asked for.
    pub(super) fn submit(&mut self, op: Op) -> u64 {
        self.waiting.insert(self.last_index() + 1);
        self.append(op)
    }

    /// What came of the write at a position: `None` as long as nobody knows.
    pub(super) fn outcome(&mut self, term: u64, index: u64) -> Option<Result<Outcome, ()>> {
        if !self.leads_by_itself() || self.term() != term {
            return Some(Err(()));
        }
        self.outcomes.remove(&index).map(Ok)
    }

    /// Nobody waits for it any more.
    pub(super) fn forget(&mut self, index: u64) {
        self.waiting.remove(&index);
        self.outcomes.remove(&index);
    }

    /// Whether it knows of everything that was committed before it led.
    pub(super) fn is_settled(&self) -> bool {
        self.commit >= self.led_from
    }

    /// What to send to a follower.
    pub(super) fn entries_for(&self, follower: &str) -> Option<(u64, crate::Request)> {
        let progress = self.followers.get(follower).filter(|_| self.leads_by_itself())?;
        let prev_index = progress.next - 1;
        let from = usize::try_from(prev_index).expect("a position in memory");
        let to = self.log.len().min(from + ENTRIES_MAX);
        let entries = crate::Request::Entries {
            term: self.term(),
            leader: self.config.name.clone(),
            prev_index,
            prev_term: self.term_at(prev_index),
            entries: self.log[from..to].to_vec(),
            commit: self.commit,
        };
        Some((self.commit, entries))
    }

    /// Whether there is something to tell a follower that was told of commits up to `told`.
    pub(super) fn has_news_for(&self, follower: &str, told: u64) -> bool {
        let behind = |progress: &Progress| {
            progress.next <= self.last_index() || progress.confirmed < self.confirm_from
        };
        self.leads_by_itself()
            && (told < self.commit || self.followers.get(follower).is_some_and(behind))
    }

    /// A follower answered a message of this term that was sent then.
    pub(super) fn followed(&mut self, follower: &str, term: u64, sent: Instant, reply: &Reply) {
        if !self.leads_by_itself() || self.term() != term {
            return;
        }
        let Some(progress) = self.followers.get_mut(follower) else { return };
        if let Reply::Position { fits, index } = *reply {
            progress.confirmed = progress.confirmed.max(Some(sent));
            if fits {
                progress.matched = progress.matched.max(index);
            }
            progress.next = index + 1;
            self.advance();
        }
    }

    /// Commits what may be.
    pub(super) fn advance(&mut self) {
        if !self.leads_by_itself() || self.settled.as_ref().is_some_and(|until| !until.over()) {
            return;
        }
        let local = self.config.acks == Acks::Local && self.config.failover != Failover::Quorum;
        let mut upto = if local {
            self.last_index()
        } else {
            let mut matched: Vec<u64> = self.followers.values().map(|f| f.matched).collect();
            matched.push(self.last_index());
            matched.sort_unstable();
            matched[matched.len() - self.config.majority()]
        };
        self.readers.retain(|_, granted| !granted.over());
        for reader in self.readers.keys() {
            upto = upto.min(self.followers.get(reader).map_or(0, |f| f.matched));
        }
        if upto > self.commit && self.term_at(upto) == self.term() {
            self.commit_up_to(upto);
        }
    }

    /// Has every follower confirm a message sent at or after a moment.
    pub(super) fn confirm_from(&mut self, moment: Instant) {
        self.confirm_from = self.confirm_from.max(Some(moment));
    }

    /// How many followers confirmed a message sent at or after a moment, itself included.
    pub(super) fn confirmed_since(&self, moment: Instant) -> usize {
        1 + self.followers.values().filter(|f| f.confirmed >= Some(moment)).count()
    }

    /// Whether nobody else can lead yet: those who confirmed will not vote for a term.
    fn sure(&self) -> bool {
        let lately = self.config.term().saturating_sub(self.config.margin());
        match self.config.failover {
            Failover::Quorum => {
                let from = Instant::now().checked_sub(lately);
                from.is_some_and(|from| self.confirmed_since(from) >= self.config.majority())
            }
            Failover::Timeout | Failover::Lease => self.leads().is_some(),
        }
    }

    /// Lets a follower answer reads for a term, if it has everything that is committed.
    pub(super) fn let_read(&mut self, node: &str, term: u64) -> bool {
        let current = self.followers.get(node).is_some_and(|f| f.matched >= self.commit);
        let granted = self.leads_by_itself()
            && self.term() == term
            && self.sure()
            && self.is_settled()
            && current;
        if granted {
            self.readers.insert(node.to_owned(), Granted::now(&self.config));
        }
        granted
    }

    // Locks.

    /// When the time of a lock's holder is over, by the leader's clock.
    fn lock_end(&mut self, lock: &str) -> Option<Duration> {
        let holder = self.state.locks.get(lock)?;
        let known = self.lock_ends.get(lock).filter(|(renewed, _)| *renewed == holder.renewed);
        let end = known.map_or_else(
            || self.config.clock.now() + Duration::from_millis(holder.ttl_ms),
            |(_, end)| *end,
        );
        self.lock_ends.insert(lock.to_owned(), (holder.renewed, end));
        Some(end)
    }

    /// Where in the log the holder of a lock took or last renewed it, if its time is over.
    pub(super) fn expired(&mut self, lock: &str) -> Option<u64> {
        let end = self.lock_end(lock)?;
        let over = self.config.clock.now() >= end;
        over.then(|| self.state.locks.get(lock).map(|holder| holder.renewed)).flatten()
    }

    /// The token of the next lock, if it is not the position in the log, which is always right.
    pub(super) fn mistaken_token(&mut self) -> Option<u64> {
        self.locks_granted += 1;
        // Planted: what is counted in memory begins again.
        if self.config.has(Mistake::TokensRestart) {
            return Some(self.locks_granted);
        }
        // Planted: every lock granted in a term has the same.
        self.config.has(Mistake::SharedToken).then(|| self.term())
    }
}
