//! The source package that has llama.cpp's repository in it.

use std::fs::{self, File};
use std::ops::ControlFlow;
use std::path::Path;

use flate2::read::GzDecoder;
use tar::Archive;

use crate::download::download;
use crate::error::FetchError;
use crate::index::Index;
use crate::unpack::expect;

const PACKAGE: &str = "llama-cpp-python";
const FILE: &str = "llama_cpp_python-0.3.36.tar.gz";
const BYTES: u64 = 76_589_250;
const SHA256: &str = "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e";

/// A file beside what was unpacked that names the package.
const NAME: &str = "package";

/// Where the repository is in the package.
pub const REPOSITORY: &str = "/vendor/llama.cpp/";

/// Fetches the package, and has `unpack` put its part into `dir`. Does nothing where the same package
/// was unpacked.
///
/// # Errors
/// A [`FetchError`].
pub fn unpacked(
    dir: &Path,
    index: impl FnOnce() -> Result<Index, FetchError>,
    shows_bar: bool,
    unpack: impl FnOnce(&mut Archive<GzDecoder<File>>) -> std::io::Result<()>,
) -> Result<(), FetchError> {
    let stamp = dir.join("complete");
    if fs::read_to_string(&stamp).is_ok_and(|complete| complete == SHA256) {
        return Ok(());
    }
    fs::create_dir_all(dir).map_err(FetchError::file("create", dir))?;
    let index = index()?;
    let url = index.find(PACKAGE, FILE)?;
    let part = dir.join(format!("{FILE}.part"));
    let certificates = index.certificates.as_deref();
    download(&url, &part, BYTES, certificates, shows_bar, &mut |_| ControlFlow::Continue(()))?;
    expect(&part, SHA256)?;
    let open = || Ok(Archive::new(GzDecoder::new(File::open(&part)?)));
    open()
        .and_then(|mut archive| unpack(&mut archive))
        .map_err(FetchError::file("unpack", &part))?;
    fs::remove_file(&part).map_err(FetchError::file("remove", &part))?;
    let name = dir.join(NAME);
    fs::write(&name, FILE).map_err(FetchError::file("write", &name))?;
    fs::write(&stamp, SHA256).map_err(FetchError::file("write", &stamp))
}
