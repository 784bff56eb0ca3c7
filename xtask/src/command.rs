//! Commands, printed before they run in a form that can be pasted into a shell.
//!
//! - Paths are relative to the root of the project, which `main` enters first.
//! - A failed command becomes a [`Failure`] with a remedy.

use std::io::{self, BufRead, BufReader, Write};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;
use std::{env, fmt, thread};

#[derive(Debug)]
pub struct Failure {
    what: String,
    remedy: String,
}

impl Failure {
    pub fn new(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { what: what.into(), remedy: remedy.into() }
    }

    /// All of `failures` as one.
    ///
    /// # Errors
    /// Unless there is none.
    pub fn of_all(failures: Vec<Self>) -> Result<(), Self> {
        let all = failures.into_iter().reduce(|all, next| {
            let Self { what, remedy } = next;
            Self::new(all.what, format!("{}\nfailed: {what}\nto do:  {remedy}", all.remedy))
        });
        all.map_or(Ok(()), Err)
    }

    /// What follows is shown below the failure.
    pub fn with_report(self, report: &str) -> Self {
        if report.is_empty() {
            return self;
        }
        Self { what: format!("{}\n{report}", self.what), ..self }
    }

    pub fn with_remedy(self, remedy: impl Into<String>) -> Self {
        Self { remedy: remedy.into(), ..self }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "failed: {}\nto do:  {}", self.what, self.remedy)
    }
}

/// How the variables begin that `cargo run` sets for the package of this program. Ring's build script asks for
/// them, so cargo would compile it and the daemon anew between a command of ours and one that is typed.
const OF_THIS_PACKAGE: [&str; 2] = ["CARGO_PKG_", "CARGO_MANIFEST_"];

/// For how long a command prints nothing before it is asked whether it has ended.
const QUIET: Duration = Duration::from_millis(200);

/// A command line: environment variables, a program and its arguments.
#[derive(Clone, Debug)]
pub struct Line {
    variables: Vec<(String, String)>,
    words: Vec<String>,
}

impl Line {
    /// Splits `line` at white space; there is no quoting.
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

    /// Prints the command, and runs it on this terminal.
    pub fn run(&self) -> Result<(), Failure> {
        println!("$ {self}");
        let status = self.command().status().map_err(|e| self.not_started(&e))?;
        if status.success() { Ok(()) } else { Err(self.failed(&status.to_string())) }
    }

    /// Prints the command, runs it on this terminal, and passes each line that it prints to `read` too.
    pub fn run_reading(&self, read: impl FnMut(&str)) -> Result<(), Failure> {
        println!("$ {self}");
        let status = read_lines(self.command(), read).map_err(|e| self.not_started(&e))?;
        if status.success() { Ok(()) } else { Err(self.failed(&status.to_string())) }
    }

    /// Runs the command quietly, and returns its output.
    pub fn output(&self) -> Result<String, Failure> {
        let output = self.command().output().map_err(|e| self.not_started(&e))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        eprint!("{}", String::from_utf8_lossy(&output.stderr));
        Err(self.failed(&output.status.to_string()))
    }

    /// Whether the command exists and succeeds; prints nothing.
    pub fn succeeds(&self) -> bool {
        let quiet = &mut self.command();
        quiet.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        quiet.status().is_ok_and(|status| status.success())
    }

    pub fn command(&self) -> Command {
        let (program, words) = self.words.split_first().expect("a line names a program");
        let mut command = Command::new(program);
        // Other commands expect the programs in `target/release`, as the README does.
        command.env_remove("CARGO_TARGET_DIR").env_remove("CARGO_BUILD_TARGET").args(words);
        if program == "cargo" {
            // The user's configuration may name another directory; this variable overrides it.
            command.env("CARGO_TARGET_DIR", "target");
        }
        for name in env::vars_os().filter_map(|(name, _)| name.into_string().ok()) {
            if OF_THIS_PACKAGE.iter().any(|start| name.starts_with(start)) {
                command.env_remove(name);
            }
        }
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    pub fn not_started(&self, error: &io::Error) -> Failure {
        Failure::new(
            format!("cannot start `{self}`: {error}"),
            "install the program, and see that it is on the PATH",
        )
    }

    fn failed(&self, status: &str) -> Failure {
        Failure::new(
            format!("`{self}`: {status}"),
            "see its output above; paste the command to repeat it",
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

/// Returns once the command has ended. A process that it leaves behind may hold its output open.
fn read_lines(mut command: Command, mut read: impl FnMut(&str)) -> io::Result<ExitStatus> {
    // One pipe for both outputs keeps the order of the lines.
    let (printed, output) = io::pipe()?;
    let mut child = command.stderr(output.try_clone()?).stdout(output).spawn()?;
    // It holds the pipe's other end.
    drop(command);
    let (lines, received) = mpsc::channel();
    thread::spawn(move || {
        let mut printed = BufReader::new(printed).split(b'\n').map_while(Result::ok);
        printed.try_for_each(|line| lines.send(line))
    });
    loop {
        match received.recv_timeout(QUIET) {
            Ok(line) => {
                io::stdout().write_all(&[&line[..], b"\n"].concat())?;
                read(&String::from_utf8_lossy(&line));
            }
            Err(RecvTimeoutError::Disconnected) => return child.wait(),
            Err(RecvTimeoutError::Timeout) => {
                if let Some(status) = child.try_wait()? {
                    return Ok(status);
                }
            }
        }
    }
}

/// Quotes the word for a POSIX shell.
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
    fn a_printed_command_can_be_pasted() {
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
    fn a_command_does_not_hear_of_this_programs_package() {
        assert!(env::var_os("CARGO_PKG_NAME").is_some(), "cargo runs this test");
        let heard =
            Line::new("sh -c").arg("echo ${CARGO_PKG_NAME-none} ${CARGO_MANIFEST_DIR-none}");
        assert_eq!(heard.output().expect("sh runs"), "none none\n");
    }

    #[test]
    fn cargo_leaves_programs_where_other_commands_expect_them() {
        let target = |line: &Line| {
            let command = line.command();
            let mut variables = command.get_envs().filter(|(name, _)| *name == "CARGO_TARGET_DIR");
            variables.next().and_then(|(_, value)| value?.to_str().map(str::to_owned))
        };
        assert_eq!(target(&Line::new("cargo build")).as_deref(), Some("target"));
        let apart = Line::new("cargo build").env("CARGO_TARGET_DIR", "target/native");
        assert_eq!(target(&apart).as_deref(), Some("target/native"));
        assert_eq!(target(&Line::new("target/release/hobd")), None);
    }

    #[test]
    fn lines_of_both_outputs_are_read_in_their_order() {
        let line = Line::new("sh -c").arg("echo a; echo b >&2; printf c; exit 3");
        let mut lines = Vec::new();
        let failure = line.run_reading(|line| lines.push(line.to_owned()));
        assert_eq!(lines, ["a", "b", "c"]);
        assert!(failure.expect_err("it exits with 3").to_string().contains("exit status: 3"));
    }

    #[test]
    fn a_missing_program_is_a_failure_with_a_remedy() {
        let failure = Line::new("hob-no-such-program").output().expect_err("it does not exist");
        assert!(failure.to_string().contains("cannot start `hob-no-such-program`"));
    }
}
