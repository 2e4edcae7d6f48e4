//! Packets from some addresses are dropped, or refused with a reset.
//!
//! The rules are in a table (nf_tables) or chain (iptables) of our own, entered before those of the
//! host from where packets come in and from where they are forwarded, which is how those for a store
//! in a container on the node pass. Deciding on the receiving side by source is what cuts multicast
//! too, and lets each direction of a link be cut by itself. Rules name the addresses of peers and
//! nothing else, after those that spare the controller's SSH.

mod iptables;
mod nft;
mod rule;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::tool::Tool;
use crate::{Failure, Home, Primitive, Result, Sight};

/// What filters packets on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Backend {
    /// nf_tables: a table of ours in family `inet`, all of it in one transaction of the kernel.
    Nft,
    /// `iptables`, and `ip6tables` where it works: a chain of ours in their table `filter`. Taken where
    /// nf_tables is missing.
    Iptables,
}

/// What is let through although it comes from a source that is cut: the controller's SSH, in
/// whichever direction it passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Spare {
    /// The controller's packets to this node's sshd.
    ToSshd {
        /// The controller.
        from: IpAddr,
        /// Of this node's sshd.
        port: u16,
    },
    /// A peer's sshd answering the controller, which runs on this node.
    FromSshd {
        /// The peer.
        from: IpAddr,
        /// Of the peer's sshd.
        port: u16,
    },
}

impl Spare {
    /// Source address, and which port of TCP it is about.
    pub(crate) const fn parts(self) -> (IpAddr, &'static str, u16) {
        match self {
            Self::ToSshd { from, port } => (from, "dport", port),
            Self::FromSshd { from, port } => (from, "sport", port),
        }
    }
}

/// What the sender is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Answer {
    /// Nothing: the packet is gone.
    #[default]
    Drop,
    /// TCP is answered with a reset, everything else with "port unreachable".
    Reset,
}

/// Which packets of a source are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Scope {
    /// Of which protocol.
    pub protocol: Protocol,
    /// To or from which port; any if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
}

/// A protocol with ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

impl Protocol {
    /// `tcp`, `udp`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        }
    }
}

/// Cuts this node off from some sources.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cut {
    /// With what.
    pub backend: Backend,
    /// The name of the chain: `DEPOSED`, or that and a suffix, so that two faults do not meet. The
    /// table of nft is named the same in lower case.
    pub chain: String,
    /// What is let through first.
    pub spared: BTreeSet<Spare>,
    /// Whose packets are cut.
    pub sources: BTreeSet<IpAddr>,
    /// What the sender is told.
    #[serde(default)]
    pub answer: Answer,
    /// Which packets; all if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<Scope>,
}

/// What there is to remove.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cutting {
    backend: Backend,
    chain: String,
}

impl Cutting {
    /// The name of the table of nf_tables.
    fn table(&self) -> String {
        self.chain.to_lowercase()
    }

    /// Lets packets pass by our rules, which stay.
    pub(crate) fn open(&self) -> Result<()> {
        match self.backend {
            Backend::Nft => nft::open(self),
            Backend::Iptables => iptables::open(self),
        }
    }

    /// Leads packets to our rules again.
    pub(crate) fn close(&self) -> Result<()> {
        match self.backend {
            Backend::Nft => nft::close(self),
            Backend::Iptables => iptables::close(self),
        }
    }
}

impl Primitive for Cut {
    type Undo = Cutting;

    fn plan(&self, _home: &Home) -> Result<Cutting> {
        let ours = self.chain == "DEPOSED"
            || self.chain.strip_prefix("DEPOSED-").is_some_and(|suffix| {
                !suffix.is_empty() && suffix.bytes().all(|byte| byte.is_ascii_uppercase())
            });
        if !ours {
            let reason = format!("{:?} is no name for a chain of ours", self.chain);
            return Err(Failure::new("cut the network", reason));
        }
        Ok(Cutting { backend: self.backend, chain: self.chain.clone() })
    }

    fn apply(&self, undo: &Cutting) -> Result<()> {
        match self.backend {
            Backend::Nft => nft::apply(self, undo),
            Backend::Iptables => iptables::apply(self),
        }
    }

    fn prove(&self, undo: &Cutting) -> Result<Sight> {
        let counted = counters(undo)?;
        let silent: Vec<&IpAddr> =
            self.sources.iter().filter(|source| !counted.contains_key(source)).collect();
        let total: u64 = counted.values().sum();
        Ok(Sight {
            holds: silent.is_empty(),
            summary: match silent.is_empty() {
                true => format!("{total} packets"),
                false => format!("there is no rule for {silent:?}"),
            },
            figures: json!({ "packets": counted }),
        })
    }

    fn undo(undo: &Cutting) -> Result<()> {
        match undo.backend {
            Backend::Nft => nft::undo(undo),
            Backend::Iptables => {
                iptables::undo(undo);
                Ok(())
            }
        }
    }

    fn prove_undone(undo: &Cutting) -> Result<Sight> {
        let left = match undo.backend {
            Backend::Nft => nft::is_there(undo)?.then_some("nf_tables").into_iter().collect(),
            Backend::Iptables => iptables::left(undo),
        };
        Ok(Sight {
            holds: left.is_empty(),
            summary: match left.is_empty() {
                true => "the rules are gone".into(),
                false => format!("the rules are still in {}", left.join(" and ")),
            },
            figures: json!({}),
        })
    }
}

/// Packets cut so far, by source, as the node's own tools see it. Empty if our chain is not there.
fn counters(undo: &Cutting) -> Result<BTreeMap<IpAddr, u64>> {
    let text = match undo.backend {
        Backend::Nft => {
            Tool::new("nft").args(["list", "chain", "inet", &undo.table(), nft::CUT]).run()?
        }
        Backend::Iptables => iptables::listed(undo),
    };
    let mut counted = BTreeMap::new();
    for (source, packets) in text.lines().filter_map(counter) {
        *counted.entry(source).or_default() += packets;
    }
    Ok(counted)
}

/// `-A DEPOSED -s 10.0.0.2/32 -c 5 420 -j DROP` or `ip saddr 10.0.0.2 counter packets 5 bytes 420
/// drop`. A rule that spares counts nothing.
fn counter(line: &str) -> Option<(IpAddr, u64)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let after = |word: &str| words.iter().position(|w| *w == word).and_then(|at| words.get(at + 1));
    if words.iter().any(|word| matches!(*word, "RETURN" | "return")) {
        return None;
    }
    let source = after("-s").or_else(|| after("saddr"))?.split('/').next()?;
    let packets = after("-c").or_else(|| after("packets"))?;
    Some((source.parse().ok()?, packets.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    /// Two sources, of which one's SSH may reach this node, and the other's may answer it.
    pub(super) fn cut() -> Cut {
        Cut {
            backend: Backend::Iptables,
            chain: "DEPOSED".into(),
            spared: BTreeSet::from([
                Spare::ToSshd { from: ip("10.0.0.2"), port: 2222 },
                Spare::FromSshd { from: ip("fd00::2"), port: 22 },
            ]),
            sources: BTreeSet::from([ip("10.0.0.2"), ip("fd00::2")]),
            answer: Answer::Drop,
            scope: None,
        }
    }

    /// A chain that is not ours is not taken for ours.
    #[test]
    fn only_our_chain_is_ever_touched() {
        for chain in ["INPUT", "DEPOSED-", "DEPOSED x", "DEPOSED-X -j", "deposed", ""] {
            let refused = Cut { chain: chain.into(), ..cut() }.plan(&Home::default());
            assert!(refused.is_err(), "{chain}");
        }
        assert!(Cut { chain: "DEPOSED-FLAP".into(), ..cut() }.plan(&Home::default()).is_ok());
    }

    /// Counters of both backends are read by source; rules that spare are not cuts.
    #[test]
    fn counters_are_read() {
        let text = "-N DEPOSED\n-A DEPOSED -s 10.0.0.2/32 -p tcp -m tcp --dport 22 -c 9 9 -j RETURN\n\
                    -A DEPOSED -s 10.0.0.2/32 -c 5 420 -j DROP\n\
                    -A DEPOSED -s fd00::2/128 -p tcp -c 7 1 -j REJECT --reject-with tcp-reset\n\
                    \t\tip saddr 10.0.0.3 counter packets 11 bytes 4 drop\n";
        let read: Vec<_> = text.lines().filter_map(counter).collect();
        assert_eq!(read, [(ip("10.0.0.2"), 5), (ip("fd00::2"), 7), (ip("10.0.0.3"), 11)]);
    }
}
