//! The machine's battery: of Linux from its files, which also tell whether the line feeds a battery
//! that does not charge; of other systems as `starship-battery` reads it.
//!
//! - Batteries of mice and headsets do not count.
//! - A missing or malformed file counts as no battery.

use hob_prewarm::Battery;

/// Reads the battery; `None` without one. Blocks: some firmware is slow.
pub type ReadBattery = fn() -> Option<Battery>;

/// The battery of this machine, a [`ReadBattery`].
#[cfg(target_os = "linux")]
pub fn read_now() -> Option<Battery> {
    let entries = std::fs::read_dir("/sys/class/power_supply").ok()?;
    let supplies = entries.flatten().map(|entry| {
        let read = |name| std::fs::read_to_string(entry.path().join(name)).unwrap_or_default();
        Supply::parse(read)
    });
    battery(&supplies.collect::<Vec<_>>())
}

#[cfg(not(target_os = "linux"))]
pub fn read_now() -> Option<Battery> {
    battery(&reported().ok()?)
}

#[cfg(any(test, not(target_os = "linux")))]
fn reported() -> Result<Vec<Supply>, starship_battery::Error> {
    let batteries = starship_battery::Manager::new()?.batteries()?.flatten();
    Ok(batteries.map(|it| Supply::reported(it.state(), it.state_of_charge().value)).collect())
}

/// A battery, or what feeds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Supply {
    Battery { percent: u8, charging: bool },
    Line { online: bool },
    Other,
}

impl Supply {
    /// `charge` is 1 where the battery is full.
    #[cfg(any(test, not(target_os = "linux")))]
    fn reported(state: starship_battery::State, charge: f32) -> Self {
        use starship_battery::State::{Charging, Full, Paused};

        // A paused battery has reached its limit, and the line feeds the machine.
        let charging = matches!(state, Charging | Full | Paused);
        Self::Battery { percent: (charge.clamp(0.0, 1.0) * 100.0).round() as u8, charging }
    }

    /// Reads a directory below `/sys/class/power_supply`. `read` returns the text of a file, empty if
    /// it is missing.
    #[cfg(any(test, target_os = "linux"))]
    fn parse(read: impl Fn(&'static str) -> String) -> Self {
        let read = |name| read(name).trim().to_owned();
        match read("type").as_str() {
            "Battery" if read("scope") != "Device" => match read("capacity").parse::<u8>() {
                Ok(percent) => {
                    let charging = matches!(read("status").as_str(), "Charging" | "Full");
                    Self::Battery { percent: percent.min(100), charging }
                }
                Err(_) => Self::Other,
            },
            "Mains" | "USB" | "Wireless" => Self::Line { online: read("online") == "1" },
            _ => Self::Other,
        }
    }
}

/// The fullest of several batteries, because they are drained one after the other.
fn battery(supplies: &[Supply]) -> Option<Battery> {
    let percents = supplies.iter().filter_map(|supply| match supply {
        Supply::Battery { percent, .. } => Some(*percent),
        _ => None,
    });
    let feeds = |supply: &Supply| {
        matches!(supply, Supply::Line { online: true } | Supply::Battery { charging: true, .. })
    };
    percents.max().map(|percent| Battery { percent, charging: supplies.iter().any(feeds) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn supply(files: &'static [(&'static str, &'static str)]) -> Supply {
        Supply::parse(|name| {
            let file = files.iter().find(|(known, _)| *known == name);
            file.map_or(String::new(), |(_, text)| format!("{text}\n"))
        })
    }

    #[test]
    fn a_laptop_on_battery_reports_its_charge() {
        let supplies = [
            supply(&[("type", "Mains"), ("online", "0")]),
            supply(&[("type", "Battery"), ("capacity", "17"), ("status", "Discharging")]),
        ];
        assert_eq!(battery(&supplies), Some(Battery { percent: 17, charging: false }));
    }

    #[test]
    fn any_kind_of_charger_counts() {
        let low = supply(&[("type", "Battery"), ("capacity", "3"), ("status", "Not charging")]);
        for charger in [
            supply(&[("type", "Mains"), ("online", "1")]),
            supply(&[("type", "USB"), ("online", "1")]),
            supply(&[("type", "Battery"), ("capacity", "2"), ("status", "Charging")]),
        ] {
            assert_eq!(battery(&[low, charger]), Some(Battery { percent: 3, charging: true }));
        }
    }

    #[test]
    fn batteries_of_devices_do_not_count() {
        let supplies = [
            supply(&[("type", "Battery"), ("scope", "Device"), ("capacity", "5")]),
            supply(&[("type", "UPS"), ("capacity", "5")]),
            supply(&[("type", "Mains"), ("online", "1")]),
        ];
        assert_eq!(battery(&supplies), None);
        assert_eq!(battery(&[]), None);
    }

    #[test]
    fn other_systems_report_a_charge_and_a_state() {
        use starship_battery::State::{Charging, Discharging, Full, Paused, Unknown};

        let read = |state, charge| battery(&[Supply::reported(state, charge)]).unwrap();
        for state in [Charging, Full, Paused] {
            assert_eq!(read(state, 0.174), Battery { percent: 17, charging: true });
        }
        for state in [Discharging, Unknown] {
            assert_eq!(read(state, 1.01), Battery { percent: 100, charging: false });
        }
        let here = std::path::Path::new("/sys/class/power_supply");
        assert!(reported().is_ok() || !here.exists(), "the library works on this system");
    }

    #[test]
    fn a_malformed_battery_counts_as_none() {
        for capacity in ["", "-1", "full"] {
            let read = |name| match name {
                "type" => "Battery".to_owned(),
                "capacity" => capacity.to_owned(),
                _ => String::new(),
            };
            assert_eq!(battery(&[Supply::parse(read)]), None, "{capacity}");
        }
    }
}
