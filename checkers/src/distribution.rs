//! A distribution of measured values, as reports plot it.

use serde_json::json;

/// Percentiles of a distribution with more values than these.
const PERCENTILES: usize = 100;

/// Count, median, 99th percentile and bounds, and the whole distribution to plot: every value if
/// they are few, else its percentiles from 0 to 100, ascending.
pub(crate) fn distribution(values: &[i64]) -> serde_json::Value {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let Some(last) = sorted.len().checked_sub(1) else { return json!({ "count": 0 }) };
    let at = |percent: usize| sorted[(last * percent).div_ceil(100)];
    let curve: Vec<i64> =
        if last <= PERCENTILES { sorted.clone() } else { (0..=PERCENTILES).map(at).collect() };
    json!({
        "count": values.len(),
        "curve_ns": curve,
        "max_ns": at(100),
        "min_ns": at(0),
        "p50_ns": at(50),
        "p99_ns": at(99),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Few values are all shown, many as percentiles.
    #[test]
    fn distributions_are_short() {
        assert_eq!(distribution(&[])["count"], 0);
        let few = distribution(&[3, 1, 2]);
        assert_eq!(few["curve_ns"], json!([1, 2, 3]));
        assert_eq!(
            (&few["p50_ns"], &few["p99_ns"], &few["max_ns"]),
            (&json!(2), &json!(3), &json!(3))
        );
        let many = distribution(&(0..=10_000).rev().collect::<Vec<i64>>());
        assert_eq!(many["curve_ns"].as_array().map(Vec::len), Some(101));
        assert_eq!(many["p99_ns"], 9_900);
    }
}
