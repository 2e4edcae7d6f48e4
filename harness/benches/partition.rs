//! How long a partition takes, from the decision until the last packet has passed a link that is cut:
//! five nodes of a lab, over SSH, halved again and again.
//!
//! `cargo bench -p deposed --bench partition` cuts 50 times; `-- --cuts 200` cuts more often. It needs root.
//!
//! Three moments are measured, all from the end of the choice: when the fault is written down here, when
//! the last node has said that its rules are in force, and, from outside of any agent, when the last of the
//! datagrams was sent that still passed a cut link. Each node sends one to each other every millisecond.
//! All clocks are this machine's monotonic one.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a bench, not the product")]

use std::collections::BTreeMap;
use std::fs::File;
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use deposed::inventory::NodeSpec;
use deposed::rig;
use deposed_core::{Effect, FaultContext};
use deposed_lab::packages::{self, Install, lab_requirements};
use deposed_lab::{Hub, Lab, LabSpec};
use deposed_nemeses::{Agents, Claims, Entry, Journal, Partition, Undo, parse};
use deposed_workloads::{SystemOptions, load_system};
use nix::sched::{CloneFlags, setns};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

/// Where every node hears the others.
const PORT: u16 = 7999;

/// How often every node sends something to every other.
const SEND_EVERY: Duration = Duration::from_millis(1);

/// When the last datagram was sent that arrived, by receiver and sender, from 0.
type LastPassed = BTreeMap<(usize, usize), Instant>;

/// Sends datagrams from every node to every other, and knows which arrive.
struct Probe {
    last: Arc<Mutex<LastPassed>>,
    over: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Probe {
    fn start(lab: &Lab) -> Self {
        let sockets: Vec<UdpSocket> = lab.nodes().iter().map(|node| socket(node.pid())).collect();
        let addrs: Vec<Ipv4Addr> = lab.nodes().iter().map(deposed_lab::LabNode::v4).collect();
        let (last, over) = (Arc::<Mutex<LastPassed>>::default(), Arc::<AtomicBool>::default());
        let (passed, stop) = (Arc::clone(&last), Arc::clone(&over));
        let start = Instant::now();
        let thread = std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                for (from, socket) in sockets.iter().enumerate() {
                    let sent = start.elapsed().as_nanos() as u64;
                    for (to, addr) in addrs.iter().enumerate().filter(|(to, _)| *to != from) {
                        let datagram = [[from as u64, to as u64], [sent, 0]].concat();
                        let bytes: Vec<u8> =
                            datagram.iter().flat_map(|n| n.to_ne_bytes()).collect();
                        let _ = socket.send_to(&bytes, (*addr, PORT));
                    }
                }
                let mut buffer = [0; 32];
                for socket in &sockets {
                    while socket.recv(&mut buffer).is_ok() {
                        let number = |at: usize| {
                            u64::from_ne_bytes(buffer[at * 8..][..8].try_into().unwrap())
                        };
                        let link = (number(1) as usize, number(0) as usize);
                        let sent = start + Duration::from_nanos(number(2));
                        passed.lock().unwrap().insert(link, sent);
                    }
                }
                std::thread::sleep(SEND_EVERY);
            }
        });
        Self { last, over, thread: Some(thread) }
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(std::thread::JoinHandle::join);
    }
}

/// A socket in the network of a process.
fn socket(pid: i32) -> UdpSocket {
    let open = move || {
        let network = File::open(format!("/proc/{pid}/ns/net")).unwrap();
        setns(network, CloneFlags::CLONE_NEWNET).unwrap();
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, PORT)).unwrap();
        socket.set_nonblocking(true).unwrap();
        socket
    };
    // Namespaces are a thread's.
    std::thread::spawn(open).join().unwrap()
}

fn main() {
    deposed_lab::play_role();
    let args: Vec<String> = std::env::args().collect();
    let cuts = args
        .iter()
        .position(|arg| arg == "--cuts")
        .map_or(50, |at| args.get(at + 1).and_then(|n| n.parse().ok()).expect("--cuts HOW_MANY"));
    let spec = LabSpec::default();
    let tell = &mut |line: &str| println!("{line}");
    packages::ensure(&lab_requirements(&spec), Install::Yes, None, tell).unwrap();
    let hub = Hub::enter().unwrap();
    let lab = Lab::up(&hub, &spec).unwrap();
    let probe = Probe::start(&lab);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mut took = runtime.block_on(cut(&lab, &probe, cuts));
    println!("{cuts} partitions of {} nodes, from the decision, in ms:", spec.nodes);
    tell_of("it is written down here                ", &mut took.written);
    tell_of("the last packet has passed a cut link  ", &mut took.passed);
    tell_of("every node has said that it is in force", &mut took.said);
    println!("load {}", std::fs::read_to_string("/proc/loadavg").unwrap().trim());
}

/// How long each partition took.
#[derive(Default)]
struct Took {
    written: Vec<Duration>,
    passed: Vec<Duration>,
    said: Vec<Duration>,
}

/// Cuts so often.
async fn cut(lab: &Lab, probe: &Probe, cuts: u64) -> Took {
    let specs = lab.nodes().into_iter().map(|node| NodeSpec {
        keys: vec![lab.key()],
        known_hosts: vec![lab.known_hosts()],
        ..NodeSpec::new(node.name(), node.v4().into())
    });
    let (cluster, _) = rig::connect(&specs.collect::<Vec<_>>()).await.unwrap();
    let nodes: Vec<deposed_core::Node> = cluster.nodes().cloned().collect();
    let names: Vec<String> = nodes.iter().map(|node| node.name.to_string()).collect();
    // A partition asks it for nothing: it need not run.
    let system = Arc::new(load_system("standby", &nodes, &SystemOptions::default()).unwrap());
    let cx = FaultContext { cluster, system, own_clocks: Default::default() };
    let lane = parse("partition:halves", &names).unwrap().remove(0);
    let mut nemesis = lane.nemesis(&names, &Claims::default(), &Agents::default()).unwrap();
    nemesis.prepare(&cx).await.unwrap();
    nemesis.baseline(&cx).await.unwrap();
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let journal = Journal::open(&folder.path().join(Journal::NAME)).unwrap();
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut took = Took::default();
    for id in 1..=cuts {
        let choice = nemesis.choose(&cx, &mut rng).await.unwrap();
        let name = format!("partition-{id}");
        let decided = Instant::now();
        let undo = nemesis.undo(&cx, &choice).into_iter();
        let undo = undo.map(|(node, script)| Undo { node, script }).collect();
        let nodes = choice.nodes.clone();
        journal.begin(Entry { id, fault: "partition".into(), nodes, undo }).await.unwrap();
        took.written.push(decided.elapsed());
        nemesis.inject(&cx, &choice, &name).await.unwrap();
        took.said.push(decided.elapsed());
        let seen = nemesis.evidence(&cx, &choice, &name).await.unwrap();
        assert_eq!(seen.effect, Effect::Proven, "{}", seen.summary);
        let drawn: Partition = serde_json::from_value(choice.what.clone()).unwrap();
        let last = probe.last.lock().unwrap().clone();
        let is_cut = |to: usize, from: usize| drawn.grudge.drops(&names[to], &names[from]);
        let cut = last.iter().filter(|((to, from), _)| is_cut(*to, *from)).map(|(_, sent)| *sent);
        took.passed.push(cut.max().unwrap().saturating_duration_since(decided));
        let healed = nemesis.heal(&cx, &choice, &name).await.unwrap();
        assert_eq!(healed.effect, Effect::Proven, "{}", healed.summary);
    }
    took
}

fn tell_of(what: &str, took: &mut [Duration]) {
    took.sort();
    let ms =
        |share: f64| took[((took.len() - 1) as f64 * share).round() as usize].as_secs_f64() * 1e3;
    println!(
        "  {what}  median {:5.1}  p90 {:5.1}  p99 {:5.1}  most {:5.1}",
        ms(0.5),
        ms(0.9),
        ms(0.99),
        ms(1.0)
    );
}
