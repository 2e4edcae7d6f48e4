//! Rules that tests break on purpose, to show that the comparison with the definitions finds it.

/// Defines an enum of rules, and `planted`, which asks whether one is broken in this thread; for tests
/// also `plant`, which breaks one, and the list of `ALL`. Outside of tests none is, and asking costs nothing.
macro_rules! plantable {
    ($(#[$about:meta])* pub(crate) enum $bug:ident { $($(#[$rule:meta])* $name:ident,)+ }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum $bug {
            $($(#[$rule])* $name,)+
        }

        #[cfg(test)]
        impl $bug {
            /// Every one of them.
            #[allow(dead_code, reason = "where one comparison cannot find all, each names its own")]
            pub(crate) const ALL: &[Self] = &[$(Self::$name,)+];
        }

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
