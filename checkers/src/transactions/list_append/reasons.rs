//! Why an edge of the data is there, in terms of the history.

use super::super::certificate::{Because, Certificate, Happened};
use super::super::graph::Rel;
use super::super::txns::Txns;
use super::edges::Data;
use super::versions::Versions;

/// The reason for an edge between two transactions.
pub(crate) fn reason<'h>(
    txns: &Txns<'h>,
    versions: &Versions,
    data: &Data,
    (from, rel, to): (u32, Rel, u32),
) -> Option<Because<'h>> {
    if rel == Rel::WW {
        let next = txns.mops(to).iter().filter(|mop| mop.is_write()).find_map(|mop| {
            let key = mop.key();
            let below = match versions.place(mop.what) {
                0 if versions.is_seen(mop.what) => None,
                0 => data.last(txns, versions, key),
                place => versions.order(key)[..place as usize - 1]
                    .iter()
                    .rev()
                    .find_map(|&value| Some((txns.writer(value)?, value))),
            };
            let (_, before) = below.filter(|&(writer, _)| writer == from)?;
            Some(Because::Wrote {
                key: txns.key_text(key),
                before: txns.value_text(before),
                after: txns.value_text(mop.what),
                reader: txns.invoke(versions.whole_reader(txns, key)),
                seen: versions.place(mop.what) > 0,
            })
        });
        return next.or_else(|| later_write(txns, versions, from, to));
    }
    if rel == Rel::WR {
        return txns.mops(to).iter().filter(|mop| !mop.is_write()).find_map(|mop| {
            let &value = versions.seen(mop.key(), mop.what).last()?;
            (txns.writer(value) == Some(from)).then(|| Because::Saw {
                key: txns.key_text(mop.key()),
                value: txns.value_text(value),
            })
        });
    }
    let reads = || (0..).zip(txns.mops(from)).filter(|(_, mop)| !mop.is_write());
    let next = reads().find_map(|(at, mop)| {
        let key = mop.key();
        let after = match data.next_after_read(versions, key, mop.what)? {
            Some((writer, value)) => (writer == to).then_some(value),
            None => data.tail(key).iter().find(|tail| tail.1 == to).map(|tail| tail.2),
        }?;
        Some(Because::Missed { key: txns.key_text(key), mop: at, after: txns.value_text(after) })
    });
    // Not the next version, but a later one.
    next.or_else(|| {
        reads().filter(|(_, mop)| Versions::stray(mop.what).is_none()).find_map(|(at, mop)| {
            let key = mop.key();
            let later = |value| versions.place(value) > mop.what || !versions.is_seen(value);
            let after = txns.mops(to).iter().find(|write| {
                write.is_write()
                    && write.key() == key
                    && txns.writer(write.what) == Some(to)
                    && later(write.what)
            })?;
            let after = txns.value_text(after.what);
            Some(Because::Missed { key: txns.key_text(key), mop: at, after })
        })
    })
}

/// A write over a version that was not the last one before it.
fn later_write<'h>(
    txns: &Txns<'h>,
    versions: &Versions,
    from: u32,
    to: u32,
) -> Option<Because<'h>> {
    let writes = |txn: u32| {
        let by = move |mop: &&super::super::txns::Mop| {
            mop.is_write() && txns.writer(mop.what) == Some(txn)
        };
        txns.mops(txn).iter().filter(by)
    };
    writes(from).filter(|mop| versions.place(mop.what) > 0).find_map(|before| {
        let key = before.key();
        let place = versions.place(before.what);
        let after = writes(to).find(|mop| {
            let later = versions.place(mop.what) > place || !versions.is_seen(mop.what);
            mop.key() == key && later
        })?;
        Some(Because::Wrote {
            key: txns.key_text(key),
            before: txns.value_text(before.what),
            after: txns.value_text(after.what),
            reader: txns.invoke(versions.whole_reader(txns, key)),
            seen: versions.place(after.what) > 0,
        })
    })
}

/// Adds to a certificate why its indeterminate transactions happened.
pub(crate) fn add_happened<'h>(
    txns: &Txns<'h>,
    versions: &Versions,
    certificate: &mut Certificate<'h>,
) {
    for position in certificate.proof.txns() {
        let Some(txn) = txns.at(position).filter(|&txn| !txns.is_acknowledged(txn)) else {
            continue;
        };
        let seen = txns.mops(txn).iter().filter(|mop| mop.is_write()).find_map(|mop| {
            let key = mop.key();
            txns.writer(mop.what)?;
            let reader = if versions.place(mop.what) > 0 {
                versions.whole_reader(txns, key)
            } else {
                let has = |stray: &&super::versions::Stray| stray.elements.contains(&mop.what);
                versions.strays.iter().find(has)?.reader
            };
            Some(Happened {
                txn: position,
                key: txns.key_text(key),
                value: txns.value_text(mop.what),
                reader: txns.invoke(reader),
            })
        });
        certificate.happened.extend(seen);
    }
}
