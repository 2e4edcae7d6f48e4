//! What the exit codes mean. They are part of the interface: a night's scheduler decides by them.

use deposed_checkers::Verdict;

/// Every checker was satisfied, and something was put to the test.
pub const VALID: u8 = 0;
/// A violation was found.
pub const INVALID: u8 = 1;
/// Not decided, or nothing was put to the test; the reason is named.
pub const UNKNOWN: u8 = 2;
/// The lab, a node or a package failed. Trying again makes sense.
pub const INFRASTRUCTURE: u8 = 3;
/// The selection was empty: no such checker, no such cell.
pub const NOTHING_SELECTED: u8 = 4;
/// Wrong flags, wrong configuration, unreadable input.
pub const USAGE: u8 = 64;
/// A bug of ours.
pub const BUG: u8 = 70;
/// Interrupted once by Ctrl-C (128 + SIGINT); what was recorded is kept, healed and judged.
pub const INTERRUPTED: u8 = 130;
/// Ended by SIGTERM (128 + SIGTERM), with the same care.
pub const TERMINATED: u8 = 143;

/// The code of a verdict.
pub const fn of(verdict: Verdict) -> u8 {
    match verdict {
        Verdict::Valid => VALID,
        Verdict::Unknown => UNKNOWN,
        Verdict::Invalid => INVALID,
    }
}
