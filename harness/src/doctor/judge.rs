//! From what a node says to what that means for a run.

use std::sync::Arc;

use super::clock::Offset;
use super::facts::Facts;
use super::finding::Finding;

/// A clock further off than this makes node logs hard to lay beside operations.
const OFFSET_SECONDS_MAX: f64 = 0.1;
/// Less free than this is worth a look.
const FREE_KIB_AMPLE: u64 = 1 << 20;
/// Less free than this will not last a run.
const FREE_KIB_MIN: u64 = 100 << 10;

/// Programs and the Debian packages that have them. Without one of these a run cannot work.
const NEEDED: [(&str, &str); 7] = [
    ("setsid", "util-linux"),
    ("timeout", "coreutils"),
    ("head", "coreutils"),
    ("mktemp", "coreutils"),
    ("date", "coreutils"),
    ("ip", "iproute2"),
    ("ps", "procps"),
];

/// Everything there is to say of a node that answers.
pub(super) fn judge(node: &Arc<str>, facts: &Facts, offset: Offset) -> Vec<Finding> {
    let mut findings = vec![root(node, facts), tools(node, facts), firewall(node, facts)];
    findings.extend(ipv6(node, facts));
    findings.push(time_sync(node, facts));
    findings.push(clock(node, offset));
    findings.push(disk(node, facts));
    findings.push(leftovers(node, facts));
    findings
}

fn root(node: &Arc<str>, facts: &Facts) -> Finding {
    match facts.uid {
        Some(0) => Finding::ok(node, "root", "commands run as root"),
        uid => Finding::fail(
            node,
            "root",
            format!("commands run as uid {}", uid.map_or("?".to_owned(), |uid| uid.to_string())),
            "log in as root, or leave `sudo` at auto and let the user use it",
        ),
    }
}

fn tools(node: &Arc<str>, facts: &Facts) -> Finding {
    let is_missing = |tool: &str| facts.missing.iter().any(|missing| missing == tool);
    let needed: Vec<_> = NEEDED.into_iter().filter(|(tool, _)| is_missing(tool)).collect();
    if !needed.is_empty() {
        let names: Vec<&str> = needed.iter().map(|(tool, _)| *tool).collect();
        let mut packages: Vec<&str> = needed.iter().map(|(_, package)| *package).collect();
        packages.sort_unstable();
        packages.dedup();
        return Finding::fail(
            node,
            "tools",
            format!("{} not found", names.join(", ")),
            format!("apt-get install {}", packages.join(" ")),
        );
    }
    if is_missing("ping") && is_missing("bash") {
        return Finding::warn(
            node,
            "tools",
            "neither ping nor bash: that a partition healed cannot be proven by trying",
            "apt-get install iputils-ping",
        );
    }
    Finding::ok(node, "tools", "all there")
}

fn can_filter<'a>(facts: &'a Facts, tool: &str) -> Option<&'a str> {
    facts.filters.iter().find(|(name, _)| name == tool).map(|(_, version)| version.as_str())
}

fn firewall(node: &Arc<str>, facts: &Facts) -> Finding {
    if let Some(version) = can_filter(facts, "nft") {
        return Finding::ok(node, "firewall", format!("{version}, a table can be made"));
    }
    let restore_missing = facts.missing.iter().any(|tool| tool == "iptables-restore");
    if let (Some(version), false) = (can_filter(facts, "iptables"), restore_missing) {
        return Finding::ok(node, "firewall", format!("{version}, a chain can be made"));
    }
    if facts.refuses.is_empty() {
        return Finding::fail(
            node,
            "firewall",
            "neither nft nor iptables: no partitions",
            "apt-get install nftables",
        );
    }
    let why: Vec<String> =
        facts.refuses.iter().map(|(tool, why)| format!("{tool}: {why}")).collect();
    Finding::fail(
        node,
        "firewall",
        format!("no chain can be made ({}): no partitions", why.join("; ")),
        "commands must be root's, in a container with NET_ADMIN, and the kernel must have netfilter",
    )
}

fn ipv6(node: &Arc<str>, facts: &Facts) -> Option<Finding> {
    if !facts.ipv6 {
        return Some(Finding::ok(node, "ipv6", "off"));
    }
    if can_filter(facts, "nft").or(can_filter(facts, "ip6tables")).is_some() {
        return Some(Finding::ok(node, "ipv6", "on, and partitions cut it too"));
    }
    // Without any firewall the finding above has said so.
    can_filter(facts, "iptables").map(|_| {
        Finding::fail(
            node,
            "ipv6",
            "on, but ip6tables can make no chain: a partition would leak",
            "install nft (apt-get install nftables), or switch IPv6 off on the node",
        )
    })
}

fn time_sync(node: &Arc<str>, facts: &Facts) -> Finding {
    match facts.timesync.as_slice() {
        [] => Finding::warn(
            node,
            "time-sync",
            "no daemon keeps the clock: node logs drift from operations",
            "apt-get install chrony",
        ),
        [one] => Finding::ok(node, "time-sync", one.replace("timesyn", "timesyncd")),
        several => Finding::warn(
            node,
            "time-sync",
            format!("{} keep the clock at once", several.join(" and ")),
            "stop all but one",
        ),
    }
}

fn clock(node: &Arc<str>, Offset { seconds, error_seconds }: Offset) -> Finding {
    let said = format!(
        "{:+.1} ms from this machine's, give or take {:.1} ms",
        seconds * 1e3,
        error_seconds * 1e3
    );
    // Off beyond doubt. NaN, a clock that could not be read, is not below either.
    if seconds.abs() - error_seconds < OFFSET_SECONDS_MAX {
        return Finding::ok(node, "clock", said);
    }
    Finding::warn(node, "clock", said, "let both keep time by the same source (chronyc makestep)")
}

fn disk(node: &Arc<str>, facts: &Facts) -> Finding {
    let said: Vec<String> = facts
        .free_kib
        .iter()
        .map(|(mount, kib)| format!("{:.1} GiB free on {mount}", *kib as f64 / f64::from(1 << 20)))
        .collect();
    let said = said.join(", ");
    let mend = "make room: logs and data of a run can take gigabytes";
    match facts.free_kib.iter().map(|(_, kib)| *kib).min() {
        None => Finding::warn(node, "disk", "df says nothing", "is coreutils installed?"),
        Some(kib) if kib < FREE_KIB_MIN => Finding::fail(node, "disk", said, mend),
        Some(kib) if kib < FREE_KIB_AMPLE => Finding::warn(node, "disk", said, mend),
        Some(_) => Finding::ok(node, "disk", said),
    }
}

fn leftovers(node: &Arc<str>, facts: &Facts) -> Finding {
    if !facts.leftovers.is_empty() {
        return Finding::fail(
            node,
            "leftovers",
            format!(
                "a fault of an earlier run, or of one under way: {}",
                facts.leftovers.join(", ")
            ),
            "let that run end, or undo it: deposed heal, with the same --cluster or --nodes",
        );
    }
    if !facts.stopped.is_empty() {
        return Finding::warn(
            node,
            "leftovers",
            format!("stopped: {}", facts.stopped.join(", ")),
            "if nobody means them to be: kill -CONT PID",
        );
    }
    if let Some(run) = &facts.claimed {
        return Finding::warn(
            node,
            "leftovers",
            format!("the run {run} is using it, or was killed while it did"),
            "wait for its end; if it was killed, the node is free within 20 s",
        );
    }
    Finding::ok(node, "leftovers", "none")
}

#[cfg(test)]
mod tests {
    use super::super::finding::State;
    use super::*;

    fn healthy() -> Facts {
        Facts {
            uid: Some(0),
            filters: vec![
                ("iptables".into(), "iptables v1.8.9 (nf_tables)".into()),
                ("ip6tables".into(), String::new()),
            ],
            ipv6: true,
            timesync: vec!["chronyd".into()],
            free_kib: vec![("/".into(), 50 << 20)],
            ..Facts::default()
        }
    }

    fn on_time() -> Offset {
        Offset { seconds: 0.002, error_seconds: 0.001 }
    }

    fn finding(facts: &Facts, offset: Offset, check: &str) -> Finding {
        let findings = judge(&"n1".into(), facts, offset);
        findings.into_iter().find(|finding| finding.check == check).unwrap()
    }

    #[test]
    fn a_healthy_node_is_ok_throughout() {
        let findings = judge(&"n1".into(), &healthy(), on_time());
        assert!(findings.iter().all(|finding| finding.state == State::Ok), "{findings:#?}");
        assert_eq!(findings.len(), 8);
    }

    #[test]
    fn each_thing_wrong_is_told_with_how_to_mend_it() {
        type Spoil = fn(&mut Facts);
        let cases: [(&str, State, &str, Spoil); 12] = [
            ("root", State::Fail, "sudo", |facts| facts.uid = Some(1000)),
            ("tools", State::Fail, "apt-get install iproute2 procps", |facts| {
                facts.missing = vec!["ps".into(), "ip".into()];
            }),
            ("tools", State::Warn, "iputils-ping", |facts| {
                facts.missing = vec!["ping".into(), "bash".into()];
            }),
            ("firewall", State::Fail, "apt-get install nftables", |facts| facts.filters.clear()),
            ("firewall", State::Fail, "NET_ADMIN", |facts| {
                facts.filters.clear();
                facts.refuses = vec![("iptables".into(), "Permission denied".into())];
            }),
            ("ipv6", State::Fail, "nftables", |facts| drop(facts.filters.pop())),
            ("time-sync", State::Warn, "chrony", |facts| facts.timesync.clear()),
            ("time-sync", State::Warn, "all but one", |facts| facts.timesync.push("ntpd".into())),
            ("disk", State::Fail, "make room", |facts| facts.free_kib.push(("/tmp".into(), 1))),
            ("leftovers", State::Fail, "deposed heal", |facts| facts.leftovers = vec!["x".into()]),
            ("leftovers", State::Warn, "kill -CONT", |facts| facts.stopped = vec!["x".into()]),
            ("leftovers", State::Warn, "free within 20 s", |facts| {
                facts.claimed = Some("x".into())
            }),
        ];
        for (check, state, mend, spoil) in cases {
            let mut facts = healthy();
            spoil(&mut facts);
            let finding = finding(&facts, on_time(), check);
            assert_eq!(finding.state, state, "{finding:?}");
            assert!(finding.mend.contains(mend), "{finding:?}");
        }
    }

    #[test]
    fn a_clock_is_off_only_beyond_the_error_of_measuring_it() {
        let state = |seconds, error_seconds| {
            finding(&healthy(), Offset { seconds, error_seconds }, "clock").state
        };
        assert_eq!(state(-0.5, 0.001), State::Warn);
        assert_eq!(state(0.5, 0.45), State::Ok);
        assert_eq!(state(f64::NAN, 0.0), State::Warn);
    }

    #[test]
    fn a_node_with_nft_alone_can_be_partitioned() {
        let mut facts = healthy();
        facts.filters = vec![("nft".into(), "nftables v1.0.6".into())];
        assert_eq!(finding(&facts, on_time(), "firewall").state, State::Ok);
        assert_eq!(finding(&facts, on_time(), "ipv6").state, State::Ok);
    }
}
