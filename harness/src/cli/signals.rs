//! Ctrl-C and its relatives.

use std::io;

use tokio::signal::unix::{SignalKind, signal};

use super::note;
use crate::exit;
use crate::run::{Interrupt, Urgency};

/// What SIGTERM is called in an ending.
pub(super) const TERMINATE: &str = "SIGTERM";

/// Turns signals into interrupts: the first ends the run in its own time, the second heals only,
/// the third leaves at once.
/// `advice` says what to do about faults that may still be in force then.
pub(super) fn listen(interrupt: &Interrupt, advice: String) -> io::Result<()> {
    let mut signals = [
        ("SIGINT", exit::INTERRUPTED, signal(SignalKind::interrupt())?),
        (TERMINATE, exit::TERMINATED, signal(SignalKind::terminate())?),
        ("SIGHUP", exit::TERMINATED, signal(SignalKind::hangup())?),
    ];
    let interrupt = interrupt.clone();
    tokio::spawn(async move {
        loop {
            let [int, term, hup] = &mut signals;
            let (name, code) = tokio::select! {
                _ = int.2.recv() => (int.0, int.1),
                _ = term.2.recv() => (term.0, term.1),
                _ = hup.2.recv() => (hup.0, hup.1),
            };
            if interrupt.urgency() == Urgency::HealOnly {
                note(&format!("left at once; {advice}"));
                std::process::exit(i32::from(code));
            }
            match interrupt.raise(name) {
                Urgency::HealOnly => {
                    note("interrupted again: healing only; once more to leave at once")
                }
                _ => note(
                    "interrupted: stopping, healing, judging what is there; again to heal only",
                ),
            }
        }
    });
    Ok(())
}
