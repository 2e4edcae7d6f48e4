//! Bugs on purpose, one for each rule, so that tests can show that the comparison with the definitions
//! finds them. Outside of tests there are none, and asking costs nothing.

crate::plantable::plantable! {
    /// A rule that is broken.
    pub(crate) enum Bug {
        /// Set: an element counts from the first add on, not from its end.
        AddsCountAtOnce,
        /// Set: that a read saw an element does not make it known.
        SeenIsNotKnown,
        /// Set: adds that failed are taken for ones that may have happened.
        FailedAddsCount,
        /// Set: an element that is back later was lost.
        StaleIsLost,
        /// Set: reads that began before an element was known must see it.
        EarlyReadsCount,
        /// Queue, set: what nobody put in is let pass.
        UnexpectedIgnored,
        /// Queue: dequeues that crashed took nothing.
        CrashedDequeuesIgnored,
        /// Queue: drains that crashed took nothing but what they tell.
        CrashedDrainsIgnored,
        /// Queue: what a drain that crashed tells is not looked at.
        ToldIgnored,
        /// Queue: an element that was put in twice may come out once.
        CopiesIgnored,
        /// Queue: what a drain took is not looked at.
        DrainsIgnored,
        /// Queue: a crashed dequeue may have taken any number of elements.
        DequeuesTakeAll,
        /// Counter: adds that were under way when a read began are not in it.
        AddsUnderWayIgnored,
        /// Counter: adds that are certain may be missed.
        CertainAddsIgnored,
        /// Counter: an indeterminate add happened when it ended.
        OpenAddsEnd,
        /// Counter: adds that failed may have happened.
        FailedIncrementsCount,
        /// Counter: negative amounts are taken for positive ones.
        SignsIgnored,
        /// Ids: a second one is let pass.
        SecondIdIgnored,
        /// Ids: what was not acknowledged was handed out.
        OpenIdsCount,
        /// Ids: all calls hand out ids.
        AllCallsGenerate,
        /// Availability: calls without an answer are not counted.
        OnlyAnswersCount,
        /// Availability: the goal is not looked at.
        GoalIgnored,
        /// Availability: more than the goal has to succeed.
        GoalIsNotEnough,
        /// Availability: where nothing was invoked, all was answered.
        NothingIsAvailable,
        /// Availability: a call is of the time in which its answer came.
        WindowsByAnswer,
        /// Availability: a time in which nothing was invoked is the worst.
        IdleWindowsCount,
        /// Leases: one has the length that was asked for.
        LeasesAsAsked,
        /// Leases: clocks agree.
        LeasesAreExact,
        /// Leases: one begins when it is given, not before.
        LeasesBeginWhenGiven,
        /// Leases: one begins when it is asked for, not later.
        LeasesBeginWhenAsked,
        /// Leases: a key may not be there any more once its lease is over.
        EndsAreExact,
        /// Leases: a read saw what there was when its answer came.
        AnswersAreLate,
        /// Leases: the first read that saw a key tells how long it was there.
        FirstReadTells,
        /// Leases: a read that began before a key was known to be there must see it.
        EarlyReadsLose,
        /// Leases: so must a read that ended after the lease may have been over.
        ReadsUnderWayLose,
        /// Leases: the last that was put counts, whatever was before.
        LastPutCounts,
        /// Leases: what may have been put changes nothing.
        OpenPutsIgnored,
        /// Leases: what was not put gives another lease.
        FailedPutsCount,
        /// Leases: a wrong clock lets one begin anew.
        ClockFaultsExtend,
        /// Leases: so does a fault that was not applied.
        SkippedFaultsExtend,
        /// Leases: so does one that came when the lease was over.
        LateFaultsExtend,
        /// Leases: no fault extends what another one has extended.
        FaultsExtendAlone,
        /// Leases: a fault that was not healed does not extend one.
        OpenFaultsEnd,
        /// Leases: a fault is over without proof.
        HealingNeedsNoProof,
    }
}
