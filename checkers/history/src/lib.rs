//! What happened in a run: operations, processes, histories, and the formats they are kept in.
