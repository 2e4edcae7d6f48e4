//! How to hurt: faults, targets, schedules, evidence and healing.
