//! What is dangerous and breaks no promise: exposures, as checkers list them in their details.

use deposed_checkers::{Analysis, Anomaly};
use serde::Deserialize;

use crate::{Report, phrase};

/// All of one name in one analysis.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct Exposure {
    /// Its name: that of the violation it would be where it is promised not to happen.
    #[serde(skip)]
    pub(crate) name: String,
    /// How often.
    pub(crate) count: u64,
    /// The first few.
    pub(crate) examples: Vec<Anomaly>,
}

impl Exposure {
    /// `2,829 lost-acked-write`.
    pub(crate) fn in_words(&self) -> String {
        format!("{} {}", phrase::count(self.count), phrase::clean(&self.name))
    }
}

/// What is said for it: of the calls, and why their order cannot be.
pub(crate) fn argument(example: &Anomaly) -> impl Iterator<Item = &str> {
    let because = example.edges.iter().map(|edge| edge.because.as_str());
    example.sentences.iter().map(String::as_str).chain(because)
}

/// Those of an analysis; what is in no known shape is left out.
fn of(analysis: &Analysis) -> Vec<Exposure> {
    let all = analysis.details.get("exposures").and_then(serde_json::Value::as_object);
    let read = |(name, value): (&String, &serde_json::Value)| {
        let exposure = Exposure::deserialize(value).ok()?;
        Some(Exposure { name: name.clone(), ..exposure })
    };
    all.into_iter().flatten().filter_map(read).collect()
}

impl Report<'_> {
    /// Those of all checkers.
    pub(crate) fn exposures(&self) -> Vec<Exposure> {
        self.run.checks.iter().flat_map(|check| of(&check.analysis)).collect()
    }

    /// All of them in a sentence, with a space before it; empty if there are none.
    pub(crate) fn exposed_sentence(&self) -> String {
        let all: Vec<String> = self.exposures().iter().map(Exposure::in_words).collect();
        match all[..] {
            [] => String::new(),
            _ => format!(" Legal here, and dangerous: {}.", phrase::list(&all)),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// What a checker lists is read with its name; what is no exposure is not.
    #[test]
    fn exposures_are_read() {
        let example = json!({ "name": "dual-leader", "summary": "n1 and n2", "sentences": [],
            "witness": [1, 2] });
        let details = json!({ "exposures": {
            "dual-leader": { "count": 1200, "examples": [example], "sizes": { "count": 0 } },
            "nonsense": 7,
        }});
        let analysis = Analysis::from_findings("fencing", "", Vec::new(), Vec::new());
        let found = of(&Analysis { details, ..analysis });
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].in_words(), "1,200 dual-leader");
        assert_eq!(found[0].examples[0].summary, "n1 and n2");
    }
}
