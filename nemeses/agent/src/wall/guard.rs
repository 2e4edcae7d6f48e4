//! Whether a machine's clock is its own: whatever shares the kernel shares the clock.

use std::collections::BTreeSet;
use std::fs;

use super::machine::boot_id;
use crate::Result;

/// What is refused.
pub(super) const ATTEMPTED: &str = "set the clock of this machine";

/// `CAP_SYS_TIME`, as a bit of `CapEff`.
const CAP_SYS_TIME: u64 = 1 << 25;

/// The namespaces a machine begins with, by their inodes (`include/linux/proc_ns.h` of the kernel), which
/// are the same on all machines. Who is in others is in a container.
const FIRST: [(&str, &str); 3] =
    [("pid", "pid:[4026531836]"), ("user", "user:[4026531837]"), ("uts", "uts:[4026531838]")];

/// What container engines leave where their containers can see it.
const MARKS: [&str; 3] = ["/.dockerenv", "/run/.containerenv", "/run/systemd/container"];

/// What is to be known of a machine and of this program's place in it.
#[derive(Debug, Clone, Default)]
pub(super) struct Surroundings {
    boot: String,
    effective: u64,
    /// Links of `/proc/self/ns`, in the order of [`FIRST`].
    namespaces: Vec<String>,
    /// Whether the first process has the same file system.
    at_home: bool,
    /// Marks of containers.
    marks: Vec<&'static str>,
    /// Processes in another pid namespace than this one.
    elsewhere: Vec<u32>,
}

impl Surroundings {
    /// Looks around. Tries nothing.
    pub(super) fn look() -> Result<Self> {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
        let effective = effective.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
        let pid = link("/proc/self/ns/pid");
        Ok(Self {
            boot: boot_id()?,
            effective: effective.unwrap_or_default(),
            namespaces: FIRST
                .iter()
                .map(|(kind, _)| link(&format!("/proc/self/ns/{kind}")))
                .collect(),
            at_home: !link("/proc/1/ns/mnt").is_empty()
                && link("/proc/1/ns/mnt") == link("/proc/self/ns/mnt"),
            marks: MARKS.into_iter().filter(|mark| fs::symlink_metadata(mark).is_ok()).collect(),
            elsewhere: crate::clock::scope::everybody()
                .into_iter()
                .filter(|process| {
                    let theirs = link(&format!("/proc/{process}/ns/pid"));
                    !theirs.is_empty() && theirs != pid
                })
                .collect(),
        })
    }
}

fn link(path: &str) -> String {
    fs::read_link(path).map(|to| to.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Why the clock must not be set, if it must not.
pub(super) fn refusal(around: &Surroundings, others: &BTreeSet<String>) -> Option<String> {
    let shared = "so its clock is not its own: say clock = \"shared\" for this node";
    if others.contains(&around.boot) {
        return Some(format!("another node or the controller runs on the same machine, {shared}"));
    }
    let inside = FIRST.iter().zip(&around.namespaces).find(|((_, first), own)| first != own);
    if inside.is_some() || around.namespaces.len() < FIRST.len() {
        let kind = inside.map_or("?", |((kind, _), _)| kind);
        return Some(format!("this is a container (another {kind} namespace), {shared}"));
    }
    if !around.at_home {
        return Some(format!("the first process has another file system, {shared}"));
    }
    if let Some(mark) = around.marks.first() {
        return Some(format!("this is a container (there is {mark}), {shared}"));
    }
    if let Some(process) = around.elsewhere.first() {
        return Some(format!("there are containers on it (pid {process} is in one), {shared}"));
    }
    if around.effective & CAP_SYS_TIME == 0 {
        return Some(format!("the right to (CAP_SYS_TIME) is missing, {shared}"));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alone() -> Surroundings {
        Surroundings {
            boot: "b".into(),
            effective: CAP_SYS_TIME,
            namespaces: FIRST.iter().map(|(_, first)| (*first).to_owned()).collect(),
            at_home: true,
            ..Surroundings::default()
        }
    }

    /// One thing that speaks against it is enough, and is named.
    #[test]
    fn whatever_is_shared_is_refused() {
        let others = BTreeSet::from(["a".to_owned()]);
        assert_eq!(refusal(&alone(), &others), None);
        let mut inside = alone();
        inside.namespaces[0] = "pid:[4026532199]".into();
        let cases = [
            (Surroundings { boot: "a".into(), ..alone() }, "on the same machine"),
            (inside, "another pid namespace"),
            (Surroundings { namespaces: Vec::new(), ..alone() }, "another ? namespace"),
            (Surroundings { at_home: false, ..alone() }, "another file system"),
            (Surroundings { marks: vec!["/.dockerenv"], ..alone() }, "there is /.dockerenv"),
            (Surroundings { elsewhere: vec![71], ..alone() }, "pid 71 is in one"),
            (Surroundings { effective: !CAP_SYS_TIME, ..alone() }, "CAP_SYS_TIME"),
        ];
        for (around, because) in cases {
            let reason = refusal(&around, &others).expect(because);
            assert!(reason.contains(because) && reason.contains("\"shared\""), "{reason}");
        }
    }

    /// What it looks at is there, on this machine too; the tests' own boot is always among the others.
    #[test]
    fn the_machine_of_the_tests_is_looked_at_and_refused() {
        let around = Surroundings::look().unwrap();
        assert_eq!(around.namespaces.len(), FIRST.len());
        assert!(around.namespaces.iter().all(|link| link.contains(":[")), "{around:?}");
        let others = BTreeSet::from([around.boot.clone()]);
        assert!(refusal(&around, &others).is_some());
    }
}
