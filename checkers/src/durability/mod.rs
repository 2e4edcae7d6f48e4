//! What was acknowledged must still be there: checkers that count rather than search.
//!
//! - [`SetFull`]: every acknowledged element of a set is seen by every later read.
//! - [`TotalQueue`]: every acknowledged element comes out once.
//! - [`CounterBounds`]: every read of a counter lies between what must and what may have been added.
//! - [`UniqueIds`]: no id is handed out twice.
//! - [`LeaseExpiry`]: what is under a lease goes with it, not earlier, not much later.
//! - [`Availability`]: how much of the load was answered, and whether that was enough.

mod availability;
mod counter_bounds;
mod lease_expiry;
mod planted;
mod set_full;
#[cfg(test)]
mod tests;
mod total_queue;
mod unique_ids;
mod verify;

pub use availability::Availability;
pub use counter_bounds::CounterBounds;
pub use lease_expiry::LeaseExpiry;
pub use set_full::SetFull;
pub use total_queue::TotalQueue;
pub use unique_ids::UniqueIds;

use deposed_history::{History, Outcome, Symbol};

use crate::Undecided;

/// At most this many anomalies of one kind are listed; all are counted.
const LISTED_MAX: usize = 16;

/// What is said where no call of any of these functions succeeded.
fn vacuous(history: &History, functions: &[&str]) -> Option<Undecided> {
    let mut are: Vec<_> = functions.iter().map(|name| is_f(history, name)).collect();
    let mut ok = history.calls().iter().filter(|call| call.outcome() == Outcome::Ok);
    let succeeded = ok.any(|call| are.iter_mut().any(|is| is(call.invoke)));
    (!succeeded).then(|| {
        Undecided::whole(history, format!("vacuous: no {} succeeded", functions.join(" or ")))
    })
}

/// Tells calls of one function from others without comparing text for each.
fn is_f<'h>(history: &'h History, name: &'h str) -> impl FnMut(u32) -> bool + 'h {
    let mut known: Vec<(Symbol, bool)> = Vec::new();
    move |position| {
        let op = history.op(position);
        let symbol = op.f_symbol();
        if let Some(&(_, is)) = known.iter().find(|(s, _)| *s == symbol) {
            return is;
        }
        let is = op.f() == name;
        known.push((symbol, is));
        is
    }
}
