//! What the controller itself asks nodes about their firewalls, over plain SSH: what there is, what it
//! counts, who reaches whom. So an agent is never the only witness of what it did.
//!
//! Only our own chain or table is looked at or removed; rules of the host are never touched. ARP is not
//! cut and need not be.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::net::IpAddr;

use deposed_agent::Backend;
use serde::{Deserialize, Serialize};

/// What can be tried on a node to see whether it reaches another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Probe {
    /// An echo request.
    Ping,
    /// A TCP connection to the peer's SSH port by bash; a refusal is an answer too.
    Bash,
}

/// The controller's SSH connection as the node sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SshPath {
    /// Where it comes from.
    pub(crate) from: IpAddr,
    /// The port of the node's sshd.
    pub(crate) port: u16,
}

/// What a node says of itself, once, before the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NodeFacts {
    /// Its firewall, if it has one that works.
    pub(crate) backend: Option<Backend>,
    /// Whether iptables works there, beside it or alone.
    pub(crate) iptables: bool,
    /// Whether the firewall filters IPv6.
    pub(crate) filters_v6: bool,
    /// Its global addresses of both families.
    pub(crate) addrs: BTreeSet<IpAddr>,
    /// How the controller reaches it, if it comes by SSH.
    pub(crate) ssh: Option<SshPath>,
    /// What can be tried on it.
    pub(crate) probe: Option<Probe>,
}

/// The chain of partitions. With nft, the table of the same name in lower case.
pub(crate) const CHAIN: &str = "DEPOSED";

/// The chain of links that are refused.
pub(crate) const CHAIN_REJECT: &str = "DEPOSED-REJECT";

/// The chain of links that flap.
pub(crate) const CHAIN_FLAP: &str = "DEPOSED-FLAP";

/// Every chain of ours.
const CHAINS: [&str; 3] = [CHAIN, CHAIN_REJECT, CHAIN_FLAP];

/// Where system programs are, for shells whose PATH lacks them.
pub(crate) const PATH: &str = "PATH=$PATH:/usr/sbin:/sbin; export PATH\n";

/// Prints [`NodeFacts`], one fact a line. An ancestor's environment tells of SSH where sudo has
/// dropped it.
pub(crate) fn facts_script() -> String {
    format!(
        r#"{PATH}
if nft list tables >/dev/null 2>&1; then echo nft; echo v6; fi
if iptables -w 5 -S INPUT >/dev/null 2>&1 && command -v iptables-restore >/dev/null; then
  echo iptables
  ip6tables -w 5 -S INPUT >/dev/null 2>&1 && echo v6
fi
if command -v ip >/dev/null; then
  ip -o addr show scope global | while read -r _ _ _ a _; do echo "addr ${{a%%/*}}"; done
else
  for a in $(hostname -I); do echo "addr $a"; done
fi
ssh=${{SSH_CONNECTION:-}} p=$$
while [ -z "$ssh" ] && [ "$p" -gt 1 ]; do
  ssh=$(tr '\0' '\n' <"/proc/$p/environ" 2>/dev/null | sed -n 's/^SSH_CONNECTION=//p')
  p=$(sed -n 's/^PPid:[[:space:]]*//p' "/proc/$p/status")
done
[ -z "$ssh" ] || echo "ssh $ssh"
if command -v ping >/dev/null; then echo probe ping
elif command -v bash >/dev/null && command -v timeout >/dev/null; then echo probe bash; fi
"#
    )
}

/// Reads what [`facts_script`] printed. Lines it does not know are passed over.
pub(crate) fn parse_facts(text: &str) -> NodeFacts {
    let mut facts = NodeFacts {
        backend: None,
        iptables: false,
        filters_v6: false,
        addrs: BTreeSet::new(),
        ssh: None,
        probe: None,
    };
    for line in text.lines() {
        match line.split_whitespace().collect::<Vec<_>>()[..] {
            ["nft"] => facts.backend = Some(Backend::Nft),
            ["iptables"] => {
                facts.iptables = true;
                facts.backend = facts.backend.or(Some(Backend::Iptables));
            }
            ["v6"] => facts.filters_v6 = true,
            ["addr", addr] => facts.addrs.extend(addr.parse::<IpAddr>()),
            ["ssh", from, _, _, port] => {
                // An IPv4 client of a dual-stack socket may show as ::ffff:10.0.0.1, a link-local
                // one with its zone.
                let from = from.split('%').next().unwrap_or(from);
                let from = from.parse().map(|ip: IpAddr| ip.to_canonical());
                facts.ssh =
                    from.ok().zip(port.parse().ok()).map(|(from, port)| SshPath { from, port });
            }
            ["probe", "ping"] => facts.probe = Some(Probe::Ping),
            ["probe", "bash"] => facts.probe = Some(Probe::Bash),
            _ => {}
        }
    }
    facts
}

/// Removes everything of ours from whatever firewalls the node has, and fails if it is still there.
pub(crate) fn restore_script() -> String {
    let chains = CHAINS.join(" ");
    let tables = chains.to_lowercase();
    format!(
        r#"{PATH}
left=
for d in {chains}; do
  for t in iptables ip6tables; do
    command -v $t >/dev/null || continue
    $t -w 5 -S $d >/dev/null 2>&1 || continue
    for c in INPUT FORWARD; do
      n=0
      while [ $n -lt 8 ] && $t -w 5 -D $c -j $d 2>/dev/null; do n=$((n+1)); done
    done
    $t -w 5 -F $d; $t -w 5 -X $d
    if $t -w 5 -S $d >/dev/null 2>&1; then left="$left $t"; fi
  done
done
for d in {tables}; do
  command -v nft >/dev/null && nft list table inet $d >/dev/null 2>&1 || continue
  nft delete table inet $d
  if nft list table inet $d >/dev/null 2>&1; then left="$left nft"; fi
done
[ -z "$left" ] || {{ echo "the rules of deposed are still in:$left" >&2; exit 1; }}
"#
    )
}

/// Prints the rules of one of our chains with their counters; prints nothing if there are none.
pub(crate) fn counters_script(chain: &str) -> String {
    let table = chain.to_lowercase();
    format!(
        r#"{PATH}
for t in iptables ip6tables; do
  if command -v $t >/dev/null; then $t -w 5 -v -S {chain} 2>/dev/null; fi
done
if command -v nft >/dev/null; then nft list chain inet {table} cut 2>/dev/null; fi
true
"#
    )
}

/// Packets cut so far, by source. Empty if our chain is not there.
pub(crate) fn parse_counters(text: &str) -> BTreeMap<IpAddr, u64> {
    let mut counted = BTreeMap::new();
    for (source, packets) in text.lines().filter_map(parse_counter) {
        *counted.entry(source).or_default() += packets;
    }
    counted
}

/// `-A DEPOSED -s 10.0.0.2/32 -c 5 420 -j DROP` or `ip saddr 10.0.0.2 counter packets 5 bytes 420
/// drop`, and the same with a rejection.
fn parse_counter(line: &str) -> Option<(IpAddr, u64)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let after = |word: &str| words.iter().position(|w| *w == word).and_then(|at| words.get(at + 1));
    if !words.iter().any(|word| matches!(*word, "DROP" | "drop" | "REJECT" | "reject")) {
        return None;
    }
    let source = after("-s").or_else(|| after("saddr"))?.split('/').next()?;
    let packets = after("-c").or_else(|| after("packets"))?;
    Some((source.parse().ok()?, packets.parse().ok()?))
}

/// Tries to reach addresses, all at once, and prints `yes ADDR` or `no ADDR` for each. Takes about
/// a second.
pub(crate) fn reach_script<'a>(
    probe: Probe,
    targets: impl IntoIterator<Item = (&'a IpAddr, u16)>,
) -> String {
    let mut script = format!("{PATH}\n");
    for (addr, port) in targets {
        let test = match probe {
            Probe::Ping => format!("ping -c 1 -W 1 {addr} >/dev/null 2>&1"),
            // A refused connection has been answered; one that is not leaves timeout to end it.
            Probe::Bash => format!(
                "bash -c 'timeout 1 bash -c \": </dev/tcp/{addr}/{port}\" 2>&1 | grep -q refused \
                 || timeout 1 bash -c \": </dev/tcp/{addr}/{port}\"' >/dev/null 2>&1"
            ),
        };
        let _ = writeln!(script, "(if {test}; then echo yes {addr}; else echo no {addr}; fi) &");
    }
    script.push_str("wait\n");
    script
}

/// How many echo requests are sent to see a link flap, and how far apart: two periods' worth.
pub(crate) const FLAP_PINGS: u32 = 12;
const FLAP_PING_EVERY: &str = "0.2";

/// Sends echo requests for a while to addresses, all at once, and prints `ADDR ANSWERED` for each.
pub(crate) fn flap_script<'a>(targets: impl IntoIterator<Item = &'a IpAddr>) -> String {
    let mut script = format!("{PATH}\n");
    for addr in targets {
        let ping = format!("ping -n -c {FLAP_PINGS} -i {FLAP_PING_EVERY} -W 1 {addr} 2>/dev/null");
        let _ = writeln!(
            script,
            "(n=$({ping} | sed -n 's/.* \\([0-9]*\\) received.*/\\1/p'); echo {addr} ${{n:-0}}) &"
        );
    }
    script.push_str("wait\n");
    script
}

/// Reads what [`flap_script`] printed.
pub(crate) fn parse_flaps(text: &str) -> BTreeMap<IpAddr, u32> {
    let line = |line: &str| {
        let (addr, answered) = line.split_once(' ')?;
        Some((addr.parse().ok()?, answered.trim().parse().ok()?))
    };
    text.lines().filter_map(line).collect()
}

/// The addresses that answered.
pub(crate) fn parse_reached(text: &str) -> BTreeSet<IpAddr> {
    text.lines().filter_map(|line| line.strip_prefix("yes ")?.trim().parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn facts(backend: Backend) -> NodeFacts {
        NodeFacts {
            backend: Some(backend),
            iptables: true,
            filters_v6: true,
            addrs: [ip("10.0.0.1"), ip("fd00::1")].into(),
            ssh: Some(SshPath { from: ip("10.0.0.2"), port: 2222 }),
            probe: Some(Probe::Ping),
        }
    }

    /// What the probe prints is read, whatever else stands there.
    #[test]
    fn facts_are_read() {
        let text = "motd\niptables\nv6\naddr 10.0.0.1\naddr fd00::1\naddr what\n\
                    ssh ::ffff:10.0.0.2 50122 10.0.0.1 2222\nprobe ping\n";
        assert_eq!(parse_facts(text), facts(Backend::Iptables));
        assert_eq!(parse_facts(&format!("nft\n{text}")), facts(Backend::Nft));
        assert_eq!(parse_facts("").backend, None);
        let link_local = parse_facts("ssh fe80::1%eth0 5 fe80::2%eth0 22").ssh.unwrap();
        assert_eq!(link_local.from, ip("fe80::1"));
    }

    /// No script flushes or deletes anything that is not ours.
    #[test]
    fn only_our_chain_is_ever_emptied() {
        for line in restore_script().lines() {
            for removal in ["-F", "-X", "-D", "delete", "flush "] {
                if line.split_whitespace().any(|word| word == removal.trim()) {
                    assert!(line.contains("$d"), "{line}");
                }
            }
        }
        for chain in CHAINS {
            assert!(chain == "DEPOSED" || chain.starts_with("DEPOSED-"), "{chain}");
            assert!(restore_script().contains(chain), "{chain}");
        }
    }

    /// Counters of both backends are read by source; rules that spare are not drops.
    #[test]
    fn counters_are_read() {
        let text = "-N DEPOSED\n-A DEPOSED -s 10.0.0.2/32 -p tcp -m tcp --dport 22 -c 9 9 -j RETURN\n\
                    -A DEPOSED -s 10.0.0.2/32 -c 5 420 -j DROP\n\
                    -A DEPOSED -s fd00::2/128 -c 7 1 -j DROP\n\
                    \t\tip saddr 10.0.0.3 counter packets 11 bytes 4 drop\n";
        let expected =
            BTreeMap::from([(ip("10.0.0.2"), 5), (ip("fd00::2"), 7), (ip("10.0.0.3"), 11)]);
        assert_eq!(parse_counters(text), expected);
        assert!(parse_counters("").is_empty());
    }
}
