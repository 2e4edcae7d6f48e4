//! Builds the agent for nodes: a static program, for the machine the controller is built for, which
//! is carried inside this crate.
//!
//! It has a target folder of its own below `OUT_DIR`, so that neither cargo waits for the other, and it
//! needs no network: what it depends on, this crate depends on too.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let here = PathBuf::from(variable("CARGO_MANIFEST_DIR"));
    let workspace = here.parent().expect("nemeses/ is in the workspace");
    for watched in ["nemeses/agent/src", "nemeses/agent/Cargo.toml", "Cargo.lock", "Cargo.toml"] {
        println!("cargo:rerun-if-changed={}", workspace.join(watched).display());
    }
    let (out, target) = (PathBuf::from(variable("OUT_DIR")), variable("TARGET"));
    let folder = out.join("target");
    let built = Command::new(variable("CARGO"))
        .args(["build", "--offline", "--locked", "--quiet", "--profile", "agent"])
        .args(["--package", "deposed-agent", "--bin", "deposed-agent", "--target", &target])
        .arg("--target-dir")
        .arg(&folder)
        .current_dir(workspace)
        // With a target named, these flags are not for the build scripts and macros it needs.
        .env("CARGO_ENCODED_RUSTFLAGS", "-Ctarget-feature=+crt-static")
        // clippy, and whatever else wraps the compiler, has no business here.
        .env_remove("RUSTC_WRAPPER")
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .env_remove("CARGO_BUILD_TARGET")
        .status()
        .expect("cargo runs");
    assert!(built.success(), "the agent for nodes was not built: see above");
    let program = folder.join(&target).join("agent").join("deposed-agent");
    std::fs::copy(&program, out.join("deposed-agent")).expect("the agent was built");
    let arch = variable("CARGO_CFG_TARGET_ARCH");
    println!("cargo:rustc-env=AGENT_ARCH={arch}");
    println!("cargo:rustc-env=AGENT_HASH={:016x}", hash(&program));
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("cargo sets {name}"))
}

/// FNV-1a of a file: names a build, and protects against nothing but mixing two up.
fn hash(path: &Path) -> u64 {
    let bytes = std::fs::read(path).expect("the agent was built");
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
