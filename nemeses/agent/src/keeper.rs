//! The keeper: a process that does nothing but undo every fault when the lease of the node runs out.
//!
//! It is in a session of its own, so neither the end of the connection nor that of the agent reaches
//! it. Agent and keeper watch over each other: the agent sees to it that there is a keeper before it
//! applies anything and whenever the lease is renewed; the keeper heals when an agent renews no more.

use std::fs::File;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::unistd::setsid;

use crate::agent::{this_program, undo_all};
use crate::{Failure, Home, Journal, Lease, Result};

/// How often the lease is looked at. It may be renewed in between, so the keeper never sleeps longer
/// than it lasts.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How often a fault that resists is tried again.
const TRY_EVERY: Duration = Duration::from_secs(2);

/// How long a new keeper waits for its place: whoever looks whether it is taken takes it for a moment.
const PLACE_WITHIN: Duration = Duration::from_secs(1);

/// Is the keeper of a node until there is nothing to keep. Returns at once if there is one already.
///
/// # Errors
/// If it can neither read nor lock what it needs.
pub fn keep(home: &Home) -> Result<()> {
    // Fails only for the leader of a group, which a spawned process is not.
    let _ = setsid();
    // Under memory pressure, this one must stay. Without the right to say so it is one of many.
    let _ = std::fs::write("/proc/self/oom_score_adj", "-1000");
    let end = Instant::now() + PLACE_WITHIN;
    let place = loop {
        match take_place(home)? {
            Some(place) => break place,
            None if Instant::now() > end => return Ok(()),
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    let lease = Lease::new(home);
    loop {
        let left = lease.left().unwrap_or_default();
        if !left.is_zero() {
            std::thread::sleep(left.min(LOOK_EVERY));
            continue;
        }
        let journal = Journal::lock(home)?;
        if !lease.left().unwrap_or_default().is_zero() {
            continue;
        }
        if undo_all(&journal).is_ok() {
            // In this order: an agent looks for a keeper while it has the journal.
            drop(place);
            return Ok(());
        }
        drop(journal);
        std::thread::sleep(TRY_EVERY);
    }
}

/// Undoes everything that the journal of this node knows of, from a cold start, and ends the lease: what
/// resists is tried again by the keeper, if there is one.
///
/// # Errors
/// With the first fault that resists.
pub fn heal(home: &Home) -> Result<()> {
    let journal = Journal::lock(home)?;
    Lease::new(home).end()?;
    undo_all(&journal)
}

/// Sees to it that there is a keeper.
pub(crate) fn ensure_kept(journal: &Journal) -> Result<()> {
    let home = journal.home();
    if take_place(home)?.is_none() {
        return Ok(());
    }
    let mut keeper = this_program(home)
        .and_then(|mut program| program.arg("keep").spawn())
        .map_err(|error| Failure::new("start the keeper", error))?;
    // It is nobody's business here when it ends; but it must not stay a zombie.
    std::thread::spawn(move || keeper.wait());
    Ok(())
}

/// The keeper's place, if it is free.
fn take_place(home: &Home) -> Result<Option<Flock<File>>> {
    let path = home.volatile().join("keeper");
    let failed = |error: std::io::Error| Failure::new(format!("lock {}", path.display()), error);
    std::fs::create_dir_all(home.volatile()).map_err(failed)?;
    let file = File::options().create(true).truncate(false).write(true).open(&path);
    match Flock::lock(file.map_err(failed)?, FlockArg::LockExclusiveNonblock) {
        Ok(place) => Ok(Some(place)),
        Err((_, Errno::EWOULDBLOCK)) => Ok(None),
        Err((_, errno)) => Err(failed(errno.into())),
    }
}
