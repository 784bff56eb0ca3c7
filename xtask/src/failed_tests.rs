//! What `cargo test` prints of the tests that fail, to be repeated behind everything else: of a long run only the end
//! is read, and a log may keep no more.

/// The lines of one test's report that are kept, as its assertion comes first.
const LINES_OF_A_REPORT: usize = 16;

/// Reads the output line by line.
#[derive(Default)]
pub struct FailedTests {
    is_within: bool,
    lines_of_report: usize,
    kept: Vec<String>,
}

impl FailedTests {
    /// Keeps what stands between `failures:` and `test result:` of each program, programs that ended otherwise than by
    /// a failed test, and cargo's list of the programs.
    pub fn read(&mut self, line: &str) {
        let line = line.trim_end();
        if line.starts_with("test result: ") {
            self.is_within = false;
        }
        if line == "failures:" || (line.starts_with("error: ") && line.ends_with(" failed:")) {
            self.is_within = true;
            self.lines_of_report = 0;
            return;
        }
        if line.starts_with("---- ") {
            self.lines_of_report = 0;
        }
        let is_a_crash = line.contains("process didn't exit successfully");
        let is_kept =
            self.is_within && !line.is_empty() && self.lines_of_report < LINES_OF_A_REPORT;
        // Cargo and libtest indent the names in their lists.
        let is_a_name = self.is_within && line.starts_with("    ") && !line.trim().contains(' ');
        if is_a_crash || is_a_name || is_kept {
            self.kept.push(line.to_owned());
            self.lines_of_report += 1;
        }
    }

    /// Empty where no test failed.
    pub fn report(&self) -> String {
        self.kept.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(output: &str) -> String {
        let mut failed = FailedTests::default();
        output.lines().for_each(|line| failed.read(line));
        failed.report()
    }

    #[test]
    fn of_tests_that_pass_nothing_is_kept() {
        assert_eq!(report("running 1 test\ntest a ... ok\n\ntest result: ok. 1 passed\n"), "");
    }

    #[test]
    fn a_failed_test_is_named_with_the_beginning_of_its_report() {
        let long = "    frame\n".repeat(LINES_OF_A_REPORT).replace("frame", "a frame");
        let output = format!(
            "test a ... FAILED\ntest b ... ok\n\nfailures:\n\n---- a stdout ----\n\nthread 'a' panicked at x.rs:1:2:\n{long}last\n\
             \n\nfailures:\n    a\n\ntest result: FAILED. 1 passed; 1 failed\n\nerror: test failed, to rerun pass `-p x`\n"
        );
        let report = report(&output);
        assert!(
            report.starts_with("---- a stdout ----\nthread 'a' panicked at x.rs:1:2:\n    a frame")
        );
        assert!(report.ends_with("a frame\n    a"), "{report}");
        assert!(!report.contains("last"), "{report}");
    }

    #[test]
    fn a_program_that_crashed_is_named() {
        let output = "error: test failed, to rerun pass `-p x --test y`\n\nCaused by:\n  process didn't exit \
                      successfully: `/x/y-1` (signal: 9, SIGKILL: kill)\nerror: 1 target failed:\n    `-p x --test y`\n";
        let report = report(output);
        assert!(report.contains("(signal: 9, SIGKILL: kill)"), "{report}");
        assert!(report.ends_with("`-p x --test y`"), "{report}");
    }
}
