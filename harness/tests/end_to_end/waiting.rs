//! Waiting for what has to come.

use std::time::{Duration, Instant};

/// Waits for something, at most half a minute.
#[track_caller]
pub(crate) fn until(what: &str, happens: impl FnMut() -> bool) {
    within(Duration::from_secs(30), what, happens);
}

#[track_caller]
pub(crate) fn within(limit: Duration, what: &str, mut happens: impl FnMut() -> bool) {
    let end = Instant::now() + limit;
    while !happens() {
        assert!(Instant::now() < end, "{what} did not happen within {limit:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
