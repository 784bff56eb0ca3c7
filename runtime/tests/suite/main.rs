//! The engine's tests, a file a subject, in one program: a program for each file would compile the same
//! generic functions 40 times. The files beside this directory run on a device as well.

#[path = "../support/mod.rs"]
mod support;

mod adapters;
mod admission;
mod anonymous;
mod beside;
mod branches;
mod budgets;
mod busy_disk;
mod chunks;
mod cold;
mod collection;
mod copies;
mod cut;
mod damage;
mod delivery;
mod dialects;
mod draft_model;
mod drafts;
mod embeddings;
mod endings;
mod engine;
mod eviction;
mod first_token;
mod forget;
mod histories;
mod holes;
mod isolation;
mod likeness;
mod long_sessions;
mod lossy;
mod map;
mod memory_policy;
mod mtp;
mod parallel;
mod prewarm;
mod private;
mod reanchor;
mod recall;
mod records;
mod residency;
mod rests;
mod reuse;
mod shared_cells;
mod stop;
mod templates;
mod tiers;
mod tile;
mod whole_snapshots;
mod write_behind;
