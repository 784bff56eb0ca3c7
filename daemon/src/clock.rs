//! The time. Only the daemon reads it; everything that decides takes `now`.

use std::sync::Arc;
use std::time::SystemTime;

use hob_slots::Timestamp;

/// Tells the time.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// The system's wall clock.
pub fn wall_clock() -> Clock {
    Arc::new(|| Timestamp::from(SystemTime::now()))
}
