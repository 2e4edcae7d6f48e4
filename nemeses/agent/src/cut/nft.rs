//! A cut as a table of nf_tables: one for both families, in one transaction.

use std::io;
use std::net::IpAddr;

use super::rule::{Fate, Packets, Rule};
use super::{Cut, Cutting, Protocol};
use crate::nftables::{Header, Hook, Part, Transaction, has_table};
use crate::{Failure, Result};

/// The chain that the others lead to.
pub(super) const CUT: &str = "cut";

/// The chains that packets come by.
const HOOKS: [(&str, Hook); 2] = [("input", Hook::Input), ("forward", Hook::Forward)];

/// Offset of the flags of TCP, and that of a reset among them.
const TCP_FLAGS: u32 = 13;
const TCP_RESET: u8 = 4;

/// Has the rules come into force. Those of an earlier cut of that name are gone.
pub(super) fn apply(cut: &Cut, undo: &Cutting) -> Result<()> {
    let on = || Transaction::on(&undo.table());
    let done = match rules(cut, on().create()).commit() {
        // Whoever removed anything waits for the kernel to forget it (some 10 ms), so that is not
        // done in any case.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            rules(cut, on().remove().create()).commit()
        }
        done => done,
    };
    done.map_err(|error| Failure::new("cut the network by nf_tables", error))
}

fn rules(cut: &Cut, table: Transaction) -> Transaction {
    let rules = super::rule::rules(cut);
    let cutting =
        rules.iter().flat_map(parts).fold(table.chain(CUT), |all, parts| all.rule(CUT, &parts));
    HOOKS.iter().fold(cutting, |all, (chain, hook)| {
        all.hooked(chain, *hook).rule(chain, &[Part::Jump(CUT)])
    })
}

/// Removes the table, if it is there.
pub(super) fn undo(undo: &Cutting) -> Result<()> {
    commit("remove a table of nf_tables", Transaction::on(&undo.table()).remove())
}

/// Whether the table is there.
pub(super) fn is_there(undo: &Cutting) -> Result<bool> {
    has_table(&undo.table()).map_err(|error| Failure::new("look for a table of nf_tables", error))
}

/// Lets packets pass by the rules, which stay.
pub(super) fn open(undo: &Cutting) -> Result<()> {
    let all = Transaction::on(&undo.table());
    commit("open a cut", HOOKS.iter().fold(all, |all, (chain, _)| all.flush(chain)))
}

/// Leads packets to the rules again.
pub(super) fn close(undo: &Cutting) -> Result<()> {
    let all = Transaction::on(&undo.table());
    let jump = [Part::Jump(CUT)];
    commit("close a cut", HOOKS.iter().fold(all, |all, (chain, _)| all.rule(chain, &jump)))
}

fn commit(attempted: &str, all: Transaction) -> Result<()> {
    all.commit().map_err(|error| Failure::new(attempted, error))
}

/// A rule in the kernel's words. What is said of ICMP is said of both families, each with its own.
fn parts(rule: &Rule) -> Vec<Vec<Part>> {
    let (v4, v6) = (libc::AF_INET as u8, libc::AF_INET6 as u8);
    let source = match rule.source {
        None => vec![],
        Some(IpAddr::V4(ip)) => {
            vec![Part::Family(v4), Part::Bytes(Header::Network, 12, ip.octets().to_vec())]
        }
        Some(IpAddr::V6(ip)) => {
            vec![Part::Family(v6), Part::Bytes(Header::Network, 8, ip.octets().to_vec())]
        }
    };
    let icmp = |family, protocol: i32, kind_and_code: [u8; 2]| {
        let bytes = Part::Bytes(Header::Transport, 0, kind_and_code.to_vec());
        vec![Part::Family(family), Part::Protocol(protocol as u8), bytes]
    };
    let port = |protocol, offset, port: u16| {
        let bytes = port.to_be_bytes().to_vec();
        vec![Part::Protocol(number(protocol)), Part::Bytes(Header::Transport, offset, bytes)]
    };
    let packets = match rule.packets {
        Packets::All => vec![vec![]],
        Packets::Of(protocol) => vec![vec![Part::Protocol(number(protocol))]],
        Packets::From(protocol, from) => vec![port(protocol, 0, from)],
        Packets::To(protocol, to) => vec![port(protocol, 2, to)],
        Packets::Resets => vec![vec![
            Part::Protocol(number(Protocol::Tcp)),
            Part::Bits(Header::Transport, TCP_FLAGS, TCP_RESET),
        ]],
        Packets::Unreachables => {
            vec![icmp(v4, libc::IPPROTO_ICMP, [3, 3]), icmp(v6, libc::IPPROTO_ICMPV6, [1, 4])]
        }
    };
    let fate = match rule.fate {
        Fate::Pass => vec![Part::Return],
        Fate::Drop => vec![Part::Count, Part::Drop],
        Fate::Reset => vec![Part::Count, Part::Reset],
        Fate::Unreachable => vec![Part::Count, Part::Unreachable],
    };
    packets.into_iter().map(|packets| [source.clone(), packets, fate.clone()].concat()).collect()
}

const fn number(protocol: Protocol) -> u8 {
    match protocol {
        Protocol::Tcp => libc::IPPROTO_TCP as u8,
        Protocol::Udp => libc::IPPROTO_UDP as u8,
    }
}
