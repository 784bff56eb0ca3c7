//! The package of each need on each known system.
//!
//! - The only list: add a system, or change the name of a package, here.
//! - Pure: [`plan`] returns the commands that install packages; `setup` runs them.

use crate::command::Line;
use crate::need::Need;

#[derive(Debug, PartialEq, Eq)]
pub struct Installer {
    /// Runs first: the lists may be stale or, in a container, absent.
    refresh: &'static str,
    /// The names of the packages follow it.
    install: &'static str,
    as_root: bool,
}

/// A system whose package names are known.
pub struct System {
    pub name: &'static str,
    /// The values of `ID` and `ID_LIKE` in /etc/os-release that mean this system.
    ids: &'static [&'static str],
    packages: &'static [(Need, &'static Installer, &'static str)],
    /// The system with the same names for all other needs.
    relative: Option<&'static System>,
}

const APT: Installer = Installer {
    refresh: "apt-get update",
    install: "apt-get install --yes --no-install-recommends",
    as_root: true,
};
const DNF: Installer = Installer { refresh: "", install: "dnf install --assumeyes", as_root: true };
const PACMAN: Installer = Installer {
    refresh: "",
    install: "pacman --sync --refresh --needed --noconfirm",
    as_root: true,
};
const BREW: Installer = Installer { refresh: "", install: "brew install", as_root: false };
/// Opens a dialogue that installs all of Apple's tools.
const XCODE: Installer =
    Installer { refresh: "", install: "xcode-select --install", as_root: false };

/// Needs no installation.
const SYSTEM: Installer = Installer { refresh: "", install: "", as_root: false };

const DEBIAN: System = System {
    name: "Debian",
    ids: &["debian"],
    packages: &[
        (Need::Cmake, &APT, "cmake"),
        (Need::Compiler, &APT, "g++"),
        (Need::Make, &APT, "make"),
        (Need::Libclang, &APT, "libclang-dev"),
        (Need::WebKit, &APT, "libwebkit2gtk-4.1-dev"),
        (Need::Tray, &APT, "libayatana-appindicator3-1"),
        (Need::TrayHeaders, &APT, "libayatana-appindicator3-dev"),
        (Need::Python, &APT, "python3-venv"),
        (Need::Curl, &APT, "curl"),
        (Need::Speech, &APT, "espeak-ng"),
        (Need::HaProxy, &APT, "haproxy"),
        (Need::Nginx, &APT, "nginx-light"),
        (Need::Chromium, &APT, "chromium"),
        (Need::ChromeDriver, &APT, "chromium-driver"),
        (Need::WebKitDriver, &APT, "webkit2gtk-driver"),
        (Need::Display, &APT, "xvfb"),
        (Need::Bus, &APT, "dbus"),
        (Need::VulkanHeaders, &APT, "libvulkan-dev"),
        (Need::Glslc, &APT, "glslc"),
        (Need::SpirvHeaders, &APT, "spirv-headers"),
        (Need::SoftwareVulkan, &APT, "mesa-vulkan-drivers"),
    ],
    relative: None,
};

const SYSTEMS: [System; 5] = [
    DEBIAN,
    System {
        name: "Ubuntu",
        ids: &["ubuntu"],
        // The packages that install the browser's snap.
        packages: &[
            (Need::Chromium, &APT, "chromium-browser"),
            (Need::ChromeDriver, &APT, "chromium-chromedriver"),
        ],
        relative: Some(&DEBIAN),
    },
    System {
        name: "Fedora or a relative",
        ids: &["fedora", "rhel", "centos"],
        packages: &[
            (Need::Cmake, &DNF, "cmake"),
            (Need::Compiler, &DNF, "gcc-c++"),
            (Need::Make, &DNF, "make"),
            (Need::Libclang, &DNF, "clang-devel"),
            (Need::WebKit, &DNF, "webkit2gtk4.1-devel"),
            (Need::Tray, &DNF, "libayatana-appindicator-gtk3"),
            (Need::TrayHeaders, &DNF, "libayatana-appindicator-gtk3-devel"),
            (Need::Python, &DNF, "python3"),
            (Need::Curl, &DNF, "curl"),
            (Need::Speech, &DNF, "espeak-ng"),
            (Need::HaProxy, &DNF, "haproxy"),
            (Need::Nginx, &DNF, "nginx"),
            (Need::Chromium, &DNF, "chromium"),
            (Need::ChromeDriver, &DNF, "chromedriver"),
            (Need::WebKitDriver, &DNF, "webkitgtk6.0"),
            (Need::Display, &DNF, "xorg-x11-server-Xvfb"),
            (Need::Bus, &DNF, "dbus-daemon"),
            (Need::VulkanHeaders, &DNF, "vulkan-loader-devel"),
            (Need::Glslc, &DNF, "glslc"),
            (Need::SpirvHeaders, &DNF, "spirv-headers-devel"),
            (Need::SoftwareVulkan, &DNF, "mesa-vulkan-drivers"),
        ],
        relative: None,
    },
    System {
        name: "Arch Linux",
        ids: &["arch"],
        packages: &[
            (Need::Cmake, &PACMAN, "cmake"),
            (Need::Compiler, &PACMAN, "gcc"),
            (Need::Make, &PACMAN, "make"),
            (Need::Libclang, &PACMAN, "clang"),
            (Need::WebKit, &PACMAN, "webkit2gtk-4.1"),
            (Need::Tray, &PACMAN, "libayatana-appindicator"),
            (Need::TrayHeaders, &PACMAN, "libayatana-appindicator"),
            (Need::Python, &PACMAN, "python"),
            (Need::Curl, &PACMAN, "curl"),
            (Need::Speech, &PACMAN, "espeak-ng"),
            (Need::HaProxy, &PACMAN, "haproxy"),
            (Need::Nginx, &PACMAN, "nginx"),
            (Need::Chromium, &PACMAN, "chromium"),
            (Need::ChromeDriver, &PACMAN, "chromium"),
            (Need::WebKitDriver, &PACMAN, "webkitgtk-6.0"),
            (Need::Display, &PACMAN, "xorg-server-xvfb"),
            (Need::Bus, &PACMAN, "dbus"),
            (Need::VulkanHeaders, &PACMAN, "vulkan-devel"),
            (Need::Glslc, &PACMAN, "shaderc"),
            (Need::SpirvHeaders, &PACMAN, "spirv-headers"),
            (Need::SoftwareVulkan, &PACMAN, "vulkan-swrast"),
        ],
        relative: None,
    },
    System {
        name: "macOS",
        ids: &["macos"],
        packages: &[
            (Need::Compiler, &XCODE, "Command Line Tools"),
            (Need::Make, &XCODE, "Command Line Tools"),
            (Need::Libclang, &XCODE, "Command Line Tools"),
            (Need::Python, &XCODE, "Command Line Tools"),
            (Need::Speech, &BREW, "espeak-ng"),
            (Need::HaProxy, &BREW, "haproxy"),
            (Need::Nginx, &BREW, "nginx"),
            (Need::Cmake, &BREW, "cmake"),
            (Need::Chromium, &BREW, "chromium"),
            (Need::ChromeDriver, &BREW, "chromedriver"),
            // Part of the system.
            (Need::Curl, &SYSTEM, ""),
            (Need::WebKit, &SYSTEM, ""),
            (Need::Tray, &SYSTEM, ""),
            (Need::TrayHeaders, &SYSTEM, ""),
            // No driver for the window exists, so the checks skip it.
            (Need::WebKitDriver, &SYSTEM, ""),
            (Need::Display, &SYSTEM, ""),
            (Need::Bus, &SYSTEM, ""),
            // Metal is part of the system, and nothing else is built for.
            (Need::VulkanHeaders, &SYSTEM, ""),
            (Need::Glslc, &SYSTEM, ""),
            (Need::SpirvHeaders, &SYSTEM, ""),
            (Need::SoftwareVulkan, &SYSTEM, ""),
        ],
        relative: None,
    },
];

impl System {
    /// The system that an /etc/os-release describes, by its own `ID` before its relatives.
    pub fn from_os_release(text: &str) -> Option<&'static Self> {
        let field = |name: &str| {
            let lines = text.lines().filter_map(|line| line.split_once('='));
            lines.filter(|(key, _)| *key == name).map(|(_, value)| value.trim_matches('"')).next()
        };
        let ids = field("ID").into_iter().chain(field("ID_LIKE").unwrap_or("").split(' '));
        ids.into_iter().find_map(Self::from_id)
    }

    /// The system with this identifier: one of os-release's, or `macos`.
    pub fn from_id(id: &str) -> Option<&'static Self> {
        SYSTEMS.iter().find(|system| system.ids.contains(&id))
    }

    pub fn package(&self, need: Need) -> &'static str {
        self.entry(need).1
    }

    fn entry(&self, need: Need) -> (&'static Installer, &'static str) {
        match self.packages.iter().find(|(listed, ..)| *listed == need) {
            Some((_, installer, package)) => (installer, package),
            None => self.relative.expect("every system lists every need").entry(need),
        }
    }
}

/// Whether only root can install `missing`.
pub fn needs_root(system: &System, missing: &[Need]) -> bool {
    missing.iter().any(|&need| system.entry(need).0.as_root)
}

/// The commands that install `missing`, one per package manager.
pub fn plan(system: &System, missing: &[Need], is_root: bool) -> Vec<Line> {
    let mut groups: Vec<(&Installer, Vec<&str>)> = Vec::new();
    let entries = missing.iter().map(|&need| system.entry(need));
    for (installer, package) in entries.filter(|(installer, _)| *installer != &SYSTEM) {
        match groups.iter_mut().find(|(known, _)| *known == installer) {
            Some((_, packages)) if packages.contains(&package) => {}
            Some((_, packages)) => packages.push(package),
            None => groups.push((installer, vec![package])),
        }
    }
    let mut lines = Vec::new();
    for (installer, packages) in groups {
        let sudo = if installer.as_root && !is_root { "sudo " } else { "" };
        if !installer.refresh.is_empty() {
            lines.push(Line::new(&format!("{sudo}{}", installer.refresh)));
        }
        let install = Line::new(&format!("{sudo}{}", installer.install));
        lines.push(if installer == &XCODE { install } else { install.args(packages) });
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_system_has_a_package_for_every_need() {
        for system in &SYSTEMS {
            let vulkan = [Need::VULKAN.as_slice(), &[Need::SoftwareVulkan]].concat();
            for need in Need::all().into_iter().chain(Need::bundle()).chain(vulkan) {
                let (installer, package) = system.entry(need);
                let is_named = !package.is_empty() || installer == &SYSTEM;
                assert!(is_named, "{} on {}", need.name(), system.name);
            }
        }
    }

    #[test]
    fn debian_refreshes_its_lists_before_one_installation() {
        let lines = planned("ID=debian\n", &[Need::Cmake, Need::Libclang], false);
        assert_eq!(
            lines,
            [
                "sudo apt-get update",
                "sudo apt-get install --yes --no-install-recommends cmake libclang-dev"
            ]
        );
    }

    #[test]
    fn a_package_for_two_needs_is_installed_once() {
        let lines = planned("ID=arch", &[Need::Chromium, Need::ChromeDriver], true);
        assert_eq!(lines, ["pacman --sync --refresh --needed --noconfirm chromium"]);
    }

    #[test]
    fn the_administrator_needs_no_sudo() {
        let lines = planned("ID=fedora", &[Need::Compiler], true);
        assert_eq!(lines, ["dnf install --assumeyes gcc-c++"]);
    }

    #[test]
    fn ubuntu_has_its_own_names_for_the_browser_only() {
        let needs = [Need::Chromium, Need::ChromeDriver, Need::Display];
        let lines = planned("ID=ubuntu\nID_LIKE=debian\n", &needs, true);
        assert!(lines[1].ends_with(" chromium-browser chromium-chromedriver xvfb"), "{lines:?}");
        let lines = planned("ID=debian\n", &needs, true);
        assert!(lines[1].ends_with(" chromium chromium-driver xvfb"), "{lines:?}");
    }

    #[test]
    fn a_derivative_is_recognised_by_its_relatives() {
        let mint = "NAME=\"Linux Mint\"\nID=linuxmint\nID_LIKE=\"ubuntu debian\"\n";
        assert_eq!(System::from_os_release(mint).map(|s| s.name), Some("Ubuntu"));
        assert_eq!(System::from_os_release("ID=plan9").map(|s| s.name), None);
        let rocky = "ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\n";
        assert_eq!(System::from_os_release(rocky).map(|s| s.name), Some("Fedora or a relative"));
    }

    #[test]
    fn apples_tools_are_installed_once_and_never_as_root() {
        let macos = System::from_id("macos").expect("macOS is listed");
        let lines: Vec<_> = plan(macos, &Need::all(), false).iter().map(Line::to_string).collect();
        assert_eq!(
            lines,
            [
                "brew install cmake espeak-ng haproxy nginx chromium chromedriver",
                "xcode-select --install"
            ]
        );
    }

    fn planned(os_release: &str, missing: &[Need], is_root: bool) -> Vec<String> {
        let system = System::from_os_release(os_release).expect("the system is listed");
        plan(system, missing, is_root).iter().map(Line::to_string).collect()
    }
}
