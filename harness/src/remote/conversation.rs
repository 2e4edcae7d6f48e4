//! A program on a node, spoken to over a connection of its own.

use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use deposed_core::{Command, Conversation, RemoteError};
use tokio::sync::oneshot;

use super::lane::{self, Queue};
use super::shell::{Broken, GRACE};

/// How long the connection and its login may take.
const CONNECT_WITHIN: Duration = Duration::from_secs(15);

/// A line on its way.
struct Question {
    line: String,
    deadline: Instant,
    reply: oneshot::Sender<Result<String, Broken>>,
}

/// The caller's end: questions go to the thread that owns the connection. The thread ends with the
/// first error, when nobody can ask any more, or when the remote is dropped; each cuts the connection.
pub(super) struct SshConversation {
    queue: Arc<Queue>,
    questions: mpsc::Sender<Question>,
}

impl SshConversation {
    /// Connects and starts the program.
    pub(super) async fn start(queue: &Arc<Queue>, script: &str) -> Result<Self, RemoteError> {
        let command = Command::new(script).deadline(CONNECT_WITHIN);
        let (questions, asked) = mpsc::channel::<Question>();
        let (started, starting) = oneshot::channel();
        let (own, script) = (Arc::clone(queue), command.clone());
        let live = move || {
            let number = own.number();
            let deadline = Instant::now() + CONNECT_WITHIN;
            let program = match own.connect(number, None, deadline) {
                Ok(shell) => shell.exec(&script.script, deadline),
                Err(refused) => {
                    let _ = started.send(Err(own.refused(refused, &script)));
                    return own.closed(number);
                }
            };
            match program {
                Ok(mut program) => {
                    let _ = started.send(Ok(()));
                    for Question { line, deadline, reply } in asked {
                        let answer = program.ask(&line, deadline);
                        let over = answer.is_err();
                        let _ = reply.send(answer);
                        if over {
                            break;
                        }
                    }
                }
                Err(broken) => {
                    let _ = started.send(Err(lost(&own, &script, broken)));
                }
            }
            own.closed(number);
        };
        let name = format!("ssh {} program", queue.spec.node.name);
        let dead = |reason: String| lane::lost(&queue.spec, &command, reason);
        std::thread::Builder::new()
            .name(name)
            .spawn(live)
            .map_err(|error| dead(format!("cannot start a thread: {error}")))?;
        starting.await.map_err(|_| dead("its thread died".to_owned()))??;
        Ok(Self { queue: Arc::clone(queue), questions })
    }
}

#[async_trait]
impl Conversation for SshConversation {
    async fn ask(&self, line: &str, deadline: Duration) -> Result<String, RemoteError> {
        let command = Command::new(line).deadline(deadline);
        let over = || lost(&self.queue, &command, Broken::Lost("it is over".to_owned()));
        let until = Instant::now() + deadline;
        let (reply, answer) = oneshot::channel();
        let question = Question { line: line.to_owned(), deadline: until, reply };
        self.questions.send(question).map_err(|_| over())?;
        match tokio::time::timeout_at((until + GRACE).into(), answer).await {
            Ok(Ok(answer)) => answer.map_err(|broken| lost(&self.queue, &command, broken)),
            Ok(Err(_)) => Err(over()),
            Err(_) => Err(lane::late(&self.queue.spec, &command)),
        }
    }
}

fn lost(queue: &Queue, command: &Command, broken: Broken) -> RemoteError {
    match broken {
        Broken::Lost(reason) => lane::lost(&queue.spec, command, reason),
        Broken::Killed | Broken::Silent | Broken::Big(_) => lane::late(&queue.spec, command),
    }
}
