//! The page's files are embedded without comments and indents, styles joined, modules linked; a file
//! that is new, changed or gone changes the program, too.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

#[path = "src/http/preload.rs"]
mod preload;
#[path = "src/http/slim.rs"]
mod slim;

const PAGE: &str = "../app/ui";

fn main() {
    println!("cargo::rerun-if-changed={PAGE}");
    println!("cargo::rerun-if-changed=src/http/preload.rs");
    println!("cargo::rerun-if-changed=src/http/slim.rs");
    println!("cargo::rerun-if-changed=build.rs");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it")).join("page");
    if out.exists() {
        fs::remove_dir_all(&out).expect("the last build's page can be removed");
    }
    write_slim(Path::new(PAGE), "", &out).expect("the page can be read and written");
}

fn write_slim(from: &Path, under: &str, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let name = entry.file_name().into_string().expect("the page's names are ASCII");
        if entry.file_type()?.is_dir() {
            write_slim(&entry.path(), &format!("{under}{name}/"), &to.join(&name))?;
        } else {
            let name_in_page = format!("{under}{name}");
            fs::write(to.join(&name), slim::embedded(&name_in_page, read))?;
        }
    }
    Ok(())
}

fn read(name: &str) -> String {
    fs::read_to_string(Path::new(PAGE).join(name)).expect("a file that the page names is there")
}
