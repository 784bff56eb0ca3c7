//! Tells which needs this machine already meets, by using each thing once rather than by its version.

use std::env;

use crate::command::Line;
use crate::libclang;
use crate::packages::{Need, System};

/// Those of `needs` that this machine does not meet.
pub fn missing(needs: &[Need]) -> Vec<Need> {
    needs.iter().copied().filter(|&need| !is_met(need)).collect()
}

/// The system that this is, when its package names are known.
pub fn system() -> Option<&'static System> {
    if cfg!(target_os = "macos") {
        return System::from_id("macos");
    }
    System::from_os_release(&std::fs::read_to_string("/etc/os-release").ok()?)
}

/// Whether this process is the administrator's.
pub fn is_root() -> bool {
    Line::new("id -u").output().is_ok_and(|id| id.trim() == "0")
}

fn is_met(need: Need) -> bool {
    match need {
        Need::Cmake => Line::new(&tool("CMAKE", "cmake")).arg("--version").succeeds(),
        // A compiler driver may be there without the standard library's headers.
        Need::Compiler => {
            let probe =
                format!("echo '#include <vector>' | {} -x c++ -fsyntax-only -", tool("CXX", "c++"));
            Line::new("sh -c").arg(probe).succeeds()
        }
        Need::Make => {
            env::var_os("CMAKE_GENERATOR").is_some()
                || Line::new(&tool("MAKE", "make")).arg("--version").succeeds()
        }
        Need::Libclang => libclang::find().is_some(),
        // Debian ships `venv` without the part that puts pip into it.
        Need::Python => Line::new("python3 -c").arg("import venv, ensurepip").succeeds(),
        Need::Speech => Line::new("espeak-ng --version").succeeds(),
    }
}

fn tool(variable: &str, usual: &str) -> String {
    env::var(variable).unwrap_or_else(|_| usual.to_owned())
}
