//! What is wrong with something the user wrote, and what was probably meant.

use std::fmt;

/// One mistake on the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    /// The text that is wrong, as it was written.
    pub at: String,
    /// What is wrong with it and what would be right.
    pub problem: String,
}

impl Mistake {
    pub(crate) fn new(at: &str, problem: impl Into<String>) -> Self {
        Self { at: at.into(), problem: problem.into() }
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: {}", self.at, self.problem)
    }
}

impl std::error::Error for Mistake {}

/// The candidate that was probably meant.
pub(crate) fn closest<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let likeness = |candidate| (strsim::jaro_winkler(word, candidate), candidate);
    let close = candidates.into_iter().map(likeness).filter(|(likeness, _)| *likeness > 0.75);
    close.max_by(|(a, _), (b, _)| a.total_cmp(b)).map(|(_, candidate)| candidate)
}

/// `did you mean …?` where a candidate is close, else the list of them.
pub(crate) fn suggest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    let candidates: Vec<&str> = candidates.into_iter().collect();
    match closest(word, candidates.iter().copied()) {
        Some(candidate) => format!("did you mean `{candidate}`?"),
        None => format!("known are {}", candidates.join(", ")),
    }
}

/// Reads names of nodes joined by `+`. `words` are what else could have stood here.
pub(crate) fn node_list(
    text: &str,
    nodes: &[String],
    words: &[&str],
) -> Result<Vec<String>, Mistake> {
    let mut names: Vec<String> = Vec::new();
    for name in text.split('+') {
        if !nodes.iter().any(|node| node == name) {
            let known = words.iter().copied().chain(nodes.iter().map(String::as_str));
            let hint = suggest(name, known);
            return Err(match name {
                "" => Mistake::new(text, format!("the name of a node is missing; {hint}")),
                _ => Mistake::new(name, format!("neither a node nor a known word; {hint}")),
            });
        }
        if names.iter().any(|named| named == name) {
            return Err(Mistake::new(text, format!("{name} is named twice")));
        }
        names.push(name.to_owned());
    }
    names.sort();
    Ok(names)
}
