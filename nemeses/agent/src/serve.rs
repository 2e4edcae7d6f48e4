//! The conversation: a request a line in, a reply a line out, until the line ends.

use std::io::{BufRead, Write};

use crate::{Agent, Failure, Home, Reply, Request};

/// Answers until the channel is closed. What is in force then stays in force, under its lease.
///
/// # Errors
/// If the channel breaks.
pub fn serve(home: &Home, requests: impl BufRead, mut replies: impl Write) -> std::io::Result<()> {
    let agent = Agent::new(home.clone());
    for line in requests.lines() {
        let reply = match serde_json::from_str::<Request>(&line?) {
            Ok(request) => agent.answer(&request),
            Err(error) => Reply::Failed(Failure::new("read a request", error)),
        };
        let mut line = serde_json::to_vec(&reply)?;
        line.push(b'\n');
        replies.write_all(&line)?;
        replies.flush()?;
    }
    Ok(())
}
