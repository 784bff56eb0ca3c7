//! Medians, processes and their processor time, bytes on disk, and artificial load.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// How long `work` takes.
pub fn time<T>(work: impl FnOnce() -> T) -> (Duration, T) {
    let began = Instant::now();
    let result = work();
    (began.elapsed(), result)
}

/// In milliseconds; the mean of the middle two of an even number of samples.
pub fn median_ms(samples: &[Duration]) -> f64 {
    let mut ms: Vec<f64> = samples.iter().map(|sample| sample.as_secs_f64() * 1e3).collect();
    ms.sort_by(f64::total_cmp);
    match ms.len() {
        0 => f64::NAN,
        odd if odd % 2 == 1 => ms[odd / 2],
        even => f64::midpoint(ms[even / 2 - 1], ms[even / 2]),
    }
}

/// Processor time of all threads of a process (its id, or `self`), in steps of 10 ms.
pub fn cpu_time(process: &str) -> Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat"))
        .context("processor time is read on Linux")?;
    // The second field may contain spaces; it ends with the last parenthesis.
    let fields = stat.rsplit_once(')').context("stat has a name")?.1;
    let numbers: Vec<i64> = fields.split_whitespace().filter_map(|f| f.parse().ok()).collect();
    // `utime` and `stime` are fields 14 and 15; the state, field 3, is no number.
    let (user, system) = (numbers.get(10), numbers.get(11));
    let sum = user.zip(system).map(|(user, system)| user + system).context("stat has times")?;
    let ticks = u64::try_from(sum).context("time only grows")?;
    Ok(Duration::from_millis(ticks * 10)) // 100 ticks a second on every Linux.
}

/// The ids of the children of a process, their children, and so on.
pub fn children(process: &str) -> Vec<String> {
    let parents: Vec<(String, String)> = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let id = entry.file_name().into_string().ok()?;
            let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
            // Behind the name, which may have spaces and parentheses: the state and the parent.
            let (_, fields) = stat.rsplit_once(')')?;
            Some((id, fields.split_whitespace().nth(1)?.to_owned()))
        })
        .collect();
    let mut found = vec![process.to_owned()];
    let mut at = 0;
    while let Some(parent) = found.get(at).cloned() {
        found.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(id, _)| id.clone()));
        at += 1;
    }
    found.split_off(1)
}

/// The path of another program of the workspace, built from `package`.
pub fn beside_us(program: &str, package: &str) -> Result<PathBuf> {
    let path = std::env::current_exe()?.with_file_name(program);
    if !path.is_file() {
        bail!(
            "{} does not exist: build it with `cargo build --release -p {package}`",
            path.display()
        );
    }
    Ok(path)
}

/// The sum of the lengths of all files below a directory.
pub fn bytes_below(directory: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(directory).with_context(|| directory.display().to_string())? {
        let entry = entry?;
        bytes += if entry.file_type()?.is_dir() {
            bytes_below(&entry.path())?
        } else {
            entry.metadata().map_or(0, |metadata| metadata.len()) // Renamed meanwhile.
        };
    }
    Ok(bytes)
}

/// Threads that compute until this is dropped.
pub struct BusyMachine {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl BusyMachine {
    /// Keeps `threads` threads computing.
    pub fn new(threads: usize) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let work = |stop: Arc<AtomicBool>| {
            move || {
                let mut value = 1u64;
                while !stop.load(Ordering::Relaxed) {
                    for _ in 0..1000 {
                        value = std::hint::black_box(value.wrapping_mul(6364136223846793005) + 1);
                    }
                }
            }
        };
        let threads = (0..threads).map(|_| std::thread::spawn(work(stop.clone()))).collect();
        Self { stop, threads }
    }
}

impl Drop for BusyMachine {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.join().expect("the loop cannot panic");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_not_moved_by_an_outlier() {
        let ms = |n| Duration::from_millis(n);
        assert_eq!(median_ms(&[ms(1), ms(2), ms(9000)]), 2.0);
        assert_eq!(median_ms(&[ms(1), ms(2), ms(4), ms(9000)]), 3.0);
    }
}
