//! Which blocks leave a place that is full: one policy a file.
