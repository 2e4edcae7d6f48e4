//! What the store wrote down: the volume's log, the external service's, who was let lead and who took
//! itself for the leader, and the log of each node as it is at the end.

use std::collections::BTreeMap;

use deposed_core::NodeClock;
use deposed_history::fencing::{LogEvent, Seen};
use deposed_history::{Op, Value};
use serde::Deserialize;

use crate::json;

/// The grant by which leaders write to the volume; all others there are locks.
const LEADER: &str = "leader";

/// A line of `volume.jsonl`: somebody tried to write.
#[derive(Deserialize)]
struct Attempt {
    seq: u64,
    wall_ns: i64,
    grant: String,
    token: i64,
    id: String,
    value: serde_json::Value,
    accepted: bool,
}

/// A line of `external.jsonl`: somebody asked for something to be done.
#[derive(Deserialize)]
struct Performance {
    seq: u64,
    wall_ns: i64,
    token: i64,
    id: String,
    value: serde_json::Value,
    performed: bool,
}

/// A line of `grants.jsonl`: a node was let lead.
#[derive(Deserialize)]
struct Promotion {
    wall_ns: i64,
    token: i64,
}

/// A line of `led.jsonl`: a node took itself for the leader.
#[derive(Deserialize)]
struct Led {
    node: String,
    token: i64,
    from_wall_ns: i64,
    wall_ns: i64,
    over_ns: u64,
}

/// The events of a collected file; none if it is no record.
pub(crate) fn read(name: &str, text: &str, clock: &NodeClock) -> Result<Vec<Op>, String> {
    // What was being written when it was collected is not whole.
    let whole = &text[..text.rfind('\n').map_or(0, |at| at + 1)];
    let event = match name {
        "volume.jsonl" => attempt,
        "external.jsonl" => performance,
        "grants.jsonl" => promotion,
        "led.jsonl" => led,
        "log.jsonl" => return snapshots(whole),
        _ => return Ok(Vec::new()),
    };
    let events = (1..).zip(whole.lines()).map(|(number, line)| {
        event(line, clock).map_err(|error| format!("{name}, line {number}: {error}"))
    });
    events.collect()
}

fn attempt(line: &str, clock: &NodeClock) -> serde_json::Result<Op> {
    let line: Attempt = serde_json::from_str(line)?;
    let event = LogEvent::Write {
        resource: if line.grant == LEADER { "volume" } else { &line.grant },
        seq: line.seq,
        token: Some(line.token),
        id: Some(&line.id),
        value: json::to_value(&line.value),
        accepted: line.accepted,
        at: clock.stamp(line.wall_ns),
    };
    Ok(event.to_op())
}

fn performance(line: &str, clock: &NodeClock) -> serde_json::Result<Op> {
    let line: Performance = serde_json::from_str(line)?;
    let event = LogEvent::Write {
        resource: "external",
        seq: line.seq,
        token: Some(line.token),
        id: Some(&line.id),
        value: json::to_value(&line.value),
        accepted: line.performed,
        at: clock.stamp(line.wall_ns),
    };
    Ok(event.to_op())
}

fn promotion(line: &str, clock: &NodeClock) -> serde_json::Result<Op> {
    let line: Promotion = serde_json::from_str(line)?;
    let at = clock.stamp(line.wall_ns);
    Ok(LogEvent::Granted { resource: "volume", token: line.token, at }.to_op())
}

fn led(line: &str, clock: &NodeClock) -> serde_json::Result<Op> {
    let line: Led = serde_json::from_str(line)?;
    // What was before the run is as good as its beginning.
    let [from, noticed] =
        [line.from_wall_ns, line.wall_ns].map(|wall_ns| clock.stamp(wall_ns).unwrap_or_default());
    let to_ns = noticed.at_ns.saturating_sub(line.over_ns);
    let error_ns = from.error_ns.max(noticed.error_ns);
    let event =
        LogEvent::Led { node: &line.node, epoch: line.token, from_ns: from.at_ns, to_ns, error_ns };
    Ok(event.to_op())
}

/// Everything a node has in its log, by list: what is in none of those of the last term is gone.
fn snapshots(text: &str) -> Result<Vec<Op>, String> {
    let mut lists: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut epoch = 0;
    for (number, line) in (1..).zip(text.lines()) {
        // Other entries may have values that are no ids.
        let entry: serde_json::Value =
            serde_json::from_str(line).map_err(|e| format!("log.jsonl, line {number}: {e}"))?;
        epoch = entry["term"].as_i64().unwrap_or(epoch);
        if let (Some(list), Some(id)) = (entry["list"].as_str(), entry["value"].as_str()) {
            lists.entry(list.to_owned()).or_default().push(id.to_owned());
        }
    }
    let snapshot = |(list, ids): (&String, &Vec<String>)| {
        let seen = Seen::Every(ids.iter().map(String::as_str).collect());
        let (node, epoch, value) = (None, Some(epoch), Value::Nil);
        LogEvent::Snapshot { resource: list, node, epoch, seen, value }.to_op()
    };
    Ok(lists.iter().map(snapshot).collect())
}

#[cfg(test)]
mod tests {
    use deposed_history::fencing::Stamp;
    use deposed_history::{Header, History};

    use super::*;

    /// Each record becomes events, with moments of the run's clock; a torn last line is left out.
    #[test]
    fn records_become_events() {
        let clock = NodeClock { zero_ns: 1_000, error_ns: 7, wrong: Vec::new() };
        let volume = r#"{"seq":1,"wall_ns":1005,"grant":"leader","token":3,"id":"a","value":5,"client":"n1","accepted":false}
{"seq":2,"wall_"#;
        let ops = read("volume.jsonl", volume, &clock).unwrap();
        let history = History::from_ops(Header::default(), &ops);
        let LogEvent::Write { resource, token, id, accepted, at, .. } =
            LogEvent::parse(history.op(0)).unwrap()
        else {
            panic!("{ops:?}")
        };
        assert_eq!((resource, token, id, accepted), ("volume", Some(3), Some("a"), false));
        assert_eq!(at, Some(Stamp { at_ns: 5, error_ns: 7 }));
        assert_eq!(ops.len(), 1);

        let grants = "{\"wall_ns\":1,\"token\":3,\"node\":\"n1\"}\n";
        assert_eq!(&*read("grants.jsonl", grants, &clock).unwrap()[0].f, "granted");
        let led = r#"{"node":"n1","token":3,"from_wall_ns":900,"wall_ns":1100,"over_ns":40}"#;
        let ops = read("led.jsonl", &format!("{led}\n"), &clock).unwrap();
        let history = History::from_ops(Header::default(), &ops);
        let expected = LogEvent::Led { node: "n1", epoch: 3, from_ns: 0, to_ns: 60, error_ns: 7 };
        assert_eq!(LogEvent::parse(history.op(0)), Some(expected));
        let log = "{\"term\":1,\"op\":\"nothing\"}\n\
                   {\"term\":2,\"op\":\"append\",\"list\":\"log-0\",\"value\":\"a1\"}\n\
                   {\"term\":2,\"op\":\"write\",\"key\":\"k\",\"value\":7}\n";
        let ops = read("log.jsonl", log, &clock).unwrap();
        let history = History::from_ops(Header::default(), &ops);
        let LogEvent::Snapshot { resource, epoch, seen, .. } =
            LogEvent::parse(history.op(0)).unwrap()
        else {
            panic!("{ops:?}")
        };
        assert_eq!((resource, epoch, seen), ("log-0", Some(2), Seen::Every(vec!["a1"])));

        assert!(read("standby.log", "whatever\n", &clock).unwrap().is_empty());
        assert!(read("volume.jsonl", "{}\n", &clock).unwrap_err().contains("line 1"));
    }
}
