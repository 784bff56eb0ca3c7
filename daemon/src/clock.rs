//! The clock. Only the daemon reads it; code that decides takes `now`.

use std::sync::Arc;
use std::time::SystemTime;

use hob_slots::Timestamp;

pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// The system's wall clock.
pub fn wall_clock() -> Clock {
    Arc::new(|| Timestamp::from(SystemTime::now()))
}
