//! Columns of numbers that are close to their neighbours: where each few of them start, and by how
//! much each differs from there, in fewer bits.

/// How many numbers share a start.
const RUN: usize = 64;

/// A difference in few bits.
pub(crate) trait Step: Copy + PartialEq + TryFrom<i64> + Into<i64> {
    /// Stands for a number that is too far away.
    const FAR: Self;
}

impl Step for i16 {
    const FAR: Self = Self::MIN;
}

impl Step for i32 {
    const FAR: Self = Self::MIN;
}

/// Numbers that are close to their neighbours; those that are not take more room.
#[derive(Debug)]
pub(crate) struct Near<S> {
    /// The first number of each run.
    starts: Vec<u64>,
    /// From the start of its run to each number.
    steps: Vec<S>,
    /// Numbers too far from the start of their run, by position, ascending.
    far: Vec<(u32, u64)>,
}

impl<S> Default for Near<S> {
    fn default() -> Self {
        Self { starts: Vec::new(), steps: Vec::new(), far: Vec::new() }
    }
}

impl<S: Step> Near<S> {
    pub(crate) fn with_capacity(count: usize) -> Self {
        Self {
            starts: Vec::with_capacity(count.div_ceil(RUN)),
            steps: Vec::with_capacity(count),
            far: Vec::new(),
        }
    }

    pub(crate) const fn len(&self) -> usize {
        self.steps.len()
    }

    #[inline]
    pub(crate) fn push(&mut self, number: u64) {
        let at = self.steps.len();
        if at.is_multiple_of(RUN) {
            self.starts.push(number);
        }
        let difference = number.wrapping_sub(self.starts[at / RUN]).cast_signed();
        let step = S::try_from(difference).unwrap_or(S::FAR);
        if step == S::FAR {
            self.far.push((at as u32, number));
        }
        self.steps.push(step);
    }

    #[inline]
    pub(crate) fn get(&self, at: usize) -> u64 {
        let step = self.steps[at];
        if step == S::FAR {
            return self.far(at);
        }
        self.starts[at / RUN].wrapping_add(step.into().cast_unsigned())
    }

    #[cold]
    fn far(&self, at: usize) -> u64 {
        let found = self.far.binary_search_by_key(&at, |&(position, _)| position as usize);
        self.far[found.expect("what is far is listed")].1
    }

    /// Appends what another column has from a position on.
    pub(crate) fn append(&mut self, other: &Self, from: usize) {
        self.steps.reserve(other.len().saturating_sub(from));
        (from..other.len()).for_each(|at| self.push(other.get(at)));
    }

    /// Gives back room that was kept for more.
    pub(crate) fn freeze(&mut self) {
        self.starts.shrink_to_fit();
        self.steps.shrink_to_fit();
        self.far.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn numbers() -> impl Strategy<Value = Vec<u64>> {
        let edges = [0, 1 << 15, 1 << 16, 1 << 31, 1 << 32, 1 << 63, u64::MAX];
        let number = (0..edges.len(), -2_i64..3)
            .prop_map(move |(edge, by)| u64::wrapping_add_signed(edges[edge], by));
        prop::collection::vec(number, 0..300)
    }

    proptest! {
        /// Whatever the numbers are, near or far, they come back, also from a column that was
        /// appended to another.
        #[test]
        fn numbers_come_back(numbers in numbers(), from in 0_usize..300) {
            fn come_back<S: Step>(numbers: &[u64], from: usize) {
                let mut column = Near::<S>::default();
                numbers.iter().for_each(|&number| column.push(number));
                let from = from.min(numbers.len());
                let mut more = Near::<S>::with_capacity(3);
                [7, 8, 9].into_iter().for_each(|number| more.push(number));
                more.append(&column, from);
                let all = |column: &Near<S>| (0..column.len()).map(|at| column.get(at)).collect();
                let (back, appended): (Vec<u64>, Vec<u64>) = (all(&column), all(&more));
                assert_eq!(back, numbers);
                assert_eq!(appended, [&[7, 8, 9], &numbers[from..]].concat());
            }
            come_back::<i16>(&numbers, from);
            come_back::<i32>(&numbers, from);
        }
    }

    /// What is near takes the room of its step alone.
    #[test]
    fn near_numbers_are_not_listed() {
        let mut column = Near::<i32>::default();
        for at in 0..1000 {
            column.push((1 << 60) + at * 20_000_000 - at % 2 * 70_000_000);
        }
        assert!(column.far.is_empty());
        column.push(0);
        assert_eq!(column.far.len(), 1);
    }
}
