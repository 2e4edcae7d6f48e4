//! Columns of few different numbers: a byte each says which.

/// Numbers of which few are different; where many are, each is spelt out.
#[derive(Debug, Default)]
pub(crate) struct Few {
    /// The different numbers, in the order in which they first came up.
    known: Vec<u32>,
    /// Of each number, its place among those.
    codes: Vec<u8>,
    /// Every number, once there were too many different ones.
    all: Vec<u32>,
}

impl Few {
    /// How many different numbers a byte tells apart.
    const KNOWN_MAX: usize = 1 << u8::BITS;

    pub(crate) fn with_capacity(count: usize) -> Self {
        Self { codes: Vec::with_capacity(count), ..Self::default() }
    }

    pub(crate) const fn len(&self) -> usize {
        if self.all.is_empty() { self.codes.len() } else { self.all.len() }
    }

    #[inline]
    pub(crate) fn get(&self, at: usize) -> u32 {
        if self.all.is_empty() { self.known[usize::from(self.codes[at])] } else { self.all[at] }
    }

    #[inline]
    pub(crate) fn push(&mut self, number: u32) {
        match self.code(number) {
            Some(code) => self.codes.push(code),
            None => self.all.push(number),
        }
    }

    /// The place of a number among the known, new or old. `None` if all are spelt out.
    #[inline]
    fn code(&mut self, number: u32) -> Option<u8> {
        if self.all.is_empty()
            && let Some(code) = self.known.iter().position(|&known| known == number)
        {
            return Some(code as u8);
        }
        self.new_code(number)
    }

    #[cold]
    fn new_code(&mut self, number: u32) -> Option<u8> {
        if self.all.is_empty() && self.known.len() < Self::KNOWN_MAX {
            self.known.push(number);
            return Some((self.known.len() - 1) as u8);
        }
        if self.all.is_empty() {
            let codes = std::mem::take(&mut self.codes);
            self.all = codes.into_iter().map(|code| self.known[usize::from(code)]).collect();
        }
        None
    }

    /// Appends another column, whose numbers have others here.
    pub(crate) fn append(&mut self, other: &Self, moved: impl Fn(u32) -> u32) {
        let codes: Option<Vec<u8>> = Some(&other.known)
            .filter(|_| other.all.is_empty())
            .and_then(|known| known.iter().map(|&number| self.code(moved(number))).collect());
        match codes {
            Some(codes) => {
                self.codes.extend(other.codes.iter().map(|&code| codes[usize::from(code)]));
            }
            None => (0..other.len()).for_each(|at| self.push(moved(other.get(at)))),
        }
    }

    /// Gives back room that was kept for more.
    pub(crate) fn freeze(&mut self) {
        self.codes.shrink_to_fit();
        self.all.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Numbers come back, few or many, also from columns that were appended to each other.
        #[test]
        fn numbers_come_back(different in 1_u32..1000, cut in 0_usize..1200, by in 0_u32..400) {
            let numbers: Vec<u32> = (0..1200).map(|at| at * 7919 % different).collect();
            let [mut column, mut other] = [Few::default(), Few::default()];
            numbers[..cut].iter().for_each(|&number| column.push(number));
            numbers[cut..].iter().for_each(|&number| other.push(number));
            column.append(&other, |number| number + by);
            prop_assert_eq!(column.len(), numbers.len());
            for (at, &number) in numbers.iter().enumerate() {
                prop_assert_eq!(column.get(at), if at < cut { number } else { number + by });
            }
        }
    }
}
