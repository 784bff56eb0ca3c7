//! Replays a request trace against each eviction policy and capacity.
