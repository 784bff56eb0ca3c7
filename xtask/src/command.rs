//! Commands that are printed before they run, in a form that can be pasted into a shell.
//!
//! - Paths in them are relative to the root of the project, which is where `main` goes first.
//! - A command that fails becomes a [`Failure`]: what happened, and what to do about it.

use std::fmt;
use std::process::{Command, Stdio};

/// Why a task stopped, and what a person can do about it.
#[derive(Debug)]
pub struct Failure {
    what: String,
    remedy: String,
}

impl Failure {
    pub fn new(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { what: what.into(), remedy: remedy.into() }
    }

    /// The same event with advice that knows more about it.
    pub fn with_remedy(self, remedy: impl Into<String>) -> Self {
        Self { remedy: remedy.into(), ..self }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "failed: {}\nto do:  {}", self.what, self.remedy)
    }
}

/// One command line: its own environment variables, a program and its arguments.
#[derive(Clone, Debug)]
pub struct Line {
    variables: Vec<(String, String)>,
    words: Vec<String>,
}

impl Line {
    /// A command given as it would be typed; words are separated by spaces, nothing is quoted.
    pub fn new(line: &str) -> Self {
        Self { variables: Vec::new(), words: line.split_whitespace().map(str::to_owned).collect() }
    }

    pub fn arg(mut self, word: impl Into<String>) -> Self {
        self.words.push(word.into());
        self
    }

    pub fn args(mut self, words: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.words.extend(words.into_iter().map(Into::into));
        self
    }

    pub fn env(mut self, name: &str, value: impl Into<String>) -> Self {
        self.variables.push((name.to_owned(), value.into()));
        self
    }

    /// Prints the command and runs it on this terminal.
    pub fn run(&self) -> Result<(), Failure> {
        println!("$ {self}");
        let status = self.command().status().map_err(|e| self.not_started(&e))?;
        if status.success() { Ok(()) } else { Err(self.ended_badly(&status.to_string())) }
    }

    /// Runs the command quietly and returns what it printed.
    pub fn output(&self) -> Result<String, Failure> {
        let output = self.command().output().map_err(|e| self.not_started(&e))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        eprint!("{}", String::from_utf8_lossy(&output.stderr));
        Err(self.ended_badly(&output.status.to_string()))
    }

    /// Whether the command exists and succeeds; prints nothing.
    pub fn succeeds(&self) -> bool {
        let quiet = &mut self.command();
        quiet.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        quiet.status().is_ok_and(|status| status.success())
    }

    /// The process that this line describes.
    pub fn command(&self) -> Command {
        let (program, words) = self.words.split_first().expect("a line names a program");
        let mut command = Command::new(program);
        // What is built is sought where the README says that it is.
        command.env_remove("CARGO_TARGET_DIR").args(words);
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Why the program could not be started.
    pub fn not_started(&self, error: &std::io::Error) -> Failure {
        Failure::new(
            format!("cannot start `{self}`: {error}"),
            "see that the program is installed and on the PATH",
        )
    }

    fn ended_badly(&self, status: &str) -> Failure {
        Failure::new(
            format!("`{self}`: {status}"),
            "its own output is above; paste it to repeat it",
        )
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let variables =
            self.variables.iter().map(|(name, value)| format!("{name}={}", quoted(value)));
        let words = self.words.iter().map(|word| quoted(word));
        f.write_str(&variables.chain(words).collect::<Vec<_>>().join(" "))
    }
}

/// The word as a POSIX shell reads it back.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=./,:+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_can_be_pasted() {
        let line = Line::new("echo").arg("it's $HOME").arg("").arg("a=b/c").env("CXX", "fa lse");
        assert_eq!(line.to_string(), r#"CXX='fa lse' echo 'it'\''s $HOME' '' a=b/c"#);
    }

    #[test]
    fn a_shell_reads_a_quoted_word_back_unchanged() {
        let word = "a 'b' \"c\" $d `e` \\ \n*";
        let echoed = Line::new("sh -c").arg(format!("printf %s {}", quoted(word))).output();
        assert_eq!(echoed.expect("sh runs"), word);
    }

    #[test]
    fn a_missing_program_is_a_failure_with_advice() {
        let failure = Line::new("hob-no-such-program").output().expect_err("it does not exist");
        assert!(failure.to_string().contains("cannot start `hob-no-such-program`"));
    }
}
