//! Unary gRPC calls over one HTTP/2 connection, with nothing in between.
//!
//! There is no pool, no reconnection and no retry: a call is sent once, and an error says whether
//! it can have reached the server. That is why this speaks `h2` and not through a gRPC library.
//! Wire format: <https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md>.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use h2::client::SendRequest;
use http::{HeaderMap, Request};
use prost::Message;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout, timeout_at};

/// Answers may have this many bytes.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// Why a call has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CallError {
    /// The server never saw the request, or says that it did not look at it.
    #[error("not sent: {0}")]
    NotSent(String),
    /// The request was handed to the connection, and no answer came back.
    #[error("no answer: {0}")]
    NoAnswer(String),
    /// The server answered with an error.
    #[error("{message} (gRPC status {code})")]
    Status {
        /// One of [`code`].
        code: u32,
        /// What it says.
        message: String,
    },
}

/// gRPC status codes, <https://grpc.io/docs/guides/status-codes/>.
pub(crate) mod code {
    pub(crate) const UNKNOWN: u32 = 2;
    pub(crate) const INVALID_ARGUMENT: u32 = 3;
    pub(crate) const PERMISSION_DENIED: u32 = 7;
    pub(crate) const RESOURCE_EXHAUSTED: u32 = 8;
    pub(crate) const UNIMPLEMENTED: u32 = 12;
    pub(crate) const UNAUTHENTICATED: u32 = 16;
}

/// A connection to one address. It ends when it is dropped.
pub(crate) struct Connection {
    requests: SendRequest<Bytes>,
    driver: JoinHandle<()>,
    authority: String,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Connection {
    /// Connects, or says why not within `limit`.
    pub(crate) async fn open(addr: SocketAddr, limit: Duration) -> Result<Self, String> {
        let open = async {
            let stream = TcpStream::connect(addr).await.map_err(|e| e.to_string())?;
            stream.set_nodelay(true).map_err(|e| e.to_string())?;
            h2::client::handshake(stream).await.map_err(|e| e.to_string())
        };
        let opened =
            timeout(limit, open).await.unwrap_or_else(|_| Err(format!("{limit:?} passed")));
        let (requests, connection) = opened.map_err(|why| format!("connect to {addr}: {why}"))?;
        let driver = tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%addr, %error, "connection ended");
            }
        });
        Ok(Self { requests, driver, authority: addr.to_string() })
    }

    /// Whether it has ended, as far as is known.
    pub(crate) fn ended(&self) -> bool {
        self.driver.is_finished()
    }

    /// Sends a request to `path` (`/package.Service/Method`) once and waits for its answer.
    pub(crate) async fn call<T: Message + Default>(
        &mut self,
        path: &str,
        message: &impl Message,
        limit: Duration,
    ) -> Result<T, CallError> {
        let deadline = Instant::now() + limit;
        let not_sent = |e: h2::Error| CallError::NotSent(e.to_string());
        let mut requests = timeout_at(deadline, self.requests.clone().ready())
            .await
            .map_err(|_| CallError::NotSent(format!("the connection was busy for {limit:?}")))?
            .map_err(not_sent)?;
        let request = Request::post(format!("http://{}{path}", self.authority))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(())
            .map_err(|e| CallError::NotSent(e.to_string()))?;
        let (answer, mut body) = requests.send_request(request, false).map_err(not_sent)?;
        // From here on the server may act on it.
        body.send_data(frame(message), true).map_err(unanswered)?;
        let answer = timeout_at(deadline, collect(answer))
            .await
            .unwrap_or_else(|_| Err(CallError::NoAnswer(format!("{limit:?} passed"))))?;
        T::decode(answer).map_err(|e| CallError::NoAnswer(format!("unreadable answer: {e}")))
    }
}

/// A server that resets a stream with REFUSED_STREAM has not processed it (RFC 9113, 8.7).
/// Everything else is open.
fn unanswered(error: h2::Error) -> CallError {
    let refused = error.reason() == Some(h2::Reason::REFUSED_STREAM);
    if refused && error.is_remote() && error.is_reset() {
        return CallError::NotSent(error.to_string());
    }
    CallError::NoAnswer(error.to_string())
}

/// Length-prefixed, not compressed.
fn frame(message: &impl Message) -> Bytes {
    let length = message.encoded_len();
    let mut frame = BytesMut::with_capacity(5 + length);
    frame.put_u8(0);
    frame.put_u32(length as u32);
    message.encode(&mut frame).expect("the buffer has room");
    frame.freeze()
}

/// The message of a whole answer, or the error its status tells.
async fn collect(answer: h2::client::ResponseFuture) -> Result<Bytes, CallError> {
    let answer = answer.await.map_err(unanswered)?;
    if !answer.status().is_success() {
        return Err(CallError::NoAnswer(format!("HTTP status {}", answer.status())));
    }
    // An answer without a message has its status in the headers.
    status(answer.headers()).unwrap_or(Ok(()))?;
    let mut body = answer.into_body();
    let mut bytes = BytesMut::new();
    while let Some(chunk) = body.data().await {
        let chunk = chunk.map_err(unanswered)?;
        let released = body.flow_control().release_capacity(chunk.len());
        released.map_err(unanswered)?;
        bytes.extend_from_slice(&chunk);
        if bytes.len() > ANSWER_BYTES_MAX {
            return Err(CallError::NoAnswer(format!("an answer over {ANSWER_BYTES_MAX} bytes")));
        }
    }
    let trailers = body.trailers().await.map_err(unanswered)?.unwrap_or_default();
    status(&trailers).unwrap_or_else(|| Err(CallError::NoAnswer("cut short".into())))?;
    if bytes.len() < 5 || bytes[0] != 0 {
        return Err(CallError::NoAnswer("not a plain gRPC message".into()));
    }
    bytes.advance(1);
    let length = bytes.get_u32() as usize;
    if bytes.len() != length {
        return Err(CallError::NoAnswer(format!("{} of {length} bytes", bytes.len())));
    }
    Ok(bytes.freeze())
}

/// What `grpc-status` says, if it is there.
fn status(headers: &HeaderMap) -> Option<Result<(), CallError>> {
    let code = headers.get("grpc-status")?.to_str().ok().and_then(|code| code.parse().ok());
    let code = code.unwrap_or(code::UNKNOWN);
    if code == 0 {
        return Some(Ok(()));
    }
    let message = headers.get("grpc-message").map(|text| percent_decode(text.as_bytes()));
    Some(Err(CallError::Status { code, message: message.unwrap_or_default() }))
}

fn percent_decode(text: &[u8]) -> String {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        let hex = after.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()).filter(|_| byte == b'%') {
            Some(escaped) => {
                decoded.push(escaped);
                rest = &after[2..];
            }
            None => {
                decoded.push(byte);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

#[cfg(test)]
mod tests {
    use super::percent_decode;

    /// Messages of servers that escape what is not plain ASCII can be read.
    #[test]
    fn messages_are_unescaped() {
        assert_eq!(percent_decode(b"etcdserver: 100%25 f%C3%BCll%"), "etcdserver: 100% füll%");
    }
}
