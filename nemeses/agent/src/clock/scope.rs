//! Which processes share a clock: those of the sessions that were chosen, whoever descends from
//! them, and what these become.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use crate::Process;

/// A process and the program it runs, as far as they can be told from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Member {
    /// Who it is.
    pub(crate) process: Process,
    /// Where its stack begins: another place for every program it begins.
    pub(super) stack: u64,
}

/// What `/proc/PID/stat` says of a process.
struct Stat {
    member: Member,
    parent: u32,
    session: u32,
}

fn parse_stat(text: &str) -> Option<Stat> {
    // The name in parentheses may hold anything: what counts comes after the last of them.
    let pid = text.split(' ').next()?.parse().ok()?;
    let words: Vec<&str> = text.rsplit_once(") ")?.1.split(' ').collect();
    if matches!(*words.first()?, "Z" | "X" | "x") {
        return None;
    }
    let number = |index: usize| words.get(index)?.parse::<u64>().ok();
    let process = Process { pid, start_ticks: number(19)? };
    Some(Stat {
        member: Member { process, stack: number(25)? },
        parent: number(1)? as u32,
        session: number(3)? as u32,
    })
}

/// Every process of this pid namespace that lives.
fn all() -> Vec<Stat> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| {
        entry.file_name().to_str().filter(|name| name.starts_with(|c: char| c.is_ascii_digit()))?;
        fs::read_to_string(entry.path().join("stat")).ok()
    });
    pids.filter_map(|text| parse_stat(&text)).collect()
}

/// The session of a process that still is the one it was.
pub(crate) fn session_of(process: Process) -> Option<u32> {
    let stat = parse_stat(&fs::read_to_string(format!("/proc/{}/stat", process.pid)).ok()?)?;
    (stat.member.process == process).then_some(stat.session)
}

/// The members of some sessions, and all who descend from them.
pub(crate) fn members(sessions: &BTreeSet<u32>) -> Vec<Member> {
    select(&all(), sessions)
}

fn select(all: &[Stat], sessions: &BTreeSet<u32>) -> Vec<Member> {
    let parents: BTreeMap<u32, &Stat> =
        all.iter().map(|stat| (stat.member.process.pid, stat)).collect();
    let belongs = |stat: &&Stat| {
        let mut stat = *stat;
        // Process trees are not deep; the limit ends what would be a cycle of reused pids.
        for _ in 0..64 {
            if sessions.contains(&stat.session) {
                return true;
            }
            match parents.get(&stat.parent) {
                Some(parent) => stat = parent,
                None => return false,
            }
        }
        false
    };
    all.iter().filter(belongs).map(|stat| stat.member).collect()
}

/// Every process of this pid namespace, by pid.
pub(crate) fn everybody() -> Vec<u32> {
    all().iter().map(|stat| stat.member.process.pid).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(pid: u32, parent: u32, session: u32) -> Stat {
        let text = format!(
            "{pid} (a) b (c) S {parent} {pid} {session} 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 777 1 1 1 \
             1 1 4242 0 0"
        );
        parse_stat(&text).unwrap()
    }

    /// Sessions and descendants that left them belong; strangers do not.
    #[test]
    fn descendants_belong() {
        let all =
            [stat(1, 0, 1), stat(10, 1, 10), stat(11, 10, 10), stat(12, 11, 12), stat(13, 1, 13)];
        let pids: Vec<u32> =
            select(&all, &BTreeSet::from([10])).iter().map(|member| member.process.pid).collect();
        assert_eq!(pids, [10, 11, 12]);
        assert_eq!(
            all[1].member,
            Member { process: Process { pid: 10, start_ticks: 777 }, stack: 4242 }
        );
    }

    /// What has ended is nobody.
    #[test]
    fn zombies_are_nobody() {
        assert!(parse_stat("7 (sh) Z 1 7 7 0 -1 0").is_none());
        assert!(parse_stat("7").is_none());
    }
}
