//! From values to places, and round numbers to label an axis with.

/// A linear map of a range of values to a range of places.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Linear {
    pub(crate) from: (f64, f64),
    pub(crate) to: (f64, f64),
}

impl Linear {
    /// The place of a value.
    pub(crate) fn at(&self, x: f64) -> f64 {
        let width = self.from.1 - self.from.0;
        let share = if width > 0.0 { (x - self.from.0) / width } else { 0.0 };
        self.to.0 + share * (self.to.1 - self.to.0)
    }
}

/// At most `count` round numbers from 0 to at least `max`: steps of 1, 2 or 5 times a power of ten.
pub(crate) fn ticks(max: f64, count: usize) -> Vec<f64> {
    let step = round_step(max / count.max(1) as f64);
    let steps = (max / step).ceil().max(1.0) as usize;
    (0..=steps).map(|i| i as f64 * step).collect()
}

/// The smallest of 1, 2, 5 times a power of ten that is at least `least`.
pub(crate) fn round_step(least: f64) -> f64 {
    if least <= 0.0 || !least.is_finite() {
        return 1.0;
    }
    let power = 10f64.powf(least.log10().floor());
    let factor = [1.0, 2.0, 5.0].into_iter().find(|f| f * power >= least * 0.999_999);
    factor.unwrap_or(10.0) * power
}

/// A coordinate with one decimal and nothing superfluous.
pub(crate) fn px(x: f64) -> String {
    let text = format!("{x:.1}");
    match text.strip_suffix(".0") {
        Some("-0") => "0".into(),
        Some(whole) => whole.into(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ticks are round and reach the maximum.
    #[test]
    fn ticks_are_round() {
        assert_eq!(ticks(30.0, 6), [0.0, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0]);
        assert_eq!(ticks(0.0, 4), [0.0, 1.0]);
        assert!(ticks(311.0, 4).last().is_some_and(|&top| top >= 311.0));
    }

    /// Coordinates are short.
    #[test]
    fn coordinates_are_short() {
        assert_eq!([0.0, -0.02, 12.34, 5.96].map(px), ["0", "0", "12.3", "6"]);
    }
}
