//! Version 2 of control groups, as current systems have it: the freezer and the limits of memory and
//! processor time, in a machine of its own. Ask for it with `--ignored`.

#![cfg(target_arch = "x86_64")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[allow(dead_code, reason = "each test uses a part of it")]
mod node;
#[allow(dead_code, reason = "each test uses a part of it")]
mod virtual_machine;

use deposed_agent::{Freeze, Limit, Process, Quota, Spec};
use node::until;
use virtual_machine::VirtualMachine;

/// A store that works without a pause, in a control group of its own as a service manager makes it.
const BUSY: &str = "{ setsid sh -c 'echo $$ >/sys/fs/cgroup/store/cgroup.procs; echo $$ >/run/busy; \
                    while :; do :; done' >/dev/null 2>&1 & }";
/// One that takes 48 MiB, again and again.
const HUNGRY: &str = "{ setsid sh -c 'echo $$ >/run/hungry; while :; do \
                      dd if=/dev/zero of=/dev/null bs=48M count=1; sleep 0.1; done' >/dev/null 2>&1 & }";

fn process(machine: &mut VirtualMachine, name: &str) -> Process {
    let mut stat = String::new();
    until("the store runs", || {
        stat = machine.sh(&format!("cat /proc/$(cat /run/{name})/stat"));
        stat.contains(')')
    });
    let words: Vec<&str> = stat.split_whitespace().collect();
    Process { pid: words[0].parse().unwrap(), start_ticks: words[21].parse().unwrap() }
}

/// The share of a processor that a process gets, by the clock of its machine, in percent.
fn share(machine: &mut VirtualMachine, process: Process) -> f64 {
    let mut look = || {
        let said =
            machine.sh(&format!("cut -d' ' -f14,15 /proc/{}/stat; cat /proc/uptime", process.pid));
        let words: Vec<f64> = said.split_whitespace().map(|word| word.parse().unwrap()).collect();
        (words[0] + words[1], words[2])
    };
    let (before, start) = look();
    std::thread::sleep(std::time::Duration::from_secs(3));
    let (after, end) = look();
    // A tick is a hundredth of a second.
    (after - before) / (end - start)
}

/// Each does what it says, seen from outside, and leaves the store in the group where it was.
#[test]
#[ignore = "boots an emulated machine: a minute, and packages for it"]
fn control_groups_of_version_2_freeze_and_limit() {
    let mut machine = VirtualMachine::boot(&[], &[]);
    machine.sh("mount -t cgroup2 none /sys/fs/cgroup && mkdir /sys/fs/cgroup/store");
    machine.sh(BUSY);
    let busy = process(&mut machine, "busy");
    let group = format!("cat /proc/{}/cgroup", busy.pid);
    let healed = |machine: &mut VirtualMachine| {
        assert_eq!(machine.sh(&group), "0::/store");
        assert_eq!(machine.sh("ls -d /sys/fs/cgroup/deposed-* 2>/dev/null"), "");
        assert!(share(machine, busy) > 20.0);
    };
    healed(&mut machine);

    let freeze = || Spec::Freeze(Freeze { processes: vec![busy] });
    let seen = machine.node.apply(freeze());
    assert_eq!(seen.summary, "1 frozen");
    assert_eq!(share(&mut machine, busy), 0.0);
    machine.node.undo();
    healed(&mut machine);

    let cpu = |percent| {
        let (stop, start) = (String::new(), String::new());
        Spec::Limit(Limit { processes: vec![busy], quota: Quota::Cpu { percent }, stop, start })
    };
    machine.node.apply(cpu(10));
    let little = share(&mut machine, busy);
    assert!((2.0..30.0).contains(&little), "{little} %");
    machine.node.undo();
    healed(&mut machine);

    machine.sh(HUNGRY);
    let hungry = process(&mut machine, "hungry");
    let start = HUNGRY.to_owned();
    let stop = format!("kill -9 {} 2>/dev/null; true", hungry.pid);
    let quota = Quota::Memory { bytes: Some(16 << 20) };
    let seen =
        machine.node.apply(Spec::Limit(Limit { processes: vec![hungry], quota, stop, start }));
    assert!(seen.figures["hits"].as_u64().unwrap() > 0, "{seen:?}");
    until("the kernel kills for it", || {
        machine.node.prove().figures["killed"].as_u64().unwrap() > 0
    });
    machine.node.undo();
    healed(&mut machine);

    // Everything dies at once: a heal is left.
    machine.node.apply(freeze());
    machine.sh("kill -9 $(pidof deposed-agent)");
    assert_eq!(share(&mut machine, busy), 0.0);
    assert_eq!(machine.sh("deposed-agent heal && echo healed"), "healed");
    healed(&mut machine);
}
