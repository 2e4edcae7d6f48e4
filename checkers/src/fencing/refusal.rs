//! What the verifier demands of each anomaly. Tests waive one demand after the other, to show that without
//! it something is confirmed that is not so.

crate::plantable::plantable! {
    /// Why an anomaly does not stand.
    #[derive(thiserror::Error)]
    pub(crate) enum Why {
        #[error("a witness is no event of fencing, or there is none")]
        NoWitness,
        #[error("an anomaly of this name does not look like that")]
        UnknownShape,
        #[error("a step does not hold")]
        NoStep,
        #[error("its steps are not those of this anomaly")]
        OtherSteps,
        #[error("a step is of something else")]
        OtherThings,
        #[error("what it says to be out of order is in order")]
        InOrder,
        #[error("it is one node")]
        OneNode,
        #[error("it is one holder")]
        OneHolder,
        #[error("it is of two resources")]
        TwoResources,
        #[error("they led in two epochs")]
        TwoEpochs,
        #[error("the tokens differ")]
        TwoTokens,
        #[error("they did not lead at one time")]
        ApartInTime,
        #[error("the lock was reentered")]
        Reentered,
        #[error("another process had released it")]
        ReleasedByAnother,
        #[error("it had been acquired again")]
        Reacquired,
        #[error("nothing was accepted")]
        NotAccepted,
        #[error("what was held first has a lease, or has none")]
        OtherHold,
        #[error("it had been released")]
        Released,
        #[error("its holder had lost its connection")]
        Disconnected,
        #[error("a lease may have been over")]
        MayBeOver,
        #[error("nobody tells who was given which token")]
        NobodyTells,
        #[error("somebody was given the token, or may have been by an acquire of unknown outcome")]
        MayBeIssued,
        #[error("nothing was believed valid")]
        NoBelief,
        #[error("nothing is known of the lease")]
        NoLease,
        #[error("the lease may have been valid")]
        MayBeValid,
        #[error("the write was not acknowledged")]
        NotAcknowledged,
        #[error("what has the last word has the write")]
        Survives,
        #[error("nothing tells what became of the write")]
        NothingTells,
        #[error("the write is lost, and not only missed")]
        Lost,
        #[error("the snapshot does not have the last word")]
        OldSnapshot,
        #[error("nothing took effect twice")]
        Once,
    }
}

/// Why an anomaly does not stand.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refused(Why);

impl Refused {
    pub(super) const fn because(why: Why) -> Self {
        Self(why)
    }
}

/// Demands something; unless tests have waived it.
pub(super) fn demand(holds: bool, otherwise: Why) -> Result<(), Refused> {
    if holds || planted(otherwise) { Ok(()) } else { Err(Refused(otherwise)) }
}
