//! Bugs on purpose, one for each rule, so that tests can show that the comparison with brute force
//! finds them. Outside of tests there are none, and asking costs nothing.

crate::plantable::plantable! {
    /// A rule that is broken.
    pub(crate) enum Bug {
        /// Reads of what failed are let pass.
        AbortedIgnored,
        /// Reads of what nobody wrote are let pass.
        GarbageIgnored,
        /// An element may be in a list twice.
        DuplicateIgnored,
        /// Reads in the middle of a transaction are let pass.
        IntermediateIgnored,
        /// A transaction need not see its own state.
        InternalIgnored,
        /// A transaction may see what it writes later.
        FutureIgnored,
        /// Reads need not be prefixes of one order.
        StraysIgnored,
        /// A transaction's own appends may be in any order.
        OwnOrderIgnored,
        /// A later append of a transaction may be seen without the earlier one.
        OwnOrderUnseenIgnored,
        /// What was seen of an indeterminate transaction does not make it count.
        OpenNeverHappens,
        /// Every indeterminate transaction counts.
        OpenAlwaysHappens,
        /// An indeterminate transaction has an end.
        OpenEnds,
        /// Consecutive versions are not ordered.
        NoWriteWrite,
        /// A read need not follow what it read.
        NoWriteRead,
        /// A read need not precede the next version.
        NoReadWrite,
        /// Appends that nobody saw come at any time.
        TailForgotten,
        /// A reader of the last version precedes itself if it appends.
        FanToItself,
        /// Of many later writers, a reader that is one precedes only those after it.
        FanHalf,
        /// A transaction comes before one that was invoked just before it returned, too.
        ReturnTooEarly,
        /// The first transaction that is invoked after a return may come before it.
        ReturnTooLate,
        /// The order of processes is forgotten.
        ProcessesForgotten,
        /// In the layers, rw after rw goes on.
        AdjacentAllowed,
        /// Only single rw are looked for in the layers.
        OnlySingles,
        /// Concurrent writers of a key that nobody orders are let pass.
        OverlapIgnored,
        /// A writer between a version and its reader is let pass.
        BetweenIgnored,
        /// The first conflict is final.
        NoSecondTry,
        /// Of a choice the likely side is taken for the only one.
        OnlyLikely,
        /// Two may read one version and both write over it.
        LostUpdateIgnored,
        /// What is written on top of something that failed is let pass.
        DirtyUpdateIgnored,
        /// A value that two wrote is taken to have the last writer.
        AmbiguityIgnored,
        /// Read atomic: somebody may miss a write of one it read from.
        FracturedIgnored,
        /// Causal: of the versions that were missed, only the next one counts.
        LaterVersionsForgotten,
        /// Causal: only what was read from itself has to be seen, not what that saw.
        OnlySources,
        /// Prefix: the first committer wins.
        WritersApart,
        /// Snapshots: the likely order of writes that nobody saw is taken for one.
        GuessTrusted,
        /// Parallel snapshots, and views: the same.
        UnseenTrusted,
        /// Views: a view in which something was missed is taken for consistent.
        ViewsTrusted,
        /// Read uncommitted: what was seen of an indeterminate transaction makes it count.
        DirtyReadsCount,
        /// Read uncommitted: that reads disagree leaves nothing open.
        DisagreementIgnored,
        /// Nothing follows from a stronger level.
        StrongerIgnored,
        /// That there is no serial order says nothing of levels that ask for one.
        SerialIgnored,
        /// Sessions: what was seen need not be seen again.
        ReadsForgotten,
        /// Sessions: what was written need not be seen.
        OwnWritesForgotten,
        /// Sessions: who sees a write need not see those before it.
        WritesApartInSession,
        /// Sessions: who sees a write need not see what its session had seen.
        CausesForgotten,
        /// Sessions: what is seen may be committed later.
        CommitOrderIgnored,
        /// Sessions: what has to be seen may be missed.
        MissesIgnored,
        /// Sessions: reads that disagree in themselves are trusted.
        BrokenReadsTrusted,
        /// Monotonic reads: a read that shows less than one before it is let pass.
        LessReadIgnored,
        /// Read your writes: a read without an own write is let pass.
        OwnWriteMissedIgnored,
        /// Monotonic writes: writes of a session may be in any order.
        WritesInAnyOrder,
        /// Writes follow reads: a write may come before what its session had read.
        WriteBeforeRead,
        /// Cycles of writes alone are let pass.
        WriteCyclesIgnored,
        /// Bank: what is no map of balances is let pass.
        BalancesOfAnyKind,
        /// Bank: accounts that were not there before are let pass.
        NewAccountsIgnored,
        /// Bank: accounts without a balance are let pass.
        NilBalancesIgnored,
        /// Bank: totals are not compared.
        TotalsIgnored,
        /// Bank: balances may be negative.
        DebtsIgnored,
        /// Bank: balances may not be negative, whatever was said.
        DebtsForbidden,
        /// Bank: each read is compared with itself.
        TotalForgotten,
        /// Bank: the total that was given is not looked at.
        GivenTotalIgnored,
        /// Bank: a read that is wrong in itself says what the others have to be.
        BrokenReadTrusted,
        /// Bank: accounts of the same name are others if they are written otherwise.
        AccountsByKind,
        /// Bank: all calls are taken for reads of the balances.
        TransfersJudged,
        /// Bank, long fork: what nobody acknowledged is taken for read.
        UnfinishedReadsJudged,
        /// Long fork: nothing follows from what a read saw.
        ForkSeenIgnored,
        /// Long fork: nothing follows from what a read missed.
        ForkMissedIgnored,
        /// Long fork: a key may have any number of values.
        ForkValuesIgnored,
        /// Long fork: keys written twice are let pass.
        ForkTwiceIgnored,
        /// Long fork: a write that failed is one.
        ForkFailedWrites,
        /// Long fork: what neither writes nor reads is let pass.
        ForkOddIgnored,
    }
}
