//! What follows the colon of a fault that has words of its own: one of them, whom to hit, or both, with
//! another colon between.

use crate::mistake::{Mistake, closest, suggest};
use crate::target::Target;

/// A word and what it means, for help and completions.
pub(crate) type Word = (&'static str, &'static str);

/// Words of a fault's own, and then those of targets; `N` are all of them.
pub(crate) const fn with_targets<const N: usize>(own: &[Word]) -> [Word; N] {
    assert!(N == own.len() + Target::WORDS.len());
    let mut words = [("", ""); N];
    let mut at = 0;
    while at < N {
        words[at] = if at < own.len() { own[at] } else { Target::WORDS[at - own.len()] };
        at += 1;
    }
    words
}

/// What to say of a word that is none.
pub(crate) struct Unknown<'a> {
    /// What is wrong with it.
    pub(crate) problem: &'a str,
    /// What may have been meant, if it can be listed.
    pub(crate) known: &'a [Word],
}

impl Unknown<'_> {
    fn words(&self) -> impl Iterator<Item = &'static str> {
        self.known.iter().map(|(word, _)| *word)
    }

    fn mistake(&self, at: &str, hint: &str) -> Mistake {
        let separator = if hint.is_empty() { "" } else { "; " };
        Mistake::new(at, format!("{}{separator}{hint}", self.problem))
    }

    /// There should have been a word of the fault's own.
    pub(crate) fn own(&self, at: &str) -> Mistake {
        let hint = if self.known.is_empty() { String::new() } else { suggest(at, self.words()) };
        self.mistake(at, &hint)
    }

    /// There may have been one, or a target, of which something was said already.
    fn either(&self, of_target: Mistake) -> Mistake {
        match closest(&of_target.at, self.words()) {
            Some(near) => self.mistake(&of_target.at, &format!("did you mean `{near}`?")),
            None => of_target,
        }
    }
}

/// Reads `OWN`, `TARGET` or `OWN:TARGET`. `own` returns `None` for a word that is not the fault's own.
pub(crate) fn read<O, T>(
    text: Option<&str>,
    unknown: &Unknown<'_>,
    own: impl FnOnce(&str) -> Option<Result<O, Mistake>>,
    target: impl FnOnce(&str) -> Result<T, Mistake>,
) -> Result<(Option<O>, Option<T>), Mistake> {
    let Some(text) = text else { return Ok((None, None)) };
    let (first, rest) = match text.split_once(':') {
        Some((first, rest)) => (first, Some(rest)),
        None => (text, None),
    };
    match (own(first), rest) {
        (Some(read), rest) => Ok((Some(read?), rest.map(target).transpose()?)),
        (None, Some(_)) => Err(unknown.own(first)),
        (None, None) => match target(text) {
            Ok(target) => Ok((None, Some(target))),
            Err(mistake) => Err(unknown.either(mistake)),
        },
    }
}
