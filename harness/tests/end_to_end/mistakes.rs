//! What cannot be used, is missing or runs out.

use std::path::Path;
use std::process::Command;

use crate::bench::{Bench, Ran};
use crate::lab::LabUp;

#[test]
fn what_cannot_be_used_is_named_with_a_way_to_mend_it() {
    let bench = Bench::new();
    // Nobody listens there. This one is begun, for it has to be tried.
    bench
        .run("run etcd --nodes 127.0.0.1:1 --host-keys off --faults none")
        .ends_with(3)
        .says(&["127.0.0.1:1", "connect"]);
    // Two wrong faults and a wrong option, all told at once, before anything is touched.
    bench.run("run etcd --faults partitoin,kill:n9 --set nosuch=1").ends_with(64).says(&[
        "partitoin",
        "did you mean `partition`",
        "n9",
        "nosuch",
    ]);
    bench.run("run nosuchstore").ends_with(4).says(&["nosuchstore", "etcd"]);
    bench.run("run etcd --workload nosuch").ends_with(4).says(&["nosuch", "register"]);
    bench.run("run etcd --time soon").ends_with(64).says(&["--time"]);
    bench.run("check /nonexistent").ends_with(4).says(&["/nonexistent"]);
    // A file of another kind is wrong on every line; nobody wants to read them all.
    let file = bench.write("notes.txt", &"no schedule\n".repeat(1000));
    let ran = bench.run(&format!("run etcd --schedule {}", file.display()));
    let ran = ran.ends_with(64).says(&["is no schedule", "line 1", "and 997 more"]);
    assert!(ran.text.lines().count() < 10, "{}", ran.text);
    // Errors that cannot be told change nothing else: /dev/full refuses whatever is written to it.
    let mut deaf = bench.deposed("check /nonexistent");
    deaf.stderr(std::fs::File::options().write(true).open("/dev/full").unwrap());
    assert_eq!(deaf.status().unwrap().code(), Some(4));
}

#[test]
fn a_missing_package_is_named_and_not_installed_against_the_users_will() {
    let bench = Bench::new();
    let bundled = Path::new(env!("CARGO_MANIFEST_DIR")).join("../workloads/systems/etcd.toml");
    let text = std::fs::read_to_string(bundled).unwrap();
    let own = text.replace("etcd = \"etcd-server\"", "no-such-program = \"no-such-package\"");
    assert_ne!(own, text);
    let file = bench.write("own.toml", &own);
    bench.run(&format!("run {} --no-install", file.display())).ends_with(3).says(&[
        "no-such-program",
        "no-such-package",
        "apt-get install",
    ]);
}

/// Takes the store's package off a node and offers it again in a package archive on the node
/// itself, so that the installation that follows is a real one without a way to any other.
const ONLY_IN_AN_ARCHIVE: &str = r#"set -e
mkdir -p /opt/archive/tree/DEBIAN && cd /opt/archive
dpkg-query -s etcd-server | sed '/^Status:/d; /^Conffiles:/,/^[^ ]/{/^Conffiles:/d; /^ /d}' > tree/DEBIAN/control
dpkg-query -L etcd-server | while read -r file; do [ -f "$file" ] && cp --parents -a "$file" tree; done || true
dpkg-deb -Znone --build tree etcd-server.deb >/dev/null && rm -r tree
{ dpkg-deb -f etcd-server.deb; echo "Filename: ./etcd-server.deb"
  echo "Size: $(stat -c %s etcd-server.deb)"; echo "SHA256: $(sha256sum etcd-server.deb | cut -d' ' -f1)"; } > Packages
dpkg --purge etcd-server >/dev/null 2>&1
rm -rf /etc/apt/sources.list.d/* /var/lib/apt/lists/*
echo 'deb [trusted=yes] file:/opt/archive ./' > /etc/apt/sources.list
! command -v etcd"#;

#[test]
fn a_missing_package_is_installed_on_the_nodes_that_miss_it() {
    let bench = Bench::new();
    let lab = LabUp::new(&bench, "installed", 3);
    for node in ["n1", "n3"] {
        lab.on(node, ONLY_IN_AN_ARCHIVE).ends_with(0);
    }
    lab.run("run etcd --time 3s --no-install").ends_with(3).says(&[
        "n1",
        "etcd-server",
        "apt-get install",
    ]);
    lab.run("run etcd --time 5s --faults kill --output plain").ends_with(0).says(&[
        "n1",
        "n3",
        "etcd-server",
    ]);
    for node in ["n1", "n3"] {
        lab.on(node, "dpkg-query -W etcd-server").ends_with(0);
    }
}

#[test]
fn a_full_disk_ends_the_run_and_keeps_what_was_recorded() {
    let bench = Bench::new();
    let small = bench.folder.path().join("small");
    std::fs::create_dir(&small).unwrap();
    // A mount of this test's own, gone with its process.
    let binary = env!("CARGO_BIN_EXE_deposed");
    let script = format!(
        "mount -t tmpfs -o size=600k tmpfs {small} && {binary} run etcd --time 60s --faults none \
         --lab-nodes 3 --rate max --results {small}; code=$?; \
         {binary} check {small}/latest/history.jsonl; echo \"check $?\"; exit $code",
        small = small.display()
    );
    let output = Command::new("unshare").args(["--mount", "sh", "-c", &script]).output().unwrap();
    let ran = Ran::of(output);
    assert!(ran.text.contains("No space left"), "{}", ran.text);
    assert!(ran.text.contains("recording stopped after"), "{}", ran.text);
    assert!(!ran.text.contains("tracing"), "{}", ran.text);
    assert!(ran.text.contains("check 0"), "what was recorded can be judged:\n{}", ran.text);
    ran.ends_with(3);
}
