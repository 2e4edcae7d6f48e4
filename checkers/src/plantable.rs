//! Rules that tests break on purpose, to show that the comparison with the definitions finds it.

/// Defines `planted`, which asks whether a rule is broken in this thread, and in tests `plant`, which breaks
/// one. Outside of tests there is none, and asking costs nothing.
macro_rules! plantable {
    ($bug:ident) => {
        /// Whether a rule is broken in this thread.
        #[cfg(not(test))]
        pub(crate) const fn planted(_bug: $bug) -> bool {
            false
        }

        #[cfg(test)]
        thread_local! {
            static PLANTED: std::cell::Cell<Option<$bug>> = const { std::cell::Cell::new(None) };
        }

        /// Whether a rule is broken in this thread.
        #[cfg(test)]
        pub(crate) fn planted(bug: $bug) -> bool {
            PLANTED.get() == Some(bug)
        }

        /// Breaks a rule in this thread, and no other.
        #[cfg(test)]
        pub(crate) fn plant(bug: Option<$bug>) {
            PLANTED.set(bug);
        }
    };
}

pub(crate) use plantable;
