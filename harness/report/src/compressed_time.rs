//! A time axis for a handful of moments: order is exact, distances are squeezed so that an
//! operation of a millisecond and a silence of ten seconds fit one picture.

/// How long things may become, in the unit of the picture (pixels, characters).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Grain {
    /// Between two neighbouring moments, at least.
    pub(crate) step_min: f64,
    /// Added each time the distance in time grows by a factor of e.
    pub(crate) step_growth: f64,
}

/// A stretch that must be long enough for its label.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stretch {
    pub(crate) from_ns: u64,
    pub(crate) to_ns: u64,
    /// In the unit of the picture.
    pub(crate) length_min: f64,
}

/// Moments and where they are.
#[derive(Debug, Clone)]
pub(crate) struct CompressedTime {
    /// Time and place, both growing.
    pub(crate) stops: Vec<(u64, f64)>,
}

impl CompressedTime {
    /// Places moments from 0 on. Stretches begin and end at moments.
    pub(crate) fn new(moments: &[u64], stretches: &[Stretch], grain: Grain) -> Self {
        let mut moments = moments.to_vec();
        moments.sort_unstable();
        moments.dedup();
        let gaps: Vec<u64> = moments.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let total: u64 = gaps.iter().sum();
        let unit = gaps.iter().copied().min().unwrap_or(1).max(total / 10_000).max(1) as f64;
        let mut steps: Vec<f64> = gaps
            .iter()
            .map(|&gap| grain.step_min + grain.step_growth * (1.0 + gap as f64 / unit).ln())
            .collect();
        for stretch in stretches {
            let from = moments.partition_point(|&m| m < stretch.from_ns);
            let to = moments.partition_point(|&m| m < stretch.to_ns).min(steps.len());
            if from < to {
                let length: f64 = steps[from..to].iter().sum();
                let missing = (stretch.length_min - length).max(0.0) / (to - from) as f64;
                steps[from..to].iter_mut().for_each(|step| *step += missing);
            }
        }
        let mut at = 0.0;
        let mut stops = Vec::with_capacity(moments.len());
        for (i, &moment) in moments.iter().enumerate() {
            stops.push((moment, at));
            at += steps.get(i).copied().unwrap_or(0.0);
        }
        Self { stops }
    }

    /// Where a time is; times outside are at the nearest end.
    pub(crate) fn at(&self, ns: u64) -> f64 {
        let after = self.stops.partition_point(|&(moment, _)| moment < ns);
        match (after.checked_sub(1).map(|i| self.stops[i]), self.stops.get(after)) {
            (None, None) => 0.0,
            (None, Some(&(_, at))) | (Some((_, at)), None) => at,
            (Some((t0, x0)), Some(&(t1, x1))) => {
                x0 + (x1 - x0) * (ns - t0) as f64 / (t1 - t0) as f64
            }
        }
    }

    /// The place of the last moment.
    pub(crate) fn length(&self) -> f64 {
        self.stops.last().map_or(0.0, |&(_, at)| at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRAIN: Grain = Grain { step_min: 10.0, step_growth: 5.0 };

    /// Order is kept, and a long silence does not squeeze the rest out of the picture.
    #[test]
    fn order_is_exact_and_silence_is_short() {
        let time = CompressedTime::new(&[10_000_000_000, 0, 1_000_000], &[], GRAIN);
        let (a, b, c) = (time.at(0), time.at(1_000_000), time.at(10_000_000_000));
        assert!(a == 0.0 && b - a >= 10.0 && c > b, "{a} {b} {c}");
        assert!(c < 100.0, "{c}");
    }

    /// A label fits into its stretch, whatever lies between.
    #[test]
    fn stretches_are_long_enough() {
        let stretch = Stretch { from_ns: 1, to_ns: 5, length_min: 200.0 };
        let time = CompressedTime::new(&[0, 1, 3, 5, 9], &[stretch], GRAIN);
        assert!(time.at(5) - time.at(1) >= 199.9);
    }

    /// Without moments there is an axis of no length, and nothing panics.
    #[test]
    fn nothing_is_fine() {
        let time = CompressedTime::new(&[], &[], GRAIN);
        assert_eq!((time.at(7), time.length()), (0.0, 0.0));
    }
}
