//! The bundled description renders, whatever is chosen.

use std::collections::BTreeMap;

use deposed_core::{Node, System};

use crate::{SystemOptions, describe_system, load_system};

fn nodes(count: usize) -> Vec<Node> {
    let node = |i| Node { name: format!("n{i}").into(), addr: [10, 0, 0, i as u8].into() };
    (1..=count).map(node).collect()
}

fn options(set: &[(&str, &str)]) -> SystemOptions {
    let set = set.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    SystemOptions { set, ..SystemOptions::default() }
}

/// The command that starts a node, with the options.
fn start(nodes: &[Node], index: usize, set: &[(&str, &str)]) -> String {
    let system = load_system("standby", nodes, &options(set)).unwrap();
    let control = system.db().processes().unwrap();
    let cluster = deposed_core::Cluster::new(Vec::new());
    control.start_script(&cluster, &nodes[index]).unwrap()
}

/// Every value of every option is understood, on clusters of any size.
#[test]
fn every_option_renders() {
    let summary = describe_system("standby").unwrap();
    for count in [1, 2, 3, 4, 5, 7] {
        let nodes = nodes(count);
        load_system("standby", &nodes, &options(&[])).unwrap();
        for (name, option) in &summary.options {
            for value in &option.values {
                load_system("standby", &nodes, &options(&[(name, value)])).unwrap();
            }
        }
    }
}

/// Of five nodes three store, one observes and one is the volume; a single one is everything.
#[test]
fn roles_are_spread() {
    let five = nodes(5);
    let role = |index| {
        let script = start(&five, index, &[]);
        let from = script.rfind("--role ").unwrap() + "--role ".len();
        script[from..].split(['\n', '\'']).next().unwrap().to_owned()
    };
    let roles = [0, 1, 2, 3, 4].map(role);
    assert_eq!(roles, ["node", "node", "node", "observer", "volume,external"]);
    assert!(start(&nodes(1), 0, &[]).contains("--role node,observer,volume,external"));
    let powered = start(&five, 0, &[("fencing", "power-off")]);
    assert!(powered.contains("--role power") && powered.contains("--role supervisor,node"));
    assert!(!start(&five, 0, &[]).contains("power\n"));
    assert!(!start(&five, 0, &[]).contains("--mistake"));
    assert!(start(&five, 0, &[("mistake", "last-token")]).contains("--mistake last-token"));
}

/// What is claimed follows from what was chosen.
#[test]
fn guarantees_follow_the_options() {
    let claims = |set: &[(&str, &str)]| {
        *load_system("standby", &nodes(5), &options(set)).unwrap().guarantees()
    };
    let quorum = claims(&[]);
    assert!(quorum.mutex && quorum.fencing && quorum.durability && quorum.linearizable_reads);
    assert_eq!(quorum.lease, None);
    let lease = claims(&[("failover", "lease"), ("fencing", "none")]);
    assert_eq!(lease.lease.map(|lease| lease.clock_error_ms), Some(250));
    assert!(lease.fencing);
    let timeout = claims(&[("failover", "timeout"), ("fencing", "none"), ("acks", "local")]);
    assert!(!timeout.fencing && !timeout.durability && !timeout.linearizable_reads);
    let set: BTreeMap<_, _> = [("external".to_owned(), "plain".to_owned())].into();
    let plain = SystemOptions { set, ..SystemOptions::default() };
    let plain = load_system("standby", &nodes(5), &plain).unwrap();
    assert!(!plain.guarantees().writes_once);
    assert!(plain.records().is_some());
}
