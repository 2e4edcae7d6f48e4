//! What checkers and anomalies mean, for someone who has not met them before.

/// What a checker promises, and what it cannot see.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Property {
    /// What holds if it is satisfied.
    pub(crate) meaning: &'static str,
    /// What would escape it.
    pub(crate) blind_to: &'static str,
}

/// The property a checker checks. An unknown checker gets a general answer.
pub(crate) fn property(checker: &str) -> Property {
    match checker {
        "stats" => Property {
            meaning: "Something was put to the test: every kind of operation succeeded at least \
                      once, and every fault that was asked for was seen to bite.",
            blind_to: "Whether any answer was right: it only counts.",
        },
        "linearizable" => Property {
            meaning: "Every operation seems to happen at one instant between its start and its \
                      end, as if there were a single copy of the data: whoever has been told that \
                      a write is done, or hears of it from another, never sees an older value again.",
            blind_to: "Anything that concerns several keys at once. Operations of unknown outcome \
                       get the benefit of the doubt: each may have happened at any later time, or \
                       never.",
        },
        "crash" | "logs" => Property {
            meaning: "No node wrote that it crashed.",
            blind_to: "Crashes that leave no such line in the logs that were collected.",
        },
        _ => Property {
            meaning: "The history has the property this checker is named after.",
            blind_to: "Anything but that property, and anything that did not happen in this run.",
        },
    }
}

/// What an anomaly means to those who rely on the store. `None` if its name is not known here.
pub(crate) fn anomaly(name: &str) -> Option<&'static str> {
    Some(match name {
        "stale-read" => {
            "A read returned a value that had already been replaced, by a write that was \
             acknowledged before the read began. Someone who was told that the write is done, and \
             then looked, saw the past: a lock that seems still free, a payment that seems not to \
             have happened."
        }
        "lost-acked-write" | "lost-update" => {
            "A write was acknowledged and then had no effect: the store said that the data is \
             safe, and it is gone."
        }
        "phantom-read" | "unwritten-read" => "A read returned a value that nobody had written.",
        "dirty-read" | "G1a" => {
            "A read returned a value of an operation that the store said had failed."
        }
        "future-read" => "A read returned a value before anyone began to write it.",
        "non-linearizable" | "nonlinearizable" | "not-linearizable" => {
            "No order of these operations explains what they returned: there is no single copy \
             of the data that could have answered so."
        }
        "crash" => "A node crashed by itself, not by a fault of ours.",
        _ => return None,
    })
}
