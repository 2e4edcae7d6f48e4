//! A process of the store: it listens, and hands each request to the part it is for.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::external::Service;
use crate::node::{Node, Session};
use crate::observer::Observer;
use crate::volume::Volume;
use crate::wire::{line, read_line};
use crate::{Config, Reply, Request, Role, power};

/// Runs what the command line says, until it is killed.
#[expect(clippy::print_stderr, reason = "the log of a service is its standard error")]
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let config = match Config::try_parse_from(args) {
        Ok(config) => config,
        Err(error) => {
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { 64 } else { 0 });
        }
    };
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    match runtime.and_then(|runtime| runtime.block_on(run(config))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("standbyd: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs a process of the store.
///
/// # Errors
/// If its address or its data cannot be used.
pub async fn run(config: Config) -> io::Result<()> {
    std::fs::create_dir_all(&config.data)?;
    if config.is(Role::Supervisor) {
        let status = power::supervise(&config).await?;
        return if status.success() { Ok(()) } else { Err(io::Error::other(status.to_string())) };
    }
    let listener = TcpListener::bind(config.listen).await?;
    if config.is(Role::Power) {
        let parts = Daemon { node: None, observer: None, volume: None, external: None, config };
        let daemon = Arc::new(parts);
        return tokio::select! {
            served = daemon.clone().listen(listener) => served,
            unwanted = power::unwanted(&daemon.config) => unwanted,
        };
    }
    let daemon = Daemon {
        node: config.is(Role::Node).then(|| Node::open(&config)).transpose()?,
        observer: config.is(Role::Observer).then(|| Observer::open(&config)).transpose()?,
        volume: config.is(Role::Volume).then(|| Volume::open(&config)).transpose()?,
        external: config.is(Role::External).then(|| Service::open(&config)).transpose()?,
        config,
    };
    if let Some(node) = &daemon.node {
        node.start();
    }
    if let Some(observer) = &daemon.observer {
        observer.start();
    }
    Arc::new(daemon).listen(listener).await
}

/// The parts in this process.
struct Daemon {
    config: Config,
    node: Option<Arc<Node>>,
    observer: Option<Arc<Observer>>,
    volume: Option<Volume>,
    external: Option<Service>,
}

impl Daemon {
    async fn listen(self: Arc<Self>, listener: TcpListener) -> io::Result<()> {
        loop {
            let (stream, _) = listener.accept().await?;
            let daemon = self.clone();
            tokio::spawn(async move {
                // A broken connection concerns only who is at the other end.
                let _ = daemon.converse(stream).await;
            });
        }
    }

    /// Answers one connection, request by request, until it ends or has to.
    async fn converse(&self, stream: TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let mut stream = BufReader::new(stream);
        let mut caller = String::new();
        // Made when the first request comes that only clients make.
        let mut session = None;
        let mut deposed = self.node.as_ref().map(|node| node.deposed());
        let mut revoked = self.volume.as_ref().map(Volume::revoked);
        loop {
            // In this order: whoever is shut out is not even listened to.
            let request = tokio::select! {
                biased;
                () = is_revoked(&mut revoked, &caller) => return stream.get_mut().set_zero_linger(),
                () = is_deposed(&mut deposed, session.is_some()) => return Ok(()),
                read = read_line(&mut stream) => match read? {
                    Some(line) => serde_json::from_slice(&line)?,
                    None => return Ok(()),
                },
            };
            if let Request::Hello { from } = request {
                caller = from;
                continue;
            }
            if let (None, Some(node), true) = (&session, &self.node, is_for_clients(&request)) {
                session = Some(Session::new(node));
                deposed = Some(node.deposed());
            }
            let is_client = session.is_some();
            let reply = tokio::select! {
                reply = self.answer(&caller, &mut session, request) => reply?,
                () = is_deposed(&mut deposed, is_client) => {
                    let reply = Reply::info("the leader was deposed meanwhile");
                    return stream.get_mut().write_all(&line(&reply)).await;
                }
                () = is_revoked(&mut revoked, &caller) => return stream.get_mut().set_zero_linger(),
            };
            stream.get_mut().write_all(&line(&reply)).await?;
        }
    }

    async fn answer(
        &self,
        caller: &str,
        session: &mut Option<Session>,
        request: Request,
    ) -> io::Result<Reply> {
        let absent = || Ok(Reply::fail(format!("{} is not that part", self.config.name)));
        if self.config.is(Role::Power) {
            return power::answer(&self.config, request).await;
        }
        match request {
            Request::Renewal { .. } => match &self.observer {
                Some(observer) => Ok(observer.answer(request).await),
                None => absent(),
            },
            Request::VolumeWrite { .. }
            | Request::VolumeRead { .. }
            | Request::Revoke { .. }
            | Request::Admit { .. } => match &self.volume {
                Some(volume) => volume.answer(caller, request),
                None => absent(),
            },
            Request::Perform { .. } => match &self.external {
                Some(external) => external.answer(request),
                None => absent(),
            },
            request => match (&self.node, session) {
                (Some(node), Some(session)) if is_for_clients(&request) => {
                    Ok(node.serve(session, request).await)
                }
                (Some(node), _) => Ok(node.answer(request).await),
                (None, _) if matches!(request, Request::Status) => Ok(Reply::Status {
                    node: self.config.name.clone(),
                    leads: false,
                    term: 0,
                    last_index: 0,
                    last_term: 0,
                    commit: 0,
                }),
                (None, _) => absent(),
            },
        }
    }
}

/// Whether a request is one of those that end with the leader that got them.
fn is_for_clients(request: &Request) -> bool {
    matches!(
        request,
        Request::Read { .. }
            | Request::Write { .. }
            | Request::Cas { .. }
            | Request::Append { .. }
            | Request::List { .. }
            | Request::Acquire { .. }
            | Request::Renew { .. }
            | Request::Release { .. }
            | Request::Put { .. }
            | Request::Get
            | Request::Call { .. }
    )
}

/// Returns when the node is deposed and tells its clients, of whom the caller is one.
async fn is_deposed(deposed: &mut Option<watch::Receiver<u64>>, is_client: bool) {
    match deposed {
        // An error means that the node is gone, and the process with it.
        Some(deposed) if is_client => drop(deposed.changed().await),
        _ => std::future::pending().await,
    }
}

/// Returns when the volume shuts the caller out.
async fn is_revoked(revoked: &mut Option<watch::Receiver<BTreeSet<String>>>, caller: &str) {
    match revoked {
        Some(revoked) => drop(revoked.wait_for(|revoked| revoked.contains(caller)).await),
        None => std::future::pending().await,
    }
}
