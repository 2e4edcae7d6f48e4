//! What an error of Redis means for the operation.
//!
//! | what happened | read | append |
//! |---|---|---|
//! | connection refused, unreachable, or closed before the command was sent | fail | fail |
//! | no Sentinel says who the master is | fail | fail |
//! | connection lost or time up after the command was sent | fail | **info** |
//! | a reply that cannot be read | fail | **info** |
//! | an error that is given before the command is performed: [`BEFORE`] | fail | fail |
//! | any other error | fail | **info** |
//!
//! An acknowledgement of Redis says that the master has it, and nothing of replicas. For the errors
//! see `processCommand` in `src/server.c` of <https://github.com/redis/redis>.

use deposed_core::ClientError;

use super::resp::CallError;

/// Errors that come instead of the command's effect, by their first word: a replica is no master; too
/// few replicas answer (`min-replicas-to-write`); the data is still being loaded; the disk cannot be
/// written; there is no memory left; the key holds something else; the connection may not; the
/// transaction was given up.
pub(super) const BEFORE: [&str; 9] = [
    "READONLY",
    "NOREPLICAS",
    "LOADING",
    "MISCONF",
    "OOM",
    "WRONGTYPE",
    "NOAUTH",
    "NOPERM",
    "EXECABORT",
];

/// The error of an operation that changes nothing.
pub(super) fn of_read(error: &CallError) -> ClientError {
    ClientError::Definite(error.to_string())
}

/// The error of an operation that may change something.
pub(super) fn of_write(error: &CallError) -> ClientError {
    let definite = match error {
        CallError::NotSent(_) => true,
        CallError::NoAnswer(_) => false,
        CallError::Refused(said) => {
            said.split(' ').next().is_some_and(|word| BEFORE.contains(&word))
        }
    };
    if definite {
        ClientError::Definite(error.to_string())
    } else {
        ClientError::Indefinite(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every row of the table.
    #[test]
    fn appends_fail_only_when_they_certainly_did_not_happen() {
        let refused = |said: &str| CallError::Refused(said.into());
        let definite = [
            CallError::NotSent("refused".into()),
            refused("READONLY You can't write against a read only replica."),
            refused("NOREPLICAS Not enough good replicas to write."),
            refused("LOADING Redis is loading the dataset in memory"),
            refused("MISCONF Errors writing to the AOF file: No space left on device"),
        ];
        for error in definite {
            assert!(matches!(of_write(&error), ClientError::Definite(_)), "{error}");
        }
        let indefinite = [
            CallError::NoAnswer("4s passed".into()),
            refused("ERR something new"),
            refused("UNKILLABLE Sorry the script already executed write commands"),
            refused(""),
        ];
        for error in indefinite {
            assert!(matches!(of_write(&error), ClientError::Indefinite(_)), "{error}");
            assert!(matches!(of_read(&error), ClientError::Definite(_)), "{error}");
        }
    }
}
