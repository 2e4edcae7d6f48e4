//! The queueing disciplines of a network device, by the node's own `tc`.

use serde::Deserialize;

use crate::tool::Tool;
use crate::{Failure, Result};

/// What `tc -j -s qdisc show` says of one.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Discipline {
    /// `netem`, `fq_codel` …
    pub(super) kind: String,
    /// `de05:`; `0:` where nobody has set it up.
    pub(super) handle: String,
    /// Whether everything that the device sends goes through it.
    #[serde(default)]
    pub(super) root: bool,
    /// How many packets have gone through it.
    #[serde(default)]
    pub(super) packets: u64,
    /// How many are held in it.
    #[serde(default, rename = "qlen")]
    pub(super) held: u64,
    /// How many it has lost.
    #[serde(default)]
    pub(super) drops: u64,
}

/// Those of a device. None where there is no such device any more.
pub(super) fn of(device: &str) -> Result<Vec<Discipline>> {
    if !std::path::Path::new("/sys/class/net").join(device).exists() {
        return Ok(Vec::new());
    }
    let said = Tool::new("tc").args(["-j", "-s", "qdisc", "show", "dev", device]).run()?;
    read(&said).map_err(|error| Failure::new(format!("read the queues of {device}"), error))
}

fn read(said: &str) -> serde_json::Result<Vec<Discipline>> {
    serde_json::from_str(said)
}

/// Has `tc` do some commands, one after the other, up to the first that fails.
pub(super) fn change(commands: &[String]) -> Result<()> {
    Tool::new("tc").args(["-batch", "-"]).input(commands.join("\n") + "\n").run().map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is set up, and by whom, is read; whatever else stands there.
    #[test]
    fn disciplines_are_read() {
        let said = r#"[{"kind":"prio","handle":"de05:","root":true,"refcnt":2,
            "options":{"bands":2,"priomap":[0,0]},"bytes":0,"packets":7,"drops":0},
            {"kind":"netem","handle":"de11:","parent":"de05:2","options":{"limit":1000,
            "delay":{"delay":0.05,"jitter":0,"correlation":0}},"bytes":9,"packets":5,"drops":3,"qlen":4}]"#;
        let prio = Discipline {
            kind: "prio".into(),
            handle: "de05:".into(),
            root: true,
            packets: 7,
            held: 0,
            drops: 0,
        };
        let netem = Discipline {
            kind: "netem".into(),
            handle: "de11:".into(),
            root: false,
            packets: 5,
            held: 4,
            drops: 3,
        };
        assert_eq!(read(said).unwrap(), [prio, netem]);
        let untouched = r#"[{"kind":"noqueue","handle":"0:","root":true,"options":{}}]"#;
        assert_eq!(read(untouched).unwrap()[0].handle, "0:");
    }
}
