//! Numbers, times and foreign text as people read them.

use chrono::{DateTime, Utc};

/// `21877` as `21,877`.
pub(crate) fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `3` and `call` as `3 calls`; `1` as `1 call`.
pub(crate) fn counted(n: u64, noun: &str) -> String {
    format!("{} {noun}{}", count(n), if n == 1 { "" } else { "s" })
}

/// A length of time in nanoseconds, to three digits: `870 µs`, `84.3 ms`, `1.84 s`, `2 min 5 s`.
pub(crate) fn duration(ns: u64) -> String {
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => three_digits(ns as f64 / 1e3, "µs"),
        1_000_000..1_000_000_000 => three_digits(ns as f64 / 1e6, "ms"),
        1_000_000_000..120_000_000_000 => three_digits(ns as f64 / 1e9, "s"),
        _ => {
            let seconds = (ns + 500_000_000) / 1_000_000_000;
            format!("{} min {} s", seconds / 60, seconds % 60)
        }
    }
}

fn three_digits(x: f64, unit: &str) -> String {
    let decimals = if x < 9.995 { 2 } else { usize::from(x < 99.95) };
    let number = format!("{x:.decimals$}");
    let number = if number.contains('.') {
        number.trim_end_matches('0').trim_end_matches('.')
    } else {
        &number
    };
    format!("{number} {unit}")
}

/// A moment of the run in nanoseconds since its start, to the millisecond: `12.345 s`.
pub(crate) fn moment(ns: u64) -> String {
    format!("{:.3} s", ns as f64 / 1e9)
}

/// A share as a percentage with one digit; `–` of nothing.
pub(crate) fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "–".into();
    }
    format!("{:.1} %", part as f64 * 100.0 / whole as f64)
}

/// Bytes: `14.2 MB`.
pub(crate) fn bytes(n: u64) -> String {
    match n {
        0..1_000 => format!("{n} B"),
        1_000..1_000_000 => three_digits(n as f64 / 1e3, "kB"),
        1_000_000..1_000_000_000 => three_digits(n as f64 / 1e6, "MB"),
        _ => three_digits(n as f64 / 1e9, "GB"),
    }
}

/// Memory: `4 GiB`.
pub(crate) fn memory(bytes: u64) -> String {
    let mib = bytes as f64 / f64::from(1 << 20);
    if mib < 1024.0 { three_digits(mib, "MiB") } else { three_digits(mib / 1024.0, "GiB") }
}

/// A length of time in milliseconds.
pub(crate) fn duration_ms(ms: u64) -> String {
    match ms {
        0 => "< 1 ms".to_owned(),
        ms => duration(ms.saturating_mul(1_000_000)),
    }
}

/// A point of wall time in UTC, to the millisecond. Nanoseconds since the Unix epoch.
pub(crate) fn wall(ns: i64) -> String {
    DateTime::<Utc>::from_timestamp_nanos(ns).format("%H:%M:%S%.3f").to_string()
}

/// A date and time in UTC, to the second.
pub(crate) fn date(at: &DateTime<Utc>) -> String {
    at.format("%Y-%m-%d %H:%M:%S UTC").to_string()
}

/// Text from outside, on one line: control and direction-changing characters are made visible, so
/// that a log or a value can neither hide nor rearrange what stands around it.
pub(crate) fn clean(text: &str) -> String {
    text.chars().map(|c| if c == '\n' { '\u{fffd}' } else { harmless(c) }).collect()
}

/// The same for a document of many lines, in case something slipped into it.
pub(crate) fn clean_lines(text: &str) -> String {
    text.chars().map(|c| if c == '\n' { c } else { harmless(c) }).collect()
}

fn harmless(c: char) -> char {
    match c {
        '\t' => ' ',
        c if c.is_control() => '\u{fffd}',
        '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => '\u{fffd}',
        '\u{2028}' | '\u{2029}' | '\u{feff}' => '\u{fffd}',
        c => c,
    }
}

/// A key as text: one that is a string loses its quotes.
pub(crate) fn unquoted(text: &str) -> String {
    let inner = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    clean(inner.filter(|inner| !inner.is_empty()).unwrap_or(text))
}

/// At most `chars` characters, the last an ellipsis if something was cut.
pub(crate) fn cut(text: &str, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        None => text.to_owned(),
        Some(_) => {
            let end = text.char_indices().nth(chars.saturating_sub(1)).map_or(0, |(i, _)| i);
            format!("{}…", &text[..end])
        }
    }
}

/// `a`, `a and b`, `a, b and c`.
pub(crate) fn list(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [one] => one.clone(),
        [init @ .., last] => format!("{} and {last}", init.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lengths of time keep three digits in the unit a person would use.
    #[test]
    fn durations_are_short() {
        let said: Vec<String> =
            [0, 870_000, 84_300_000, 1_000_000_000, 1_839_600_000, 61_000_000_000, 125_000_000_000]
                .map(duration)
                .to_vec();
        let want = ["0 ns", "870 µs", "84.3 ms", "1 s", "1.84 s", "61 s", "2 min 5 s"];
        assert_eq!(said, want);
    }

    /// Counts are grouped by thousands.
    #[test]
    fn counts_are_grouped() {
        assert_eq!(
            [7, 999, 1_000, 21_877, 1_234_567].map(count),
            ["7", "999", "1,000", "21,877", "1,234,567"]
        );
    }

    /// Cutting respects characters and says that something is missing.
    #[test]
    fn cutting_is_by_character() {
        assert_eq!(cut("äöü", 3), "äöü");
        assert_eq!(cut("äöüß", 3), "äö…");
        assert_eq!(cut("ab", 0), "…");
    }

    /// Text cannot reverse the line it stands on, nor break it.
    #[test]
    fn foreign_text_is_made_harmless() {
        assert_eq!(clean("a\u{202e}b\nc\u{1b}[31m\td"), "a\u{fffd}b\u{fffd}c\u{fffd}[31m d");
    }
}
