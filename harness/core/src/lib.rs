//! The words of a test: nodes, remotes, systems, clients, generators, faults and plans.
