//! Families of figures in Prometheus' text format.

use std::fmt::{Display, Write as _};

#[derive(Default)]
pub(super) struct Page {
    text: String,
}

impl Page {
    pub(super) fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    pub(super) fn line(&mut self, name: &str, labels: &str, value: impl Display) {
        let _ = match labels {
            "" => writeln!(self.text, "{name} {value}"),
            labels => writeln!(self.text, "{name}{{{labels}}} {value}"),
        };
    }

    pub(super) fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.family(name, "counter", help);
        self.line(name, "", value);
    }

    /// A counter for each value of `label`.
    pub(super) fn counters<L: Display, V: Display>(
        &mut self,
        name: &str,
        help: &str,
        label: &str,
        counts: impl IntoIterator<Item = (L, V)>,
    ) {
        self.family(name, "counter", help);
        for (value, count) in counts {
            self.line(name, &format!("{label}=\"{value}\""), count);
        }
    }

    pub(super) fn gauge(&mut self, name: &str, help: &str, value: u64) {
        self.family(name, "gauge", help);
        self.line(name, "", value);
    }

    pub(super) fn into_text(self) -> String {
        self.text
    }
}
