//! The fault `packets`: links between nodes lose, delay, double, reorder, corrupt or throttle packets.
//!
//! Where the kernels of all senders have an emulator for that, it is used, on their side; elsewhere packets
//! go through a queue where they are received.
//!
//! It bit if on every link packets were counted to which something was done, and, where they are
//! delayed, a ping over it took that much longer. It healed if our rules are gone and a ping takes no
//! longer than its delay again.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::net::IpAddr;

use async_trait::async_trait;
use deposed_agent::netem::{Netem, Outgoing, PeerLink, Shape, Ssh};
use deposed_agent::nfqueue::Nfqueue;
use deposed_agent::{Sight, Spare, Spec};
use deposed_core::{Choice, Effect, Evidence, FaultContext, FaultError, Nemesis};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::agents::Agents;
use crate::claims::Claims;
use crate::fanout::{all, on_each};
use crate::findings::Findings;
use crate::firewall::{self, NodeFacts};
use crate::mistake::{Mistake, suggest};
use crate::partition::own_addrs;
use crate::target::{Target, node_names, primaries};
use crate::words::{self, Unknown, Word, with_targets};

/// What may be done to packets, and what follows `=`.
const MISCHIEF: [Word; 7] = [
    ("loss", "some are lost: loss=10%"),
    ("delay", "they take longer: delay=50ms"),
    ("jitter", "their delay varies: delay=50ms+jitter=20ms"),
    ("duplicate", "some come twice: duplicate=5%"),
    ("reorder", "some overtake others: delay=20ms+reorder=25%"),
    ("corrupt", "some have a bit flipped: corrupt=1%"),
    ("rate", "only so much passes: rate=1mbit"),
];

/// Makes links bad.
pub(crate) struct Packets {
    shape: Option<Shape>,
    target: Option<Links>,
    claims: Claims,
    agents: Agents,
    facts: BTreeMap<String, NodeFacts>,
    addrs: BTreeMap<String, BTreeSet<IpAddr>>,
    /// By what the links of the last injection are bad.
    means: Means,
}

/// By what links are bad.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Means {
    /// The kernel's emulator (netem), where packets are sent.
    Emulator,
    /// A queue of netfilter, where they are received.
    Queue,
}

impl Means {
    /// The nodes on which something is done for it, each with the nodes at the other ends of its links.
    fn nodes(self, bad: &Bad) -> BTreeMap<&String, BTreeSet<&String>> {
        let mut nodes: BTreeMap<&String, BTreeSet<&String>> = BTreeMap::new();
        for (from, to) in &bad.links {
            let (here, there) = match self {
                Self::Emulator => (from, to),
                Self::Queue => (to, from),
            };
            nodes.entry(here).or_default().insert(there);
        }
        nodes
    }

    /// Prints something that contains [`Self::trace`] if a node's own tools see it.
    const fn look(self) -> &'static str {
        match self {
            Self::Emulator => "PATH=$PATH:/usr/sbin:/sbin; tc qdisc show; true",
            Self::Queue => {
                "PATH=$PATH:/usr/sbin:/sbin\nfor t in iptables ip6tables; do\n\
                 $t -w 5 -t mangle -S DEPOSED-QUEUE 2>/dev/null; done; true"
            }
        }
    }

    const fn trace(self) -> &'static str {
        match self {
            Self::Emulator => "qdisc prio de05: ",
            Self::Queue => "-j NFQUEUE",
        }
    }
}

/// Which links are meant.
#[derive(Debug, Clone, PartialEq)]
enum Links {
    /// All to and from some nodes.
    Of(Target),
    /// These, each from a node to a node.
    These(BTreeSet<(String, String)>),
}

/// What is done to which links: from and to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Bad {
    shape: Shape,
    links: BTreeSet<(String, String)>,
    seed: u64,
}

impl Bad {
    fn read(choice: &Choice) -> Result<Self, FaultError> {
        serde_json::from_value(choice.what.clone())
            .map_err(|error| FaultError::Unsupported(format!("not a choice of links: {error}")))
    }
}

/// Reads `delay=50ms+loss=1%`; `None` if its first word is not of [`MISCHIEF`].
fn parse_shape(text: &str) -> Option<Result<Shape, Mistake>> {
    let word = |part: &str| part.split('=').next().unwrap_or_default().to_owned();
    let known = |part: &str| MISCHIEF.iter().any(|(known, _)| *known == word(part));
    if !text.split('+').any(known) && !text.contains('=') {
        return None;
    }
    let mut shape = Shape::default();
    for part in text.split('+') {
        let hint = || suggest(&word(part), MISCHIEF.map(|(word, _)| word));
        let Some((_, example)) = MISCHIEF.iter().find(|(known, _)| *known == word(part)) else {
            return Some(Err(Mistake::new(part, format!("no such mischief; {}", hint()))));
        };
        let amount = part
            .split_once('=')
            .map_or(Some(default_of(&word(part))), |(_, amount)| parse_amount(&word(part), amount));
        let Some(amount) = amount else {
            return Some(Err(Mistake::new(part, format!("how much? {example}"))));
        };
        *field(&mut shape, &word(part)) = amount;
    }
    // A variation of nothing, or an order among those that are not held, needs a delay.
    if (shape.jitter_ms > 0.0 || shape.reorder_pct > 0.0) && shape.delay_ms == 0.0 {
        shape.delay_ms = default_of("delay").max(shape.jitter_ms);
    }
    Some(match shape.mistake() {
        Some(mistake) => Err(Mistake::new(text, mistake)),
        None => Ok(shape),
    })
}

fn field<'a>(shape: &'a mut Shape, word: &str) -> &'a mut f64 {
    match word {
        "loss" => &mut shape.loss_pct,
        "delay" => &mut shape.delay_ms,
        "jitter" => &mut shape.jitter_ms,
        "duplicate" => &mut shape.duplicate_pct,
        "reorder" => &mut shape.reorder_pct,
        "corrupt" => &mut shape.corrupt_pct,
        _ => &mut shape.rate_kbit,
    }
}

/// What is done where nobody says how much: percent, milliseconds, kbit a second.
fn default_of(word: &str) -> f64 {
    match word {
        "delay" => 50.0,
        "jitter" => 10.0,
        "rate" => 1000.0,
        "corrupt" => 5.0,
        _ => 20.0,
    }
}

fn parse_amount(word: &str, text: &str) -> Option<f64> {
    let units: &[(&str, f64)] = match word {
        "delay" | "jitter" => &[("ms", 1.0), ("us", 1e-3), ("s", 1e3)],
        "rate" => &[("kbit", 1.0), ("mbit", 1e3), ("gbit", 1e6)],
        _ => &[("%", 1.0)],
    };
    let (number, factor) =
        units.iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, factor)))?;
    let amount = number.parse::<f64>().ok()? * factor;
    (amount.is_finite() && amount > 0.0).then_some(amount)
}

impl Links {
    /// Reads a target, or links such as `n1..n2+n3..n2`.
    fn parse(text: &str, nodes: &[String]) -> Result<Self, Mistake> {
        if !text.contains("..") {
            return Ok(Self::Of(Target::parse(text, nodes)?));
        }
        let mut links = BTreeSet::new();
        for link in text.split('+') {
            let ends = link.split_once("..").filter(|(from, to)| from != to);
            let Some((from, to)) = ends else {
                let problem = "a link leads from a node to another: n1..n2";
                return Err(Mistake::new(link, problem));
            };
            for end in [from, to] {
                if !nodes.iter().any(|node| node == end) {
                    let hint = suggest(end, nodes.iter().map(String::as_str));
                    return Err(Mistake::new(end, format!("no such node; {hint}")));
                }
            }
            links.insert((from.to_owned(), to.to_owned()));
        }
        Ok(Self::These(links))
    }
}

impl Packets {
    /// Words for help and completions.
    pub(crate) const WORDS: [Word; 12] = with_targets(&MISCHIEF);

    /// Reads `MISCHIEF`, `TARGET` or `MISCHIEF:TARGET`.
    pub(crate) fn parse(
        text: Option<&str>,
        nodes: &[String],
        claims: &Claims,
        agents: &Agents,
    ) -> Result<Self, Mistake> {
        if nodes.len() < 2 {
            return Err(Mistake::new("packets", "it takes 2 nodes or more"));
        }
        let unknown = Unknown { problem: "no such mischief", known: &MISCHIEF };
        let (shape, target) =
            words::read(text, &unknown, parse_shape, |word| Links::parse(word, nodes))?;
        let (facts, addrs) = (BTreeMap::new(), BTreeMap::new());
        let (claims, agents, means) = (claims.clone(), agents.clone(), Means::Queue);
        Ok(Self { shape, target, claims, agents, facts, addrs, means })
    }

    /// One or two kinds of mischief.
    fn draw(rng: &mut ChaCha8Rng) -> Shape {
        let mut shape = Shape::default();
        for _ in 0..rng.random_range(1..=2) {
            let (word, _) = MISCHIEF[rng.random_range(0..MISCHIEF.len())];
            *field(&mut shape, word) = default_of(word) * rng.random_range(0.2..2.0);
        }
        if (shape.jitter_ms > 0.0 || shape.reorder_pct > 0.0) && shape.delay_ms == 0.0 {
            shape.delay_ms = default_of("delay");
        }
        shape
    }

    /// The links to make bad. Those of nodes that cannot be reached are left out, unless they were named: nothing
    /// passes over them anyway.
    async fn links(
        &self,
        cx: &FaultContext,
        rng: &mut ChaCha8Rng,
    ) -> Result<BTreeSet<(String, String)>, FaultError> {
        let nodes = node_names(cx);
        let target = match &self.target {
            Some(Links::These(links)) => return Ok(links.clone()),
            Some(Links::Of(target)) => target.clone(),
            None => Target::draw(nodes.len(), cx.system.db().primaries().is_some(), rng),
        };
        let leaders = match target {
            Target::Primaries => primaries(cx).await?,
            _ => Vec::new(),
        };
        let free = self.claims.reachable(&nodes);
        let hit = target.pick(&nodes, &free, &leaders, rng);
        let pairs = free.iter().flat_map(|from| free.iter().map(move |to| (from, to)));
        let meant =
            pairs.filter(|(from, to)| from != to && (hit.contains(from) || hit.contains(to)));
        Ok(meant.map(|(from, to)| (from.clone(), to.clone())).collect())
    }

    /// What `receiver` lets through as it is: the controller's SSH, even where the controller runs on
    /// a node of the cluster.
    fn spared(&self, receiver: &str, sender: &str) -> BTreeSet<Spare> {
        let ssh = |node: &str| self.facts[node].ssh;
        let here = ssh(receiver).map(|ssh| Spare::ToSshd { from: ssh.from, port: ssh.port });
        let controllers = self.facts.values().filter_map(|facts| Some(facts.ssh?.from));
        let is_controller =
            controllers.into_iter().any(|from| self.addrs[receiver].contains(&from));
        let there = ssh(sender).filter(|_| is_controller).into_iter().flat_map(|ssh| {
            self.addrs[sender].iter().map(move |&from| Spare::FromSshd { from, port: ssh.port })
        });
        here.into_iter().chain(there).collect()
    }

    /// What `sender` sends as it is, for the same reason.
    fn spared_on_the_way_out(&self, sender: &str, receiver: &str) -> BTreeSet<Ssh> {
        let controllers: BTreeSet<IpAddr> =
            self.facts.values().filter_map(|facts| Some(facts.ssh?.from)).collect();
        let is_controller = |node: &str| !self.addrs[node].is_disjoint(&controllers);
        let port = |node: &str| self.facts[node].ssh.map(|ssh| ssh.port);
        let to_peer = port(receiver).filter(|_| is_controller(sender)).map(Ssh::ToPeer);
        let from_here = port(sender).filter(|_| is_controller(receiver)).map(Ssh::FromHere);
        to_peer.into_iter().chain(from_here).collect()
    }

    /// Pings every sender of a bad link from its receiver, and says how long that took, in
    /// milliseconds, by receiver and sender; absent where nothing came back. A few packets go over
    /// every link, whatever the store does.
    async fn pings(
        &self,
        cx: &FaultContext,
        bad: &Bad,
    ) -> Result<BTreeMap<(String, String), f64>, FaultError> {
        let scripts = Means::Queue.nodes(bad).into_iter().map(|(receiver, senders)| {
            let mut script = String::from("PATH=$PATH:/usr/sbin:/sbin:/usr/bin:/bin\n");
            for sender in senders {
                let addr = cx.cluster.nodes().find(|node| *node.name == **sender).map(|n| n.addr);
                let Some(addr) = addr else { continue };
                // -U: what the program sees, not the network card.
                let _ = writeln!(
                    script,
                    "(echo \"{sender} $(timeout -s INT 6 ping -U -n -q -c 8 -i 0.1 -W 2 {addr} \
                     2>/dev/null | sed -n 's|^rtt[^=]*= [0-9.]*/\\([0-9.]*\\)/.*|\\1|p')\") &"
                );
            }
            (receiver.clone(), script + "wait\n")
        });
        let mut took = BTreeMap::new();
        for (receiver, text) in all(on_each(&cx.cluster, scripts).await)? {
            for line in text.lines() {
                if let Some((sender, ms)) = line.split_once(' ')
                    && let Ok(ms) = ms.trim().parse()
                {
                    took.insert((receiver.clone(), sender.to_owned()), ms);
                }
            }
        }
        Ok(took)
    }

    /// Nodes where something of ours is, as their own tools see it.
    async fn ruled(&self, cx: &FaultContext, bad: &Bad) -> Result<BTreeSet<String>, FaultError> {
        let nodes = self.means.nodes(bad).into_keys();
        let scripts = nodes.map(|node| (node.clone(), self.means.look().to_owned()));
        let printed = all(on_each(&cx.cluster, scripts.collect::<Vec<_>>()).await)?;
        let ruled = printed.into_iter().filter(|(_, text)| text.contains(self.means.trace()));
        Ok(ruled.map(|(node, _)| node).collect())
    }

    /// What makes links bad, node by node.
    fn specs(&self, means: Means, bad: &Bad) -> Vec<(String, Spec)> {
        let nodes = means.nodes(bad).into_iter();
        let spec = |(here, others): (&String, BTreeSet<&String>)| {
            let spec = match means {
                Means::Emulator => {
                    let link = |to: &&String| Outgoing {
                        peers: self.addrs[*to].clone(),
                        shape: bad.shape,
                        spared: self.spared_on_the_way_out(here, to),
                    };
                    Spec::Netem(Netem { links: others.iter().map(link).collect() })
                }
                Means::Queue => {
                    let link = |from: &&String| PeerLink {
                        peers: self.addrs[*from].clone(),
                        shape: bad.shape,
                        spared: self.spared(here, from),
                    };
                    let links = others.iter().map(link).collect();
                    Spec::Nfqueue(Nfqueue { links, seed: bad.seed })
                }
            };
            (here.clone(), spec)
        };
        nodes.map(spec).collect()
    }

    /// By what links can be made bad: by the emulator, unless a node refuses that, else by a queue, unless a
    /// node has no iptables for it.
    async fn means(&self, bad: &Bad) -> Result<Means, FaultError> {
        let refusal = match self.agents.check(self.specs(Means::Emulator, bad)).await {
            Ok(()) => return Ok(Means::Emulator),
            Err(FaultError::Unsupported(refusal)) => refusal,
            Err(error) => return Err(error),
        };
        let without = self.facts.iter().find(|(_, facts)| !facts.iptables);
        if let Some((node, _)) = without {
            return Err(FaultError::Unsupported(format!(
                "{node} has no working iptables, with which packets could be held; install it there \
                 (apt-get install iptables). The kernel's emulator cannot be used either: {refusal}"
            )));
        }
        tracing::info!(refusal, "packets go through a queue, not through the kernel's emulator");
        Ok(Means::Queue)
    }
}

#[async_trait]
impl Nemesis for Packets {
    fn fault(&self) -> &str {
        "packets"
    }

    async fn prepare(&mut self, cx: &FaultContext) -> Result<(), FaultError> {
        let script = firewall::facts_script();
        let nodes = node_names(cx).into_iter().map(|node| (node, script.clone()));
        let printed = all(on_each(&cx.cluster, nodes).await)?;
        self.facts =
            printed.into_iter().map(|(n, text)| (n, firewall::parse_facts(&text))).collect();
        self.addrs = own_addrs(cx, &self.facts)?;
        self.agents.start(&cx.cluster).await?;
        // What is going to be drawn may be what only a queue can do.
        let doubling = Shape { duplicate_pct: 1.0, ..Shape::default() };
        let nodes = node_names(cx);
        let pairs = nodes.iter().flat_map(|from| nodes.iter().map(move |to| (from, to)));
        let links = pairs.filter(|(from, to)| from != to);
        let links = links.map(|(from, to)| (from.clone(), to.clone())).collect();
        self.means(&Bad { shape: self.shape.unwrap_or(doubling), links, seed: 0 }).await.map(drop)
    }

    async fn choose(
        &mut self,
        cx: &FaultContext,
        rng: &mut ChaCha8Rng,
    ) -> Result<Choice, FaultError> {
        let shape = self.shape.unwrap_or_else(|| Self::draw(rng));
        let links = self.links(cx, rng).await?;
        if links.is_empty() {
            self.claims.reach(&node_names(cx))?;
            return Err(FaultError::Nothing("no node claims to lead".into()));
        }
        let ends = links.iter().flat_map(|(from, to)| [from.clone(), to.clone()]);
        let nodes: Vec<String> = ends.collect::<BTreeSet<_>>().into_iter().collect();
        self.claims.reach(&nodes)?;
        let bad = Bad { shape, links, seed: rng.random() };
        Ok(Choice { nodes, what: json!(bad) })
    }

    async fn repeat(&mut self, _cx: &FaultContext, earlier: &Choice) -> Result<Choice, FaultError> {
        self.claims.reach(&earlier.nodes)?;
        Ok(earlier.clone())
    }

    /// The nodes' own journals know it.
    fn undo(&self, _cx: &FaultContext, _choice: &Choice) -> Vec<(String, String)> {
        Vec::new()
    }

    async fn inject(
        &mut self,
        _cx: &FaultContext,
        choice: &Choice,
        name: &str,
    ) -> Result<(), FaultError> {
        let bad = Bad::read(choice)?;
        self.means = self.means(&bad).await?;
        self.agents.apply(name, self.specs(self.means, &bad)).await
    }

    async fn evidence(
        &mut self,
        cx: &FaultContext,
        choice: &Choice,
        name: &str,
    ) -> Result<Evidence, FaultError> {
        let bad = Bad::read(choice)?;
        let pings = self.pings(cx, &bad).await?;
        let mut findings = Findings::default();
        let mut quick = None;
        for (from, to) in &bad.links {
            let took = pings.get(&(to.clone(), from.clone())).copied();
            // An average over what overtook and what did not, and jitter, may be lower.
            let least = (bad.shape.delay_ms - bad.shape.jitter_ms).max(0.0) * 0.5;
            if took.is_some_and(|took| took < least) {
                findings
                    .doubts
                    .push(format!("a ping from {from} to {to} took {:.1} ms", took.unwrap_or(0.0)));
            }
            quick = took.into_iter().chain(quick).reduce(f64::min);
        }
        let ruled = self.ruled(cx, &bad).await?;
        let nodes: Vec<String> = self.means.nodes(&bad).into_keys().cloned().collect();
        let bare = nodes.iter().filter(|node| !ruled.contains(*node));
        findings.doubt(bare.map(|node| format!("{node} has no rule of ours")));
        findings.ask(&self.agents, name, &nodes).await?;
        let ping = quick.map_or(String::new(), |ms| format!(", a ping takes {ms:.1} ms or more"));
        let total = total(self.means, &findings.seen);
        let told = format!("{total} on {} links{ping}", bad.links.len());
        Ok(findings.told_as(told))
    }

    async fn heal(
        &mut self,
        cx: &FaultContext,
        choice: &Choice,
        name: &str,
    ) -> Result<Evidence, FaultError> {
        let bad = Bad::read(choice)?;
        let nodes: Vec<String> = self.means.nodes(&bad).into_keys().cloned().collect();
        let mut doubts = Vec::new();
        for (node, undone) in self.agents.undo(name, &nodes).await {
            match undone {
                Ok(sight) if sight.holds => {}
                Ok(sight) => doubts.push(format!("{node}: {}", sight.summary)),
                Err(error) => doubts.push(error.to_string()),
            }
        }
        let ruled = self.ruled(cx, &bad).await?;
        doubts.extend(ruled.into_iter().map(|node| format!("{node} still has rules of ours")));
        let (effect, summary) = match doubts.is_empty() {
            true => (Effect::Proven, format!("no packet is held on {}", nodes.join(" "))),
            false => (Effect::Indeterminate, doubts.join("; ")),
        };
        Ok(Evidence { effect, summary, figures: serde_json::Value::Null })
    }
}

/// What was done on all links together, in words.
fn total(means: Means, seen: &BTreeMap<String, Sight>) -> String {
    let side = match means {
        Means::Emulator => "to",
        Means::Queue => "from",
    };
    let links = seen.values().filter_map(|sight| sight.figures[side].as_object());
    let counts: Vec<&serde_json::Value> = links.flat_map(|links| links.values()).collect();
    let sum = |what: &str| counts.iter().filter_map(|counts| counts[what].as_u64()).sum::<u64>();
    if means == Means::Emulator {
        return format!("{} packets emulated, {} lost", sum("packets"), sum("lost"));
    }
    let (passed, held_ns) = (sum("passed"), sum("held_ns"));
    let mean = held_ns as f64 / passed.max(1) as f64 / 1e6;
    let mut text = format!("{passed} packets held for {mean:.1} ms on average");
    for (what, word) in [
        ("lost", "lost"),
        ("corrupted", "corrupted"),
        ("reordered", "ahead of others"),
        ("duplicated", "twice"),
    ] {
        if sum(what) > 0 {
            let _ = write!(text, ", {} {word}", sum(what));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    fn parse(text: &str) -> Result<(Option<Shape>, Option<Links>), String> {
        let nodes = ["n1", "n2", "n3"].map(str::to_owned);
        let packets = Packets::parse(Some(text), &nodes, &Claims::default(), &Agents::default());
        packets.map(|it| (it.shape, it.target)).map_err(|mistake| mistake.to_string())
    }

    /// Mischief with and without amounts, targets, and single links in one direction.
    #[test]
    fn mischief_and_links() {
        let shape = Shape { delay_ms: 50.0, loss_pct: 1.5, ..Shape::default() };
        let link = ("n1".to_owned(), "n2".to_owned());
        assert_eq!(
            parse("delay=50ms+loss=1.5%:n1..n2"),
            Ok((Some(shape), Some(Links::These(BTreeSet::from([link])))))
        );
        assert_eq!(parse("one"), Ok((None, Some(Links::Of(Target::One)))));
        let rate = Shape { rate_kbit: 2000.0, ..Shape::default() };
        assert_eq!(parse("rate=2mbit"), Ok((Some(rate), None)));
        let reorder = Shape { reorder_pct: 20.0, delay_ms: 50.0, ..Shape::default() };
        assert_eq!(parse("reorder"), Ok((Some(reorder), None)));
    }

    /// Each mistake is told with what was probably meant.
    #[test]
    fn mistakes() {
        let said = |text: &str| parse(text).unwrap_err();
        assert!(said("los").contains("did you mean `loss`?"));
        assert!(said("loss=10%+dely=5ms").contains("did you mean `delay`?"));
        assert!(said("loss=10").contains("how much?"));
        assert!(said("loss=200%").contains("percentage"));
        assert!(said("loss:n1..n9").contains("no such node"));
        assert!(said("loss:n1..n1").contains("from a node to another"));
    }

    /// Whatever is drawn makes sense.
    #[test]
    fn what_is_drawn_makes_sense() {
        let mut rng = ChaCha8Rng::seed_from_u64(2);
        for _ in 0..500 {
            assert_eq!(Packets::draw(&mut rng).mistake(), None);
        }
    }
}
