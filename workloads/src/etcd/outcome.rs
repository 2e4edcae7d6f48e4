//! What an error of etcd means for the operation.
//!
//! | what happened | read | write, cas |
//! |---|---|---|
//! | connection refused, unreachable, or closed before the request was sent | fail | fail |
//! | stream reset with REFUSED_STREAM: the server did not look at it | fail | fail |
//! | connection lost, stream reset or time up after the request was sent | fail | **info** |
//! | an answer that cannot be read | fail | **info** |
//! | Unavailable: `request timed out`, `leader changed`, `no leader`, `server stopped` | fail | **info** |
//! | ResourceExhausted `too many requests`: refused before it was proposed | fail | fail |
//! | ResourceExhausted `database space exceeded`: the put that crosses the limit is applied *and* answered with it | fail | **info** |
//! | InvalidArgument, PermissionDenied, Unauthenticated, Unimplemented | fail | fail |
//! | any other status | fail | **info** |
//! | the comparison of a cas is false | | fail, `precondition` |
//!
//! A read that has no answer changed nothing, so it may be said to have failed: its process lives.
//! For the two rows of ResourceExhausted see `server/etcdserver/v3_server.go`
//! (`processInternalRaftRequestOnce`) and `quotaApplierV3` in `apply.go` of
//! <https://github.com/etcd-io/etcd>.

use deposed_core::ClientError;

use crate::grpc::{CallError, code};

/// The one use of ResourceExhausted that comes before anything is proposed.
const TOO_MANY_REQUESTS: &str = "etcdserver: too many requests";

/// The error of an operation that changes nothing.
pub(crate) fn of_read(error: &CallError) -> ClientError {
    ClientError::Definite(error.to_string())
}

/// The error of an operation that may change something.
pub(crate) fn of_write(error: &CallError) -> ClientError {
    let definite = match error {
        CallError::NotSent(_) => true,
        CallError::NoAnswer(_) => false,
        CallError::Status { code, message } => match *code {
            code::INVALID_ARGUMENT
            | code::PERMISSION_DENIED
            | code::UNAUTHENTICATED
            | code::UNIMPLEMENTED => true,
            code::RESOURCE_EXHAUSTED => message == TOO_MANY_REQUESTS,
            _ => false,
        },
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

    /// Every row of the table, for writes.
    #[test]
    fn writes_fail_only_when_they_certainly_did_not_happen() {
        let status = |code, message: &str| CallError::Status { code, message: message.into() };
        let definite = [
            CallError::NotSent("refused".into()),
            status(8, "etcdserver: too many requests"),
            status(3, "etcdserver: request is too large"),
            status(7, "etcdserver: permission denied"),
            status(16, "etcdserver: invalid auth token"),
            status(12, "unknown service etcdserverpb.KV"),
        ];
        for error in definite {
            assert!(matches!(of_write(&error), ClientError::Definite(_)), "{error}");
        }
        let indefinite = [
            CallError::NoAnswer("4s passed".into()),
            status(14, "etcdserver: request timed out"),
            status(14, "etcdserver: request timed out, possibly due to previous leader failure"),
            status(14, "etcdserver: leader changed"),
            status(14, "etcdserver: no leader"),
            status(14, "etcdserver: server stopped"),
            status(8, "etcdserver: mvcc: database space exceeded"),
            status(8, "grpc: received message larger than max"),
            status(1, "context canceled"),
            status(2, "raft proposal dropped"),
            status(4, "context deadline exceeded"),
            status(13, "transport: internal"),
            status(15, "etcdserver: corrupt cluster"),
        ];
        for error in indefinite {
            assert!(matches!(of_write(&error), ClientError::Indefinite(_)), "{error}");
            assert!(matches!(of_read(&error), ClientError::Definite(_)), "{error}");
        }
    }
}
