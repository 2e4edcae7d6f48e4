//! A machine of its own, emulated without any help of this one's processor: it has a clock that may be
//! set, and a kernel with everything Debian has. It boots in some seconds, and dies with its test.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::node::Node;

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

/// What stands for a daemon that keeps the clock right: its name is all that counts.
const CHRONYD: &str = "#!/bin/sh\nwhile :; do sleep 1; done\n";

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
        install();
        let folder = tempfile::tempdir().unwrap();
        let (kernel, release) = kernel();
        let image = folder.path().join("initrd");
        write_image(&folder.path().join("root"), &image, &release, programs, modules);
        let socket = folder.path().join("shell");
        let mut command = Command::new("setpriv");
        command
            .args(["--pdeathsig", "KILL", "qemu-system-x86_64", "-accel", "tcg", "-m", "384"])
            .args(["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"])
            .args(["-append", "console=ttyS0 panic=-1", "-kernel"])
            .arg(kernel)
            .arg("-initrd")
            .arg(image)
            .args(["-serial", &format!("file:{}/console", folder.path().display())])
            .args(["-serial", "stdio", "-serial"])
            .arg(format!("unix:{},server=on,wait=off", socket.display()));
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

fn install() {
    let needed = [
        ("qemu-system-x86_64", "qemu-system-x86"),
        ("busybox", "busybox-static"),
        ("cpio", "cpio"),
        ("tc", "iproute2"),
    ];
    let has = |program: &str| {
        let path = std::env::var("PATH").unwrap_or_default();
        std::env::split_paths(&path).any(|folder| folder.join(program).exists())
    };
    let lacking = needed.iter().filter(|(program, _)| !has(program)).map(|(_, package)| *package);
    let kernel = std::fs::read_dir("/boot").is_ok_and(|mut files| {
        files
            .any(|file| file.is_ok_and(|f| f.file_name().to_string_lossy().contains("cloud-amd64")))
    });
    let packages: Vec<&str> =
        lacking.chain((!kernel).then_some("linux-image-cloud-amd64")).collect();
    if packages.is_empty() {
        return;
    }
    for args in [
        vec!["update", "-qq"],
        [&["install", "-y", "-qq", "--no-install-recommends"], &packages[..]].concat(),
    ] {
        let done = Command::new("apt-get").args(args).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }
}

/// The newest kernel of that kind, and its release.
fn kernel() -> (PathBuf, String) {
    let files = std::fs::read_dir("/boot").unwrap().flatten().map(|file| file.path());
    let kernels = files.filter_map(|path| {
        let release = path.file_name()?.to_str()?.strip_prefix("vmlinuz-")?.to_owned();
        release.contains("cloud-amd64").then_some((path, release))
    });
    kernels.max().expect("the package has a kernel")
}

/// Makes the file system it lives in: a few programs with the libraries they need.
fn write_image(root: &Path, image: &Path, release: &str, programs: &[&str], modules: &[&str]) {
    for folder in ["bin", "sbin", "usr", "proc", "sys", "dev", "run", "var/lib", "tmp", "modules"] {
        std::fs::create_dir_all(root.join(folder)).unwrap();
    }
    let script = |path: &str, text: &str| {
        std::fs::write(root.join(path), text).unwrap();
        std::fs::set_permissions(root.join(path), PermissionsExt::from_mode(0o755)).unwrap();
    };
    script("init", INIT);
    script("bin/chronyd", CHRONYD);
    let agent = env!("CARGO_BIN_EXE_deposed-agent");
    for program in [&[agent, "/bin/busybox", "/bin/date"], programs].concat() {
        let name = Path::new(program).file_name().unwrap();
        std::fs::copy(program, root.join("bin").join(name)).unwrap();
        let needs = Command::new("ldd").arg(program).output().unwrap();
        let needs = String::from_utf8_lossy(&needs.stdout).into_owned();
        for library in needs.split_whitespace().filter(|word| word.starts_with('/')) {
            let to = root.join(library.trim_start_matches('/'));
            std::fs::create_dir_all(to.parent().unwrap()).unwrap();
            std::fs::copy(library, to).unwrap();
        }
    }
    for module in modules {
        let found = Command::new("find")
            .arg(format!("/lib/modules/{release}"))
            .args(["-name", &format!("{module}.ko")])
            .output()
            .unwrap();
        let found = String::from_utf8_lossy(&found.stdout).trim().to_owned();
        assert!(!found.is_empty(), "{release} has no module {module}");
        std::fs::copy(found, root.join(format!("modules/{module}.ko"))).unwrap();
    }
    let order: Vec<String> = modules.iter().map(|module| format!("{module}.ko")).collect();
    std::fs::write(root.join("modules/order"), order.join("\n")).unwrap();
    let pack = "cd \"$1\" && find . | cpio -o -H newc --quiet >\"$2\"";
    let packed = Command::new("sh").args(["-c", pack, "sh"]).args([root, image]).status().unwrap();
    assert!(packed.success(), "the image was not packed");
}
