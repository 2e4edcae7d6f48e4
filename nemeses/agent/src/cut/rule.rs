//! What a cut comes to, rule after rule, whatever filters the packets.

use std::net::IpAddr;

use super::{Answer, Cut, Protocol, Scope, Spare};

/// What is done to some packets. The first rule that fits decides; what fits none passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rule {
    /// From where they come; from anywhere if there is none.
    pub(super) source: Option<IpAddr>,
    /// Which of them are meant.
    pub(super) packets: Packets,
    /// What is done to them.
    pub(super) fate: Fate,
}

/// Some packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Packets {
    /// All.
    All,
    /// Those of a protocol.
    Of(Protocol),
    /// Those to a port.
    To(Protocol, u16),
    /// Those from a port.
    From(Protocol, u16),
    /// Resets of TCP.
    Resets,
    /// "Port unreachable" of ICMP.
    Unreachables,
}

/// What becomes of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// It passes.
    Pass,
    /// It is gone.
    Drop,
    /// It is gone, and answered with a reset of TCP.
    Reset,
    /// It is gone, and answered with "port unreachable".
    Unreachable,
}

/// The rules of a cut.
pub(super) fn rules(cut: &Cut) -> Vec<Rule> {
    let mut rules: Vec<Rule> = cut.spared.iter().copied().map(spare).collect();
    if cut.answer == Answer::Reset {
        // Where both ends refuse, each must hear of it.
        rules.extend([Packets::Resets, Packets::Unreachables].map(|packets| Rule {
            source: None,
            packets,
            fate: Fate::Pass,
        }));
    }
    let fates = fates(cut);
    for source in &cut.sources {
        let of = |(packets, fate)| Rule { source: Some(*source), packets, fate };
        rules.extend(fates.iter().copied().map(of));
    }
    rules
}

/// What lets the controller's SSH through.
fn spare(spare: Spare) -> Rule {
    let (source, packets) = match spare {
        Spare::ToSshd { from, port } => (from, Packets::To(Protocol::Tcp, port)),
        Spare::FromSshd { from, port } => (from, Packets::From(Protocol::Tcp, port)),
    };
    Rule { source: Some(source), packets, fate: Fate::Pass }
}

/// What happens to the packets of a source that is cut.
fn fates(cut: &Cut) -> Vec<(Packets, Fate)> {
    let reset = (Packets::Of(Protocol::Tcp), Fate::Reset);
    let packets = match cut.scope {
        None => vec![Packets::All],
        Some(Scope { protocol, port: None }) => vec![Packets::Of(protocol)],
        Some(Scope { protocol, port: Some(port) }) => {
            vec![Packets::To(protocol, port), Packets::From(protocol, port)]
        }
    };
    let fate = match (cut.answer, cut.scope) {
        (Answer::Drop, _) => Fate::Drop,
        (Answer::Reset, None) => return vec![reset, (Packets::All, Fate::Unreachable)],
        (Answer::Reset, Some(Scope { protocol: Protocol::Tcp, .. })) => Fate::Reset,
        (Answer::Reset, Some(Scope { protocol: Protocol::Udp, .. })) => Fate::Unreachable,
    };
    packets.into_iter().map(|packets| (packets, fate)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{cut, ip};
    use super::*;

    /// The controller's SSH is spared before anything is cut, even when the controller has the
    /// address of a peer; and where both ends refuse, before that.
    #[test]
    fn ssh_is_spared_first() {
        for answer in [Answer::Drop, Answer::Reset] {
            let rules = rules(&Cut { answer, ..cut() });
            let ssh = |ip, packets| Rule { source: Some(ip), packets, fate: Fate::Pass };
            assert_eq!(rules[0], ssh(ip("10.0.0.2"), Packets::To(Protocol::Tcp, 2222)));
            assert_eq!(rules[1], ssh(ip("fd00::2"), Packets::From(Protocol::Tcp, 22)));
            let first_cut = rules.iter().position(|rule| rule.fate != Fate::Pass).unwrap();
            assert!(rules[first_cut..].iter().all(|rule| rule.fate != Fate::Pass), "{rules:?}");
            assert!(rules[first_cut..].iter().all(|rule| rule.source.is_some()), "{rules:?}");
        }
    }

    /// A scope names both directions of a port, and nothing else of the source.
    #[test]
    fn a_scope_is_one_port_of_one_protocol() {
        let scope = Some(Scope { protocol: Protocol::Tcp, port: Some(2380) });
        for (answer, fate) in [(Answer::Drop, Fate::Drop), (Answer::Reset, Fate::Reset)] {
            let rules = rules(&Cut { scope, answer, spared: [].into(), ..cut() });
            let source = Some(ip("10.0.0.2"));
            let of_source: Vec<Rule> =
                rules.into_iter().filter(|rule| rule.source == source).collect();
            let expected = [Packets::To(Protocol::Tcp, 2380), Packets::From(Protocol::Tcp, 2380)];
            assert_eq!(of_source, expected.map(|packets| Rule { source, packets, fate }));
        }
    }
}
