//! A lab that stays up while a test goes on.

use std::process::Command;

use crate::bench::{Bench, Ran};

/// A lab in the background with what etcd needs; it is gone with this, also where a test fails.
pub(crate) struct LabUp<'a> {
    bench: &'a Bench,
    pub(crate) name: String,
}

impl<'a> LabUp<'a> {
    /// One whose name begins with a word.
    pub(crate) fn new(bench: &'a Bench, word: &str, nodes: u8) -> Self {
        let lab = Self { bench, name: format!("{word}{}", std::process::id()) };
        bench.run(&format!("lab up --nodes {nodes} --for etcd --name {}", lab.name)).ends_with(0);
        lab
    }

    /// The binary in the lab's network.
    pub(crate) fn deposed(&self, words: &str) -> Command {
        let (name, binary) = (&self.name, env!("CARGO_BIN_EXE_deposed"));
        self.bench.deposed(&format!("lab exec --name {name} -- {binary} {words}"))
    }

    pub(crate) fn run(&self, words: &str) -> Ran {
        Ran::of(self.deposed(words).output().unwrap())
    }

    /// A script on a node.
    pub(crate) fn ssh(&self, node: &str, script: &str) -> Command {
        let mut ssh = self.bench.deposed(&format!("lab ssh --name {} {node}", self.name));
        ssh.arg(script);
        ssh
    }

    pub(crate) fn on(&self, node: &str, script: &str) -> Ran {
        Ran::of(self.ssh(node, script).output().unwrap())
    }
}

impl Drop for LabUp<'_> {
    fn drop(&mut self) {
        let down = self.bench.run(&format!("lab down --name {}", self.name));
        if !std::thread::panicking() {
            down.ends_with(0);
        }
    }
}
