//! The clock of a machine as the agent sets it, drives it wrong, and puts it right again: in a machine
//! of its own, which takes a minute and some packages. Ask for it with `--ignored`.

#![cfg(target_arch = "x86_64")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[allow(dead_code, reason = "each test uses a part of it")]
mod node;
mod virtual_machine;

use std::collections::BTreeSet;
use std::time::Duration;

use deposed_agent::clock::Motion;
use deposed_agent::{Reply, Request, Sight, Spec, Wall};
use node::until;
use virtual_machine::VirtualMachine;

/// The boot of the machine this test runs on.
fn here() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap().trim().to_owned()
}

fn moved(motion: Motion) -> Spec {
    Spec::Wall(Wall { others: BTreeSet::from([here()]), motion })
}

fn off_ms(sight: &Sight) -> f64 {
    sight.figures["offset_ns"].as_i64().unwrap() as f64 / 1e6
}

/// Whether its clock is where it should be, in seconds, as seen from here: each look has its error.
#[track_caller]
fn assert_ahead(machine: &mut VirtualMachine, (base, error): (f64, f64), wanted: f64) {
    let (ahead, also) = machine.ahead();
    let off = ahead - base - wanted;
    assert!(off.abs() <= error + also + 0.05, "{off} ± {}, not {wanted}", error + also);
}

/// Every motion is seen from outside, the daemon that keeps the clock right stands still meanwhile, and
/// afterwards clock, rate, what the kernel says of both, and the daemon are as they were: undone by the
/// agent, by the keeper after the agent was killed, and by a heal from a cold start.
#[test]
#[ignore = "boots an emulated machine: a minute, and packages for it"]
fn the_clock_of_a_machine_is_moved_and_restored() {
    let mut machine = VirtualMachine::boot(&[], &[]);
    let looks = [0; 8].map(|_| machine.ahead());
    let start = looks.into_iter().min_by(|a, b| a.1.total_cmp(&b.1)).unwrap();
    let (base, error) = start;
    assert!(error < 1.0, "{error}");
    let discipline = "adjtimex | grep -E 'tick|freq|status'";
    // A clock that is kept right says so; a kernel that just booted does not.
    let before = machine.sh(&format!("adjtimex -f 1234567 >/dev/null; {discipline}"));
    let chronyd =
        "for p in $(pidof chronyd); do sed -n 's/^State:.\\(.\\).*/\\1/p' /proc/$p/status; done";
    let right = |machine: &mut VirtualMachine| {
        assert_ahead(machine, start, 0.0);
        assert_eq!(machine.sh(discipline), before);
        assert_eq!(machine.sh(chronyd), "S");
        let left = "find /run/deposed -name '*.json' -o -name '*.cell' -o -name '*.readings'";
        assert_eq!(machine.sh(left), "");
    };

    assert_eq!(
        machine.node.ask(&Request::Check { spec: moved(Motion::Drift { rate_ppm: 1.0 }) }),
        Reply::Done
    );
    let seen = machine.node.apply(moved(Motion::Jump { offset_ms: -600_000 }));
    assert!(seen.summary.ends_with(", 1 of time synchronisation stopped"), "{}", seen.summary);
    assert_ahead(&mut machine, start, -600.0);
    assert_eq!(machine.sh(chronyd), "T");
    // Somebody sets it right: that is not believed.
    machine.sh("date -s \"@$(($(date +%s) + 600))\"");
    let doubted = machine.node.prove();
    assert!(!doubted.holds && doubted.summary.contains("the clock is"), "{}", doubted.summary);
    machine.node.undo();
    right(&mut machine);

    let first = machine.node.apply(moved(Motion::Drift { rate_ppm: 90_000.0 }));
    until("it gains", || {
        let (ahead, error) = machine.ahead();
        ahead - base > error + 1.5
    });
    let then = machine.node.prove();
    assert!(then.holds && off_ms(&then) > off_ms(&first) + 500.0, "{}", then.summary);
    let readings = then.figures["readings_ago_ms_ns_ns"].as_array().unwrap();
    assert!(readings.len() > 4, "{readings:?}");
    machine.node.undo();
    right(&mut machine);

    machine.node.apply(moved(Motion::Strobe { offset_ms: 100_000, period_ms: 400 }));
    for wanted in [100.0, 0.0, 100.0] {
        until("the strobe is there", || {
            let (ahead, error) = machine.ahead();
            (ahead - base - wanted).abs() < error + 0.5
        });
    }
    machine.node.undo();
    right(&mut machine);

    // The agent dies, nobody renews: the keeper is left.
    let scramble = Motion::Scramble { max_ms: 100_000, period_ms: 200, seed: 1 };
    machine.node.apply(moved(scramble.clone()));
    machine.node.renew(Duration::from_secs(3));
    machine.sh("kill -9 $(pgrep -f 'deposed-agent serve')");
    until("the keeper is done", || machine.sh("ls /run/deposed/faults").is_empty());
    right(&mut machine);

    // Everything dies at once: a heal is left.
    machine.node.renew(Duration::from_secs(600));
    machine.node.apply(moved(scramble));
    machine.sh("kill -9 $(pidof deposed-agent)");
    assert_eq!(machine.sh(chronyd), "T");
    assert_eq!(machine.sh("deposed-agent heal && echo healed"), "healed");
    right(&mut machine);

    // What shares its clock refuses, whatever it is told.
    machine.node.renew(Duration::from_secs(600));
    let itself = machine.sh("cat /proc/sys/kernel/random/boot_id");
    let wall = Wall { others: BTreeSet::from([itself]), motion: Motion::Jump { offset_ms: 5000 } };
    let refused = machine.node.try_apply(Spec::Wall(wall)).unwrap_err();
    assert!(refused.reason.contains("runs on the same machine"), "{refused}");
    let fast = machine.node.try_apply(moved(Motion::Drift { rate_ppm: 150_000.0 })).unwrap_err();
    assert!(fast.reason.contains("at most 10 %"), "{fast}");
    machine.sh("{ unshare -p -f sleep 600 >/dev/null 2>&1 & }; sleep 1");
    let refused = machine.node.try_apply(moved(Motion::Jump { offset_ms: 5000 })).unwrap_err();
    assert!(refused.reason.contains("there are containers on it"), "{refused}");
    right(&mut machine);
}
