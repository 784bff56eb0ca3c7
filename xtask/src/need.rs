//! What building and testing need, and why.

/// Something that cargo cannot fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    Cmake,
    Compiler,
    Make,
    Libclang,
    WebKit,
    Tray,
    TrayHeaders,
    Python,
    Speech,
    Chromium,
    ChromeDriver,
    WebKitDriver,
    Display,
    Bus,
}

impl Need {
    /// What a build takes.
    pub const BUILD: [Self; 4] = [Self::Cmake, Self::Compiler, Self::Make, Self::Libclang];
    /// What a build of the desktop app takes, and what it likes to find when it runs.
    pub const APP: [Self; 6] =
        [Self::Cmake, Self::Compiler, Self::Make, Self::Libclang, Self::WebKit, Self::Tray];
    /// What making its bundles takes.
    pub const BUNDLE: [Self; 7] = [
        Self::Cmake,
        Self::Compiler,
        Self::Make,
        Self::Libclang,
        Self::WebKit,
        Self::Tray,
        Self::TrayHeaders,
    ];
    /// What all builds and all checks take.
    pub const ALL: [Self; 13] = [
        Self::Cmake,
        Self::Compiler,
        Self::Make,
        Self::Libclang,
        Self::WebKit,
        Self::Tray,
        Self::Python,
        Self::Speech,
        Self::Chromium,
        Self::ChromeDriver,
        Self::WebKitDriver,
        Self::Display,
        Self::Bus,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Cmake => "cmake",
            Self::Compiler => "a C++17 compiler",
            Self::Make => "make",
            Self::Libclang => "libclang with its headers",
            Self::WebKit => "WebKitGTK with its headers",
            Self::Tray => "libayatana-appindicator",
            Self::TrayHeaders => "libayatana-appindicator's headers",
            Self::Python => "Python 3 with venv",
            Self::Speech => "espeak-ng",
            Self::Chromium => "Chromium",
            Self::ChromeDriver => "Chromium's driver",
            Self::WebKitDriver => "WebKitGTK's driver",
            Self::Display => "Xvfb",
            Self::Bus => "D-Bus with its daemon",
        }
    }

    pub fn why(self) -> &'static str {
        match self {
            Self::Cmake => "configures the build of llama.cpp, which runs the models",
            Self::Compiler => "compiles llama.cpp",
            Self::Make => "runs the build that cmake configured",
            Self::Libclang => "reads llama.cpp's headers, to generate its Rust bindings",
            Self::WebKit => "shows the page in the window of the desktop app",
            Self::Tray => "puts the desktop app into the tray",
            Self::TrayHeaders => "tells Tauri's tool what a bundle needs for the tray",
            Self::Python => "runs the conversation tests with the official OpenAI client",
            Self::Speech => "speaks, in the tests that speech is found and phrases are made",
            Self::Chromium => "shows the page, in its checks",
            Self::ChromeDriver => "works Chromium, in the checks of the page",
            Self::WebKitDriver => "works the app's window, in its checks",
            Self::Display => "is the screen of the app's window, in its checks",
            Self::Bus => "is the desktop of the app's window, in its checks",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_app_takes_is_part_of_what_everything_takes() {
        assert!(Need::BUILD.iter().all(|need| Need::APP.contains(need)));
        assert!(Need::APP.iter().all(|need| Need::ALL.contains(need)));
        assert!(Need::APP.iter().all(|need| Need::BUNDLE.contains(need)));
    }
}
