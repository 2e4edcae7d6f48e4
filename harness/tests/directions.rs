//! The architecture's directions hold: nothing flows back, and the pure crates stay pure.
//!
//! Read from `cargo metadata`, so that a forbidden dependency fails here in the commit that adds it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Direct normal dependencies of each workspace member.
fn dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(root())
        .output()
        .expect("cargo metadata runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    let packages = metadata["packages"].as_array().expect("it lists packages");
    packages
        .iter()
        .map(|package| {
            let name = package["name"].as_str().expect("a name").to_owned();
            let normal = package["dependencies"]
                .as_array()
                .expect("dependencies")
                .iter()
                .filter(|d| d["kind"].is_null())
                .map(|d| d["name"].as_str().expect("a name").to_owned())
                .collect();
            (name, normal)
        })
        .collect()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("harness/ is in the workspace").into()
}

/// Every Rust source below a folder.
fn sources(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a readable folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|e| e == "rs") {
            into.push(path);
        }
    }
}

#[test]
fn each_crate_knows_only_what_stands_before_it() {
    // What each member may know of the others. A new member must be entered here with a reason.
    let allowed: BTreeMap<&str, &[&str]> = BTreeMap::from([
        ("deposed-history", &[][..]),
        ("deposed-checkers", &["deposed-history"]),
        ("deposed-report", &["deposed-history", "deposed-checkers"]),
        ("deposed-core", &["deposed-history"]),
        ("deposed-lab", &[]),
        // It is alone on its node.
        ("deposed-agent", &[]),
        ("deposed-nemeses", &["deposed-history", "deposed-core", "deposed-agent"]),
        // A store that is tested knows nothing of what tests it.
        ("deposed-standby", &[]),
        (
            "deposed-workloads",
            &["deposed-history", "deposed-checkers", "deposed-core", "deposed-standby"],
        ),
        (
            "deposed",
            &[
                "deposed-history",
                "deposed-checkers",
                "deposed-core",
                "deposed-lab",
                "deposed-report",
                "deposed-nemeses",
                "deposed-workloads",
                // This program is also the daemon of the bundled store.
                "deposed-standby",
            ],
        ),
    ]);
    for (name, dependencies) in dependencies() {
        let allowed = allowed
            .get(name.as_str())
            .unwrap_or_else(|| panic!("{name} is new: say here what it may know"));
        for dependency in dependencies.iter().filter(|d| d.starts_with("deposed")) {
            assert!(allowed.contains(&dependency.as_str()), "{name} must not know {dependency}");
        }
    }
}

#[test]
fn pure_crates_know_no_runtime_and_no_transport() {
    let dependencies = dependencies();
    for name in ["deposed-history", "deposed-checkers", "deposed-report"] {
        for forbidden in ["tokio", "ssh2", "nix", "libc", "tonic", "tracing", "async-trait"] {
            assert!(!dependencies[name].contains(forbidden), "{name} must not know {forbidden}");
        }
    }
    for (name, dependencies) in &dependencies {
        assert!(name == "deposed" || !dependencies.contains("ssh2"), "{name} must not know ssh2");
    }
}

#[test]
fn pure_sources_read_no_clock_and_no_file() {
    let root = root();
    let mut files = Vec::new();
    for folder in ["checkers/history/src", "checkers/src", "harness/core/src", "harness/report/src"]
    {
        sources(&root.join(folder), &mut files);
    }
    assert!(files.len() > 10, "the pure sources were not found");
    for file in files {
        let text = std::fs::read_to_string(&file).expect("a readable source");
        // Tests beside the code may measure and read what they like.
        let code = text.split("#[cfg(test)]").next().expect("split has a first part");
        for forbidden in ["Instant::now", "SystemTime::now", "Utc::now", "std::fs", "rand::rng("] {
            assert!(!code.contains(forbidden), "{} uses {forbidden}", file.display());
        }
    }
}

#[test]
fn only_one_module_names_ssh2_and_only_the_cli_prints() {
    let root = root();
    let mut files = Vec::new();
    sources(&root.join("harness/src"), &mut files);
    for file in files {
        let text = std::fs::read_to_string(&file).expect("a readable source");
        let code = text.split("#[cfg(test)]").next().expect("split has a first part");
        let place = file.strip_prefix(root.join("harness/src")).expect("it is below harness/src");
        if !place.starts_with("remote") {
            assert!(!code.contains("ssh2::"), "{} names ssh2", file.display());
        }
        if !place.starts_with("cli") && !place.starts_with("main.rs") {
            for printing in ["println!(", "print!(", "std::process::exit("] {
                assert!(!code.contains(printing), "{} uses {printing}", file.display());
            }
        }
    }
}

#[test]
fn a_store_is_named_only_in_workloads() {
    let root = root();
    let mut files = Vec::new();
    for folder in ["harness", "nemeses", "checkers"] {
        sources(&root.join(folder), &mut files);
    }
    for file in files {
        if file.components().any(|c| matches!(c.as_os_str().to_str(), Some("tests" | "target"))) {
            continue;
        }
        let text = std::fs::read_to_string(&file).expect("a readable source");
        let code = text.split("#[cfg(test)]").next().expect("split has a first part");
        let code: Vec<&str> = code.lines().filter(|l| !l.trim_start().starts_with("//")).collect();
        for store in ["\"etcd\"", "etcdctl", "redis", "zookeeper"] {
            let hit = code.iter().find(|line| line.contains(store));
            assert!(hit.is_none(), "{} names a store: {}", file.display(), hit.unwrap_or(&""));
        }
    }
}
