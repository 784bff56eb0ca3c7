//! The page's files are embedded; a file that is new or gone changes the program, too.

fn main() {
    println!("cargo::rerun-if-changed=../app/ui");
}
