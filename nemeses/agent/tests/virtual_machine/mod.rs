//! A machine of its own: it has a clock that may be set, and a kernel with everything Debian has. It boots
//! in some seconds, and dies with its test.

mod image;

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use crate::node::Node;
use image::Image;

/// The first process. Its console is the first serial port; the agent is behind the second, a shell
/// behind the third.
const INIT: &str = r#"#!/bin/busybox sh
/bin/busybox --install -s /bin 2>/dev/null
export PATH=/bin:/sbin:/usr/bin:/usr/sbin
mount -t proc proc /proc; mount -t sysfs sysfs /sys; mount -t devtmpfs dev /dev
for module in $(cat /modules/order); do insmod /modules/$module; done
# Kept open, so that nothing that comes in early is dropped.
exec 7<>/dev/ttyS1 8<>/dev/ttyS2
stty -F /dev/ttyS1 raw -echo; stty -F /dev/ttyS2 raw -echo
chronyd &
while :; do deposed-agent serve </dev/ttyS1 >/dev/ttyS1; done &
echo up >/dev/ttyS2
# Not in this process: it hears of orphans that end, which interrupts a read.
while read -r line; do eval "$line" </dev/null; done </dev/ttyS2 >/dev/ttyS2 2>&1 &
while :; do sleep 1; done
"#;

/// How long an emulated machine may take to boot on a busy one.
const BOOT_WITHIN: Duration = Duration::from_secs(300);

pub(crate) struct VirtualMachine {
    /// Its agent.
    pub(crate) node: Node,
    to: UnixStream,
    from: BufReader<UnixStream>,
}

impl VirtualMachine {
    /// Boots one with some programs of this machine and some modules of its kernel, by name, in the order
    /// in which they are loaded.
    pub(crate) fn boot(programs: &[&str], modules: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let programs = [&[env!("CARGO_BIN_EXE_deposed-agent")], programs].concat();
        let image = Image { init: INIT, programs: &programs, modules, files: &[] };
        let mut command = image.emulator(folder.path());
        let socket = folder.path().join("shell");
        let shell = format!("unix:{},server=on,wait=off", socket.display());
        command.args(["-no-reboot", "-serial", "stdio", "-serial", &shell]);
        let console = folder.path().join("console");
        let node = Node::behind(folder, &mut command);
        let end = Instant::now() + BOOT_WITHIN;
        let to = loop {
            match UnixStream::connect(&socket) {
                Ok(stream) => break stream,
                Err(error) => assert!(Instant::now() < end, "no emulator: {error}"),
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        to.set_read_timeout(Some(BOOT_WITHIN)).unwrap();
        let from = BufReader::new(to.try_clone().unwrap());
        let mut machine = Self { node, to, from };
        let mut line = String::new();
        if machine.from.read_line(&mut line).is_err() || line.trim() != "up" {
            panic!("it said {line:?}\n{}", std::fs::read_to_string(console).unwrap_or_default());
        }
        machine.node.renew(Duration::from_secs(600));
        machine
    }

    /// What a script of one line prints there.
    pub(crate) fn sh(&mut self, script: &str) -> String {
        writeln!(self.to, "{{ {script}; }}; echo; echo '<end>'").unwrap();
        let mut said = String::new();
        while !said.ends_with("<end>\n") {
            assert_ne!(self.from.read_line(&mut said).unwrap(), 0, "it is gone, and said {said}");
        }
        said.trim_end_matches("<end>\n").trim().to_owned()
    }

    /// How far its wall clock is ahead of this machine's, in seconds, and how far off that may be.
    pub(crate) fn ahead(&mut self) -> (f64, f64) {
        let now = || deposed_agent::clock::now_ns() as f64 / 1e9;
        let before = now();
        let said = self.sh("/bin/date +%s.%N");
        let after = now();
        let there: f64 = said.parse().unwrap_or_else(|_| panic!("no time: {said}"));
        (there - (before + after) / 2.0, (after - before) / 2.0)
    }
}
