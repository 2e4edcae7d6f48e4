//! What an emulated machine boots: a kernel of Debian's, and a file system in memory with a few of this
//! machine's programs.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What is in its file system, besides busybox.
pub(crate) struct Image<'a> {
    /// The first process, a script.
    pub(crate) init: &'a str,
    /// Programs of this machine, which go to `/bin` with the libraries they need.
    pub(crate) programs: &'a [&'a str],
    /// Modules of its kernel, by name, in the order in which they are loaded.
    pub(crate) modules: &'a [&'a str],
    /// Other files, with their modes.
    pub(crate) files: &'a [(&'a str, &'a [u8], u32)],
}

/// What stands for a daemon that keeps the clock right: its name is all that counts.
const CHRONYD: &str = "#!/bin/sh\nwhile :; do sleep 1; done\n";

impl Image<'_> {
    /// Packs it in a folder and says how to boot it; its first serial port is written to `console` there.
    /// It is emulated without any help of this machine's processor, and dies with the thread that starts
    /// it.
    pub(crate) fn emulator(&self, folder: &Path) -> Command {
        install();
        let (kernel, release) = kernel();
        let image = folder.join("initrd");
        self.write(&folder.join("root"), &image, &release);
        let mut command = Command::new("setpriv");
        command
            .args(["--pdeathsig", "KILL", "qemu-system-x86_64", "-accel", "tcg", "-m", "384"])
            .args(["-nodefaults", "-no-user-config", "-display", "none"])
            .args(["-append", "console=ttyS0 panic=-1", "-kernel"])
            .arg(kernel)
            .arg("-initrd")
            .arg(image)
            .args(["-serial", &format!("file:{}", folder.join("console").display())]);
        command
    }

    fn write(&self, root: &Path, image: &Path, release: &str) {
        for folder in
            ["bin", "sbin", "usr", "proc", "sys", "dev", "run", "var/lib", "tmp", "modules"]
        {
            std::fs::create_dir_all(root.join(folder)).unwrap();
        }
        let scripts = [("init", self.init, 0o755), ("bin/chronyd", CHRONYD, 0o755)];
        let scripts = scripts.map(|(path, text, mode)| (path, text.as_bytes(), mode));
        for (path, bytes, mode) in scripts.iter().chain(self.files) {
            let to = root.join(path);
            std::fs::create_dir_all(to.parent().unwrap()).unwrap();
            std::fs::write(&to, bytes).unwrap();
            std::fs::set_permissions(to, PermissionsExt::from_mode(*mode)).unwrap();
        }
        for program in [&["/bin/busybox", "/bin/date"], self.programs].concat() {
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
        for module in self.modules {
            let found = Command::new("find")
                .arg(format!("/lib/modules/{release}"))
                .args(["-name", &format!("{module}.ko")])
                .output()
                .unwrap();
            let found = String::from_utf8_lossy(&found.stdout).trim().to_owned();
            assert!(!found.is_empty(), "{release} has no module {module}");
            std::fs::copy(found, root.join(format!("modules/{module}.ko"))).unwrap();
        }
        let order: Vec<String> = self.modules.iter().map(|module| format!("{module}.ko")).collect();
        std::fs::write(root.join("modules/order"), order.join("\n")).unwrap();
        let pack = "cd \"$1\" && find . | cpio -o -H newc --quiet >\"$2\"";
        let packed =
            Command::new("sh").args(["-c", pack, "sh"]).args([root, image]).status().unwrap();
        assert!(packed.success(), "the image was not packed");
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
