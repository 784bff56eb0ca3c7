//! The files of a ZIP archive: ChatGPT's export, or folders of the other apps.

use std::collections::BTreeMap;
use std::io::{Read, Seek};

use serde_json::Value;
use zip::ZipArchive;

use super::{Export, ReadLimits, jan, lines, refused};
use crate::error::ApiError;

/// A folder of Jan.
#[derive(Default)]
struct Folder {
    thread: Value,
    messages: Vec<Value>,
}

/// Adds the conversations of each file that has some; others are left out.
pub fn read(
    export: &mut Export,
    file: impl Read + Seek,
    limits: &mut ReadLimits,
) -> Result<(), ApiError> {
    let broken = |error| refused(format!("the ZIP archive cannot be read: {error}"));
    let mut archive = ZipArchive::new(file).map_err(broken)?;
    let mut folders: BTreeMap<String, Folder> = BTreeMap::new();
    for index in 0..archive.len() {
        let file = archive.by_index(index).map_err(broken)?;
        let path = file.name().map_err(broken)?.into_owned();
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", &path));
        if name == "messages.jsonl" {
            let folder = folders.entry(folder.to_owned()).or_default();
            folder.messages = limits.read_whole(file, |file| lines(file))?;
        } else if name == "thread.json" {
            let folder = folders.entry(folder.to_owned()).or_default();
            folder.thread = limits.read_whole(file, |file| {
                serde_json::from_reader(file).map_err(|error| {
                    refused(format!("its file number {index} is not JSON: {error}"))
                })
            })?;
        } else if has_ending(name, "json") {
            let mut found = Export::default();
            match limits.read(file, |file| Ok(found.add_json(file)))? {
                Ok(()) => export.append(found),
                Err(error) if name.starts_with("conversation") => return Err(error),
                Err(_) => {} // Beside the conversations, ChatGPT's export has an account and feedback.
            }
        }
    }
    for folder in folders.values().filter(|folder| !folder.messages.is_empty()) {
        if let Some(found) = jan::thread(&folder.thread, &folder.messages) {
            export.add(found);
        }
    }
    if export.is_empty() {
        let files = archive.len();
        return Err(refused(format!("none of the ZIP archive's {files} files has a conversation")));
    }
    Ok(())
}

fn has_ending(name: &str, wanted: &str) -> bool {
    name.rsplit_once('.').is_some_and(|(_, ending)| ending.eq_ignore_ascii_case(wanted))
}
