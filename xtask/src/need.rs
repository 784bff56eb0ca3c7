//! What building and testing need that cargo cannot fetch, and why.

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
    Curl,
    Speech,
    HaProxy,
    Nginx,
    Chromium,
    ChromeDriver,
    WebKitDriver,
    Display,
    Bus,
    VulkanHeaders,
    Glslc,
    SpirvHeaders,
    SoftwareVulkan,
}

impl Need {
    /// For every build.
    pub const BUILD: [Self; 4] = [Self::Cmake, Self::Compiler, Self::Make, Self::Libclang];
    /// For the checks of the app's window, besides those of the app.
    pub const WINDOW: [Self; 3] = [Self::WebKitDriver, Self::Display, Self::Bus];
    /// For the checks of the page, besides those of a build.
    pub const PAGE: [Self; 2] = [Self::Chromium, Self::ChromeDriver];

    /// For a build for Vulkan, besides those of every build.
    pub const VULKAN: [Self; 3] = [Self::VulkanHeaders, Self::Glslc, Self::SpirvHeaders];

    /// For building and running the desktop app.
    pub fn app() -> Vec<Self> {
        [&Self::BUILD[..], &[Self::WebKit, Self::Tray]].concat()
    }

    /// For bundling it.
    pub fn bundle() -> Vec<Self> {
        [&Self::app()[..], &[Self::TrayHeaders]].concat()
    }

    /// For all builds and all checks.
    pub fn all() -> Vec<Self> {
        let tools = [Self::Python, Self::Curl, Self::Speech, Self::HaProxy, Self::Nginx];
        [&Self::app()[..], &tools, &Self::PAGE, &Self::WINDOW].concat()
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
            Self::Curl => "curl",
            Self::Speech => "espeak-ng",
            Self::HaProxy => "HAProxy",
            Self::Nginx => "nginx",
            Self::Chromium => "Chromium",
            Self::ChromeDriver => "Chromium's driver",
            Self::WebKitDriver => "WebKitGTK's driver",
            Self::Display => "Xvfb",
            Self::Bus => "D-Bus with its daemon",
            Self::VulkanHeaders => "Vulkan's headers, 1.3.275 or later",
            Self::Glslc => "glslc",
            Self::SpirvHeaders => "SPIR-V's headers",
            Self::SoftwareVulkan => "Mesa's Vulkan drivers",
        }
    }

    pub fn why(self) -> &'static str {
        match self {
            Self::Cmake => "configures the build of llama.cpp, which runs the models",
            Self::Compiler => "compiles llama.cpp",
            Self::Make => "runs the build that cmake configured",
            Self::Libclang => {
                "generates the Rust bindings of llama.cpp; LIBCLANG_PATH may name another one"
            }
            Self::WebKit => "shows the page in the window of the desktop app",
            Self::Tray => "puts the desktop app into the tray",
            Self::TrayHeaders => "lets Tauri's tool find the libraries of a bundle",
            Self::Python => "runs the tests with the clients of others",
            Self::Curl => "fetches a real model, for a first chat and for the tests on it",
            Self::Speech => "synthesises speech for the tests of the voice",
            Self::HaProxy | Self::Nginx => "stands before three daemons in the tests of examples/",
            Self::Chromium => "shows the page in its checks",
            Self::ChromeDriver => "drives Chromium in the checks of the page",
            Self::WebKitDriver => "drives the app's window in its checks",
            Self::Display => "is the screen of the app's window in its checks",
            Self::Bus => "is the session bus of the app's window in its checks",
            Self::VulkanHeaders => {
                "describe the graphics card to llama.cpp; VULKAN_SDK may name the directory of others"
            }
            Self::Glslc => "compiles what the graphics card computes",
            Self::SpirvHeaders => "are for what the graphics card computes, compiled",
            Self::SoftwareVulkan => {
                "compute on the processor what a graphics card would, in checks"
            }
        }
    }
}
