//! Words for a shell.

/// A text as one word of a POSIX shell: `it's` becomes `'it'\''s'`.
pub fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// The same on one line: a line break becomes `'"$n"'`, where the shell variable `n` holds one.
pub(super) fn quote_line(text: &str) -> String {
    quote(text).replace('\n', "'\"$n\"'")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_back_exactly_what_was_quoted() {
        let text = "it's \"a\" $HOME `id` \\ \t * ~ # ! ünï\nsecond 'line'\n";
        for script in [
            format!("printf %s {}", quote(text)),
            format!("n='\n'; eval \"printf %s {}\"", r#"$line"#)
                .replace("eval", &format!("line={}; eval", quote(&quote_line(text)))),
        ] {
            let output =
                std::process::Command::new("/bin/sh").args(["-c", &script]).output().unwrap();
            assert_eq!(String::from_utf8_lossy(&output.stdout), text, "{script}");
        }
    }
}
