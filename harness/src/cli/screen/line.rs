//! One line of a screen: a word in the left column, and the rest.

use deposed_checkers::Verdict;

/// How a line feels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tone {
    Plain,
    Faint,
    Good,
    Doubt,
    Bad,
}

impl Tone {
    pub(super) const fn of(verdict: Option<Verdict>) -> Self {
        match verdict {
            None => Self::Plain,
            Some(Verdict::Valid) => Self::Good,
            Some(Verdict::Unknown) => Self::Doubt,
            Some(Verdict::Invalid) => Self::Bad,
        }
    }

    const fn code(self) -> Option<&'static str> {
        match self {
            Self::Plain => None,
            Self::Faint => Some("2"),
            Self::Good => Some("32"),
            Self::Doubt => Some("33"),
            Self::Bad => Some("1;31"),
        }
    }
}

/// The line, with its end. Continued lines of the text stay in their column.
pub(super) fn row(label: &str, text: &str, tone: Tone, colour: bool) -> String {
    let text = text.trim_end().replace('\n', "\n           ");
    let line = format!(" {label:<9} {text}");
    let line = line.trim_end();
    match tone.code() {
        Some(code) if colour => format!("\x1b[{code}m{line}\x1b[0m\n"),
        _ => format!("{line}\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_aligned_and_coloured_only_where_asked() {
        assert_eq!(row("plan", "a\nb", Tone::Bad, false), " plan      a\n           b\n");
        assert_eq!(row("", "x", Tone::Good, true), "\x1b[32m           x\x1b[0m\n");
    }
}
