//! The page's files are embedded as `hob-page` joins them; a file that is new, changed or gone changes
//! the program, too.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

const PAGE: &str = "../app/ui";

fn main() {
    println!("cargo::rerun-if-changed={PAGE}");
    println!("cargo::rerun-if-changed=build.rs");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it")).join("page");
    if out.exists() {
        fs::remove_dir_all(&out).expect("the last build's page can be removed");
    }
    let mut written = hob_page::Files::new();
    read(Path::new(PAGE), "", &mut written).expect("the page can be read");
    write(&hob_page::embedded(&written), &out).expect("the page can be written");
}

/// Adds the files of `directory`, whose names in the page begin with `under`.
fn read(directory: &Path, under: &str, files: &mut hob_page::Files) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name().into_string().expect("the page's names are ASCII");
        if entry.file_type()?.is_dir() {
            read(&entry.path(), &format!("{under}{name}/"), files)?;
        } else {
            files.insert(format!("{under}{name}"), fs::read_to_string(entry.path())?);
        }
    }
    Ok(())
}

fn write(files: &hob_page::Files, to: &Path) -> io::Result<()> {
    for (name, text) in files {
        let path = to.join(name);
        fs::create_dir_all(path.parent().unwrap_or(to))?;
        fs::write(path, text)?;
    }
    Ok(())
}
