//! What a system claims with the options chosen: `[guarantees]` of its file.
//!
//! `mutex`, `fencing`, `linearizable_reads`, `durability`, `writes_once` and `validated_tokens` are
//! true or false. `lease` is false, or how far clocks may be apart in milliseconds. What each means
//! stands with [`Claims`].

use std::collections::BTreeMap;

use deposed_checkers::{Claims, LeaseClaim};
use deposed_core::Node;

use crate::mistakes::Mistakes;
use crate::system_file::SystemFile;
use crate::template::Scope;

/// The claims of a file; what is wrong goes to `mistakes`. A file without any claims everything.
pub(crate) fn render(
    file: &SystemFile,
    nodes: &[Node],
    options: &BTreeMap<String, String>,
    mistakes: &mut Mistakes<'_>,
) -> Claims {
    if file.guarantees.is_empty() || nodes.is_empty() {
        return Claims::default();
    }
    let scope = Scope::new(nodes, 0, options);
    let mut claims = Claims::NONE;
    for (name, value) in &file.guarantees {
        // Templates write `True`.
        let text = match value.get_ref() {
            toml::Value::String(template) => scope.render(template),
            other => Ok(other.to_string()),
        };
        if let Err(why) =
            text.and_then(|text| claim(&mut claims, name, &text.trim().to_lowercase()))
        {
            mistakes.at(value.span().start, &format!("guarantees.{name}"), &why);
        }
    }
    claims
}

/// Sets one claim.
fn claim(claims: &mut Claims, name: &str, text: &str) -> Result<(), String> {
    if name == "lease" {
        claims.lease = match text {
            "false" => None,
            ms => {
                let ms = ms.parse().map_err(|_| format!("`{ms}` is neither false nor a number"))?;
                Some(LeaseClaim { clock_error_ms: ms, ..LeaseClaim::default() })
            }
        };
        return Ok(());
    }
    let place = match name {
        "mutex" => &mut claims.mutex,
        "fencing" => &mut claims.fencing,
        "linearizable_reads" => &mut claims.linearizable_reads,
        "durability" => &mut claims.durability,
        "writes_once" => &mut claims.writes_once,
        "validated_tokens" => &mut claims.validated_tokens,
        _ => return Err("is not known: see the README of workloads".into()),
    };
    *place = text.parse().map_err(|_| format!("`{text}` is neither true nor false"))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each word is understood, and what is none is a mistake.
    #[test]
    fn claims_are_read() {
        let mut claims = Claims::NONE;
        for (name, text) in [("mutex", "true"), ("lease", "20"), ("durability", "false")] {
            claim(&mut claims, name, text).unwrap();
        }
        let lease = Some(LeaseClaim { clock_error_ms: 20, drift: 0.0 });
        assert_eq!(claims, Claims { mutex: true, lease, ..Claims::NONE });
        claim(&mut claims, "lease", "false").unwrap();
        assert_eq!(claims.lease, None);
        for (name, text) in [("mutx", "true"), ("mutex", "yes"), ("lease", "true")] {
            assert!(claim(&mut claims, name, text).is_err(), "{name} {text}");
        }
    }
}
