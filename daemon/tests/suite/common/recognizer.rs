//! Commands of speech as shell scripts.

/// Understands more words after each quarter of a second of sound; at the end all of them.
pub const RECOGNIZER: &str = "head -c 8000 >/dev/null; echo What is my; \
                              head -c 8000 >/dev/null; echo What is my locker; cat >/dev/null; \
                              echo 'What is my locker code?'";

pub fn shell(script: &str) -> [&str; 3] {
    ["sh", "-c", script]
}
