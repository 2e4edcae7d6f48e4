//! Everything that can be chosen: one switch for each mechanism, one word for each mistake.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Parser, ValueEnum};

use crate::Clock;

/// Who decides that another node leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Failover {
    /// The observer, when it has not heard of the leader for a term. The leader never doubts.
    Timeout,
    /// The observer, when the leader's lease has run out. The leader stops a margin before.
    Lease,
    /// A majority of the nodes, by Raft's rules. The observer has nothing to do.
    Quorum,
}

/// What keeps a deposed leader from the volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Fencing {
    /// Nothing.
    None,
    /// The volume refuses a token lower than the highest it has seen.
    Token,
    /// The observer has the volume shut the old leader out before it promotes another.
    Revoke,
    /// The observer has the old leader's power cut before it promotes another.
    PowerOff,
}

/// Whether a call repeated at the external service is performed again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum External {
    /// It is.
    Plain,
    /// A request id is performed once.
    Idempotent,
}

/// Who answers reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Reads {
    /// The leader, once it is sure that it leads.
    Leader,
    /// Any node that holds the leader's promise that nothing is committed without it.
    FollowerLease,
    /// Any node, from what it has.
    Any,
}

/// What a leader does when it learns that its token is stale.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OnStale {
    /// It stops, drops what it has not delivered, fails what is in flight, and disconnects.
    Disconnect,
    /// It takes no notice until the new leader speaks to it, and even then keeps its connections
    /// and what it has not delivered.
    Silent,
}

/// What an acknowledgement of a write means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Acks {
    /// The leader has it, and will ship it to the others or to the volume.
    Local,
    /// A majority of the nodes has it, or the volume has accepted it.
    Durable,
}

/// A mistake built in on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Mistake {
    /// Tokens are counted in memory: after a crash they begin again.
    TokensRestart,
    /// A new grant has the token of the one before.
    SharedToken,
    /// The volume compares with the last token it was shown, not with the highest.
    LastToken,
    /// A write looks at the lease before it does its work, and not after.
    CheckBeforePause,
    /// A lease is counted from the reply that renewed it, not from the request.
    RenewFromReply,
}

/// What a process of the store does; one process may have several roles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Role {
    /// Replicates the log and serves clients.
    Node,
    /// Promotes leaders.
    Observer,
    /// Is the shared volume.
    Volume,
    /// Is the external service.
    External,
    /// Nothing of the store: keeps one running below it, and starts it again when it has ended.
    Supervisor,
    /// Nothing of the store: kills it when the observer says so.
    Power,
}

/// A name and where to reach it: `n1=10.0.0.1:7400`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// The node's name.
    pub name: String,
    /// Where it listens.
    pub addr: SocketAddr,
}

impl FromStr for Peer {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let malformed = || format!("`{text}` is not NAME=ADDRESS:PORT");
        let (name, addr) = text.split_once('=').ok_or_else(malformed)?;
        let addr = addr.parse().map_err(|_| malformed())?;
        Ok(Self { name: name.to_owned(), addr })
    }
}

/// How one process of the store behaves.
#[derive(Debug, Clone, Parser)]
#[command(name = "standbyd", about = "A replicated store with switchable protections")]
pub struct Config {
    /// This node's name
    #[arg(long)]
    pub name: String,
    /// Where to listen
    #[arg(long)]
    pub listen: SocketAddr,
    /// The directory of its data
    #[arg(long)]
    pub data: PathBuf,
    /// What it is, separated by commas
    #[arg(long, value_delimiter = ',', required = true)]
    pub role: Vec<Role>,
    /// Every store node, NAME=ADDRESS:PORT, separated by commas
    #[arg(long, value_delimiter = ',', required = true)]
    pub nodes: Vec<Peer>,
    /// The observer
    #[arg(long)]
    pub observer: SocketAddr,
    /// The volume
    #[arg(long)]
    pub volume: SocketAddr,
    /// The external service
    #[arg(long)]
    pub external_at: SocketAddr,
    /// The port of every node's power switch
    #[arg(long, default_value_t = 7401)]
    pub power_port: u16,

    /// Who decides that another node leads
    #[arg(long, default_value = "quorum")]
    pub failover: Failover,
    /// What keeps a deposed leader from the volume
    #[arg(long, default_value = "token")]
    pub fencing: Fencing,
    /// What the external service does with a repeated call
    #[arg(long, default_value = "idempotent")]
    pub external: External,
    /// Who answers reads
    #[arg(long, default_value = "leader")]
    pub reads: Reads,
    /// What a leader does when it learns that its token is stale
    #[arg(long, default_value = "disconnect")]
    pub on_stale: OnStale,
    /// What an acknowledgement of a write means
    #[arg(long, default_value = "durable")]
    pub acks: Acks,
    /// Length of a lease, and how long a leader may be silent, in milliseconds
    #[arg(long, default_value_t = 2000)]
    pub term_ms: u64,
    /// How much of a lease its holder does not use, in milliseconds
    #[arg(long, default_value_t = 500)]
    pub margin_ms: u64,
    /// What leases are measured by
    #[arg(long, default_value = "boottime")]
    pub clock: Clock,
    /// What a write to the volume costs before the leader's last look at its lease, in milliseconds
    #[arg(long, default_value_t = 2)]
    pub work_ms: u64,
    /// How long a write to the volume, or a call of the service, is queued after the last look, in ms
    #[arg(long, default_value_t = 0)]
    pub queue_ms: u64,
    /// How long a node stays without power, in milliseconds
    #[arg(long, default_value_t = 3000)]
    pub outage_ms: u64,
    /// Mistakes built in on purpose, separated by commas
    #[arg(long, value_delimiter = ',')]
    pub mistake: Vec<Mistake>,
}

impl Config {
    /// Whether a mistake is built in.
    pub fn has(&self, mistake: Mistake) -> bool {
        self.mistake.contains(&mistake)
    }

    /// Whether this process has a role.
    pub fn is(&self, role: Role) -> bool {
        self.role.contains(&role)
    }

    /// Length of a lease.
    pub const fn term(&self) -> Duration {
        Duration::from_millis(self.term_ms)
    }

    /// How much of a lease its holder does not use.
    pub const fn margin(&self) -> Duration {
        Duration::from_millis(self.margin_ms)
    }

    /// How often those who lead speak to those who follow.
    pub fn heartbeat(&self) -> Duration {
        self.term() / 10
    }

    /// How long the answer to a renewal is kept back. A leader that counts its lease from the request
    /// loses nothing by that; one that counts it from the reply gains so much too much.
    pub fn renewal_delay(&self) -> Duration {
        self.term() / 5
    }

    /// How long a leader waits before it renews again. Together with two delays it is well below a
    /// term, so that one renewal is answered before the last has run out.
    pub fn renewal_pause(&self) -> Duration {
        self.term() / 5
    }

    /// How many nodes are more than half.
    pub fn majority(&self) -> usize {
        self.nodes.len() / 2 + 1
    }

    /// The nodes besides this one.
    pub fn others(&self) -> impl Iterator<Item = &Peer> {
        self.nodes.iter().filter(|peer| peer.name != self.name)
    }

    /// Where to reach each node.
    pub(crate) fn addrs(&self) -> BTreeMap<String, SocketAddr> {
        self.nodes.iter().map(|peer| (peer.name.clone(), peer.addr)).collect()
    }
}
