//! A lease as its holder sees it: a right with a deadline.

use std::time::Duration;

use crate::{Clock, Config, Mistake};

/// The holder's side of a lease, renewed by asking.
///
/// By the monotonic clocks it is counted from the moment the holder asked: whoever granted it did
/// so later. By the wall clock both sides agreed on a time of day. Either way the holder stops a
/// margin earlier.
#[derive(Debug, Clone)]
pub(crate) struct Lease {
    clock: Clock,
    term: Duration,
    margin: Duration,
    from_reply: bool,
    until: Option<Duration>,
}

impl Lease {
    /// A lease not yet held.
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            clock: config.clock,
            term: config.term(),
            margin: config.margin(),
            from_reply: config.has(Mistake::RenewFromReply),
            until: None,
        }
    }

    /// The time to remember when a request for renewal is sent.
    pub(crate) fn ask(&self) -> Duration {
        self.clock.now()
    }

    /// A request sent at `asked` was granted until `until_ms` of the granter's wall clock.
    pub(crate) fn renew(&mut self, asked: Duration, until_ms: u64) {
        // Planted: the time the reply took, and any pause meanwhile, are added to the lease.
        let from = if self.from_reply { self.clock.now() } else { asked };
        let until = match self.clock {
            Clock::Wall => Duration::from_millis(until_ms),
            Clock::Monotonic | Clock::Boottime => from + self.term,
        };
        self.until = Some(until.saturating_sub(self.margin));
    }

    /// Gives it up.
    pub(crate) fn end(&mut self) {
        self.until = None;
    }

    /// How long ago it ran out, which may be never; none if it was never held.
    pub(crate) fn over_for(&self) -> Option<Duration> {
        self.until.map(|until| self.clock.now().saturating_sub(until))
    }

    /// Whether it is held now.
    pub(crate) fn valid(&self) -> bool {
        self.until.is_some_and(|until| self.clock.now() < until)
    }
}

/// The time of day a lease granted now ends, in milliseconds since 1970.
pub(crate) fn granted_until_ms(config: &Config) -> u64 {
    u64::try_from((Clock::Wall.now() + config.term()).as_millis()).unwrap_or(u64::MAX)
}

/// The granter's side: when the last grant ends.
#[derive(Debug, Clone)]
pub(crate) struct Granted {
    clock: Clock,
    until: Duration,
}

impl Granted {
    /// A grant of a whole term that begins now.
    pub(crate) fn now(config: &Config) -> Self {
        Self { clock: config.clock, until: config.clock.now() + config.term() }
    }

    /// Whether it has ended.
    pub(crate) fn over(&self) -> bool {
        self.clock.now() >= self.until
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    fn config(flags: &[&str]) -> Config {
        let fixed = [
            "standbyd --name n1 --listen [::1]:1 --data /d --role node --nodes n1=[::1]:1",
            "--observer [::1]:2 --volume [::1]:3 --external-at [::1]:4 --term-ms 1000",
        ];
        let words = fixed.iter().flat_map(|part| part.split(' ')).chain(flags.iter().copied());
        Config::parse_from(words)
    }

    /// A lease counts from the request: a reply that comes after the term renews nothing, unless
    /// the mistake is built in.
    #[test]
    fn a_late_reply_renews_nothing() {
        for (flags, fooled) in [(&[][..], false), (&["--mistake", "renew-from-reply"][..], true)] {
            let mut lease = Lease::new(&config(flags));
            assert!(!lease.valid());
            let asked = lease.ask() - Duration::from_secs(1);
            lease.renew(asked, 0);
            assert_eq!(lease.valid(), fooled);
            lease.renew(lease.ask(), 0);
            assert!(lease.valid());
            assert_eq!(lease.over_for(), Some(Duration::ZERO));
            lease.renew(lease.ask() - Duration::from_secs(5), 0);
            assert_eq!(lease.over_for() > Some(Duration::from_secs(4)), !fooled);
            lease.end();
            assert!(!lease.valid());
            assert_eq!(lease.over_for(), None);
        }
    }

    /// By the wall clock, both sides hold to the same time of day, the holder with a margin.
    #[test]
    fn a_deadline_by_the_wall_clock() {
        let config = config(&["--clock", "wall", "--margin-ms", "999"]);
        let mut lease = Lease::new(&config);
        lease.renew(lease.ask(), granted_until_ms(&config));
        std::thread::sleep(Duration::from_millis(3));
        assert!(!lease.valid());
        assert!(!Granted::now(&config).over());
    }
}
