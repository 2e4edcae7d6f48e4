//! Files, piece by piece, as commands. A piece lost on the way is sent again.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use deposed_core::{Command, Output, Remote, RemoteError};
use rand::RngExt;

use super::quote;

/// How much travels in one command.
const PIECE_BYTES: usize = 4 << 20;
/// How long one piece may take: 70 kB/s will do.
const PIECE_DEADLINE: Duration = Duration::from_secs(60);

/// Writes a file beside its place and moves it there when it is whole.
pub(super) async fn upload(
    remote: &dyn Remote,
    bytes: &[u8],
    to: &str,
    mode: u32,
) -> Result<(), RemoteError> {
    let path = quote(to);
    let part = quote(&format!("{to}.{:016x}.part", rand::rng().random::<u64>()));
    let open = format!("mkdir -p -- \"$(dirname -- {path})\" && umask 077");
    // The last line must also hold when it is sent twice: the first may have moved the file.
    let close = format!(
        "[ ! -e {part} ] || {{ chmod {mode:o} {part} && mv -fT -- {part} {path}; }} && \
         [ \"$(wc -c <{path})\" = {} ]",
        bytes.len()
    );
    let step = async |script: String, stdin: &[u8]| {
        let command = Command::new(script).stdin(stdin).deadline(PIECE_DEADLINE).idempotent();
        checked(remote, "upload", to, remote.exec(command).await?)
    };
    if bytes.len() <= PIECE_BYTES {
        return step(format!("{open} && cat >{part} && {close}"), bytes).await.map(drop);
    }
    let result = async {
        for (number, piece) in bytes.chunks(PIECE_BYTES).enumerate() {
            let seek = number * PIECE_BYTES;
            let write = format!("dd of={part} bs=1M oflag=seek_bytes seek={seek} conv=notrunc");
            step(format!("{open} && {write} status=none"), piece).await?;
        }
        step(close, &[]).await
    };
    let result = result.await;
    if result.is_err() {
        let _ = remote.exec(Command::new(format!("rm -f -- {part}")).idempotent()).await;
    }
    result.map(drop)
}

/// Copies a file into `to`, which appears when it is whole. What is appended meanwhile may be missing.
pub(super) async fn download(
    remote: &dyn Remote,
    from: &str,
    to: &Path,
) -> Result<(), RemoteError> {
    let local = |error: std::io::Error| RemoteError::Transfer {
        node: remote.node().name.to_string(),
        action: "download",
        path: from.to_owned(),
        reason: format!("cannot write {}: {error}", to.display()),
    };
    let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty());
    std::fs::create_dir_all(folder.unwrap_or(Path::new("."))).map_err(local)?;
    let part = to
        .with_file_name(format!(".{}.part", to.file_name().unwrap_or_default().to_string_lossy()));
    let mut file = std::fs::File::create(&part).map_err(local)?;
    let pieces = async {
        for number in 0u64.. {
            let read = format!(
                "dd if={} bs=1M iflag=fullblock,skip_bytes,count_bytes skip={} count={PIECE_BYTES}",
                quote(from),
                number * PIECE_BYTES as u64,
            );
            let command =
                Command::new(format!("{read} status=none")).deadline(PIECE_DEADLINE).idempotent();
            let piece = checked(remote, "download", from, remote.exec(command).await?)?.stdout;
            file.write_all(&piece).map_err(local)?;
            if piece.len() < PIECE_BYTES {
                break;
            }
        }
        std::fs::rename(&part, to).map_err(local)
    };
    let result = pieces.await;
    if result.is_err() {
        let _ = std::fs::remove_file(&part);
    }
    result
}

fn checked(
    remote: &dyn Remote,
    action: &'static str,
    path: &str,
    output: Output,
) -> Result<Output, RemoteError> {
    if output.success() {
        return Ok(output);
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(RemoteError::Transfer {
        node: remote.node().name.to_string(),
        action,
        path: path.to_owned(),
        reason: if said.is_empty() { "the file is not whole".to_owned() } else { said },
    })
}
