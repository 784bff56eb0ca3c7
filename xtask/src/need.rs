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
    /// What checks of the app's window take besides the app.
    pub const WINDOW: [Self; 3] = [Self::WebKitDriver, Self::Display, Self::Bus];
    /// What checks of the page take besides a build.
    pub const PAGE: [Self; 2] = [Self::Chromium, Self::ChromeDriver];

    /// What a build of the desktop app takes, and what it likes to find when it runs.
    pub fn app() -> Vec<Self> {
        [&Self::BUILD[..], &[Self::WebKit, Self::Tray]].concat()
    }

    /// What making its bundles takes.
    pub fn bundle() -> Vec<Self> {
        [&Self::app()[..], &[Self::TrayHeaders]].concat()
    }

    /// What all builds and all checks take.
    pub fn all() -> Vec<Self> {
        [&Self::app()[..], &[Self::Python, Self::Speech], &Self::PAGE, &Self::WINDOW].concat()
    }

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
