//! What a node says of itself: one script, one fact a line.

/// Prints [`Facts`].
///
/// The chain and the table are removed before and after, so that an examination that was cut short
/// leaves nothing that the next does not clear.
pub(super) const SCRIPT: &str = r#"
echo "uid $(id -u)"
for tool in setsid timeout head mktemp ip ps kill date tar bash ping iptables iptables-restore nft; do
    command -v "$tool" >/dev/null || echo "missing $tool"
done
for tool in iptables ip6tables; do
    command -v "$tool" >/dev/null || continue
    "$tool" -w 5 -X DEPOSED-DOCTOR 2>/dev/null
    if why=$("$tool" -w 5 -N DEPOSED-DOCTOR 2>&1 && "$tool" -w 5 -X DEPOSED-DOCTOR 2>&1); then
        echo "filters $tool $("$tool" --version 2>/dev/null)"
    else
        echo "refuses $tool $(echo "$why" | head -n 1)"
    fi
    "$tool" -w 5 -S DEPOSED >/dev/null 2>&1 && echo "leftover the $tool chain DEPOSED"
done
if command -v nft >/dev/null; then
    nft delete table inet deposed-doctor 2>/dev/null
    if why=$(nft add table inet deposed-doctor 2>&1 && nft delete table inet deposed-doctor 2>&1); then
        echo "filters nft $(nft --version 2>/dev/null)"
    else
        echo "refuses nft $(echo "$why" | head -n 1)"
    fi
    nft list table inet deposed >/dev/null 2>&1 && echo "leftover the nftables table inet deposed"
fi
for undo in /run/deposed/faults/*.json /var/lib/deposed-agent/faults/*.json; do
    [ -e "$undo" ] && echo "leftover $undo"
done
if read -r run until 2>/dev/null </run/deposed/claim &&
    [ "$(cut -d. -f1 /proc/uptime)" -lt "$until" ]; then echo "claimed $run"; fi
for status in /proc/[0-9]*/status; do
    {
        read -r _ name
        while read -r key value _; do
            [ "$key" = State: ] || continue
            pid=${status#/proc/}
            [ "$value" = T ] && echo "stopped $name (pid ${pid%/status})"
            break
        done
    } <"$status" 2>/dev/null
    case $name in systemd-timesyn | chronyd | ntpd) echo "timesync $name" ;; esac
done
grep -qv ' lo$' /proc/net/if_inet6 2>/dev/null && echo ipv6
df -Pk / /var /tmp 2>/dev/null | while read -r _ _ _ free _ mount; do
    case $free in *[0-9]) echo "free $free $mount" ;; esac
done
true
"#;

/// What [`SCRIPT`] found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Facts {
    /// The user that commands run as.
    pub(super) uid: Option<u32>,
    /// Programs that are not there.
    pub(super) missing: Vec<String>,
    /// `iptables`, `ip6tables`, `nft`: those in which a chain can be made, and their versions.
    pub(super) filters: Vec<(String, String)>,
    /// Those in which none can, and why.
    pub(super) refuses: Vec<(String, String)>,
    /// Whether an interface other than `lo` has an IPv6 address.
    pub(super) ipv6: bool,
    /// Daemons that keep the clock.
    pub(super) timesync: Vec<String>,
    /// Free KiB by mount point.
    pub(super) free_kib: Vec<(String, u64)>,
    /// What an earlier run left.
    pub(super) leftovers: Vec<String>,
    /// The run that has claimed it, if one has.
    pub(super) claimed: Option<String>,
    /// Processes in state T.
    pub(super) stopped: Vec<String>,
}

/// Reads what [`SCRIPT`] printed. Lines it does not know are passed over.
pub(super) fn parse(text: &str) -> Facts {
    let mut facts = Facts::default();
    for line in text.lines() {
        let (key, value) = line.split_once(' ').unwrap_or((line, ""));
        let (word, rest) = value.split_once(' ').unwrap_or((value, ""));
        let pair = || (word.to_owned(), rest.to_owned());
        match key {
            "uid" => facts.uid = value.parse().ok(),
            "missing" => facts.missing.push(value.to_owned()),
            "filters" => facts.filters.push(pair()),
            "refuses" => facts.refuses.push(pair()),
            "ipv6" => facts.ipv6 = true,
            "timesync" => facts.timesync.push(value.to_owned()),
            "leftover" => facts.leftovers.push(value.to_owned()),
            "claimed" => facts.claimed = Some(value.to_owned()),
            "stopped" => facts.stopped.push(value.to_owned()),
            "free" => {
                let known = facts.free_kib.iter().any(|(mount, _)| mount == rest);
                if let (Ok(kib), false) = (word.parse(), known) {
                    facts.free_kib.push((rest.to_owned(), kib));
                }
            }
            _ => {}
        }
    }
    facts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_read_line_by_line() {
        let facts = parse(
            "uid 0\nmissing ping\nfilters iptables iptables v1.8.9 (nf_tables)\n\
             refuses ip6tables no such table\nipv6\nnoise\ntimesync chronyd\n\
             free 2048 /\nfree 2048 /\nfree 10 /tmp\nleftover /run/deposed/faults/x.json\nclaimed 3eb8da\nstopped etcd (pid 7)\n",
        );
        assert_eq!(facts.uid, Some(0));
        assert_eq!(facts.missing, ["ping"]);
        assert_eq!(facts.filters, [("iptables".into(), "iptables v1.8.9 (nf_tables)".into())]);
        assert_eq!(facts.refuses, [("ip6tables".into(), "no such table".into())]);
        assert!(facts.ipv6);
        assert_eq!(facts.free_kib, [("/".into(), 2048), ("/tmp".into(), 10)]);
        assert_eq!(facts.leftovers, ["/run/deposed/faults/x.json"]);
        assert_eq!(facts.claimed.as_deref(), Some("3eb8da"));
        assert_eq!(facts.stopped, ["etcd (pid 7)"]);
    }
}
