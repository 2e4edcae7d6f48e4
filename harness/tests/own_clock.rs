//! A machine with a clock of its own, over SSH: an emulated one, which takes two minutes and some packages.
//! Ask for it with `--ignored`.

#![cfg(target_arch = "x86_64")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop where it stands")]

#[path = "../../nemeses/agent/tests/virtual_machine/image.rs"]
mod image;

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::{Child, Command as Program, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use deposed::inventory::{HostKeyPolicy, NodeSpec};
use deposed::rig;
use deposed_core::{Choice, Cluster, Command, Effect, FaultContext};
use deposed_lab::packages::{self, Install, Requirement};
use deposed_nemeses::{Agents, Claims, parse};
use deposed_workloads::{SystemOptions, load_system};
use image::Image;
use serde_json::json;

/// The first process: a network, a disk for what survives a reboot, an SSH server, and what stands for a daemon
/// that keeps the clock right.
const INIT: &str = r#"#!/bin/busybox sh
/bin/busybox --install -s /bin 2>/dev/null
export PATH=/bin:/sbin:/usr/bin:/usr/sbin
mount -t proc proc /proc; mount -t sysfs sysfs /sys; mount -t devtmpfs dev /dev
for module in $(cat /modules/order); do insmod /modules/$module; done
mount -t ext4 /dev/vda /var/lib
ifconfig lo up; ifconfig eth0 10.0.2.15 up
chronyd &
dropbear -F -E -s -r /etc/dropbear/key &
while :; do sleep 1; done
"#;

/// What its kernel needs for network and disk.
const MODULES: [&str; 9] = [
    "virtio_ring",
    "virtio",
    "virtio_pci_legacy_dev",
    "virtio_pci_modern_dev",
    "virtio_pci",
    "failover",
    "net_failover",
    "virtio_net",
    "virtio_blk",
];

/// How long it may take to boot where others are busy.
const BOOT_WITHIN: Duration = Duration::from_secs(300);

/// A machine that root logs in to over SSH, through a port of this one's loopback.
struct Machine {
    emulator: Child,
    folder: tempfile::TempDir,
    spec: NodeSpec,
}

impl Machine {
    fn boot() -> Self {
        let needed = [
            Requirement::new("dropbear", "dropbear-bin"),
            Requirement::new("ssh-keygen", "openssh-client"),
            Requirement::new("mkfs.ext4", "e2fsprogs"),
        ];
        packages::ensure(&needed, Install::Yes, None, &mut |_: &str| {}).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        run("ssh-keygen -q -t ed25519 -N", &["", "-f"], &path("key"));
        run("dropbearkey -t ed25519", &["-f"], &path("host"));
        std::fs::File::create(path("disk")).unwrap().set_len(64 << 20).unwrap();
        run("mkfs.ext4 -q", &[], &path("disk"));
        let (host, key) =
            (std::fs::read(path("host")).unwrap(), std::fs::read(path("key.pub")).unwrap());
        let image = Image {
            init: INIT,
            // Busybox's own do not do all that a node's have to.
            programs: &[
                "/bin/sh",
                "/usr/bin/head",
                "/usr/bin/timeout",
                "/usr/bin/flock",
                "/usr/sbin/dropbear",
            ],
            modules: &MODULES,
            files: &[
                ("etc/passwd", b"root:x:0:0::/root:/bin/sh\n", 0o644),
                ("etc/dropbear/key", &host, 0o600),
                ("root/.ssh/authorized_keys", &key, 0o600),
            ],
        };
        // It reaches nothing, and is reached by this port alone.
        let port =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
        let mut emulator = image.emulator(folder.path());
        let network = format!("user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:{port}-10.0.2.15:22");
        let disk = format!("if=virtio,format=raw,file={}", path("disk").display());
        emulator.args(["-netdev", &network, "-device", "virtio-net-pci,netdev=net,romfile="]);
        let emulator = emulator.args(["-drive", &disk]).stdin(Stdio::null()).spawn().unwrap();
        let mut spec = NodeSpec::new("n1", Ipv4Addr::LOCALHOST.into());
        spec.port = port;
        spec.keys = vec![path("key")];
        spec.host_keys = HostKeyPolicy::Off;
        Self { emulator, folder, spec }
    }

    /// Connects as soon as it answers.
    async fn connect(&self) -> Cluster {
        let end = Instant::now() + BOOT_WITHIN;
        loop {
            match rig::connect(std::slice::from_ref(&self.spec)).await {
                Ok((cluster, _)) => return cluster,
                Err(error) if Instant::now() > end => panic!("{error}\n{}", self.console()),
                Err(_) => tokio::time::sleep(Duration::from_secs(1)).await,
            }
        }
    }

    fn console(&self) -> String {
        let said = std::fs::read(self.folder.path().join("console")).unwrap_or_default();
        String::from_utf8_lossy(&said).into_owned()
    }

    /// `deposed heal`, as a user would run it.
    fn heal(&self) -> String {
        let file = self.folder.path().join("cluster.toml");
        let inventory = format!(
            "user = \"root\"\nkey = {:?}\nhost_keys = \"off\"\n[[nodes]]\nname = \"n1\"\n\
             addr = \"127.0.0.1\"\nport = {}\nclock = \"own\"\n",
            self.folder.path().join("key"),
            self.spec.port
        );
        std::fs::write(&file, inventory).unwrap();
        let mut heal = Program::new(env!("CARGO_BIN_EXE_deposed"));
        let healed = heal.args(["heal", "--cluster"]).arg(file).output().unwrap();
        let said = [healed.stdout, healed.stderr].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        assert!(healed.status.success(), "{said}");
        said
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.emulator.kill();
        let _ = self.emulator.wait();
    }
}

fn run(command: &str, more: &[&str], file: &Path) {
    let mut words = command.split(' ');
    let mut program = Program::new(words.next().unwrap());
    let path = "/usr/sbin:/usr/bin:/sbin:/bin";
    let program = program.env("PATH", path).args(words).args(more).arg(file);
    let done = program.output().unwrap();
    assert!(done.status.success(), "{command}: {}", String::from_utf8_lossy(&done.stderr));
}

async fn sh(cluster: &Cluster, script: &str) -> String {
    cluster.remote("n1").unwrap().run(Command::new(script)).await.unwrap()
}

/// How far its wall clock is ahead of this machine's, in seconds, and how far off that may be.
async fn ahead(cluster: &Cluster) -> (f64, f64) {
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
    let before = now();
    let there: f64 = sh(cluster, "date +%s.%N").await.parse().unwrap();
    let after = now();
    (there - (before + after) / 2.0, (after - before) / 2.0)
}

/// What may be left of a fault, and nothing if there is nothing.
const LEFT: &str = "find /run/deposed /var/lib/deposed-agent -name '*.json' 2>/dev/null; \
    for p in $(pidof chronyd); do grep '^State:.T' /proc/$p/status; done; true";

/// The clock of a machine is set over SSH, seen to be wrong from outside, and right again; and when the
/// machine goes down while it is wrong, it comes up with the right time, and a heal from a cold start finds
/// it clean.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "boots an emulated machine: two minutes, and packages for it"]
async fn a_clock_is_set_over_ssh_and_right_after_a_reboot() {
    let machine = Machine::boot();
    let cluster = machine.connect().await;
    let nodes: Vec<deposed_core::Node> = cluster.nodes().cloned().collect();
    // Nothing of it need run: the clock is the machine's.
    let system = Arc::new(load_system("standby", &nodes, &SystemOptions::default()).unwrap());
    let cx = FaultContext {
        cluster: cluster.clone(),
        system,
        own_clocks: BTreeSet::from(["n1".to_owned()]),
    };
    let names = ["n1".to_owned()];
    let fault = parse("clock:jump=-600s:n1", &names).unwrap().remove(0);
    let mut clock = fault.nemesis(&names, &Claims::default(), &Agents::default()).unwrap();
    clock.prepare(&cx).await.unwrap();
    let choice = Choice {
        nodes: names.to_vec(),
        what: json!({
            "target": "n1",
            "processes": { "n1": [] },
            "motions": { "n1": { "motion": "jump", "offset_ms": -600_000 } },
        }),
    };
    let start = ahead(&cluster).await;
    let is_ahead = |now: (f64, f64), wanted: f64, slack: f64| {
        let (off, error) = (now.0 - start.0 - wanted, now.1 + start.1 + slack);
        assert!(off.abs() <= error, "{off} ± {error} s, not {wanted}");
    };

    clock.inject(&cx, &choice, "clock-1").await.unwrap();
    let seen = clock.evidence(&cx, &choice, "clock-1").await.unwrap();
    assert_eq!(seen.effect, Effect::Proven, "{}", seen.summary);
    is_ahead(ahead(&cluster).await, -600.0, 0.05);
    let healed = clock.heal(&cx, &choice, "clock-1").await.unwrap();
    assert_eq!(healed.effect, Effect::Proven, "{}", healed.summary);
    is_ahead(ahead(&cluster).await, 0.0, 0.05);
    assert_eq!(sh(&cluster, LEFT).await, "");

    clock.inject(&cx, &choice, "clock-2").await.unwrap();
    is_ahead(ahead(&cluster).await, -600.0, 0.05);
    assert_ne!(sh(&cluster, LEFT).await, "");
    let boot = "cat /proc/sys/kernel/random/boot_id";
    let before = sh(&cluster, boot).await;
    // It is gone before it can say so.
    let gone = Command::new("sync; reboot -f").deadline(Duration::from_secs(20));
    assert!(cluster.remote("n1").unwrap().run(gone).await.is_err());
    drop((clock, cx, cluster));

    let cluster = machine.connect().await;
    assert_ne!(sh(&cluster, boot).await, before);
    assert_ne!(sh(&cluster, "ls /var/lib/deposed-agent/agent-*").await, "", "its disk is new");
    assert!(machine.heal().contains("n1  healed"));
    assert_eq!(sh(&cluster, LEFT).await, "");
    // The hardware's clock counts seconds.
    is_ahead(ahead(&cluster).await, 0.0, 2.0);
}
