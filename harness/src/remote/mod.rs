//! Commands and files over SSH.
//!
//! [`SshRemote`] is one node. It owns a queue and a few *lanes*; a lane is an OS thread with an SSH
//! session of its own, on which one `/bin/sh` runs for as long as the session lives. Commands are
//! framed over that shell, so that one costs a round trip and not a login, and so that an exit
//! status is only ever what the shell said, never what a broken connection looks like.
//!
//! A program that is spoken to for long ([`deposed_core::Conversation`]) has a thread and a session of
//! its own as well; its shell becomes it.
//!
//! What libssh2 does not do well is avoided by construction: a session and its channel stay on one
//! thread; no keepalive is set on a session; a channel is never dropped while its socket is open;
//! exit statuses of channels are not asked for.

mod conversation;
mod handshake;
mod host_key;
mod lane;
mod login;
mod quote;
mod shell;
mod ssh_remote;
mod transfer;
mod warden;

pub use host_key::Fingerprint;
pub use quote::quote;
pub use ssh_remote::SshRemote;
pub use warden::LabWarden;
