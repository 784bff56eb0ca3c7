//! Writes one setting into the configuration file.
//!
//! - Comments, order and spelling of other settings stay, unless TOML has no room for the setting beside a table: the
//!   settings of `[slots]` get names of one piece when `slots` is set.
//! - The lines end as before, and a byte order mark stays.
//! - Readers see the old file or the new one, each whole; a symbolic link stays one. The threads of a process write
//!   one after the other.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use toml_edit::{DocumentMut, Item, Key as Name, RawString, Table, TableLike, Value};

use crate::key::Key;

/// Why a setting could not be written.
#[derive(Debug, thiserror::Error)]
pub enum EditError {
    #[error("{} is not valid TOML: {problem}", path.display())]
    Syntax { path: PathBuf, problem: String },
    #[error("cannot write {}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
}

/// Sets `key` to a text or a number in the file at `path`, which need not exist.
pub fn set(path: &Path, key: Key, value: impl Into<Value>) -> Result<(), EditError> {
    // Between reading and writing, no other thread's setting may get lost.
    static WRITES: Mutex<()> = Mutex::new(());
    let _writes = WRITES.lock().unwrap_or_else(PoisonError::into_inner);
    let failed = |source| EditError::Io { path: path.to_owned(), source };
    let real = file_of(path);
    let text = match fs::read_to_string(&real) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(failed(error)),
    };
    let edited = with_value(&text, key, value.into()).map_err(|problem| {
        let path = path.to_owned();
        EditError::Syntax { path, problem }
    })?;
    replace(&real, &edited).map_err(failed)
}

/// The file that is written: the one that a link points to, also where it is missing.
fn file_of(path: &Path) -> PathBuf {
    if let Ok(real) = fs::canonicalize(path) {
        return real;
    }
    let target = fs::read_link(path).map(|target| path.with_file_name("").join(target));
    target.unwrap_or_else(|_| path.to_owned())
}

/// Some editors write it in front of a text.
const BYTE_ORDER_MARK: char = '\u{feff}';

fn with_value(text: &str, key: Key, value: Value) -> Result<String, String> {
    let without_mark = text.strip_prefix(BYTE_ORDER_MARK);
    let mut document: DocumentMut = without_mark
        .unwrap_or(text)
        .parse()
        .map_err(|error: toml_edit::TomlError| error.to_string().trim_end().to_owned())?;
    match find(document.as_table_mut(), key.name()) {
        Some(old) => {
            let decor = old.decor().clone();
            *old = value;
            *old.decor_mut() = decor;
        }
        None => {
            flatten(document.as_table_mut(), key.name());
            document.insert(key.name(), Item::Value(value));
        }
    }
    let edited = with_line_ends_of(text, document.to_string());
    Ok(without_mark.map(|_| BYTE_ORDER_MARK.to_string()).unwrap_or_default() + &edited)
}

/// `toml_edit` ends all lines with LF. In a text where both occur they stay so.
fn with_line_ends_of(text: &str, edited: String) -> String {
    let returns = text.matches("\r\n").count();
    if returns == 0 || returns < text.matches('\n').count() {
        return edited;
    }
    edited.replace("\r\n", "\n").replace('\n', "\r\n")
}

/// The value of a name, which may be written in pieces: `quota_bytes` in `[slots]`.
fn find<'t>(table: &'t mut dyn TableLike, name: &str) -> Option<&'t mut Value> {
    let is_plain = |item: &Item| item.is_value() && !item.is_inline_table();
    if table.get(name).is_some_and(is_plain) {
        return table.get_mut(name)?.as_value_mut();
    }
    let pieces = name.match_indices('_').map(|(at, _)| (&name[..at], &name[at + 1..]));
    let holds = |(outer, inner): &(&str, &str)| {
        let inside = table.get(outer).and_then(Item::as_table_like);
        inside.is_some_and(|inside| inside.contains_key(inner))
    };
    let (outer, inner) = pieces.clone().find(holds)?;
    table.get_mut(outer)?.as_table_like_mut()?.get_mut(inner)?.as_value_mut()
}

/// Moves the settings of the table `name`, if there is one, in front of the tables: `slots_encrypt` for `encrypt` in
/// `[slots]`. Inserting a value of that name would remove them.
fn flatten(root: &mut Table, name: &str) {
    let Some(Ok(mut table)) = root.remove(name).map(Item::into_table) else { return };
    let text = |raw: Option<&RawString>| raw.and_then(RawString::as_str).unwrap_or("").to_owned();
    let mut comment = text(table.decor().prefix());
    let names: Vec<String> = table.iter().map(|(name, _)| name.to_owned()).collect();
    for inner in names {
        let whole = format!("{name}_{inner}");
        let Some((key, item)) = table.remove_entry(&inner) else { continue };
        if root.contains_key(&whole) {
            continue; // That one is read.
        }
        let mut decor = key.leaf_decor().clone();
        let before = std::mem::take(&mut comment) + &text(decor.prefix());
        decor.set_prefix(before);
        root.insert_formatted(&Name::new(whole).with_leaf_decor(decor), item);
    }
}

fn replace(path: &Path, text: &str) -> io::Result<()> {
    let directory = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(directory)?;
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = PathBuf::from(name);
    let written = write_like(path, &temporary, text).and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written
}

/// The new file has the permissions of the old one.
fn write_like(path: &Path, temporary: &Path, text: &str) -> io::Result<()> {
    let mut file = fs::File::create(temporary)?;
    if let Ok(facts) = fs::metadata(path) {
        file.set_permissions(facts.permissions())?;
    }
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::Raw;
    use crate::sources::ConfigFile;

    fn edited(text: &str) -> String {
        with_value(text, Key::Model, "/m/a.gguf".into()).unwrap()
    }

    #[test]
    fn the_rest_of_the_file_stays_as_it_was() {
        let text =
            "# mine\nmodel = 'old'  # small\nctx = 0x400\n\n[slots]\n# a secret\nencrypt = true\n";
        let expected = text.replace("'old'", "\"/m/a.gguf\"");
        assert_eq!(edited(text), expected);
    }

    #[test]
    fn line_ends_and_a_byte_order_mark_stay() {
        let text = "\u{feff}# mine\r\nmodel = 'old' # small\r\n\r\n[slots]\r\nencrypt = true\r\n";
        assert_eq!(edited(text), text.replace("'old'", "\"/m/a.gguf\""));
        assert_eq!(edited("ctx = 1024\r\n"), "ctx = 1024\r\nmodel = \"/m/a.gguf\"\r\n");
    }

    #[test]
    fn a_new_setting_belongs_to_no_table() {
        let text = edited("ctx = 1024\n\n[slots]\nencrypt = true\n");
        assert!(text.find("model = ").unwrap() < text.find("[slots]").unwrap(), "{text}");
        assert_eq!(edited(""), "model = \"/m/a.gguf\"\n");
    }

    #[test]
    fn a_setting_is_changed_where_the_file_has_it() {
        let quota = |text: &str| with_value(text, Key::SlotsQuotaBytes, 7.into()).unwrap();
        let in_table = "[slots]\nquota_bytes = '1GiB' # mine\n";
        assert_eq!(quota(in_table), "[slots]\nquota_bytes = 7 # mine\n");
        assert_eq!(quota("slots.quota_bytes = 1\n"), "slots.quota_bytes = 7\n");
        assert_eq!(quota("slots_quota_bytes = 1\n"), "slots_quota_bytes = 7\n");
        assert_eq!(quota("slots = 3\n"), "slots = 3\nslots_quota_bytes = 7\n");
    }

    #[test]
    fn a_setting_with_the_name_of_a_table_removes_none_of_the_tables_settings() {
        let slots = |text: &str| with_value(text, Key::Slots, 6.into()).unwrap();
        let in_table = "ctx = 1024\n\n# mine\n[slots]\n# a secret\nencrypt = true # on\n\
                        quota_bytes = '1GiB'\n\n[keepalive]\ninterval = '2m'\n";
        for text in [
            in_table,
            "slots = { encrypt = true, quota_bytes = '1GiB' }\n",
            "slots.encrypt = true\nslots.quota_bytes = '1GiB'\n",
        ] {
            let text = slots(text);
            let file = ConfigFile { path: "hob.toml".into(), text: text.clone() };
            let read = crate::file::read(&file).unwrap();
            let raw = |key| read.get(&key).map(|(raw, _)| raw.clone());
            assert_eq!(raw(Key::Slots), Some(Raw::Integer(6)), "{text}");
            assert_eq!(raw(Key::SlotsEncrypt), Some(Raw::Text("true".into())), "{text}");
            assert_eq!(raw(Key::SlotsQuotaBytes), Some(Raw::Text("1GiB".into())), "{text}");
            assert_eq!(slots(&text), text);
        }
        let text = slots(in_table);
        for kept in ["ctx = 1024", "# mine", "# a secret", "true # on", "[keepalive]"] {
            assert!(text.contains(kept), "{kept} is missing: {text}");
        }
    }

    #[test]
    fn a_missing_file_is_created_and_invalid_toml_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("hob/hob.toml");
        set(&file, Key::Model, "a \"b\"").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "model = 'a \"b\"'\n");
        set(&file, Key::Model, "bundled").unwrap();
        assert_eq!(fs::read_dir(file.parent().unwrap()).unwrap().count(), 1);

        fs::write(&file, "model =").unwrap();
        let error = set(&file, Key::Model, "a").unwrap_err().to_string();
        assert!(error.contains("hob.toml is not valid TOML"), "{error}");
        assert_eq!(fs::read_to_string(&file).unwrap(), "model =");
    }

    #[test]
    fn settings_of_several_threads_are_all_written() {
        let directory = tempfile::tempdir().unwrap();
        let file = &directory.path().join("hob.toml");
        let settings = [(Key::Ctx, 1024_i64), (Key::Threads, 2), (Key::Queue, 3), (Key::Slots, 4)];
        std::thread::scope(|scope| {
            for (key, number) in settings {
                scope.spawn(move || (0..8).for_each(|_| set(file, key, number).unwrap()));
            }
        });
        let text = fs::read_to_string(file).unwrap();
        for (key, number) in settings {
            let line = format!("{} = {number}", key.name());
            assert!(text.lines().any(|written| written == line), "{line} is missing: {text}");
        }
    }

    #[test]
    fn a_link_stays_a_link_and_a_private_file_private() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let directory = tempfile::tempdir().unwrap();
        let (real, link) =
            (directory.path().join("dotfiles.toml"), directory.path().join("hob.toml"));
        fs::write(&real, "ctx = 1024\n").unwrap();
        fs::set_permissions(&real, fs::Permissions::from_mode(0o600)).unwrap();
        symlink(&real, &link).unwrap();
        set(&link, Key::Model, "a").unwrap();
        assert!(link.is_symlink());
        assert_eq!(fs::read_to_string(&real).unwrap(), "ctx = 1024\nmodel = \"a\"\n");
        assert_eq!(fs::metadata(&real).unwrap().permissions().mode() & 0o777, 0o600);

        fs::remove_file(&link).unwrap();
        symlink("missing.toml", &link).unwrap();
        set(&link, Key::Model, "b").unwrap();
        assert!(link.is_symlink());
        let created = directory.path().join("missing.toml");
        assert_eq!(fs::read_to_string(created).unwrap(), "model = \"b\"\n");
    }
}
