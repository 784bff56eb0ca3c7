//! A run of `bench peer` as a file: the machine, the versions, and every sample.
//!
//! - A table that is measured again replaces the one before; the others stay. So a run can be
//!   interrupted, and continued table by table.
//! - Tables of two machines, of two models or of two llama-servers never share a file. Each names its commit.
//! - The file is replaced whole, by a rename.

mod figures;
mod machine;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

pub use figures::{Row, Unit, Who, median};
pub use machine::{Machine, commit, load, unix_secs};

/// Increased when the fields change their meaning.
const FORMAT: u32 = 1;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    format: u32,
    pub machine: Machine,
    pub model: String,
    pub weights_bytes: u64,
    pub hobd: String,
    pub llama_server: String,
    /// In the order of the harness.
    pub tables: Vec<Table>,
}

/// What one part of the harness measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Table {
    pub name: String,
    pub title: String,
    /// Sizes and settings, as sentences.
    pub conditions: String,
    /// The command that measured it.
    pub command: String,
    pub commit: String,
    pub began_unix_secs: u64,
    pub took_secs: u64,
    /// The load average over a minute before it: other work of the machine, mostly.
    pub load: f64,
    pub threads: usize,
    /// Cells.
    pub context: usize,
    pub rounds: usize,
    pub rows: Vec<Row>,
}

/// What all tables of a file have in common.
pub struct Subject {
    pub machine: Machine,
    pub model: String,
    pub weights_bytes: u64,
    pub hobd: String,
    pub llama_server: String,
}

impl Record {
    /// The record at `path`, or an empty one where there is none.
    ///
    /// # Errors
    /// The file holds something else, or was measured on another machine or model, or beside another llama-server.
    pub fn open(path: &Path, subject: Subject) -> Result<Self> {
        let Subject { machine, model, weights_bytes, hobd, llama_server } = subject;
        if !path.is_file() {
            let tables = Vec::new();
            let format = FORMAT;
            return Ok(Self { format, machine, model, weights_bytes, hobd, llama_server, tables });
        }
        let record = Self::read(path)?;
        let is_same = record.machine == machine && record.model == model;
        ensure!(
            is_same && record.weights_bytes == weights_bytes && record.llama_server == llama_server,
            "{} was measured on another machine or model, or beside another llama-server ({}; {}; {}): name another \
             file with --out",
            path.display(),
            record.machine.title(),
            record.model,
            record.llama_server
        );
        Ok(Self { hobd, ..record })
    }

    /// # Errors
    /// The file cannot be read, or is no record of this version.
    pub fn read(path: &Path) -> Result<Self> {
        let text =
            fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let record: Self = serde_json::from_str(&text).with_context(|| {
            format!("{} is no run of `bench peer` of this version: measure again", path.display())
        })?;
        let found = record.format;
        ensure!(found == FORMAT, "{} has format {found}, not {FORMAT}", path.display());
        Ok(record)
    }

    pub fn table(&self, name: &str) -> Option<&Table> {
        self.tables.iter().find(|table| table.name == name)
    }

    /// Adds a table in the order of `names`, in place of the one before of this name.
    pub fn put(&mut self, table: Table, names: &[&str]) {
        self.tables.retain(|before| before.name != table.name);
        self.tables.push(table);
        let order = |table: &Table| names.iter().position(|&name| name == table.name);
        self.tables.sort_by_key(order);
    }

    /// Replaces the file.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn save(&self, path: &Path) -> Result<()> {
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory)?;
        }
        let unfinished = path.with_extension(format!("{}.unfinished", std::process::id()));
        let text = format!("{}\n", serde_json::to_string_pretty(self)?);
        fs::write(&unfinished, text).and_then(|()| fs::rename(&unfinished, path))?;
        Ok(())
    }

    /// Each bar that was missed, as a sentence.
    pub fn missed<'a>(&self, tables: impl IntoIterator<Item = &'a Table>) -> Vec<String> {
        let missed = |table: &Table| {
            let rows = table.rows.iter().filter_map(Row::missed);
            rows.map(|row| format!("{}: {row}", table.name)).collect::<Vec<_>>()
        };
        tables.into_iter().flat_map(missed).collect()
    }
}

#[cfg(test)]
impl Table {
    /// For tests. The other fields are empty, 0 or 1.
    pub fn of_rows(name: &str, rows: Vec<Row>) -> Self {
        Self {
            name: name.to_owned(),
            title: name.to_owned(),
            conditions: String::new(),
            command: String::new(),
            commit: String::new(),
            began_unix_secs: 0,
            took_secs: 0,
            load: 0.0,
            threads: 1,
            context: 1,
            rounds: 1,
            rows,
        }
    }
}

#[cfg(test)]
impl Subject {
    /// For tests: a model on this machine.
    pub fn of_model(model: &str) -> Self {
        Self {
            machine: Machine::read(),
            model: model.to_owned(),
            weights_bytes: 1,
            hobd: "1".to_owned(),
            llama_server: "2".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(name: &str, ms: f64) -> Table {
        let mut row = Row::lower("cold", "cold", Unit::Ms).bar(1.02);
        row.push(Who::Hobd, ms);
        row.push(Who::Other, 100.0);
        Table::of_rows(name, vec![row])
    }

    #[test]
    fn a_table_that_is_measured_again_replaces_the_one_before_and_no_other() {
        let directory = tempfile::tempdir().expect("a directory can be made");
        let path = directory.path().join("deeper/run.json");
        let mut record = Record::open(&path, Subject::of_model("m")).expect("an empty one");
        record.put(table("second", 90.0), &["first", "second"]);
        record.put(table("first", 110.0), &["first", "second"]);
        record.save(&path).expect("written");

        let mut again = Record::open(&path, Subject::of_model("m")).expect("it is there");
        again.put(table("second", 80.0), &["first", "second"]);

        let names: Vec<_> = again.tables.iter().map(|table| table.name.as_str()).collect();
        assert_eq!(names, ["first", "second"]);
        assert_eq!(again.table("second"), Some(&table("second", 80.0)));
        assert_eq!(again.table("first"), Some(&table("first", 110.0)));
        assert_eq!(again.missed(&again.tables), ["first: cold: 1.100, bar 1.02"]);
        let error = Record::open(&path, Subject::of_model("other")).expect_err("another model");
        assert!(error.to_string().contains("--out"), "{error}");
        let newer = Subject { llama_server: "3".to_owned(), ..Subject::of_model("m") };
        let error = Record::open(&path, newer).expect_err("another llama-server");
        assert!(error.to_string().contains("--out"), "{error}");
    }
}
