//! Sizes that a checker measured: windows, delays, margins, as count, quantiles and a curve.

use deposed_checkers::Analysis;
use serde_json::Value;

use crate::{Report, phrase};

/// One distribution, as it stands in the details of an analysis. Nanoseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Distribution {
    /// How many values.
    pub count: u64,
    /// The smallest.
    pub min_ns: i64,
    /// Half of them are at most this.
    pub p50_ns: i64,
    /// 99 of a hundred are at most this.
    pub p99_ns: i64,
    /// The greatest.
    pub max_ns: i64,
    /// Every value, or every percentile, ascending.
    pub curve_ns: Vec<i64>,
}

impl Distribution {
    /// Reads one; `None` if it is none, or of nothing.
    pub fn read(value: &Value) -> Option<Self> {
        let int = |name: &str| value.get(name)?.as_i64();
        let curve = value.get("curve_ns")?.as_array()?;
        Some(Self {
            count: value.get("count")?.as_u64().filter(|&count| count > 0)?,
            min_ns: int("min_ns")?,
            p50_ns: int("p50_ns")?,
            p99_ns: int("p99_ns")?,
            max_ns: int("max_ns")?,
            curve_ns: curve.iter().filter_map(Value::as_i64).collect(),
        })
    }

    /// `up to 1.2 s, 300 ms in the middle, 7 times`.
    pub fn in_words(&self) -> String {
        let (max, middle) = (signed(self.max_ns), signed(self.p50_ns));
        match self.count {
            1 => format!("{max}, once"),
            n => format!("up to {max}, {middle} in the middle, {} times", phrase::count(n)),
        }
    }
}

/// All sizes in the details of an analysis: of measures, and of exposures, which are legal.
fn measures(analysis: &Analysis) -> Vec<(String, Distribution)> {
    let part = |name: &str| analysis.details.get(name).and_then(Value::as_object);
    let measures = part("measures").into_iter().flatten();
    let measures = measures.map(|(name, sizes)| (name, Distribution::read(sizes)));
    let exposures = part("exposures").into_iter().flatten();
    let exposures = exposures
        .map(|(name, exposure)| (name, exposure.get("sizes").and_then(Distribution::read)));
    let known = measures.chain(exposures).filter_map(|(name, sizes)| Some((name.clone(), sizes?)));
    known.collect()
}

impl Report<'_> {
    /// What all checkers measured.
    pub(crate) fn measures(&self) -> Vec<(String, Distribution)> {
        self.run.checks.iter().flat_map(|check| measures(&check.analysis)).collect()
    }
}

/// A length of time that may be negative, as a margin that was missed is.
pub(crate) fn signed(ns: i64) -> String {
    let length = phrase::duration(ns.unsigned_abs());
    if ns < 0 { format!("−{length}") } else { length }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// What a checker wrote is read; what is no distribution is not.
    #[test]
    fn distributions_are_read() {
        let value = json!({
            "count": 2, "curve_ns": [-5_000_000, 7_000_000], "min_ns": -5_000_000,
            "p50_ns": 7_000_000, "p99_ns": 7_000_000, "max_ns": 7_000_000
        });
        let read = Distribution::read(&value).unwrap();
        assert_eq!(read.curve_ns, [-5_000_000, 7_000_000]);
        assert!(read.in_words().contains("2 times"), "{}", read.in_words());
        assert!(signed(read.min_ns).starts_with('−'));
        assert_eq!(Distribution::read(&json!({ "count": 0 })), None);
        assert_eq!(Distribution::read(&json!(7)), None);
    }
}
