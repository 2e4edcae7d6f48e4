//! An injection of a fault in words.

use deposed_history::{Effect, Episode, Value};

use crate::phrase;

/// Longest description, in characters.
const CHARS_MAX: usize = 80;

/// The fault, where, and what made it choose so: `partition n1 n2 | n3 n4 n5 (halves)`,
/// `pause n4 (primaries)`.
pub(crate) fn fault_name(episode: &Episode) -> String {
    let said = |key| episode.choice.get(key).and_then(Value::as_str);
    let mut text = episode.fault.clone();
    let place = said("cut").map_or_else(|| episode.nodes.join(" "), str::to_owned);
    for (open, word, close) in [(" ", place.as_str(), ""), (" (", how(&said), ")")] {
        if !word.is_empty() {
            text.push_str(open);
            text.push_str(word);
            text.push_str(close);
        }
    }
    phrase::cut(&phrase::clean(&text), CHARS_MAX)
}

/// The word for how the place was chosen: the shape of a partition, the target of the rest.
fn how<'v>(said: &impl Fn(&'static str) -> Option<&'v str>) -> &'v str {
    said("shape").or_else(|| said("target")).unwrap_or("")
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
