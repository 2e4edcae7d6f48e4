//! What a store may not do, and does: it is found, and the report argues it.

use crate::bench::Bench;

/// A lease outlives a leader whose clock is set back (etcd issue 12291): clients find it, a checker says so,
/// and the report argues it and shows how far which clock was off.
#[test]
fn a_lease_outlives_a_clock_that_is_set_back() {
    let bench = Bench::new();
    let faults = "clock:jump=-600s:primaries --fault-every 6s --fault-hold 18s";
    bench
        .run(&format!(
            "run etcd --lab-nodes 3 --workload lease-expiry --time 18s --faults {faults}"
        ))
        .ends_with(1)
        .says(&["INVALID", "lease-expiry", "after the end of the lease of 3.0 s"]);
    let results = bench.json("results.json");
    let check = results["checks"].as_array().unwrap().iter();
    let check = check.map(|check| &check["analysis"]).find(|a| a["checker"] == "lease-expiry");
    let anomalies = check.unwrap()["anomalies"].as_array().unwrap();
    assert!(anomalies.iter().all(|anomaly| anomaly["name"] == "lease-outlived"), "{anomalies:?}");
    let page = std::fs::read_to_string(bench.latest().join("report.html")).unwrap();
    for told in ["the lease did not end", "How far clocks were off", "A lease did not end"] {
        assert!(page.contains(told), "{told}");
    }
}

#[test]
fn reads_that_may_be_old_are_found_out() {
    let bench = Bench::new();
    bench
        .run("run etcd --read serializable --faults partition --time 20s")
        .ends_with(1)
        .says(&["INVALID", "linearizable"]);
    let results = bench.json("results.json");
    assert_eq!(results["verdict"], "invalid");
    let checks = results["checks"].as_array().unwrap();
    let anomalies = checks.iter().flat_map(|check| check["analysis"]["anomalies"].as_array());
    let names: Vec<&str> = anomalies.flatten().map(|a| a["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"stale-read"), "{names:?}");
}

/// Redis promises nothing of what a master acknowledges that is cut off: what is lost is an exposure,
/// counted and explained, with how long that went on. Sentinels that cannot agree whom to promote lose
/// nothing: then it is tried again.
#[test]
fn acknowledged_writes_are_lost_over_a_partition_of_a_master() {
    let bench = Bench::new();
    let lost = (1..=3).any(|seed| {
        bench.run(&format!(
            "run redis-sentinel --workload failover-log --time 9s --seed {seed} \
             --faults partition:primaries --fault-hold 6s --require partition:1 \
             --set down-after-milliseconds=500 --set failover-timeout=1000"
        ));
        let results = bench.json("results.json");
        let mut checks = results["checks"].as_array().unwrap().iter();
        let fencing = checks.find(|check| check["analysis"]["checker"] == "fencing").unwrap();
        let details = &fencing["analysis"]["details"];
        let count = details["exposures"]["lost-acked-write"]["count"].as_u64();
        let window = details["measures"]["lost_acknowledgements_window"]["max_ns"].as_u64();
        assert_eq!(count.is_some(), window.is_some(), "{details}");
        count.is_some()
    });
    assert!(lost, "three runs, and nothing was lost");
    let results = bench.json("results.json");
    assert_eq!(results["verdict"], "valid");
    let reason = results["reason"].as_str().unwrap();
    assert!(reason.contains("Legal here, and dangerous"), "{reason}");
    let report = std::fs::read_to_string(bench.latest().join("report.md")).unwrap();
    for told in ["The store said that the data is safe, and it is gone", "does not have what"] {
        assert!(report.contains(told), "{told} is not in:\n{report}");
    }
}

#[test]
fn protections_are_measured_and_compared_with_what_is_expected() {
    let bench = Bench::new();
    bench
        .run("protections --only locks-token-pause --only mistake-last-token --seconds 8")
        .ends_with(0)
        .says(&["held", "broke", "stale-token-accepted", "all as expected"]);
    let tables = bench.results().join("protections");
    let table = std::fs::read_dir(tables).unwrap().next().unwrap().unwrap().path();
    let page = std::fs::read_to_string(table.join("protections.html")).unwrap();
    let link = page.split("href=\"").find(|part| part.starts_with("locks-token-pause/")).unwrap();
    let report = table.join(link.split('"').next().unwrap());
    assert!(report.is_file(), "{}", report.display());
    bench.run("protections --only nosuchcell").ends_with(4).says(&["nosuchcell", "--list"]);
}
