//! Packets from some addresses are dropped, or refused with a reset.
//!
//! The rules are in a chain (iptables) or table (nft) of our own, entered first thing from INPUT and
//! from FORWARD, where packets for a store in a container on the node pass. Deciding on the receiving
//! side by source is what cuts multicast too, and lets each direction of a link be cut by itself.
//! Rules name the addresses of peers and nothing else, after those that spare the controller's SSH.
//! All of them come into force in one transaction of the kernel for each address family.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::tool::{self, Tool};
use crate::{Failure, Home, Primitive, Result, Sight};

/// The chains of the kernel from which ours is entered.
const HOOKS: [&str; 2] = ["INPUT", "FORWARD"];

/// The tools of each family: one for a command, one for a transaction.
const FAMILIES: [(&str, &str); 2] =
    [("iptables", "iptables-restore"), ("ip6tables", "ip6tables-restore")];

/// How many jumps into our chain are removed at most: more than anybody ever made.
const JUMPS_MAX: u32 = 8;

/// What filters packets on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Backend {
    /// `iptables`, and `ip6tables` where it works: a chain of ours in their table `filter`.
    Iptables,
    /// `nft`: a table of ours in family `inet`. Taken where `iptables` is missing.
    Nft,
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
    /// Lets packets pass by our rules, which stay.
    pub(crate) fn open(&self) -> Result<()> {
        self.turn("-D", |chain| format!("flush chain inet {} {chain}\n", self.chain.to_lowercase()))
    }

    /// Leads packets to our rules again.
    pub(crate) fn close(&self) -> Result<()> {
        let jump =
            |chain: &str| format!("add rule inet {} {chain} jump cut\n", self.chain.to_lowercase());
        self.turn("-I", jump)
    }

    /// Adds or removes the jumps into our chain, in one transaction for each family.
    fn turn(&self, action: &str, nft: impl Fn(&str) -> String) -> Result<()> {
        if self.backend == Backend::Nft {
            let text = nft("input") + &nft("forward");
            return Tool::new("nft").args(["-f", "-"]).input(text).run().map(drop);
        }
        for (name, restore) in FAMILIES {
            if !Tool::new(name).args(["-w", "5", "-S", &self.chain]).succeeds() {
                continue;
            }
            let jumps = HOOKS.map(|hook| format!("{action} {hook} -j {}\n", self.chain)).concat();
            let restore = Tool::new(restore).args(["-w", "5", "--noflush"]);
            restore.input(format!("*filter\n{jumps}COMMIT\n")).run()?;
        }
        Ok(())
    }
}

impl Cut {
    /// How a packet of ours is told apart besides its source, in the words of iptables and nft alike but
    /// for dashes.
    fn matches(&self) -> Vec<String> {
        match self.scope {
            None => vec![String::new()],
            Some(Scope { protocol, port: None }) => vec![format!(" -p {}", protocol.as_str())],
            Some(Scope { protocol, port: Some(port) }) => ["dport", "sport"]
                .map(|side| format!(" -p {} --{side} {port}", protocol.as_str()))
                .to_vec(),
        }
    }

    /// What iptables-restore is given for one family.
    fn iptables(&self, v6: bool) -> String {
        let chain = &self.chain;
        let mut text = format!("*filter\n:{chain} - [0:0]\n");
        for (from, side, port) in self.spared.iter().map(|spare| spare.parts()) {
            if from.is_ipv6() == v6 {
                let _ = writeln!(text, "-A {chain} -s {from} -p tcp --{side} {port} -j RETURN");
            }
        }
        if self.answer == Answer::Reset {
            // Where both ends refuse, each must hear of it.
            let icmp = if v6 { "ipv6-icmp" } else { "icmp" };
            let kind = if v6 { "icmpv6-type" } else { "icmp-type" };
            let _ = writeln!(text, "-A {chain} -p tcp --tcp-flags RST RST -j RETURN");
            let _ = writeln!(text, "-A {chain} -p {icmp} --{kind} port-unreachable -j RETURN");
        }
        for source in self.sources.iter().filter(|ip| ip.is_ipv6() == v6) {
            for matches in self.matches() {
                let tcp = self.scope.is_none_or(|scope| scope.protocol == Protocol::Tcp);
                if self.answer == Answer::Drop {
                    let _ = writeln!(text, "-A {chain} -s {source}{matches} -j DROP");
                    continue;
                }
                if tcp {
                    let matches = if matches.is_empty() { " -p tcp" } else { &matches };
                    let reset = "REJECT --reject-with tcp-reset";
                    let _ = writeln!(text, "-A {chain} -s {source}{matches} -j {reset}");
                }
                if self.scope.is_none() || !tcp {
                    let _ = writeln!(text, "-A {chain} -s {source}{matches} -j REJECT");
                }
            }
        }
        for hook in HOOKS {
            let _ = writeln!(text, "-I {hook} 1 -j {chain}");
        }
        text + "COMMIT\n"
    }

    /// What nft is given.
    fn nft(&self) -> String {
        let family = |ip: &IpAddr| if ip.is_ipv6() { "ip6" } else { "ip" };
        let table = self.chain.to_lowercase();
        // Naming the table before deleting it makes the deletion succeed where there is none.
        let mut text = format!(
            "table inet {table}\ndelete table inet {table}\ntable inet {table} {{\n  chain cut {{\n"
        );
        for (from, side, port) in self.spared.iter().map(|spare| spare.parts()) {
            let _ = writeln!(text, "    {} saddr {from} tcp {side} {port} return", family(&from));
        }
        if self.answer == Answer::Reset {
            text.push_str("    tcp flags & rst == rst return\n");
            text.push_str("    icmp type destination-unreachable return\n");
            text.push_str("    icmpv6 type destination-unreachable return\n");
        }
        let scopes = match self.scope {
            None => vec![String::new()],
            Some(Scope { protocol, port: None }) => {
                vec![format!(" meta l4proto {}", protocol.as_str())]
            }
            Some(Scope { protocol, port: Some(port) }) => ["dport", "sport"]
                .map(|side| format!(" {} {side} {port}", protocol.as_str()))
                .to_vec(),
        };
        for source in &self.sources {
            for scope in &scopes {
                let rule = format!("    {} saddr {source}{scope}", family(source));
                let tcp = self.scope.is_none_or(|scope| scope.protocol == Protocol::Tcp);
                if self.answer == Answer::Drop {
                    let _ = writeln!(text, "{rule} counter drop");
                    continue;
                }
                if tcp {
                    let only = if self.scope.is_none() { " meta l4proto tcp" } else { "" };
                    let _ = writeln!(text, "{rule}{only} counter reject with tcp reset");
                }
                if self.scope.is_none() || !tcp {
                    let _ = writeln!(text, "{rule} counter reject");
                }
            }
        }
        text.push_str("  }\n");
        for hook in ["input", "forward"] {
            let _ = writeln!(
                text,
                "  chain {hook} {{ type filter hook {hook} priority -10; policy accept; jump cut; }}"
            );
        }
        text + "}\n"
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

    fn apply(&self, _undo: &Cutting) -> Result<()> {
        if self.backend == Backend::Nft {
            return Tool::new("nft").args(["-f", "-"]).input(self.nft()).run().map(drop);
        }
        // Both families at once: neither may get through for longer than the other.
        let families = [("iptables-restore", false), ("ip6tables-restore", true)];
        let started = families.map(|(name, v6)| {
            let any = self.sources.iter().any(|ip| ip.is_ipv6() == v6);
            any.then(|| {
                let restore = Tool::new(name).args(["-w", "5", "--noflush"]);
                restore.input(self.iptables(v6)).start()
            })
        });
        let mut done = Ok(());
        for running in started.into_iter().flatten() {
            done = done.and(running.and_then(tool::Running::end).map(drop));
        }
        done
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
        let Cutting { backend, chain } = undo;
        if *backend == Backend::Nft {
            let table = chain.to_lowercase();
            let text = format!("table inet {table}\ndelete table inet {table}\n");
            return Tool::new("nft").args(["-f", "-"]).input(text).run().map(drop);
        }
        // As they were made, in one transaction for each family, both at once.
        let jumps = HOOKS.map(|hook| format!("-D {hook} -j {chain}\n")).concat();
        let removal = format!("*filter\n{jumps}-F {chain}\n-X {chain}\nCOMMIT\n");
        let started = FAMILIES.map(|(name, restore)| {
            let restore = Tool::new(restore).args(["-w", "5", "--noflush"]);
            (name, restore.input(removal.clone()).start())
        });
        for (name, running) in started {
            if running.and_then(tool::Running::end).is_err() {
                remove_step_by_step(name, chain);
            }
        }
        Ok(())
    }

    fn prove_undone(undo: &Cutting) -> Result<Sight> {
        let Cutting { backend, chain } = undo;
        let left: Vec<&str> = match backend {
            Backend::Nft => {
                let table = chain.to_lowercase();
                let there = Tool::new("nft").args(["list", "table", "inet", &table]).succeeds();
                there.then_some("nft").into_iter().collect()
            }
            Backend::Iptables => ["iptables", "ip6tables"]
                .into_iter()
                .filter(|name| Tool::new(name).args(["-w", "5", "-S", chain]).succeeds())
                .collect(),
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

/// Removes what there is of a chain of ours, and nothing if there is none: half-way made, open, or with
/// more jumps into it than were ever made.
fn remove_step_by_step(name: &str, chain: &str) {
    let iptables = |args: &[&str]| Tool::new(name).args(["-w", "5"]).args(args).succeeds();
    if !iptables(&["-S", chain]) {
        return;
    }
    for hook in HOOKS {
        let mut jumps = 0;
        while jumps < JUMPS_MAX && iptables(&["-D", hook, "-j", chain]) {
            jumps += 1;
        }
    }
    iptables(&["-F", chain]);
    iptables(&["-X", chain]);
}

/// Packets cut so far, by source. Empty if our chain is not there.
fn counters(undo: &Cutting) -> Result<BTreeMap<IpAddr, u64>> {
    let mut text = String::new();
    if undo.backend == Backend::Nft {
        let table = undo.chain.to_lowercase();
        text = Tool::new("nft").args(["list", "chain", "inet", &table, "cut"]).run()?;
    } else {
        for name in ["iptables", "ip6tables"] {
            text += &Tool::new(name)
                .args(["-w", "5", "-v", "-S", &undo.chain])
                .run()
                .unwrap_or_default();
        }
    }
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

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn cut() -> Cut {
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

    /// The controller's SSH is spared before anything is cut, even when the controller has the
    /// address of a peer; and each family is cut by its own tool.
    #[test]
    fn ssh_is_spared_first() {
        let at = |text: &str, line: &str| text.find(line).unwrap();
        for answer in [Answer::Drop, Answer::Reset] {
            let cut = Cut { answer, ..cut() };
            let v4 = cut.iptables(false);
            let spare = at(&v4, "-A DEPOSED -s 10.0.0.2 -p tcp --dport 2222 -j RETURN");
            assert!(spare < at(&v4, if answer == Answer::Drop { "DROP" } else { "REJECT" }));
            assert!(!v4.contains("fd00"));
            let v6 = cut.iptables(true);
            assert!(v6.contains("-A DEPOSED -s fd00::2 -p tcp --sport 22 -j RETURN"));
            assert!(v6.contains("-I FORWARD 1 -j DEPOSED") && !v6.contains("10.0.0.2"));
            let nft = cut.nft();
            let spare = at(&nft, "ip saddr 10.0.0.2 tcp dport 2222 return");
            let cut = match answer {
                Answer::Drop => "ip saddr 10.0.0.2 counter drop",
                Answer::Reset => "ip saddr 10.0.0.2 meta l4proto tcp counter reject",
            };
            assert!(spare < at(&nft, cut));
        }
    }

    /// A scope names both directions of a port, and nothing else of the source.
    #[test]
    fn a_scope_is_one_port_of_one_protocol() {
        let scope = Some(Scope { protocol: Protocol::Tcp, port: Some(2380) });
        let scoped = Cut { scope, ..cut() };
        let v4 = scoped.iptables(false);
        assert!(v4.contains("-A DEPOSED -s 10.0.0.2 -p tcp --dport 2380 -j DROP"));
        assert!(v4.contains("-A DEPOSED -s 10.0.0.2 -p tcp --sport 2380 -j DROP"));
        assert!(!v4.contains("-s 10.0.0.2 -j DROP"));
        let nft = Cut { answer: Answer::Reset, ..scoped }.nft();
        assert!(nft.contains("ip saddr 10.0.0.2 tcp sport 2380 counter reject with tcp reset"));
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
