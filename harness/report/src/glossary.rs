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
    let (meaning, blind_to) = match checker {
        "stats" => (
            "Something was put to the test: every kind of operation succeeded at least once, and \
             every fault that was asked for was seen to bite.",
            "Whether any answer was right: it only counts.",
        ),
        "linearizable" => (
            "Every operation seems to happen at one instant between its start and its end, as if \
             there were a single copy of the data: whoever has been told that a write is done, or \
             hears of it from another, never sees an older value again.",
            "Anything that concerns several keys at once. Operations of unknown outcome get the \
             benefit of the doubt: each may have happened at any later time, or never.",
        ),
        "set-full" => (
            "What was added and acknowledged stays in the set: every later read sees it.",
            "Elements that no read could have seen, and those whose add has an unknown outcome.",
        ),
        "total-queue" => (
            "What was put into the queue and acknowledged comes out of it, and nothing else does.",
            "The order in which elements come out, and losses that a dequeue of unknown outcome \
             may explain.",
        ),
        "counter-bounds" => (
            "Every read of the counter lies between what must and what may have been added.",
            "Wrong values that happen to lie within these bounds.",
        ),
        "lease-expiry" => (
            "What was put under a lease that nobody renewed was gone soon after its end, and not \
             before.",
            "Keys that nobody looked at in time, and leases whose begin has an unknown outcome. \
             Whatever may have made another node lead gives a lease its whole length again.",
        ),
        "unique-ids" => ("No id is handed out twice.", "Anything else about the ids."),
        "availability" => (
            "The share of calls that succeeded was as high as was asked for.",
            "Whether any answer was right: it only counts.",
        ),
        "fencing" => (
            "A leader or holder that was deposed does no harm: tokens grow, resources refuse old \
             ones, two do not hold or lead at once, and what was acknowledged survives, each as \
             far as the system claims it.",
            "What no client, no log of a resource and no record of the service tells. What is \
             dangerous though legal is an exposure, and measured.",
        ),
        "log-patterns" => (
            "No node wrote that it crashed.",
            "Crashes that leave no such line in the logs that were collected.",
        ),
        _ => (
            "The history has the property this checker is named after.",
            "Anything but that property, and anything that did not happen in this run.",
        ),
    };
    Property { meaning, blind_to }
}

/// What an anomaly means to those who rely on the store. `None` if its name is not known here.
pub(crate) fn anomaly(name: &str) -> Option<&'static str> {
    Some(match name {
        "stale-read" | "stale-element" => {
            "A read returned the past: a change that had been acknowledged before the read began \
             was not in it. Someone who was told that it is done, and then looked, did not see \
             it: a lock seems still free, a payment seems not to have happened."
        }
        "lost-update" => {
            "Two clients changed the same value, each told that nobody had come in between. One \
             of the changes is gone, though both were acknowledged: two customers hold the same \
             last ticket."
        }
        "lost-element" | "lost-acked-write" => {
            "The store said that the data is safe, and it is gone: it was acknowledged and never \
             seen again."
        }
        "read-of-unwritten-value" | "unexpected-element" => {
            "A read returned a value that nobody can have written: it was made up, or comes from \
             an operation that the store said had failed."
        }
        "future-read" => "A read returned a value before anyone began to write it.",
        "duplicate-elements" => "What was added once is there more than once.",
        "duplicate-id" => "Two clients hold the same id, each believing that it is theirs alone.",
        "counter-out-of-bounds" => {
            "A counter was read that no selection of the additions explains: some were lost, or \
             counted twice."
        }
        "not-linearizable" => {
            "No order of these operations explains what they returned: there is no single copy \
             of the data that could have answered so."
        }
        "stale-token-accepted" | "token-regression" => {
            "Somebody who no longer led or held the lock wrote all the same, and the resource took \
             it: the work of two is mixed in one place."
        }
        "duplicate-token" | "token-grant-order" | "unissued-token" => {
            "Tokens do not tell who came later, so that nothing that compares them can keep the \
             earlier one out."
        }
        "mutual-exclusion" | "lease-overlap" | "held-twice" => {
            "Two held the lock at once, each believing that it was alone."
        }
        "dual-leader" | "dual-leader-effect" => {
            "Two nodes led at once. Whoever was still connected to the old one was answered by a \
             leader that was none."
        }
        "stale-read-under-lease" => {
            "A read returned the past: what had been acknowledged before it began was not in it."
        }
        "lease-outlived" => {
            "A lease did not end: its holder may be long dead, and still the lock it stands for is \
             not given to anybody else."
        }
        "lease-cut-short" => {
            "A lease ended before its time: its holder still acts on it while another may hold it \
             too."
        }
        "duplicate-apply" => "What was asked for once was done twice.",
        "overclaimed-lease" => {
            "A client held its lease for valid when it was certainly over, and acted on it."
        }
        "crash" => "A node crashed by itself, not by a fault that was injected.",
        _ => return None,
    })
}

/// What a measured length of time is of.
pub(crate) fn measure(name: &str) -> &'static str {
    match name {
        "two_leaders_window" => {
            "from the first call a new leader served to the last its predecessor did"
        }
        "two_leaders_believed_window" => "two nodes held themselves for leaders at once",
        "acknowledged_then_refused_window" => {
            "the old leader acknowledged writes that the resource then refused"
        }
        "lost_acknowledgements_window" => {
            "one leader acknowledged what is gone, from the first to the last"
        }
        "lease_outlived" => "a key was still there so long after its lease was over",
        "takeover_to_first_refusal" => "from a takeover to the old leader's first refused write",
        "takeover_to_step_down" => "from a takeover to when the old leader stepped down",
        "lease_handover_margin" => {
            "left between the end of a lease, as its holder reckons, and the next holder's begin: \
             so much more pause or skew would have broken it"
        }
        "stale-token-after-newer-grant" => {
            "a write was accepted so long after a newer token had been granted"
        }
        "stale-read-under-lease" => {
            "a read missed what had been acknowledged so long before it began"
        }
        "dual-leader-effect" => "a deposed leader served so long after its successor had",
        "dual-leader" => "two leaders served in turns for so long",
        "overclaimed-lease" => "a lease was taken for valid so long after its end",
        "mutual-exclusion" | "lease-overlap" => "two held it at once for so long",
        "lost-notification" => "a grant was renewed so long after its end",
        _ => "",
    }
}
