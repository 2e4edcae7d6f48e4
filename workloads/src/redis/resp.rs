//! Commands and replies of Redis over one connection: RESP2, <https://redis.io/docs/reference/protocol-spec>.
//!
//! There is no pool, no reconnection and no retry: commands are sent once, and an error says whether
//! they can have reached the server.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// A longer line, or a longer text, ends the connection.
const BYTES_MAX: usize = 16 << 20;
/// So do more elements of a list.
const ELEMENTS_MAX: usize = 1 << 20;
/// Lists may stand in lists so deep.
const DEPTH_MAX: usize = 8;

/// What the server said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reply {
    Nil,
    Int(i64),
    Text(String),
    List(Vec<Reply>),
    /// It begins with a word in capitals.
    Error(String),
}

impl Reply {
    pub(super) fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(super) fn as_list(&self) -> Option<&[Reply]> {
        match self {
            Self::List(items) => Some(items),
            _ => None,
        }
    }
}

/// Why a command has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum CallError {
    /// The server never saw it.
    #[error("not sent: {0}")]
    NotSent(String),
    /// It was handed to the connection, and no reply came back.
    #[error("no answer: {0}")]
    NoAnswer(String),
    /// The server replied with an error.
    #[error("{0}")]
    Refused(String),
}

/// A connection to one address.
#[derive(Debug)]
pub(super) struct Connection {
    stream: BufReader<TcpStream>,
}

impl Connection {
    /// Connects, or says why not within `limit`.
    pub(super) async fn open(addr: SocketAddr, limit: Duration) -> Result<Self, CallError> {
        let refused = |why: String| CallError::NotSent(format!("connect to {addr}: {why}"));
        let stream = timeout(limit, TcpStream::connect(addr)).await;
        let stream = stream.map_err(|_| refused(format!("{limit:?} passed")))?;
        let stream = stream.map_err(|e| refused(e.to_string()))?;
        stream.set_nodelay(true).map_err(|e| refused(e.to_string()))?;
        Ok(Self { stream: BufReader::new(stream) })
    }

    /// Whether the other side has closed it, or sent what nobody asked for.
    pub(super) fn ended(&self) -> bool {
        let between = self.stream.get_ref().try_read(&mut [0]);
        let silent = matches!(between, Err(e) if e.kind() == std::io::ErrorKind::WouldBlock);
        !silent || !self.stream.buffer().is_empty()
    }

    /// Sends commands at once and returns the reply to each. It is not to be used again after an
    /// error, or if this was dropped half-way.
    pub(super) async fn call(
        &mut self,
        commands: &[&[&str]],
        limit: Duration,
    ) -> Result<Vec<Reply>, CallError> {
        let exchange = async {
            self.stream.get_mut().write_all(&encode(commands)).await.map_err(|e| e.to_string())?;
            let mut replies = Vec::with_capacity(commands.len());
            for _ in commands {
                replies.push(read(&mut self.stream).await?);
            }
            Ok::<_, String>(replies)
        };
        match timeout(limit, exchange).await {
            Ok(replies) => replies.map_err(CallError::NoAnswer),
            Err(_) => Err(CallError::NoAnswer(format!("{limit:?} passed"))),
        }
    }
}

/// Commands as lists of texts.
fn encode(commands: &[&[&str]]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for command in commands {
        bytes.extend(format!("*{}\r\n", command.len()).bytes());
        for word in *command {
            bytes.extend(format!("${}\r\n{word}\r\n", word.len()).bytes());
        }
    }
    bytes
}

/// Reads one reply. Lists are filled from the inside, without recursion.
async fn read(stream: &mut (impl AsyncBufRead + Unpin)) -> Result<Reply, String> {
    // Lists that are not full yet: what they have, and how much they will.
    let mut open: Vec<(Vec<Reply>, usize)> = Vec::new();
    loop {
        let mut reply = match element(stream).await? {
            Element::Whole(reply) => reply,
            Element::List(0) => Reply::List(Vec::new()),
            Element::List(_) if open.len() == DEPTH_MAX => {
                return Err(format!("a reply in more than {DEPTH_MAX} lists"));
            }
            Element::List(length) => {
                open.push((Vec::new(), length));
                continue;
            }
        };
        loop {
            let Some((items, length)) = open.last_mut() else { return Ok(reply) };
            items.push(reply);
            if items.len() < *length {
                break;
            }
            reply = Reply::List(std::mem::take(items));
            open.pop();
        }
    }
}

enum Element {
    Whole(Reply),
    /// So many elements follow.
    List(usize),
}

async fn element(stream: &mut (impl AsyncBufRead + Unpin)) -> Result<Element, String> {
    let line = line(stream).await?;
    let (kind, rest) = line.split_at_checked(1).ok_or("an empty line")?;
    let length = |max: usize| match rest.parse::<i64>() {
        Ok(-1) => Ok(None),
        Ok(n) => match usize::try_from(n) {
            Ok(n) if n <= max => Ok(Some(n)),
            _ => Err(format!("a length of {n}")),
        },
        Err(_) => Err(format!("`{rest}` is no length")),
    };
    let reply = match kind {
        "+" => Reply::Text(rest.to_owned()),
        "-" => Reply::Error(rest.to_owned()),
        ":" => Reply::Int(rest.parse().map_err(|_| format!("`{rest}` is no number"))?),
        "$" => match length(BYTES_MAX)? {
            None => Reply::Nil,
            Some(length) => {
                let mut bytes = vec![0; length + 2];
                stream.read_exact(&mut bytes).await.map_err(|e| e.to_string())?;
                bytes.truncate(length);
                Reply::Text(String::from_utf8_lossy(&bytes).into_owned())
            }
        },
        "*" => match length(ELEMENTS_MAX)? {
            None => Reply::Nil,
            Some(length) => return Ok(Element::List(length)),
        },
        _ => return Err(format!("`{line}` is no reply")),
    };
    Ok(Element::Whole(reply))
}

/// A line without its end.
async fn line(stream: &mut (impl AsyncBufRead + Unpin)) -> Result<String, String> {
    let mut bytes = Vec::new();
    let read = stream.take(BYTES_MAX as u64).read_until(b'\n', &mut bytes).await;
    read.map_err(|e| e.to_string())?;
    match bytes.strip_suffix(b"\r\n") {
        Some(line) => Ok(String::from_utf8_lossy(line).into_owned()),
        None if bytes.is_empty() => Err("the connection was closed".into()),
        None => Err("a line was cut short, or is too long".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn parsed(bytes: &[u8]) -> Result<Reply, String> {
        read(&mut { bytes }).await
    }

    /// Commands are lists of texts, with lengths in bytes.
    #[test]
    fn commands_are_written() {
        let commands: [&[&str]; 2] = [&["PING"], &["RPUSH", "ä", ""]];
        let expected = "*1\r\n$4\r\nPING\r\n*3\r\n$5\r\nRPUSH\r\n$2\r\nä\r\n$0\r\n\r\n";
        assert_eq!(String::from_utf8(encode(&commands)).unwrap(), expected);
    }

    /// Every kind of reply is understood, lists in lists included.
    #[tokio::test]
    async fn replies_are_read() {
        let text = |text: &str| Reply::Text(text.into());
        assert_eq!(parsed(b"+OK\r\n").await, Ok(text("OK")));
        assert_eq!(parsed(b"-READONLY no\r\n").await, Ok(Reply::Error("READONLY no".into())));
        assert_eq!(parsed(b":-7\r\n").await, Ok(Reply::Int(-7)));
        assert_eq!(parsed(b"$4\r\na\r\nb\r\n").await, Ok(text("a\r\nb")));
        assert_eq!(parsed(b"$-1\r\n").await, Ok(Reply::Nil));
        assert_eq!(parsed(b"*0\r\n").await, Ok(Reply::List(vec![])));
        let nested = Reply::List(vec![
            text("master"),
            Reply::List(vec![Reply::List(vec![]), Reply::Int(1)]),
            Reply::Nil,
        ]);
        assert_eq!(parsed(b"*3\r\n+master\r\n*2\r\n*0\r\n:1\r\n*-1\r\n").await, Ok(nested));
    }

    /// What is none, is cut short or never ends is an error, not a wait and not a panic.
    #[tokio::test]
    async fn nonsense_is_refused() {
        for bytes in [
            &b""[..],
            b"\r\n",
            b"+OK",
            b"+OK\n",
            b"?\r\n",
            b":x\r\n",
            b"$x\r\n",
            b"$-2\r\n",
            b"$99999999999\r\n",
            b"$5\r\nab",
            b"*2\r\n+a\r\n",
            b"*99999999\r\n",
            "*1\r\n".repeat(DEPTH_MAX + 2).as_bytes(),
        ] {
            assert!(parsed(bytes).await.is_err(), "{}", String::from_utf8_lossy(bytes));
        }
    }
}
