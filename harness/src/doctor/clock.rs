//! How far a node's clock is from ours.
//!
//! The node reads its clock somewhere between our question and its answer, so the middle is wrong by
//! no more than half the round trip. The shortest of a few round trips is the one to believe.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use deposed_core::{Command, Remote, RemoteError};

/// How many round trips are tried.
const ROUNDS: usize = 5;

/// A node's clock minus ours, in seconds, and by how much that may be wrong.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Offset {
    pub(super) seconds: f64,
    pub(super) error_seconds: f64,
}

/// Measures a node's offset.
pub(super) async fn measure(remote: &dyn Remote) -> Result<Offset, RemoteError> {
    let mut best: Option<Offset> = None;
    for _ in 0..ROUNDS {
        let (asked, began) = (SystemTime::now(), Instant::now());
        let answer = remote.run(Command::new("date +%s.%N").idempotent()).await?;
        let offset = offset(asked, began.elapsed(), answer.parse().unwrap_or(f64::NAN));
        if best.is_none_or(|best| offset.error_seconds < best.error_seconds) {
            best = Some(offset);
        }
    }
    Ok(best.expect("ROUNDS is not 0"))
}

fn offset(asked: SystemTime, round_trip: Duration, node_seconds: f64) -> Offset {
    let half = round_trip.as_secs_f64() / 2.0;
    let asked = asked.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    Offset { seconds: node_seconds - (asked + half), error_seconds: half }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_offset_is_taken_in_the_middle_of_the_round_trip() {
        let asked = UNIX_EPOCH + Duration::from_secs(1000);
        let Offset { seconds, error_seconds } = offset(asked, Duration::from_millis(200), 1002.1);
        assert!((seconds - 2.0).abs() < 1e-6 && (error_seconds - 0.1).abs() < 1e-9);
    }
}
