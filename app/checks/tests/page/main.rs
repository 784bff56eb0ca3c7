//! What users can do with the page, and what hostile text cannot do to it.

mod access;
mod branches;
mod chats;
mod files;
mod first_run;
mod keyboard;
mod languages;
mod learned;
mod markdown;
mod memory;
mod memory_map;
mod misses;
mod models;
mod narrow;
mod outgrown;
mod pictures;
mod private;
mod profiles;
mod reading;
mod reopening;
mod security;
mod talking;
mod typing;
mod units;
mod voice;
mod warming;
