//! A store described by a user's system.toml, whose "store" is a few lines of shell.
//!
//! Needs root. Without it, tests fail; they never pass unseen.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod local_remote;

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use deposed_core::{Cluster, Node, Process, Remote, System, SystemError};
use deposed_workloads::{
    DescribedSystem, LoadError, SystemOptions, load_system, systems, workload, workloads,
};
use local_remote::{cluster, free_ports, nodes};

/// A system.toml and its node. `extra` is put where `@` names a section's body.
struct Rig {
    name: String,
    dir: tempfile::TempDir,
    nodes: Vec<Node>,
    cluster: Cluster,
}

impl Rig {
    fn new(name: &str, count: u8) -> Self {
        let dir = tempfile::tempdir().unwrap();
        // Users other than root must get to their data.
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let nodes = nodes(count);
        let cluster = cluster(&nodes);
        Self { name: name.into(), dir, nodes, cluster }
    }

    /// Writes the file: the smallest there is, with `service` and `rest` added.
    fn load(&self, start: &str, service: &str, rest: &str) -> Result<DescribedSystem, LoadError> {
        let (name, at) = (&self.name, self.dir.path().display());
        let ready =
            if service.contains("ready") { "" } else { "ready = { run = 'true', within = '5s' }" };
        let logs = if rest.contains("[logs]") { "" } else { "[logs]" };
        let text = format!(
            "schema = 1\nname = '{name}'\nsupports = ['read']\n\
             [client]\nrun = ['true']\n\
             [service]\nstart = '''{start}'''\ndata = '{at}/{{{{ node.name }}}}/data'\n\
             {ready}\n{service}\n{rest}\n{logs}\n"
        );
        let text = text.replace("[logs]", &format!("[logs]\ndir = '{at}/{{{{ node.name }}}}/log'"));
        std::fs::write(self.dir.path().join("system.toml"), text).unwrap();
        load_system(self.dir.path().to_str().unwrap(), &self.nodes, &SystemOptions::default())
    }

    fn remote(&self) -> &dyn Remote {
        &**self.cluster.remotes().first().unwrap()
    }

    async fn setup(&self, system: &DescribedSystem) -> Result<(), SystemError> {
        system.db().install(&self.cluster, self.remote()).await?;
        system.db().teardown(&self.cluster, self.remote()).await?;
        system.db().setup(&self.cluster, self.remote()).await
    }

    async fn teardown(&self, system: &DescribedSystem) {
        system.db().teardown(&self.cluster, self.remote()).await.unwrap();
    }

    async fn processes(&self, system: &DescribedSystem) -> Vec<Process> {
        system.db().processes().unwrap().processes(self.remote()).await.unwrap()
    }

    fn path(&self, rest: &str) -> PathBuf {
        self.dir.path().join(&*self.nodes[0].name).join(rest)
    }

    fn pid_file(&self) -> PathBuf {
        Path::new("/run/deposed").join(&self.name).join(&*self.nodes[0].name).join("pid")
    }
}

/// Whatever the test did, nothing of it stays.
impl Drop for Rig {
    fn drop(&mut self) {
        for node in &self.nodes {
            let run = Path::new("/run/deposed").join(&self.name).join(&*node.name);
            if let Ok(text) = std::fs::read_to_string(run.join("pid")) {
                kill("-KILL", &format!("-{}", text.split(' ').next().unwrap()));
            }
            let _ = std::fs::remove_dir_all(&run);
            let _ = std::fs::remove_dir(run.parent().unwrap());
        }
    }
}

fn kill(signal: &str, pid: &str) {
    let _ = std::process::Command::new("kill").args([signal, "--", pid]).output();
}

fn status_field(pid: u32, field: &str) -> String {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap();
    line[field.len()..].trim_matches([':', '\t', ' ']).to_owned()
}

/// Waits, up to five seconds, until something is so.
async fn until(mut so: impl AsyncFnMut() -> bool) {
    let start = Instant::now();
    while !so().await {
        assert!(start.elapsed() < Duration::from_secs(5), "it never came");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Every mistake of a file is reported at once, with line, column and field, before any node is
/// touched; a mistake that concerns some nodes only names them.
#[test]
fn all_mistakes_at_once() {
    let rig = Rig::new("mistaken", 2);
    let text = "schema = 1\nname = 'a b'\n\
        [options.mode]\ndefault = 'x'\nvalues = ['x', 'y']\n\
        [service]\nstart = 's --on {{ nodee.addr }}'\n\
        data = '/var/lib'\n\
        ready = { port = 'client', within = '1s' }\n\
        ports = { other = 70000, third = '{{ node.index }}' }\n\
        [logs]\nfiles = ['{{ data }}/x.log', '{{ options.mod }}']\ncrash = ['a(']\n\
        [primaries]\nclient = true\n\
        [client]\nrun = ['sh']\n";
    let file = rig.dir.path().join("mine.toml");
    std::fs::write(&file, text).unwrap();
    let set = BTreeMap::from([("mode", "z"), ("speed", "1")].map(|(k, v)| (k.into(), v.into())));
    let options = SystemOptions { set, ..SystemOptions::default() };
    let Err(LoadError::Mistakes(lines)) = load_system(file.to_str().unwrap(), &rig.nodes, &options)
    else {
        panic!("it loaded")
    };
    let file = file.display();
    let expected = [
        "a b: option `mode` is x or y, not `z`".to_owned(),
        "a b has no option `speed`; it has mode".to_owned(),
        format!("{file}:2:8: name: use letters, digits, `-`, `_` and `.` only"),
        format!(
            "{file}:7:9: service.start: `nodee` is not a name here; there are data, log, node, \
             nodes, options, others, peers, ports, program"
        ),
        format!(
            "{file}:8:8: service.data: `/var/lib` is too precious to be emptied: name a directory \
             of the store's own"
        ),
        format!("{file}:9:9: service.ready: `client` is none of service.ports"),
        format!("{file}:10:19: service.ports.other: `70000` is not a port"),
        format!("{file}:10:34: service.ports.third: `0` is not a port (on {})", rig.nodes[0].name),
        format!("{file}:12:30: logs.files[1]: `options.mod` is undefined"),
        format!("{file}:13:10: logs.crash: error: unclosed group"),
        format!("{file}:14:1: primaries: `client = true` needs a built-in client"),
        format!(
            "{file}:16:1: client: needs a list `supports` at the top: the operations it performs"
        ),
    ];
    assert_eq!(lines, expected);
}

/// The file that README.md shows is one that loads.
#[test]
fn the_readme_is_true() {
    let rig = Rig::new("readme", 3);
    let readme = include_str!("../README.md");
    let (_, text) = readme.split_once("```toml\n").unwrap();
    std::fs::write(rig.dir.path().join("system.toml"), text.split_once("```").unwrap().0).unwrap();
    std::fs::create_dir(rig.dir.path().join("bin")).unwrap();
    std::fs::write(rig.dir.path().join("bin/mystored"), "").unwrap();
    let options =
        SystemOptions { set: [("mode".into(), "fast".into())].into(), ..Default::default() };
    let system = load_system(rig.dir.path().to_str().unwrap(), &rig.nodes, &options).unwrap();
    assert_eq!(system.name(), "mystore");
    assert_eq!(system.summary().options["mode"].default, "safe");
    assert_eq!(system.options()["mode"], "fast");
    assert!(system.summary().claims["linearizable"].contains("linearizable"));
}

/// Every bundled system loads, on IPv6 too, and every workload can be found by its name.
#[test]
fn what_is_bundled_loads() {
    let node =
        |i: u16| Node { name: format!("n{i}").into(), addr: [0xfd00, 0, 0, 0, 0, 0, 0, i].into() };
    for summary in systems() {
        load_system(&summary.name, &[node(1), node(2)], &SystemOptions::default()).unwrap();
        assert!(!summary.about.is_empty() && !summary.supports.is_empty());
    }
    for listed in workloads() {
        assert_eq!(workload(listed.name()).unwrap().about(), listed.about());
        assert!(!listed.checkers(&deposed_checkers::Claims::default()).is_empty());
    }
}

/// A name that is neither bundled nor a path is answered with the names there are.
#[test]
fn unknown_system() {
    let error = load_system("etdc", &[], &SystemOptions::default()).err().unwrap();
    assert_eq!(
        error.to_string(),
        "no system is called `etdc`: use etcd, redis-sentinel, standby, or the path of a system.toml (with a slash)"
    );
    let error = load_system("./nowhere.toml", &[], &SystemOptions::default()).err().unwrap();
    assert!(matches!(error, LoadError::Unreadable { .. }), "{error}");
}

/// All processes of the service are found, the leader first; those that outlive their leader are
/// still found, and teardown kills every one. Signals reach them as if started by hand.
#[tokio::test]
async fn a_session_is_one_service() {
    let rig = Rig::new("session", 1);
    let system = rig.load("sleep 1000 & sleep 1001 & exec sleep 1002", "", "").unwrap();
    rig.setup(&system).await.unwrap();
    until(async || rig.processes(&system).await.len() == 3).await;
    let processes = rig.processes(&system).await;
    let recorded = std::fs::read_to_string(rig.pid_file()).unwrap();
    assert_eq!(recorded.trim(), format!("{} {}", processes[0].pid, processes[0].start_ticks));
    let ignored = u64::from_str_radix(&status_field(processes[0].pid, "SigIgn"), 16).unwrap();
    assert_eq!(ignored & 0b110, 0, "SIGINT and SIGQUIT are not ignored");

    kill("-KILL", &processes[0].pid.to_string());
    until(async || rig.processes(&system).await.len() == 2).await;
    assert_eq!(rig.processes(&system).await, processes[1..]);
    rig.teardown(&system).await;
    assert!(rig.processes(&system).await.is_empty());
    for process in processes {
        let state = std::fs::read_to_string(format!("/proc/{}/status", process.pid));
        assert!(state.is_err() || state.unwrap().contains("State:\tZ"), "{process:?} lives");
    }
}

/// Many starts at once make one service.
#[tokio::test]
async fn starts_do_not_race() {
    let rig = Rig::new("race", 1);
    let system = rig.load("echo started; exec sleep 1000", "", "").unwrap();
    rig.setup(&system).await.unwrap();
    let control = system.db().processes().unwrap();
    let first = rig.processes(&system).await;
    kill("-KILL", &first[0].pid.to_string());
    until(async || rig.processes(&system).await.is_empty()).await;
    let start = || control.start(&rig.cluster, rig.remote());
    let (a, b, c, d) = tokio::join!(start(), start(), start(), start());
    [a, b, c, d].into_iter().collect::<Result<(), _>>().unwrap();
    let log = rig.path("log/race.log");
    until(async || std::fs::read_to_string(&log).unwrap().matches("started").count() == 2).await;
    assert_eq!(rig.processes(&system).await.len(), 1);
    rig.teardown(&system).await;
}

/// A process that merely has the recorded pid is a stranger: not found, not killed.
#[tokio::test]
async fn strangers_are_left_alone() {
    let rig = Rig::new("stranger", 1);
    let system = rig.load("exec sleep 1000", "", "").unwrap();
    let mut stranger =
        tokio::process::Command::new("setsid").args(["sleep", "1000"]).spawn().unwrap();
    std::fs::create_dir_all(rig.pid_file().parent().unwrap()).unwrap();
    std::fs::write(rig.pid_file(), format!("{} 1\n", stranger.id().unwrap())).unwrap();
    assert!(rig.processes(&system).await.is_empty());
    rig.teardown(&system).await;
    assert!(stranger.try_wait().unwrap().is_none(), "it still runs");
    stranger.kill().await.unwrap();
}

/// A port that somebody else listens on stops setup with the name of the holder, who is left
/// alone; a listener on another node's address is none of this node's business.
#[tokio::test]
async fn a_taken_port_is_named() {
    let rig = Rig::new("ports", 2);
    let [port] = free_ports();
    let system = rig.load("exec sleep 1000", &format!("ports = {{ a = {port} }}"), "").unwrap();
    let elsewhere = std::net::TcpListener::bind((rig.nodes[1].addr, port)).unwrap();
    rig.setup(&system).await.unwrap();
    rig.teardown(&system).await;
    drop(elsewhere);

    let held = std::net::TcpListener::bind(("127.0.0.1", port)).unwrap();
    let error = rig.setup(&system).await.unwrap_err();
    let me = std::fs::read_to_string("/proc/self/comm").unwrap();
    let holder = format!("port {port} is taken by {} (pid {})", me.trim(), std::process::id());
    assert!(matches!(error, SystemError::Unfit { .. }));
    assert!(error.to_string().contains(&holder), "{error}\nlacks {holder}");
    assert!(held.local_addr().is_ok());
    assert!(rig.processes(&system).await.is_empty());
}

/// A service that ends instead of serving is reported at once, with the end of its log.
#[tokio::test]
async fn an_early_end_is_explained() {
    let rig = Rig::new("early", 1);
    let ready = "ready = { run = 'false', within = '60s' }";
    let system = rig.load("echo bad flag --x; exit 1", ready, "").unwrap();
    rig.setup(&system).await.unwrap();
    let start = Instant::now();
    let error = system.db().ready(&rig.cluster, rig.remote()).await.unwrap_err();
    assert!(error.to_string().contains("it ended") && error.to_string().contains("bad flag --x"));
    assert!(start.elapsed() < Duration::from_secs(5));
    rig.teardown(&system).await;
}

/// A service that lives but does not serve is not ready within its limit, and the last look says
/// why; once it listens on its port, it is.
#[tokio::test]
async fn readiness_has_a_limit() {
    let rig = Rig::new("limit", 1);
    let [port] = free_ports();
    let service = format!("ready = {{ port = 'a', within = '400ms' }}\nports = {{ a = {port} }}");
    let system = rig.load("exec sleep 1000", &service, "").unwrap();
    rig.setup(&system).await.unwrap();
    let error = system.db().ready(&rig.cluster, rig.remote()).await.unwrap_err();
    assert!(error.to_string().contains(&format!("nothing listens on port {port}")), "{error}");
    let _listener = std::net::TcpListener::bind((rig.nodes[0].addr, port)).unwrap();
    system.db().ready(&rig.cluster, rig.remote()).await.unwrap();
    rig.teardown(&system).await;
}

/// Uploads, install commands and rendered files are in place when it starts, it runs as its user
/// in its data directory, and old logs are gone.
#[tokio::test]
async fn what_a_service_finds() {
    let rig = Rig::new("finds", 1);
    let at = rig.path("").display().to_string();
    std::fs::write(rig.dir.path().join("tool"), "#!/bin/sh\necho tool runs\n").unwrap();
    std::fs::create_dir_all(rig.path("other")).unwrap();
    std::fs::write(rig.path("other/a.log"), "panic: of an earlier run").unwrap();
    let rest = format!(
        "[install]\nupload = [{{ from = 'tool', to = '{at}/bin/tool', mode = '0755' }}]\n\
         run = ['echo installed > {at}/installed']\n\
         [[files]]\nto = '{at}/etc/conf'\nmode = '0644'\ncontent = '''\nme={{{{ node.name }}}}\n'''\n\
         [logs]\nfiles = ['{at}/other/*.log']\ncrash = ['^panic:']\n"
    );
    let start = format!("{at}/bin/tool; cat {at}/installed {at}/etc/conf; pwd; exec sleep 1000");
    let system = rig.load(&start, "user = 'nobody'", &rest).unwrap();
    rig.setup(&system).await.unwrap();
    let (log, data) = (rig.path("log/finds.log"), rig.path("data"));
    let expected = format!("tool runs\ninstalled\nme={}\n{}\n", rig.nodes[0].name, data.display());
    until(async || std::fs::read_to_string(&log).unwrap() == expected).await;
    let processes = rig.processes(&system).await;
    assert_ne!(status_field(processes[0].pid, "Uid").split('\t').next(), Some("0"));

    assert!(!rig.path("other/a.log").exists());
    std::fs::write(rig.path("other/b.log"), "x").unwrap();
    let logs = system.db().log_files(rig.remote()).await.unwrap();
    let names: Vec<&str> = logs.iter().map(|log| log.name.as_str()).collect();
    assert_eq!(names, ["finds.log", "b.log"]);
    assert_eq!(system.db().crash_patterns(), ["^panic:"]);

    std::fs::create_dir(data.join(".hidden")).unwrap();
    std::fs::write(data.join(".hidden/file"), "x").unwrap();
    rig.teardown(&system).await;
    assert!(data.read_dir().unwrap().next().is_none());
}

/// The stop command is tried first, only if there is something to stop, and need not work.
#[tokio::test]
async fn stop_comes_before_kill() {
    let rig = Rig::new("stopped", 1);
    let at = rig.path("").display().to_string();
    let service = format!("stop = 'echo x >> {at}/stops; exit 1'");
    let system = rig.load("exec sleep 1000", &service, "").unwrap();
    rig.setup(&system).await.unwrap();
    assert!(!rig.path("stops").exists());
    rig.teardown(&system).await;
    assert!(rig.processes(&system).await.is_empty());
    rig.teardown(&system).await;
    assert_eq!(std::fs::read_to_string(rig.path("stops")).unwrap(), "x\n");
}

/// Primaries named by a script, by name or by address, are nodes; a node that cannot be asked in
/// time is passed over.
#[tokio::test]
async fn primaries_by_script() {
    let rig = Rig::new("primaries", 3);
    let run =
        "{{ 'sleep 60' if node.index == 0 else nodes[1].addr if node.index == 1 else 'nobody' }}";
    let rest = format!(
        "[primaries]\nrun = '''{}'''",
        run.replace("nodes[1].addr", "'echo ' ~ nodes[1].addr")
            .replace("'nobody'", "'echo nobody'")
    );
    let system = rig.load("exec sleep 1000", "", &rest).unwrap();
    let primaries = system.db().primaries().unwrap().primaries(&rig.cluster).await.unwrap();
    assert_eq!(primaries, [rig.nodes[1].clone()]);
    let none = rig.load("exec sleep 1000", "", "").unwrap();
    assert!(none.db().primaries().is_none());
}

/// A missing program is an error that names the package, unless installing is allowed.
#[tokio::test]
async fn a_missing_program_names_its_package() {
    let rig = Rig::new("missing", 1);
    let rest = "[install]\npackages = { no-such-program = 'no-such-package', sh = 'dash' }";
    rig.load("exec sleep 1000", "", rest).unwrap();
    let options = SystemOptions { install: false, ..SystemOptions::default() };
    let dir = rig.dir.path().to_str().unwrap();
    let system = load_system(dir, &rig.nodes, &options).unwrap();
    assert_eq!(system.packages()["no-such-program"], "no-such-package");
    let error = system.db().install(&rig.cluster, rig.remote()).await.unwrap_err();
    let text = error.to_string();
    assert!(text.contains("no-such-program missing: apt-get install no-such-package"), "{text}");
}
