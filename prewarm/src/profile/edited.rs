//! A profile in the editor, and the TOML that it becomes.
//!
//! - Unchanged parts of the file stay: comments, quotes and the order of keys. A segment moves with
//!   its comments.
//! - This module checks nothing: [`Outline`](super::Outline) parses the written text.

use std::collections::BTreeMap;

use hob_slots::TtlClass;
use toml_edit::{ArrayOfTables, DocumentMut, Item, RawString, Table, Value};

use super::trimmed;

#[derive(Clone, Debug, PartialEq)]
pub struct EditedProfile {
    /// Lifetime of its prefix on disk.
    pub ttl: TtlClass,
    /// Parameters of its answers; `None`: those of the file stay.
    pub sampling: Option<BTreeMap<String, f64>>,
    pub segments: Vec<EditedSegment>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EditedSegment {
    pub layer: String,
    /// `None`: named after its file or its number.
    pub key: Option<String>,
    pub stable: bool,
    pub source: EditedSource,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EditedSource {
    /// Written in the profile itself.
    Text(String),
    /// The path of a text file.
    File(String),
    /// The path of a JSON file.
    Tools(String),
}

impl EditedSource {
    /// Its field in the TOML file, and the value.
    fn field(&self) -> (&'static str, &str) {
        match self {
            Self::Text(text) => ("text", text),
            Self::File(path) => ("file", path),
            Self::Tools(path) => ("tools", path),
        }
    }
}

/// A segment has exactly one of these fields.
const SOURCES: [&str; 3] = ["text", "file", "tools"];

impl EditedProfile {
    /// The new text of the profile's file, made of its present text `before`. Replaces a text that
    /// is not TOML.
    pub fn written(&self, before: &str) -> String {
        let mut document: DocumentMut = before.parse().unwrap_or_default();
        let old = match document.remove("segment").map(Item::into_array_of_tables) {
            Some(Ok(tables)) => tables.into_iter().collect(),
            _ => Vec::new(),
        };
        if self.ttl != TtlClass::Extended || document.contains_key("ttl") {
            set(document.as_table_mut(), "ttl", self.ttl.as_str().into());
        }
        if let Some(sampling) = &self.sampling {
            set_sampling(document.as_table_mut(), sampling);
        }
        let mut old: Vec<(String, Option<Table>)> = old
            .into_iter()
            .enumerate()
            .map(|(at, table)| (name(&table, at + 1), Some(table)))
            .collect();
        let mut tables = ArrayOfTables::new();
        for (at, segment) in self.segments.iter().enumerate() {
            let known = segment.name(at + 1);
            let same = old.iter().position(|(name, table)| *name == known && table.is_some());
            let mut table = same.and_then(|at| old[at].1.take()).unwrap_or_default();
            segment.write(&mut table);
            if same != Some(at) {
                separate(&mut table, at == 0 && document.is_empty());
            }
            // After all other tables, in this order.
            table.set_position(1_000_000 + at as isize);
            tables.push(table);
        }
        document.insert("segment", Item::ArrayOfTables(tables));
        document.to_string()
    }
}

impl EditedSegment {
    fn name(&self, number: usize) -> String {
        self.key.clone().unwrap_or_else(|| default_key(self.source.field(), number))
    }

    fn write(&self, table: &mut Table) {
        set(table, "layer", self.layer.as_str().into());
        match &self.key {
            Some(key) if table.contains_key("key") || !is_default(key) => {
                set(table, "key", key.as_str().into());
            }
            Some(_) => {}
            None => {
                table.remove("key");
            }
        }
        let (field, content) = self.source.field();
        for other in SOURCES.iter().filter(|other| **other != field) {
            table.remove(other);
        }
        let same = |old: &str| match field {
            "text" => trimmed(old) == trimmed(content),
            _ => old == content,
        };
        if !table.get(field).and_then(Item::as_str).is_some_and(same) {
            set(table, field, content.into());
        }
        if !self.stable || table.contains_key("stable") {
            set(table, "stable", self.stable.into());
        }
    }
}

/// Changes the values that differ; an empty table leaves the file.
fn set_sampling(document: &mut Table, sampling: &BTreeMap<String, f64>) {
    if sampling.is_empty() {
        document.remove("sampling");
        return;
    }
    let table = document.entry("sampling").or_insert_with(|| Item::Table(Table::new()));
    let Some(table) = table.as_table_like_mut() else { return };
    let gone: Vec<String> = table.iter().map(|(name, _)| name.to_owned()).collect();
    for name in gone.iter().filter(|name| !sampling.contains_key(*name)) {
        table.remove(name);
    }
    for (name, &value) in sampling {
        let old = table
            .get(name)
            .and_then(|old| old.as_float().or_else(|| old.as_integer().map(|whole| whole as f64)));
        if old != Some(value) {
            table.insert(name, Item::Value(number(value)));
        }
    }
}

/// Whole numbers without a fraction.
fn number(value: f64) -> Value {
    let is_whole = value.fract() == 0.0 && value.abs() < 1e15;
    if is_whole { (value as i64).into() } else { value.into() }
}

/// Puts a blank line before a segment, but not at the beginning of the file.
fn separate(table: &mut Table, is_first: bool) {
    let before = table.decor().prefix().and_then(RawString::as_str).unwrap_or_default();
    let comments = before.trim_start_matches('\n').to_owned();
    table.decor_mut().set_prefix(if is_first { comments } else { format!("\n{comments}") });
}

/// Sets a value unless it is equal; the comments around it stay.
fn set(table: &mut Table, name: &str, value: Value) {
    match table.get_mut(name).and_then(Item::as_value_mut) {
        Some(old) if is_same(old, &value) => {}
        Some(old) => {
            let decor = old.decor().clone();
            *old = value;
            *old.decor_mut() = decor;
        }
        None => {
            table.insert(name, Item::Value(value));
        }
    }
}

fn is_same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::String(one), Value::String(other)) => one.value() == other.value(),
        (Value::Boolean(one), Value::Boolean(other)) => one.value() == other.value(),
        _ => false,
    }
}

fn name(table: &Table, number: usize) -> String {
    let text = |field: &str| table.get(field).and_then(Item::as_str);
    let source = SOURCES.iter().find_map(|field| Some((*field, text(field)?)));
    let named = text("key").map(str::to_owned);
    named.unwrap_or_else(|| default_key(source.unwrap_or(("text", "")), number))
}

/// The key that [`Outline`](super::Outline) gives a segment without one.
fn default_key((field, content): (&str, &str), number: usize) -> String {
    match field {
        "text" => format!("segment {number}"),
        _ => format!("file:{}", content.rsplit(['/', '\\']).next().unwrap_or_default()),
    }
}

/// Whether a key may be a default, which the editor got from the outline.
fn is_default(key: &str) -> bool {
    let number = key.strip_prefix("segment ");
    key.starts_with("file:") || number.is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Outline;

    const BEFORE: &str = "# mine\nttl = 'long' # an hour\nbudget = 4096\n\n# who it is\n[[segment]]\nlayer = \"identity\"\nkey = \"ember\"\n\
        text = 'You are Ember.' # short\n\n[[segment]]\nlayer = \"rules\"\ntext = \"\"\"\nBe brief.\nBe kind.\n\"\"\"\n\n\
        [[segment]]\nlayer = \"capabilities\"\ntools = \"t.json\"\n\n# the end\n";

    fn segment(layer: &str, key: Option<&str>, source: EditedSource) -> EditedSegment {
        let key = key.map(str::to_owned);
        EditedSegment { layer: layer.to_owned(), key, stable: true, source }
    }

    fn edited() -> EditedProfile {
        EditedProfile {
            ttl: TtlClass::Long,
            sampling: None,
            segments: vec![
                segment("identity", Some("ember"), EditedSource::Text("You are Ember.".into())),
                segment(
                    "rules",
                    Some("segment 2"),
                    EditedSource::Text("Be brief.\nBe kind.".into()),
                ),
                segment("capabilities", Some("file:t.json"), EditedSource::Tools("t.json".into())),
            ],
        }
    }

    #[test]
    fn an_unchanged_profile_is_written_as_it_was() {
        assert_eq!(edited().written(BEFORE), BEFORE);
    }

    #[test]
    fn one_change_changes_one_place() {
        let mut edited = edited();
        edited.segments[0].source = EditedSource::Text("You are Ash.".into());
        assert_eq!(edited.written(BEFORE), BEFORE.replace("'You are Ember.'", "\"You are Ash.\""));
        edited.segments[0].stable = false;
        edited.ttl = TtlClass::Permanent;
        let text = edited.written(BEFORE);
        assert!(text.contains("ttl = \"permanent\" # an hour"), "{text}");
        let outline = Outline::parse(&text).unwrap();
        assert!(!outline.segments[0].stable && outline.segments[1].stable);
    }

    #[test]
    fn a_segment_moves_with_its_comments() {
        let mut edited = edited();
        edited.segments.rotate_left(1);
        let text = edited.written(BEFORE);
        let outline = Outline::parse(&text).unwrap();
        let layers: Vec<_> =
            outline.segments.iter().map(|segment| segment.layer.as_str()).collect();
        assert_eq!(layers, ["rules", "capabilities", "identity"]);
        assert!(text.contains("# who it is\n[[segment]]\nlayer = \"identity\""), "{text}");
        assert!(text.starts_with("# mine\n") && text.ends_with("# the end\n"), "{text}");
    }

    #[test]
    fn segments_are_separated_by_one_blank_line() {
        let before = "# first\n[[segment]]\nlayer = \"rules\"\nkey = \"a\"\ntext = \"A\"\n\n\
            [[segment]]\nlayer = \"rules\"\nkey = \"b\"\ntext = \"B\"\n";
        let text = |it: &str| segment("rules", Some(it), EditedSource::Text(it.to_uppercase()));
        let edited = EditedProfile {
            ttl: TtlClass::Extended,
            sampling: None,
            segments: vec![text("b"), text("a"), text("c")],
        };
        let key = |it: &str| {
            let large = it.to_uppercase();
            format!("[[segment]]\nlayer = \"rules\"\nkey = \"{it}\"\ntext = \"{large}\"\n")
        };
        let expected = format!("{}\n# first\n{}\n{}", key("b"), key("a"), key("c"));
        assert_eq!(edited.written(before), expected);
    }

    #[test]
    fn a_new_profile_is_read_back_as_it_was_drafted() {
        let mut edited = edited();
        edited.ttl = TtlClass::Extended;
        edited.segments.push(EditedSegment {
            stable: false,
            ..segment(
                "context",
                Some("now"),
                EditedSource::Text("It is \"late\":\n\n\t'''\\x\n".into()),
            )
        });
        let text = edited.written("");
        assert!(!text.contains("ttl") && !text.contains("segment 2"), "{text}");
        let outline = Outline::parse(&text).unwrap();
        assert_eq!((outline.segments.len(), outline.ttl), (4, TtlClass::Extended));
        let now = &outline.segments[3];
        assert_eq!((now.key.as_str(), now.stable), ("now", false));
        assert_eq!(
            now.source,
            crate::profile::Source::Text("It is \"late\":\n\n\t'''\\x\n".into())
        );
        assert_eq!(edited.written(&text), text, "once more changes nothing");
        assert_eq!(edited.written("layer = ["), text, "a text that is not TOML is replaced");
    }

    #[test]
    fn sampling_is_written_where_it_changes_and_stays_where_the_draft_says_nothing() {
        let sampling = |text: &str| Outline::parse(text).unwrap().sampling;
        let values = BTreeMap::from([("temperature".to_owned(), 0.2), ("top_k".to_owned(), 40.0)]);
        let set = EditedProfile { sampling: Some(values.clone()), ..edited() };
        let written = set.written(BEFORE);
        assert!(written.contains("[sampling]\ntemperature = 0.2\ntop_k = 40\n"), "{written}");
        assert_eq!(sampling(&written), values);
        assert_eq!(edited().written(&written), written);
        assert_eq!(set.written(&written), written);
        let without = EditedProfile { sampling: Some(BTreeMap::new()), ..edited() };
        assert_eq!(sampling(&without.written(&written)), BTreeMap::new());
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_back_as_it_was_written(text in "\\PC{1,40}|[\"'\\\\\n\r\t a]{1,20}") {
            let wanted = format!("x{text}");
            let edited = EditedProfile {
                ttl: TtlClass::Short,
                sampling: None,
                segments: vec![segment("rules", None, EditedSource::Text(wanted.clone()))],
            };
            let outline = Outline::parse(&edited.written("")).unwrap();
            let crate::profile::Source::Text(read) = &outline.segments[0].source else { panic!() };
            proptest::prop_assert_eq!(trimmed(read), trimmed(&wanted));
        }
    }
}
