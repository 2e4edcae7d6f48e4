//! What a reader needs beside the findings: how to see them again, and what not to conclude.

use crate::witness::Witness;
use crate::{Ending, Report, phrase};

/// A command and what it does.
#[derive(Debug, Clone)]
pub(crate) struct Recipe {
    pub(crate) what: String,
    pub(crate) command: String,
}

impl Report<'_> {
    /// How to judge it again, run it again, and see the lines of the witness.
    pub(crate) fn recipes(&self, witness: Option<&Witness>) -> Vec<Recipe> {
        let plan = self.run.plan;
        let recipe = |what: &str, command: String| Recipe { what: what.into(), command };
        let mut recipes = vec![
            recipe(
                "Judge the recorded history again: needs no cluster, gives the same answer",
                format!("deposed check {}", plan.id),
            ),
            recipe(
                "Run the same plan again: same choices, though not the same interleaving",
                format!("deposed run --plan {}", plan.id),
            ),
        ];
        if !plan.argv.is_empty() {
            recipes.push(recipe("What was typed, with the seed it got", self.typed()));
        }
        if let Some(witness) = witness {
            let lines: Vec<String> =
                witness.ops.iter().map(|op| format!("{}p", history_line(op.index))).collect();
            recipes.push(recipe(
                "See the lines of the history that begin the calls of the proof",
                format!("zstdcat history.jsonl.zst | sed -n '{}'", lines.join(";")),
            ));
        }
        recipes
    }

    fn typed(&self) -> String {
        let plan = self.run.plan;
        let mut words: Vec<String> = plan.argv.iter().map(|word| shell_word(word)).collect();
        let seeded = plan.argv.iter().any(|w| w == "--seed" || w.starts_with("--seed="));
        if !seeded {
            words.push(format!("--seed {}", plan.seed));
        }
        words.join(" ")
    }

    /// What the verdict rests on and what it does not say.
    pub(crate) fn limits(&self) -> Vec<String> {
        let plan = self.run.plan;
        let mut limits: Vec<String> = vec![
            "A run can prove that an error is there, never that none is: “no violation found” is \
             not “correct”."
                .into(),
            "All times come from one monotonic clock in the controller, read just before and just \
             after each client call. An operation can only look longer than it was, never \
             shorter, so an order shown here is a real order; ties count as concurrent."
                .into(),
            "The clocks of nodes are never compared with it. Log lines carry their node's own \
             time and may be off by as much as that clock."
                .into(),
            format!(
                "An operation is “fail” only if it certainly did not happen. Anything else that \
                 is not a clear success, such as no answer within {}, is “info”: it may have \
                 happened, may happen later, or never.",
                phrase::duration_ms(plan.limits.op_ms)
            ),
            "The seed decides what is tried and when. It does not decide how messages and threads \
             interleave, so a repeat may end differently."
                .into(),
        ];
        match self.run.ending {
            Ending::Normal => {}
            Ending::Interrupted { by } => limits.push(format!(
                "The run was stopped early by {}; what was recorded until then was judged.",
                phrase::clean(by)
            )),
            Ending::Infrastructure { reason } => limits.push(format!(
                "The run failed, not the store: {}. What was recorded until then was judged.",
                phrase::clean(reason)
            )),
            Ending::Bug { reason } => limits.push(format!(
                "The run ended by a bug of deposed: {}. What was recorded until then was judged.",
                phrase::clean(reason)
            )),
            Ending::Untold => {
                limits.push("How the run ended is not known; the history may be cut short.".into())
            }
        }
        limits
    }
}

/// The line of `history.jsonl` that has an index: the header is line 1.
const fn history_line(index: u64) -> u64 {
    index + 2
}

/// A word as a shell reads it back.
fn shell_word(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=./:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", phrase::clean(word).replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pasted command line means what was typed.
    #[test]
    fn words_survive_a_shell() {
        assert_eq!(shell_word("--faults=kill,pause:one"), "--faults=kill,pause:one");
        assert_eq!(shell_word("it's $HOME"), "'it'\\''s $HOME'");
        assert_eq!(shell_word(""), "''");
    }
}
