//! Host patterns as OpenSSH has them: `*`, `?`, and `!` for "but not".

/// Whether a list of patterns matches a name: one of them does, and none with a `!` does.
pub(crate) fn list_matches<'a>(patterns: impl Iterator<Item = &'a str>, name: &str) -> bool {
    let mut found = false;
    for pattern in patterns {
        match pattern.strip_prefix('!') {
            Some(but) if matches(but, name) => return false,
            Some(_) => {}
            None => found |= matches(pattern, name),
        }
    }
    found
}

/// Whether one pattern matches a name, whatever the case of either.
fn matches(pattern: &str, name: &str) -> bool {
    let pattern: Vec<char> = pattern.to_lowercase().chars().collect();
    let name: Vec<char> = name.to_lowercase().chars().collect();
    // `reach[i]`: whether the pattern so far matches the first `i` characters of the name.
    let mut reach = vec![false; name.len() + 1];
    reach[0] = true;
    for symbol in pattern {
        let mut next = vec![false; name.len() + 1];
        for at in 0..=name.len() {
            next[at] = match symbol {
                '*' => reach[at] || (at > 0 && next[at - 1]),
                '?' => at > 0 && reach[at - 1],
                letter => at > 0 && reach[at - 1] && name[at - 1] == letter,
            };
        }
        reach = next;
    }
    reach[name.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_and_question_marks_match_and_exclamation_marks_exclude() {
        for (patterns, name, expected) in [
            ("*", "n1", true),
            ("n?", "n1", true),
            ("n?", "n12", false),
            ("n*1", "node-11", true),
            ("*.lab !bad.*", "good.lab", true),
            ("*.lab !bad.*", "bad.lab", false),
            ("!bad", "good", false),
            ("N1", "n1", true),
            ("", "n1", false),
        ] {
            assert_eq!(list_matches(patterns.split(' '), name), expected, "{patterns} on {name}");
        }
    }
}
