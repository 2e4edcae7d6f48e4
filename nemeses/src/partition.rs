//! The faults `partition`, `reject` and `flap`: some nodes drop the packets of others, refuse them, or drop
//! them now and then.
//!
//! It bit if, on every link that was cut, the receiver dropped packets of the sender and the sender
//! reached it no more. It healed if our rules are gone and every link that worked before works.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use deposed_agent::{Answer, Backend, Cut, Flap, Protocol, Scope, Spare, Spec};
use deposed_core::{Choice, Effect, Evidence, FaultContext, FaultError, Nemesis};
use rand_chacha::ChaCha8Rng;
use serde_json::json;

use crate::agents::Agents;
use crate::claims::Claims;
use crate::fanout::{all, on_each};
use crate::firewall::{self, NodeFacts, Probe, SshPath};
use crate::grudge::{Partition, Shape};
use crate::target::{node_names, primaries};

/// How often, and how far apart, healing is looked at before it counts as not seen: neighbour
/// discovery that was cut takes a moment to start over.
const HEAL_LOOKS: u32 = 6;
const HEAL_LOOK_EVERY: Duration = Duration::from_millis(500);

/// How links are cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    /// Packets vanish.
    Drop,
    /// TCP is reset, everything else is answered with "port unreachable".
    Reject,
    /// Packets vanish for a while, pass for a while, and so on.
    Flap,
}

impl Manner {
    /// The name of the fault.
    const fn fault(self) -> &'static str {
        match self {
            Self::Drop => "partition",
            Self::Reject => "reject",
            Self::Flap => "flap",
        }
    }

    /// A chain for each, so that lanes do not meet.
    const fn chain(self) -> &'static str {
        match self {
            Self::Drop => firewall::CHAIN,
            Self::Reject => firewall::CHAIN_REJECT,
            Self::Flap => firewall::CHAIN_FLAP,
        }
    }
}

/// How long a flapping link is cut, and how long it lets pass. Longer than the first retransmissions of
/// TCP, so that connections do feel it, and short against an election.
const FLAP_CUT_MS: u64 = 600;
const FLAP_PASS_MS: u64 = 600;

/// Cuts the network between nodes.
pub(crate) struct PartitionNemesis {
    manner: Manner,
    /// Always this shape, or a mix of those that are possible.
    shape: Option<Shape>,
    /// Only these packets, or all.
    scope: Option<Scope>,
    claims: Claims,
    agents: Agents,
    /// What each node said of itself.
    facts: BTreeMap<String, NodeFacts>,
    /// The addresses that are a node's own, by node.
    addrs: BTreeMap<String, BTreeSet<IpAddr>>,
    /// The addresses each node could reach before any fault.
    reached: BTreeMap<String, BTreeSet<IpAddr>>,
    /// Links of the partition in force that got through when they were tried, as words; `None`
    /// before they are.
    leaks: Option<Vec<String>>,
    /// How long the last one took, from the decision until every node had said that it is in force.
    took: Duration,
}

impl PartitionNemesis {
    pub(crate) const fn new(
        manner: Manner,
        shape: Option<Shape>,
        scope: Option<Scope>,
        claims: Claims,
        agents: Agents,
    ) -> Self {
        Self {
            manner,
            shape,
            scope,
            claims,
            agents,
            facts: BTreeMap::new(),
            addrs: BTreeMap::new(),
            reached: BTreeMap::new(),
            leaks: None,
            took: Duration::ZERO,
        }
    }

    /// Which addresses each node can reach now, among those of `links` (receiver, sender). Every
    /// sender tries all its receivers at once.
    async fn reach(
        &self,
        cx: &FaultContext,
        links: &[(&str, &str)],
    ) -> Result<BTreeMap<String, BTreeSet<IpAddr>>, FaultError> {
        let mut targets: BTreeMap<&str, Vec<(&IpAddr, u16)>> = BTreeMap::new();
        let tcp = self.tcp_port();
        for &(receiver, sender) in links {
            let ssh = self.facts[receiver].ssh.map_or(22, |ssh| ssh.port);
            let port = tcp.unwrap_or(ssh);
            let addrs = self.addrs[receiver].iter().map(|addr| (addr, port));
            targets.entry(sender).or_default().extend(addrs);
        }
        let scripts = targets.into_iter().filter_map(|(sender, targets)| {
            let probe = if tcp.is_some() { Probe::Bash } else { self.facts[sender].probe? };
            Some((sender.to_owned(), firewall::reach_script(probe, targets)))
        });
        let printed = all(on_each(&cx.cluster, scripts).await)?;
        Ok(printed.into_iter().map(|(n, text)| (n, firewall::parse_reached(&text))).collect())
    }

    /// Links that are cut and yet let something through, as words.
    async fn leaking(
        &self,
        cx: &FaultContext,
        drawn: &Partition,
    ) -> Result<Vec<String>, FaultError> {
        if self.scope.is_some() && self.tcp_port().is_none() {
            // Nothing can be tried that must be answered: what is dropped is counted, no more.
            return Ok(Vec::new());
        }
        let now = self.reach(cx, &drawn.grudge.links().collect::<Vec<_>>()).await?;
        let through = drawn.grudge.links().filter_map(|(receiver, sender)| {
            let addr = self.usual(receiver, sender).find(|addr| now[sender].contains(addr))?;
            Some(format!("{sender} still reaches {receiver} at {addr}"))
        });
        Ok(through.collect())
    }

    /// Links that should flap and do not, as words.
    async fn steady(
        &self,
        cx: &FaultContext,
        drawn: &Partition,
    ) -> Result<Vec<String>, FaultError> {
        let mut targets: BTreeMap<&str, Vec<&IpAddr>> = BTreeMap::new();
        for (receiver, sender) in drawn.grudge.links() {
            targets.entry(sender).or_default().extend(self.usual(receiver, sender).take(1));
        }
        let scripts = targets.iter().map(|(sender, targets)| {
            ((*sender).to_owned(), firewall::flap_script(targets.iter().copied()))
        });
        let printed = all(on_each(&cx.cluster, scripts.collect::<Vec<_>>()).await)?;
        let mut steady = Vec::new();
        for (sender, text) in printed {
            for (addr, answered) in firewall::parse_flaps(&text) {
                let word = match answered {
                    0 => "never gets an answer from",
                    firewall::FLAP_PINGS => "always gets an answer from",
                    _ => continue,
                };
                steady.push(format!("{sender} {word} {addr}"));
            }
        }
        Ok(steady)
    }

    /// Refuses nodes from which no connection can be tried.
    async fn need_bash(&self, cx: &FaultContext, nodes: &[String]) -> Result<(), FaultError> {
        let look =
            "command -v bash >/dev/null && command -v timeout >/dev/null && echo yes || true";
        let asked = nodes.iter().map(|node| (node.clone(), look.to_owned())).collect::<Vec<_>>();
        for (node, said) in all(on_each(&cx.cluster, asked).await)? {
            if said.is_empty() {
                return Err(FaultError::Unsupported(format!(
                    "{node} has no bash or no timeout, without which a cut port cannot be seen; \
                     install them there"
                )));
            }
        }
        Ok(())
    }

    /// Claims the links between these nodes: one that is cut twice can be proven by neither of the two.
    fn claim(&self, nodes: &[String]) -> Result<(), FaultError> {
        self.claims.reach(nodes)?;
        if self.claims.take_links() {
            return Ok(());
        }
        Err(FaultError::Nothing("another fault holds the links between nodes".into()))
    }

    /// The port of TCP that alone is cut, if so: then that is what is tried, by a connection.
    fn tcp_port(&self) -> Option<u16> {
        let Scope { protocol, port } = self.scope?;
        port.filter(|_| protocol == Protocol::Tcp)
    }

    /// The addresses of `receiver` that `sender` reached before any fault.
    fn usual<'a>(&'a self, receiver: &str, sender: &str) -> impl Iterator<Item = &'a IpAddr> {
        let reached = self.reached.get(sender);
        self.addrs[receiver].iter().filter(move |addr| reached.is_some_and(|r| r.contains(addr)))
    }

    /// What `receiver` lets through from `senders` so that the controller's SSH is never cut, even
    /// where the controller runs on a node of the cluster.
    fn spared(&self, receiver: &str, senders: &BTreeSet<String>) -> BTreeSet<Spare> {
        let controllers: BTreeSet<IpAddr> =
            self.facts.values().filter_map(|facts| Some(facts.ssh?.from)).collect();
        let ssh = self.facts[receiver].ssh;
        let mut spared: BTreeSet<Spare> =
            ssh.iter().map(|ssh| Spare::ToSshd { from: ssh.from, port: ssh.port }).collect();
        if !self.addrs[receiver].is_disjoint(&controllers) {
            for sender in senders {
                let Some(SshPath { port, .. }) = self.facts[sender].ssh else { continue };
                let from = self.addrs[sender].iter();
                spared.extend(from.map(|&from| Spare::FromSshd { from, port }));
            }
        }
        spared
    }

    /// Packets dropped so far by node and source; a node without our chain has none.
    async fn counters(
        &self,
        cx: &FaultContext,
        drawn: &Partition,
    ) -> Result<BTreeMap<String, BTreeMap<IpAddr, u64>>, FaultError> {
        let script = firewall::counters_script(self.manner.chain());
        let receivers = drawn.grudge.receivers().map(|(node, _)| (node.to_owned(), script.clone()));
        let printed = all(on_each(&cx.cluster, receivers).await)?;
        Ok(printed.into_iter().map(|(n, text)| (n, firewall::parse_counters(&text))).collect())
    }

    /// Whether the partition is gone everywhere; the reasons why not.
    async fn remains(
        &self,
        cx: &FaultContext,
        drawn: &Partition,
    ) -> Result<Vec<String>, FaultError> {
        let mut remains: Vec<String> = self
            .counters(cx, drawn)
            .await?
            .into_iter()
            .filter(|(_, counters)| !counters.is_empty())
            .map(|(node, _)| format!("the rules are still on {node}"))
            .collect();
        let now = self.reach(cx, &drawn.grudge.links().collect::<Vec<_>>()).await?;
        for (receiver, sender) in drawn.grudge.links() {
            let lost = self.usual(receiver, sender).find(|addr| !now[sender].contains(addr));
            if let Some(addr) = lost {
                remains.push(format!("{sender} does not reach {receiver} at {addr}"));
            }
        }
        Ok(remains)
    }
}

/// The addresses that only one node has, loopback aside: a container bridge has the same address
/// everywhere and tells nobody apart.
pub(crate) fn own_addrs(
    cx: &FaultContext,
    facts: &BTreeMap<String, NodeFacts>,
) -> Result<BTreeMap<String, BTreeSet<IpAddr>>, FaultError> {
    let mut owners: BTreeMap<IpAddr, BTreeSet<&str>> = BTreeMap::new();
    for node in cx.cluster.nodes() {
        let found = facts[&*node.name].addrs.iter().copied();
        for addr in found.chain([node.addr]).filter(|addr| !addr.is_loopback()) {
            owners.entry(addr).or_default().insert(&node.name);
        }
    }
    for node in cx.cluster.nodes() {
        let alone = owners.get(&node.addr).is_some_and(|owners| owners.len() == 1);
        if !alone {
            return Err(FaultError::Unsupported(format!(
                "{} at {} cannot be told from other nodes by its address; give each node an \
                 address of its own, not loopback",
                node.name, node.addr
            )));
        }
    }
    let mut addrs: BTreeMap<String, BTreeSet<IpAddr>> = BTreeMap::new();
    for (addr, owners) in owners {
        if let [owner] = owners.into_iter().collect::<Vec<_>>()[..] {
            addrs.entry(owner.to_owned()).or_default().insert(addr);
        }
    }
    Ok(addrs)
}

/// Refuses nodes whose packets could not all be dropped.
fn check_firewalls(
    facts: &BTreeMap<String, NodeFacts>,
    addrs: &BTreeMap<String, BTreeSet<IpAddr>>,
) -> Result<(), FaultError> {
    let has_v6 = |node: &str| addrs[node].iter().any(IpAddr::is_ipv6);
    for (node, facts) in facts {
        if facts.backend.is_none() {
            return Err(FaultError::Unsupported(format!(
                "{node} has neither a working nft nor iptables; install one of them \
                 (apt-get install nftables), and let deposed be root there"
            )));
        }
        if facts.addrs.is_empty() {
            return Err(FaultError::Unsupported(format!(
                "{node} cannot list its addresses; install iproute2 there"
            )));
        }
        let peers_have_v6 = addrs.keys().any(|peer| peer != node && has_v6(peer));
        if !facts.filters_v6 && has_v6(node) && peers_have_v6 {
            return Err(FaultError::Unsupported(format!(
                "{node} and its peers have IPv6 addresses, but ip6tables does not work there: a \
                 partition would leak"
            )));
        }
    }
    Ok(())
}

fn read(choice: &Choice) -> Result<Partition, FaultError> {
    serde_json::from_value(choice.what.clone())
        .map_err(|error| FaultError::Unsupported(format!("not a partition: {error}")))
}

#[async_trait]
impl Nemesis for PartitionNemesis {
    fn fault(&self) -> &str {
        self.manner.fault()
    }

    async fn prepare(&mut self, cx: &FaultContext) -> Result<(), FaultError> {
        let nodes = node_names(cx);
        let script = firewall::facts_script();
        let printed =
            all(on_each(&cx.cluster, nodes.iter().map(|n| (n.clone(), script.clone()))).await)?;
        self.facts =
            printed.into_iter().map(|(n, text)| (n, firewall::parse_facts(&text))).collect();
        self.addrs = own_addrs(cx, &self.facts)?;
        check_firewalls(&self.facts, &self.addrs)?;
        let blind = self.facts.iter().find(|(_, facts)| facts.probe != Some(Probe::Ping));
        if let (Manner::Reject | Manner::Flap, Some((node, _))) = (self.manner, blind) {
            return Err(FaultError::Unsupported(format!(
                "{node} has no ping, without which `{}` cannot be seen; install iputils-ping there",
                self.manner.fault()
            )));
        }
        if self.tcp_port().is_some() {
            self.need_bash(cx, &nodes).await?;
        }
        self.agents.start(&cx.cluster).await
    }

    /// Who reaches whom: the store's own port may be what is asked.
    async fn baseline(&mut self, cx: &FaultContext) -> Result<(), FaultError> {
        let nodes = node_names(cx);
        let mut pairs: Vec<(&str, &str)> = Vec::new();
        for to in &nodes {
            pairs.extend(nodes.iter().filter(|from| *from != to).map(|from| (&**to, &**from)));
        }
        self.reached = self.reach(cx, &pairs).await?;
        Ok(())
    }

    async fn choose(
        &mut self,
        cx: &FaultContext,
        rng: &mut ChaCha8Rng,
    ) -> Result<Choice, FaultError> {
        let can_ask = cx.system.db().primaries().is_some();
        let reachable = self.claims.reachable(&node_names(cx));
        // Nodes that were named are waited for, if need be; else those that are there are cut.
        let (shape, nodes) = match &self.shape {
            Some(shape) if shape.names_nodes() => (Some(shape.clone()), node_names(cx)),
            Some(shape) => (Some(shape.clone()), reachable),
            None => (Shape::draw(reachable.len(), can_ask, rng), reachable),
        };
        let enough = |shape: &Shape| shape.impossible(nodes.len()).is_none();
        let Some(shape) = shape.filter(enough) else {
            self.claims.reach(&node_names(cx))?;
            return Err(FaultError::Nothing("too few nodes to be cut like that".into()));
        };
        let leaders = match shape.needs_primaries() {
            true => primaries(cx).await?,
            false => Vec::new(),
        };
        let drawn = shape.partition(&nodes, &leaders, rng);
        if drawn.grudge.is_empty() {
            return Err(FaultError::Nothing("no node claims to lead".into()));
        }
        let touched: BTreeSet<&str> = drawn.grudge.receivers().map(|(node, _)| node).collect();
        let nodes: Vec<String> = touched.into_iter().map(str::to_owned).collect();
        self.claim(&nodes)?;
        Ok(Choice { nodes, what: json!(drawn) })
    }

    async fn repeat(&mut self, _cx: &FaultContext, earlier: &Choice) -> Result<Choice, FaultError> {
        self.claim(&earlier.nodes)?;
        Ok(earlier.clone())
    }

    /// The nodes' own journals know it, and whoever heals a node removes all rules of ours from it.
    fn undo(&self, _cx: &FaultContext, _choice: &Choice) -> Vec<(String, String)> {
        Vec::new()
    }

    async fn inject(
        &mut self,
        _cx: &FaultContext,
        choice: &Choice,
        name: &str,
    ) -> Result<(), FaultError> {
        let decided = Instant::now();
        self.leaks = None;
        let drawn = read(choice)?;
        let specs = drawn.grudge.receivers().map(|(node, senders)| {
            let sources = senders.iter().flat_map(|s| self.addrs[s].iter().copied());
            let facts = &self.facts[node];
            let cut = Cut {
                backend: facts.backend.unwrap_or(Backend::Iptables),
                chain: self.manner.chain().to_owned(),
                spared: self.spared(node, senders),
                sources: sources.filter(|ip| ip.is_ipv4() || facts.filters_v6).collect(),
                answer: match self.manner {
                    Manner::Drop | Manner::Flap => Answer::Drop,
                    Manner::Reject => Answer::Reset,
                },
                scope: self.scope,
            };
            let spec = match self.manner {
                Manner::Drop | Manner::Reject => Spec::Cut(cut),
                Manner::Flap => {
                    Spec::Flap(Flap { cut, cut_ms: FLAP_CUT_MS, pass_ms: FLAP_PASS_MS })
                }
            };
            (node.to_owned(), spec)
        });
        self.agents.apply(name, specs.collect()).await?;
        self.took = decided.elapsed();
        tracing::info!(took = ?self.took, "the partition is in force everywhere");
        Ok(())
    }

    async fn evidence(
        &mut self,
        cx: &FaultContext,
        choice: &Choice,
        name: &str,
    ) -> Result<Evidence, FaultError> {
        let drawn = read(choice)?;
        // Trying every link also makes packets to drop where the store is idle. Once is enough.
        if self.leaks.is_none() {
            self.leaks = Some(match self.manner {
                Manner::Drop | Manner::Reject => self.leaking(cx, &drawn).await?,
                Manner::Flap => self.steady(cx, &drawn).await?,
            });
        }
        let mut doubts = self.leaks.clone().unwrap_or_default();
        let counters = self.counters(cx, &drawn).await?;
        let mut figures = serde_json::Map::new();
        let mut total = 0;
        for (receiver, senders) in drawn.grudge.receivers() {
            let counters = &counters[receiver];
            if counters.is_empty() {
                doubts.push(format!("the rules are not on {receiver}"));
            }
            let mut dropped = serde_json::Map::new();
            for sender in senders {
                let packets: u64 =
                    self.addrs[sender].iter().filter_map(|addr| counters.get(addr)).sum();
                if packets == 0 && !counters.is_empty() {
                    doubts.push(format!("{receiver} dropped nothing from {sender}"));
                }
                total += packets;
                dropped.insert(sender.clone(), packets.into());
            }
            let backend = self.facts[receiver].backend;
            let in_force_within_us = self.took.as_micros() as u64;
            let seen = json!({
                "backend": backend,
                "dropped": dropped,
                "in_force_within_us": in_force_within_us,
            });
            figures.insert(receiver.to_owned(), seen);
        }
        doubts.extend(self.agents.objections(name, &choice.nodes).await?);
        let links = drawn.grudge.links().count();
        let cut = match self.scope {
            None => drawn.cut.clone(),
            Some(Scope { protocol, port }) => {
                let port = port.map_or(String::new(), |port| format!("/{port}"));
                format!("{} ({}{port})", drawn.cut, protocol.as_str())
            }
        };
        let (effect, summary) = if doubts.is_empty() {
            let packets = grouped(total);
            let did = match self.manner {
                Manner::Drop | Manner::Flap => "dropped",
                Manner::Reject => "refused",
            };
            (Effect::Proven, format!("{cut}: {packets} packets {did} on {links} links"))
        } else {
            (Effect::Indeterminate, format!("{cut}: {}", doubts.join("; ")))
        };
        Ok(Evidence { effect, summary, figures: figures.into() })
    }

    async fn heal(
        &mut self,
        cx: &FaultContext,
        choice: &Choice,
        name: &str,
    ) -> Result<Evidence, FaultError> {
        let drawn = read(choice)?;
        for undone in self.agents.undo(name, &choice.nodes).await.into_values() {
            undone?;
        }
        let tried = drawn.grudge.links().filter(|(to, from)| self.usual(to, from).next().is_some());
        let tried = tried.count();
        let mut remains = Vec::new();
        for look in 0..HEAL_LOOKS {
            if look > 0 {
                tokio::time::sleep(HEAL_LOOK_EVERY).await;
            }
            remains = self.remains(cx, &drawn).await?;
            if remains.is_empty() {
                break;
            }
        }
        let (effect, summary) = if !remains.is_empty() {
            (Effect::Indeterminate, remains.join("; "))
        } else if tried == 0 {
            let summary = "the rules are gone, but no link can be tried: install ping or bash, or \
                           let nodes answer it";
            (Effect::Indeterminate, summary.into())
        } else {
            (Effect::Proven, format!("the rules are gone, all {tried} links reach again"))
        };
        if effect == Effect::Proven {
            self.claims.release_links();
        }
        Ok(Evidence { effect, summary, figures: serde_json::Value::Null })
    }
}

/// `1204` as `1,204`.
fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}
