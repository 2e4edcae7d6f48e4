//! A fault-injection test harness for replicated stores.
