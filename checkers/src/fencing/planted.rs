//! Bugs on purpose, one for each rule, so that tests can show that the comparison with the definitions
//! finds them. Outside of tests there are none, and asking costs nothing.

crate::plantable::plantable! {
    /// A rule that is broken.
    pub(crate) enum Bug {
        // Claims: what is a violation, and the bounds of leases.
        /// Whatever is found breaks a promise.
        AllIsClaimed,
        /// A lease certainly lasts as long as by the clock that drifts least.
        LeasesNeverRunFast,
        /// ... by clocks that agree.
        LeasesAreExact,
        /// A lease is over as soon as by the clock that drifts least.
        LeasesNeverRunSlow,
        /// ... by clocks that agree.
        EndsAreExact,
        // What a history says.
        /// An id is the same write, whatever the resource.
        IdsAreGlobal,
        /// A write takes no more effect once one of its tries has returned.
        FirstTryIsDone,
        /// The acknowledgement that came last is the one that counts.
        LastAcknowledgementCounts,
        /// Lines of a log stand in the order in which they were collected.
        LinesAsCollected,
        // Tokens.
        /// A holder that asks again must get another token.
        ReentryIsDuplicate,
        /// A token that was given back may be granted again.
        ReturnedMayBeGranted,
        /// A token was given back whenever its holder released it.
        AnyReleaseReturns,
        /// Anybody may get a token again.
        OthersReenter,
        /// Grants that overlap in time are in order.
        OverlappingGrantsOrdered,
        /// A grant is compared with the last one only.
        GrantsFollowTheLast,
        /// A grant must be greater than all before.
        EqualGrantsGoBack,
        /// What was refused was accepted.
        RefusedIsAccepted,
        /// A log goes back whenever a greater token was accepted before.
        RegressionFromGreatest,
        /// ... or the same.
        EqualTokensGoBack,
        /// A stale token is one that is smaller than the last.
        StaleByTheLast,
        /// Writes that overlap in time are in order.
        OverlappingWritesOrdered,
        /// Writes of unknown outcome were accepted.
        OpenWritesAccepted,
        /// A write is compared with the last one only.
        WritesFollowTheLast,
        /// Acquires of unknown outcome got nothing.
        LostAcquiresGetNothing,
        /// ... got any number of tokens.
        LostAcquiresGetMany,
        /// ... got their token before they began.
        LostAcquiresGetEarly,
        /// What the service notes is not looked at.
        NotedGrantsIgnored,
        /// A leader's epoch is no token.
        EpochsAreNoTokens,
        /// A token may be used before anybody asked for it.
        TokensBeforeAsked,
        /// Tokens are judged although nobody tells who was given which.
        NobodyGrants,
        /// A token was in use only once it was used last.
        LastUseCounts,
        /// A token is newer than itself.
        SameTokenIsNewer,
        /// A token was granted when it was asked for.
        GrantedWhenAsked,
        /// ... as told by the first greater token, not by the earliest.
        FirstGreaterCounts,
        /// The error of the clock that noted a grant or its end is not looked at.
        NotesAreExact,
        /// The error of the resource's clock is not looked at.
        LinesAreExact,
        /// A write may take effect before it began.
        EffectsBeforeBegun,
        /// Tokens that were used are taken for ones that were granted only.
        UsedIsGranted,
        /// What happened at once happened late.
        TiesAreLate,
        /// A holder that acquired again has still released.
        ReacquiredIsReleased,
        /// A release counts, whoever asked for it.
        ReleasedByAnybody,
        /// All tries of a write were accepted.
        AllTriesAccepted,
        // Holds.
        /// Whoever renews a grant holds it.
        RenewersHold,
        /// Nobody releases.
        ReleasesIgnored,
        /// A release ends also later grants of its token.
        ReleasesEndLaterGrants,
        /// A hold lasts until its release has returned.
        HeldUntilReleased,
        /// A holder that lost its connection still holds.
        LostStillHold,
        /// ... if another one renewed for it.
        LostOwnersHold,
        /// A lease begins when the answer came.
        LeaseFromAnswer,
        /// A hold begins when it was asked for.
        HeldWhenAsked,
        /// What was over before it was known is a hold.
        OverIsHeld,
        /// A holder excludes itself.
        OwnHoldsOverlap,
        /// Of the holds before, only the one that lasts longest is looked at.
        OnlyTheLongestHold,
        /// ... only the last.
        OnlyTheLastHold,
        /// What has a lease is called a lock, and the other way round.
        LeasesAreLocks,
        /// A lease runs from when it was asked for at the latest.
        OverSinceAsked,
        /// What the service notes of any grant of a token is about this one.
        NotesOfOthers,
        /// The first note of a grant counts.
        FirstNoteCounts,
        /// The service cannot have granted later than it noted, nor the answer come earlier.
        NotesBeforeAnswers,
        /// Renewals of unknown outcome renew nothing.
        LostRenewalsGiveNothing,
        /// Grants that came later count as well.
        LaterGrantsCount,
        /// The last grant or renewal counts, however short its lease.
        LastGrantCounts,
        /// Locks without a lease run out at once.
        LocksRunOut,
        /// Renewals of unknown outcome succeeded.
        OpenRenewalsSucceed,
        /// A grant ended when the service last said so.
        LastEndCounts,
        /// A renewal began when its answer came.
        RenewedWhenAnswered,
        // Writes.
        /// Snapshots of all epochs have the last word.
        OldSnapshotsCount,
        /// All snapshots must have a write.
        AllSnapshotsMustHave,
        /// Who tells its last write has that one only.
        LastIsAll,
        /// A write is newer than another one whose first effect was before.
        FirstEffectCounts,
        /// ... that began before.
        BegunBeforeIsOlder,
        /// A log has no say on what is lost.
        LogsTellNothing,
        /// What was ever refused is lost.
        RefusedIsLost,
        /// Reads from followers tell what is lost.
        FollowersTell,
        /// Reads that tell their last write tell what is lost.
        LastReadsTell,
        /// Reads of the same epoch tell what is lost.
        SameEpochTells,
        /// Reads that began before the write returned tell what is lost.
        EarlierReadsTell,
        /// Reads of any epoch can save a write.
        AnyEpochSaves,
        /// Reads that began before the write returned can save it.
        EarlierReadsSave,
        /// Reads that tell their last write save nothing.
        LastReadsSaveNothing,
        /// The first read afterwards has the last word.
        FirstReadTells,
        /// What a log refused was applied as well.
        RefusedIsApplied,
        /// Snapshots and reads are not searched for what is there twice.
        RepeatsIgnored,
        /// What is there twice counts as often as it is seen.
        RepeatsCountAgain,
        /// Reads must see what is lost.
        LostIsMissed,
        /// Reads must see what was under way when they began.
        UnderWayIsMissed,
        /// Reads that saw nothing are not looked at.
        NothingIsFine,
        /// A read must see something newer than what it saw.
        SeenIsMissed,
        /// Of what is newer, only the next write is looked at.
        OnlyTheNextWrite,
        // Leaders.
        /// Followers prove that they lead.
        FollowersLead,
        /// Two services of one node make it two.
        OneNodeIsTwo,
        /// Each service of another node in an epoch is a leader more.
        EpochsCountAgain,
        /// Services that overlap in time are in order.
        OverlappingServicesOrdered,
        /// A node deposes itself.
        OwnEpochsDepose,
        /// A node deposes another one of its epoch.
        EqualEpochsDepose,
        /// Of other nodes, only the one in the latest epoch is looked at.
        OnlyTheLatestEpoch,
        /// All nodes of an epoch have one window.
        OneWindowAnEpoch,
        /// The error of leaders' clocks is not looked at.
        LeadersAreExact,
        /// Two leaders in one epoch are counted again when they overlap.
        SameEpochOverlaps,
        /// Of the leaders before, only the one that led longest is looked at.
        OnlyTheLongestLeader,
        /// A node excludes itself.
        OwnTermsOverlap,
        /// Terms that are empty, given the error of clocks, overlap with others.
        EmptyTermsOverlap,
    }
}
