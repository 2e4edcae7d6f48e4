//! Was it right: pure checkers over histories, with witnesses.
