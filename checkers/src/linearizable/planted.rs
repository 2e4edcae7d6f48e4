//! Bugs on purpose, one for each rule of each algorithm, so that tests can show that the comparison
//! with brute force finds them. Outside of tests there are none, and asking costs nothing.

crate::plantable::plantable! {
    /// A rule that is broken.
    pub(crate) enum Bug {
        /// Z1: no optional call ever counts.
        NoOptionalCounts,
        /// Z1: an optional cas does not make what it needs count.
        NoClosure,
        /// Z1: a value that may have been written twice is taken to have the first writer.
        SecondWriterIgnored,
        /// Z2: a value seen before it was written is let pass.
        FutureIgnored,
        /// Z2: the order inside chains is not checked.
        ChainOrderIgnored,
        /// Z3: a zone ends with the last write, not the last call.
        ReadsOutsideZones,
        /// Z4: forward zones may overlap.
        ForwardOverlapIgnored,
        /// Z4: backward zones may lie inside forward ones.
        BackwardInsideIgnored,
        /// Z5: failed cas are not looked at.
        MissesIgnored,
        /// Z5: a value has ended once anything was written, whenever that was invoked.
        EndsTooSoon,
        /// Z5: a value has not begun until its writer has returned.
        BeginsTooLate,
        /// R2: a write of the current value takes effect at once, as if it only looked.
        WritesLook,
        /// R3: a needed state is not left although it can be had again.
        NoWayBack,
        /// R3: what grows is taken never to come back, although something can start anew.
        NothingStartsAnew,
        /// R3b: what is ruled out now stays so, although something can start anew.
        RuledOutForEver,
        /// R4: of equal calls the first is tried, even if it has taken effect.
        TwinsForgotten,
        /// R5: no optional call is searched.
        NothingOptional,
        /// R5: optional calls that failed cas may need are left out.
        NoSeparators,
        /// R6: what used fewer optional calls is dropped.
        MoreIsBetter,
        /// A configuration is known by its calls, whatever the state.
        StateForgotten,
        /// Optional cas have no use for a value.
        OptionalCasForgotten,
        /// Queues: values may overtake each other.
        OvertakingIgnored,
        /// Queues: a queue may be found empty at any time.
        FalseEmptyIgnored,
        /// Frontier: a write of the current value is not absorbed when it is invoked.
        NotAbsorbedAtOnce,
        /// Frontier: any write absorbs writes that are invoked later.
        AbsorbedForEver,
        /// Frontier: a write that changes nothing is never used.
        NothingHides,
        /// Frontier: no optional cas or failed cas has a use for an absorbed write.
        ExplicitUseless,
        /// Frontier: a failed cas has a use for an absorbed write only while the value is the one it missed.
        MissesOfTheMoment,
        /// Frontier: configurations that saw less are as good.
        LooksForgotten,
        /// Frontier: configurations that owe writes are as good.
        DebtsForgotten,
        /// L2: a value cannot be read before its writer has returned.
        WriterMustReturn,
        /// L2: a read takes effect when it is invoked, even if its writer can take effect later.
        ReadsAtOnce,
        /// L2: of several calls that write a value only the first has to have returned.
        OneWriterOfMany,
        /// L2: nobody writes the initial value.
        InitialOnlyOnce,
        /// L3: what the zones, which pass over failed cas, find to be enough is.
        ZonesSuffice,
        /// L1: the first lag that is found to be enough is the smallest.
        LeapsSuffice,
        /// L1: cas that only looked lag like reads.
        AnythingLags,
        /// A value is gone when the next one begins to be written.
        GoneWhenInvoked,
        /// A search that found an order says that it found none.
        OrderDenied,
        /// The first call of a witness is left out of it.
        WitnessIncomplete,
    }
}
