//! Names for several lanes at once, with a pace: `--faults storm`.

use std::time::Duration;

use crate::schedule::Timing;
use crate::spec::KINDS;

/// Several lanes under one name.
pub struct Preset {
    /// Its word.
    pub name: &'static str,
    /// What it does, in a line.
    pub about: &'static str,
    /// Its pace, unless the user says otherwise.
    pub timing: Timing,
    lanes: fn() -> Vec<String>,
}

const fn pace(every_s: u64, hold_s: u64) -> Timing {
    Timing {
        every: Duration::from_secs(every_s),
        hold: Duration::from_secs(hold_s),
        quiet: Duration::from_secs(2),
    }
}

/// What every store that claims to be replicated is to survive, however it is combined.
fn survivable() -> Vec<String> {
    ["partition", "kill", "pause"].map(str::to_owned).to_vec()
}

/// Every fault that can be aimed at who leads.
fn at_primaries() -> Vec<String> {
    KINDS
        .iter()
        .filter(|kind| survivable().iter().any(|name| name == kind.name))
        .filter(|kind| kind.words.iter().any(|(word, _)| *word == "primaries"))
        .map(|kind| format!("{}:primaries", kind.name))
        .collect()
}

impl Preset {
    /// All of them.
    pub const ALL: [Self; 3] = [
        Self {
            name: "storm",
            about: "partitions, kills and pauses of any shape, fast, one upon another",
            timing: pace(5, 3),
            lanes: survivable,
        },
        Self {
            name: "calm",
            about: "the same, seldom, with time to recover in between",
            timing: pace(45, 5),
            lanes: survivable,
        },
        Self {
            name: "leader-hunt",
            about: "whoever leads is cut off, killed or stopped, again and again",
            timing: pace(8, 4),
            lanes: at_primaries,
        },
    ];

    /// The preset of that name, if there is one.
    pub fn named(name: &str) -> Option<&'static Self> {
        const { &Self::ALL }.iter().find(|preset| preset.name == name.trim())
    }

    /// Its lanes, as for `--faults`.
    pub fn faults(&self) -> String {
        (self.lanes)().join(",")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every preset is a list of faults that can be injected into a cluster of three nodes.
    #[test]
    fn presets_are_faults() {
        let nodes: Vec<String> = (1..=3).map(|i| format!("n{i}")).collect();
        for preset in &Preset::ALL {
            let lanes = crate::parse(&preset.faults(), &nodes).unwrap();
            assert_eq!(lanes.len(), 3, "{}", preset.name);
            assert!(preset.timing.hold < preset.timing.every);
            assert!(KINDS.iter().all(|kind| kind.name != preset.name));
            assert!(Preset::named(preset.name).is_some());
        }
    }
}
