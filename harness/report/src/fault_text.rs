//! An injection of a fault in words.

use deposed_history::{Effect, Episode, Value};

use crate::phrase;

/// Longest description, in characters.
const CHARS_MAX: usize = 80;

/// The fault and where: `partition n1 n2 | n3 n4 n5`, `pause n4`.
pub(crate) fn fault_name(episode: &Episode) -> String {
    let place = place(episode);
    let text =
        if place.is_empty() { episode.fault.clone() } else { format!("{} {place}", episode.fault) };
    phrase::cut(&phrase::clean(&text), CHARS_MAX)
}

/// Where it hit: the sides of a partition if the choice has `groups`, else the nodes.
fn place(episode: &Episode) -> String {
    match episode.choice.get("groups").and_then(Value::as_list) {
        Some(groups) => groups.iter().map(group).collect::<Vec<_>>().join(" | "),
        None => episode.nodes.join(" "),
    }
}

fn group(group: &Value) -> String {
    match group.as_list() {
        Some(nodes) => nodes.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" "),
        None => group.to_string(),
    }
}

/// What was seen of it: `proven: 1,204 packets dropped`.
pub(crate) fn bite_text(episode: &Episode) -> String {
    match &episode.bite {
        Some(seen) if !seen.summary.is_empty() => {
            format!("{}: {}", seen.effect, phrase::clean(&seen.summary))
        }
        Some(seen) => seen.effect.to_string(),
        None => "indeterminate: nobody lived to look".into(),
    }
}

/// What was seen of its healing.
pub(crate) fn healing_text(episode: &Episode) -> String {
    match &episode.healing {
        Some(seen) if seen.effect == Effect::Proven && !seen.summary.is_empty() => {
            phrase::clean(&seen.summary)
        }
        Some(seen) => format!("{}: {}", seen.effect, phrase::clean(&seen.summary)),
        None if episode.effect() == Effect::Skipped => "nothing to heal".into(),
        None => "not seen".into(),
    }
}
