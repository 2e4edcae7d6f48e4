//! A cut as a chain of iptables, where nf_tables is missing: one transaction for each family.

use std::fmt::Write as _;

use super::rule::{Fate, Packets, Rule, rules};
use super::{Cut, Cutting};
use crate::Result;
use crate::tool::{Running, Tool};

/// The chains of the kernel from which ours is entered.
const HOOKS: [&str; 2] = ["INPUT", "FORWARD"];

/// How many jumps into our chain are removed at most: more than anybody ever made.
const JUMPS_MAX: u32 = 8;

/// A family of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    V4,
    V6,
}

impl Family {
    const ALL: [Self; 2] = [Self::V4, Self::V6];

    /// The program for a command.
    const fn tool(self) -> &'static str {
        match self {
            Self::V4 => "iptables",
            Self::V6 => "ip6tables",
        }
    }

    /// The program for a transaction.
    const fn restore(self) -> &'static str {
        match self {
            Self::V4 => "iptables-restore",
            Self::V6 => "ip6tables-restore",
        }
    }

    /// Whether our chain is there.
    fn has(self, chain: &str) -> bool {
        Tool::new(self.tool()).args(["-w", "5", "-S", chain]).succeeds()
    }

    /// Starts a transaction on the table `filter`.
    fn transact(self, lines: &str) -> Result<Running> {
        let restore = Tool::new(self.restore()).args(["-w", "5", "--noflush"]);
        restore.input(format!("*filter\n{lines}COMMIT\n")).start()
    }

    /// Whether a rule is about it.
    fn has_rule(self, rule: &Rule) -> bool {
        rule.source.is_none_or(|source| source.is_ipv6() == (self == Self::V6))
    }

    /// What iptables-restore is given.
    fn lines(self, cut: &Cut) -> String {
        let chain = &cut.chain;
        let mut text = format!(":{chain} - [0:0]\n");
        for rule in rules(cut).iter().filter(|rule| self.has_rule(rule)) {
            let _ = writeln!(text, "-A {chain}{}", self.line(rule));
        }
        for hook in HOOKS {
            let _ = writeln!(text, "-I {hook} 1 -j {chain}");
        }
        text
    }

    fn line(self, rule: &Rule) -> String {
        let source = rule.source.map_or(String::new(), |source| format!(" -s {source}"));
        let packets = match (rule.packets, self) {
            (Packets::All, _) => String::new(),
            (Packets::Of(protocol), _) => format!(" -p {}", protocol.as_str()),
            (Packets::To(protocol, port), _) => format!(" -p {} --dport {port}", protocol.as_str()),
            (Packets::From(protocol, port), _) => {
                format!(" -p {} --sport {port}", protocol.as_str())
            }
            (Packets::Resets, _) => " -p tcp --tcp-flags RST RST".into(),
            (Packets::Unreachables, Self::V4) => " -p icmp --icmp-type port-unreachable".into(),
            (Packets::Unreachables, Self::V6) => {
                " -p ipv6-icmp --icmpv6-type port-unreachable".into()
            }
        };
        let fate = match rule.fate {
            Fate::Pass => "RETURN",
            Fate::Drop => "DROP",
            Fate::Reset => "REJECT --reject-with tcp-reset",
            Fate::Unreachable => "REJECT",
        };
        format!("{source}{packets} -j {fate}")
    }
}

/// Has the rules come into force, in both families at once: neither may get through for longer than the
/// other.
pub(super) fn apply(cut: &Cut) -> Result<()> {
    let cuts =
        |family: &Family| cut.sources.iter().any(|ip| ip.is_ipv6() == (*family == Family::V6));
    let families = Family::ALL.into_iter().filter(cuts);
    let started: Vec<_> = families.map(|family| family.transact(&family.lines(cut))).collect();
    let mut done = Ok(());
    for running in started {
        done = done.and(running.and_then(Running::end).map(drop));
    }
    done
}

/// Removes what there is of our chain.
pub(super) fn undo(undo: &Cutting) {
    // As they were made, in one transaction for each family, both at once.
    let chain = &undo.chain;
    let jumps = HOOKS.map(|hook| format!("-D {hook} -j {chain}\n")).concat();
    let removal = format!("{jumps}-F {chain}\n-X {chain}\n");
    let started = Family::ALL.map(|family| (family, family.transact(&removal)));
    for (family, running) in started {
        if running.and_then(Running::end).is_err() {
            remove_step_by_step(family, chain);
        }
    }
}

/// Removes what there is of a chain of ours, and nothing if there is none: half-way made, open, or with
/// more jumps into it than were ever made.
fn remove_step_by_step(family: Family, chain: &str) {
    if !family.has(chain) {
        return;
    }
    let iptables = |args: &[&str]| Tool::new(family.tool()).args(["-w", "5"]).args(args).succeeds();
    for hook in HOOKS {
        let mut jumps = 0;
        while jumps < JUMPS_MAX && iptables(&["-D", hook, "-j", chain]) {
            jumps += 1;
        }
    }
    iptables(&["-F", chain]);
    iptables(&["-X", chain]);
}

/// The programs in whose tables our chain still is.
pub(super) fn left(undo: &Cutting) -> Vec<&'static str> {
    let there = Family::ALL.into_iter().filter(|family| family.has(&undo.chain));
    there.map(Family::tool).collect()
}

/// Lets packets pass by our rules, which stay.
pub(super) fn open(undo: &Cutting) -> Result<()> {
    turn(undo, "-D")
}

/// Leads packets to our rules again.
pub(super) fn close(undo: &Cutting) -> Result<()> {
    turn(undo, "-I")
}

/// Adds or removes the jumps into our chain, in one transaction for each family.
fn turn(undo: &Cutting, action: &str) -> Result<()> {
    let chain = &undo.chain;
    let jumps = HOOKS.map(|hook| format!("{action} {hook} -j {chain}\n")).concat();
    for family in Family::ALL.into_iter().filter(|family| family.has(chain)) {
        family.transact(&jumps)?.end()?;
    }
    Ok(())
}

/// What the rules and their counters look like to the node's own tools.
pub(super) fn listed(undo: &Cutting) -> String {
    let list = |family: Family| {
        Tool::new(family.tool())
            .args(["-w", "5", "-v", "-S", &undo.chain])
            .run()
            .unwrap_or_default()
    };
    Family::ALL.map(list).concat()
}

#[cfg(test)]
mod tests {
    use super::super::Answer;
    use super::super::tests::cut;
    use super::*;

    /// Each family is told of its own addresses alone, in the order of the rules, before the way in.
    #[test]
    fn each_family_is_told_of_its_own() {
        assert_eq!(
            Family::V4.lines(&cut()),
            ":DEPOSED - [0:0]\n\
             -A DEPOSED -s 10.0.0.2 -p tcp --dport 2222 -j RETURN\n\
             -A DEPOSED -s 10.0.0.2 -j DROP\n\
             -I INPUT 1 -j DEPOSED\n-I FORWARD 1 -j DEPOSED\n"
        );
        assert_eq!(
            Family::V6.lines(&Cut { answer: Answer::Reset, ..cut() }),
            ":DEPOSED - [0:0]\n\
             -A DEPOSED -s fd00::2 -p tcp --sport 22 -j RETURN\n\
             -A DEPOSED -p tcp --tcp-flags RST RST -j RETURN\n\
             -A DEPOSED -p ipv6-icmp --icmpv6-type port-unreachable -j RETURN\n\
             -A DEPOSED -s fd00::2 -p tcp -j REJECT --reject-with tcp-reset\n\
             -A DEPOSED -s fd00::2 -j REJECT\n\
             -I INPUT 1 -j DEPOSED\n-I FORWARD 1 -j DEPOSED\n"
        );
    }
}
