//! What Sentinels say of who the master is.

use std::net::SocketAddr;
use std::time::Duration;

use futures_util::future::join_all;

use super::resp::{Connection, Reply};

/// A master, as a Sentinel sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Master {
    pub(super) addr: SocketAddr,
    /// Counts promotions: a later master has a greater one.
    pub(super) epoch: i64,
}

/// Asks one Sentinel who is the master of this name.
///
/// While a promotion is under way, what `MASTER` says still has the old address, and the new epoch
/// already; what `GET-MASTER-ADDR-BY-NAME` says goes with the epoch. Both are asked at once, as a
/// Sentinel changes nothing between commands that came together.
pub(super) async fn ask(addr: SocketAddr, name: &str, limit: Duration) -> Result<Master, String> {
    let commands: [&[&str]; 2] =
        [&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", name], &["SENTINEL", "MASTER", name]];
    let mut connection = Connection::open(addr, limit).await.map_err(|e| e.to_string())?;
    let replies = connection.call(&commands, limit).await.map_err(|e| e.to_string())?;
    understood(&replies).ok_or_else(|| format!("Sentinel at {addr} said {replies:?}"))
}

fn understood(replies: &[Reply]) -> Option<Master> {
    let [Reply::List(at), Reply::List(fields)] = replies else { return None };
    let [ip, port] = &at[..] else { return None };
    let addr = SocketAddr::new(ip.as_text()?.parse().ok()?, port.as_text()?.parse().ok()?);
    let (fields, _) = fields.as_chunks::<2>();
    let [_, epoch] = fields.iter().find(|[name, _]| name.as_text() == Some("config-epoch"))?;
    Some(Master { addr, epoch: epoch.as_text()?.parse().ok()? })
}

/// Asks all, and says whom the first of them names that answers, with the greatest epoch under which
/// any names that one: a Sentinel that was cut off may have missed that it was promoted again.
pub(super) async fn ask_all(
    addrs: &[SocketAddr],
    name: &str,
    limit: Duration,
) -> Result<Master, String> {
    let answers = join_all(addrs.iter().map(|&addr| ask(addr, name, limit))).await;
    let named: Vec<Master> = answers.iter().flatten().copied().collect();
    let Some(first) = named.first() else {
        let silent = answers.into_iter().filter_map(Result::err).next();
        let silent = silent.unwrap_or_else(|| "there is none".into());
        return Err(format!("no Sentinel says who the master is: {silent}"));
    };
    let epochs = named.iter().filter(|other| other.addr == first.addr).map(|other| other.epoch);
    Ok(Master { addr: first.addr, epoch: epochs.max().unwrap_or(first.epoch) })
}
