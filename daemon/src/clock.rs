//! The clocks. Only the daemon reads them; code that decides takes `now`.
//!
//! - [`ProcessTime`] is read once for wall time and process time together, so that the two can be
//!   compared.
//! - A test moves both by the same amount: what passes in the file of [`ProcessTime::moved_by`]
//!   counts as time that really passed, not as a jump of the clock. The second number of the file moves wall time
//!   alone, as a sleep of the machine does.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use hob_slots::Timestamp;

/// The variable that names the file of a moved clock. For tests; no setting.
pub const MOVED_CLOCK_VARIABLE: &str = "HOB_TEST_CLOCK";

/// How long a loop sleeps at most while a test may move the clock.
const MAX_SLEEP_IN_TESTS: Duration = Duration::from_millis(20);

pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// The system's wall clock.
pub fn wall_clock() -> Clock {
    ProcessTime::system().wall_clock()
}

/// As JSON APIs write times: RFC 3339, in UTC.
pub fn rfc3339(time: Timestamp) -> String {
    let millis = i64::try_from(time.0).unwrap_or(i64::MAX);
    jiff::Timestamp::from_millisecond(millis).unwrap_or(jiff::Timestamp::MAX).to_string()
}

/// Wall time, and the time that this process runs.
#[derive(Clone, Debug)]
pub struct ProcessTime {
    started: Instant,
    moved: Option<Moved>,
}

/// A clock that a test moves.
#[derive(Clone, Debug)]
struct Moved {
    /// Holds an [`Ahead`], in milliseconds.
    file: PathBuf,
    /// Time that had passed.
    at_start: Duration,
}

/// By how much a test has moved the clocks.
#[derive(Clone, Copy, Debug)]
struct Ahead {
    /// Of wall time and of process time.
    passed: Duration,
    /// Of wall time alone.
    slept: Duration,
}

impl ProcessTime {
    /// The system's clocks; the process starts now.
    pub fn system() -> Self {
        Self { started: Instant::now(), moved: None }
    }

    /// Clocks that are ahead of the system's by the milliseconds in `file`, which a test raises
    /// while the process runs or between two processes. A second number in it is the time that the machine slept.
    /// A missing number means zero.
    pub fn moved_by(file: PathBuf) -> Self {
        let at_start = ahead(&file).passed;
        Self { moved: Some(Moved { file, at_start }), ..Self::system() }
    }

    /// Wall time, and for how long the process has run.
    pub fn read(&self) -> (Timestamp, Duration) {
        let (wall, ran) = (Timestamp::from(SystemTime::now()), self.started.elapsed());
        match &self.moved {
            None => (wall, ran),
            Some(moved) => {
                let Ahead { passed, slept } = ahead(&moved.file);
                (wall.after(passed + slept), ran + passed.saturating_sub(moved.at_start))
            }
        }
    }

    /// Wall time alone.
    pub fn wall_clock(&self) -> Clock {
        let time = self.clone();
        Arc::new(move || time.read().0)
    }

    /// How long a loop may sleep before it reads the clock again: `wanted`, or 20 ms where a test
    /// may move the clock meanwhile.
    pub fn sleep(&self, wanted: Duration) -> Duration {
        if self.moved.is_some() { wanted.min(MAX_SLEEP_IN_TESTS) } else { wanted }
    }
}

fn ahead(file: &Path) -> Ahead {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let mut numbers = text.split_whitespace().map(|number| number.parse::<u64>().unwrap_or(0));
    let mut next = || Duration::from_millis(numbers.next().unwrap_or(0));
    Ahead { passed: next(), slept: next() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_written_in_utc_to_the_millisecond() {
        assert_eq!(rfc3339(Timestamp(951_782_400_000)), "2000-02-29T00:00:00Z");
        assert_eq!(rfc3339(Timestamp(1_234)), "1970-01-01T00:00:01.234Z");
        assert!(rfc3339(Timestamp(u64::MAX)).starts_with("9999-12-30"), "the latest that is known");
    }

    #[test]
    fn a_moved_clock_moves_wall_time_and_process_time_alike() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("clock");
        let hour = Duration::from_secs(3600);
        std::fs::write(&file, hour.as_millis().to_string()).unwrap();
        let began = Instant::now();
        let time = ProcessTime::moved_by(file.clone());
        let before = time.read();
        let system = Timestamp::from(SystemTime::now());
        assert!(before.0 > system && before.1 <= began.elapsed(), "{before:?} {system:?}");

        let week = Duration::from_secs(7 * 24 * 3600);
        std::fs::write(&file, (hour + week).as_millis().to_string()).unwrap();
        let after = time.read();
        assert!(before.0.age(after.0) >= week && after.1 - before.1 >= week);
        let differ = before.0.age(after.0).abs_diff(after.1 - before.1);
        assert!(differ < Duration::from_secs(5), "that would be a jump: {differ:?}");

        std::fs::write(&file, format!("{} {}", (hour + week).as_millis(), week.as_millis()))
            .unwrap();
        let awake = time.read();
        assert!(after.0.age(awake.0) >= week, "wall time goes on while the machine sleeps");
        assert!(awake.1 - after.1 < Duration::from_secs(5), "the process does not");
    }
}
