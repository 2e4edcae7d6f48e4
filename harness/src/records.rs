//! The second history: what the system and its resources wrote down of what truly happened, added
//! to what the clients saw.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{BufReader, Write};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use deposed_core::{Command, NodeClock, Remote};
use deposed_history::{Op, ReadOptions, episodes, jsonl, read};
use futures_util::future::join_all;

use crate::logs::Logs;
use crate::rig::Rig;
use crate::run::HISTORY;

/// How long a node may take to tell the time.
const CLOCK_LIMIT: Duration = Duration::from_secs(2);
/// A node is asked so often; the quickest answer says most.
const CLOCK_LOOKS: usize = 3;

/// Adds the events of all records among the collected logs to the end of the recorded history,
/// and says how many there are. `end` is the number of events so far, and the time of the end.
///
/// # Errors
/// With what cannot be read, understood or written. The history is then as it was.
pub(crate) async fn append(
    rig: &Rig,
    folder: &Path,
    logs: &Logs,
    end: (u64, u64),
) -> Result<usize, String> {
    let Some(records) = rig.system.records() else { return Ok(0) };
    let path = folder.join(HISTORY);
    let recorded = File::open(&path).map_err(|e| format!("open {}: {e}", path.display()))?;
    let recorded = read(BufReader::new(recorded), &ReadOptions::default());
    let history = recorded.map_err(|e| format!("the history: {e}"))?.history;
    let start_ns = history.header().start_wall_ns.unwrap_or(0);
    let mut wrong = deposed_nemeses::wrong_times(&episodes(&history), end.1);
    let clocks = join_all(rig.cluster.remotes().iter().map(|remote| async move {
        Some((remote.node().name.to_string(), clock(&**remote, start_ns).await?))
    }));
    let mut clocks: BTreeMap<String, NodeClock> = clocks.await.into_iter().flatten().collect();
    for (node, clock) in &mut clocks {
        clock.wrong = wrong.remove(node).unwrap_or_default();
    }
    let mut ops = Vec::new();
    for (node, file) in logs.files() {
        let Some(clock) = clocks.get(node) else { continue };
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let bytes = fs::read(&file).map_err(|e| format!("read {}: {e}", file.display()))?;
        let read = records.read(&name, &String::from_utf8_lossy(&bytes), clock);
        for op in read.map_err(|why| format!("{node}: {why}"))? {
            ops.push(Op { node: Some(node.into()), ..op });
        }
    }
    let (first, time) = end;
    let mut bytes = Vec::new();
    for (index, op) in (first..).zip(&mut ops) {
        (op.index, op.time) = (index, time);
        jsonl::write_op(&mut bytes, op);
    }
    let file = OpenOptions::new().append(true).open(&path);
    let written = file.and_then(|mut file| file.write_all(&bytes).and_then(|()| file.sync_all()));
    written.map_err(|e| format!("write {}: {e}", path.display()))?;
    Ok(ops.len())
}

/// How the wall clock of a node stands to the run's, by asking it. What a fault did to it during the
/// run and undid is not seen by that.
async fn clock(remote: &dyn Remote, start_ns: i64) -> Option<NodeClock> {
    let mut best: Option<NodeClock> = None;
    for _ in 0..CLOCK_LOOKS {
        let before = wall_ns();
        let command = Command::new("date +%s%N").idempotent().deadline(CLOCK_LIMIT);
        let there: i64 = remote.run(command).await.ok()?.trim().parse().ok()?;
        let after = wall_ns();
        let offset = there - (before + (after - before) / 2);
        let error_ns = u64::try_from(after - before).unwrap_or(u64::MAX).div_ceil(2);
        if best.as_ref().is_none_or(|best| error_ns < best.error_ns) {
            let zero_ns = start_ns + offset;
            best = Some(NodeClock { zero_ns, error_ns, wrong: Vec::new() });
        }
    }
    best
}

fn wall_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}
