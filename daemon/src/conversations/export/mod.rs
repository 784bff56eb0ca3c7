//! Conversations as files: JSON, Markdown, and an archive of text and KV.
//!
//! - JSON has everything: all branches, and how each answer ended. Markdown is the branch that was
//!   used last, for people to read and edit, and can be imported again.
//! - Every imported message is checked like a request's, and no export decides where a file is
//!   written.
//! - Text is imported completely or not at all. KV only saves a prefill: what is wrong with it is
//!   reported, unless the archive itself is damaged, which imports nothing.
//! - An archive has the KV of its own conversation and of no other.
//!
//! Reading order: [`super::transcript::ConversationExport`] (a conversation by itself),
//! [`markdown`], [`archive`], this file.

pub mod archive;
pub mod markdown;

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::sync::Arc;

use hob_slots::archive::{self as kv_archive, Archive, ImportOptions};
use hob_slots::store::StoreReader;
use hob_slots::{ConversationId, ModelHash};

use super::Conversations;
use super::foreign;
use super::transcript::{ConversationExport, Extent, ImportedConversation, SaveIf};
use crate::blocking::compute;
use crate::chat::names;
use crate::error::{ApiError, ErrorKind};
use crate::storage::archive::{SPARE_BYTES, Upload, in_directory, refused, unnamed_file};
use crate::storage::failed;
use archive::ArchiveError;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    pub id: ConversationId,
    /// The id in the export, if it was in use here.
    pub renamed_from: Option<String>,
    /// Every message of it was here before.
    pub was_here: bool,
    /// `None`: the export had no KV.
    pub kv: Option<ImportedKv>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImportedKv {
    Saved { tokens: usize },
    LeftOut { reason: String },
}

impl Conversations {
    /// A conversation's text; `None` if the id is unknown.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn conversation(
        &self,
        id: &ConversationId,
        extent: Extent,
    ) -> Result<Option<ConversationExport>, ApiError> {
        let Some(text) = self.text(id).await? else { return Ok(None) };
        let mut export = ConversationExport::of(&text, extent);
        let named = export.named_documents();
        let is_private = self.transcript.is_private(id);
        let stored = self.transcript.stored_documents(named, is_private).await?;
        export.documents = stored.into_values().collect();
        Ok(Some(export))
    }

    /// A conversation's text, and its KV for the running model if that is complete.
    ///
    /// # Errors
    /// When the disk cannot be read, or is full.
    pub async fn archive(&self, id: &ConversationId) -> Result<Option<File>, ApiError> {
        if self.transcript.is_private(id) {
            let message = "an archive is made on disk, where no private conversation goes: \
                           export it as JSON or Markdown";
            return Err(ApiError::field("format", message).code("private"));
        }
        let Some(export) = self.conversation(id, Extent::Tree).await? else { return Ok(None) };
        let (reader, model, now) = (self.storage.reader()?, self.engine.fingerprint(), self.now());
        // The engine saves behind the answer: without this, KV of the last turn could be missing.
        self.engine.save(id.clone()).await;
        let id = id.clone();
        let made = compute(move || {
            let kv = unnamed_file(&reader).map_err(|error| failed(&error))?;
            let out = BufWriter::new(Bounded::within(&reader, &kv)?);
            let kv = match kv_archive::export(&reader, &[id], Some(model), now, out) {
                Ok(_) => Some(kv),
                Err(kv_archive::ArchiveError::Absent { .. }) => None,
                Err(error @ kv_archive::ArchiveError::NotWhole { .. }) => {
                    tracing::warn!(%error, "conversation exported without its KV");
                    None
                }
                Err(kv_archive::ArchiveError::Io(error)) => {
                    return Err(failed(&in_directory(&reader.temporary_dir(), error)));
                }
                Err(error) => return Err(refused(&error)),
            };
            let whole = unnamed_file(&reader).map_err(|error| failed(&error))?;
            let out = BufWriter::new(Bounded::within(&reader, &whole)?);
            archive::write(&export.to_json(), kv.as_ref(), out)
                .map_err(|error| failed(&in_directory(&reader.temporary_dir(), error)))?;
            Ok(whole)
        });
        made.await.map(Some)
    }

    /// Imports text under the export's id, or under one like it.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub async fn import_conversation(
        &self,
        export: ConversationExport,
    ) -> Result<Imported, ApiError> {
        let id_there = export.id.clone();
        let usable = id_there.as_deref().and_then(|id| ConversationId::new(id).ok());
        let is_free = |id: &ConversationId| !id.is_reserved() && !self.transcript.is_private(id);
        let usable = usable.filter(is_free);
        let wanted = usable
            .unwrap_or_else(|| ConversationId::new(&names::answer("chat")).expect("a short name"));
        let imported = self.transcript.import(wanted, export, self.now()).done().await?;
        let ImportedConversation { id, was_here } = imported;
        self.republish(&id);
        let renamed_from = id_there.filter(|name| name != id.as_str());
        Ok(Imported { id, renamed_from, was_here, kv: None })
    }

    /// Imports an archive, whose text has the bounds of one in JSON.
    ///
    /// # Errors
    /// When the archive is invalid or cannot be written.
    pub async fn import_archive(&self, upload: Upload) -> Result<Imported, ApiError> {
        let (file, reader) = (upload.finish().await?, self.storage.reader()?);
        let model = self.engine.fingerprint();
        let (export, kv) = compute(move || open(&file, &reader, model)).await?;
        let mut imported = self.import_conversation(export).await?;
        imported.kv = match kv {
            None => None,
            Some(Err(reason)) => Some(ImportedKv::LeftOut { reason }),
            Some(Ok(kv)) => Some(self.import_kv(&imported.id, kv).await),
        };
        self.republish(&imported.id); // With its KV.
        Ok(imported)
    }

    /// Imports the KV of a conversation whose text is here. A failure costs a prefill.
    async fn import_kv(&self, id: &ConversationId, mut kv: Archive) -> ImportedKv {
        kv.rename(id);
        let (model, tokens) = (kv.manifest().model, kv.records()[0].tokens.clone());
        let imported =
            match self.storage.import_verified(Arc::new(kv), ImportOptions::default()).await {
                Ok(imported) => imported,
                Err(error) => return ImportedKv::LeftOut { reason: error.message },
            };
        if let Some(skipped) = imported.skipped.into_iter().next() {
            return ImportedKv::LeftOut { reason: skipped.reason };
        }
        let count = tokens.len();
        // The next turn is then tokenized into exactly the tokens that the KV is of.
        self.transcript.put_tokens(id, model, tokens, SaveIf::HasText, self.now());
        ImportedKv::Saved { tokens: count }
    }
}

/// The text of an archive, and its KV or why that is of no use here.
type Opened = (ConversationExport, Option<Result<Archive, String>>);

fn open(file: &File, reader: &StoreReader, model: ModelHash) -> Result<Opened, ApiError> {
    let content = archive::read(file, foreign::MAX_BYTES).map_err(|error| match error {
        ArchiveError::Io(error) => failed(&error),
        ArchiveError::TooLarge(bound) => foreign::too_large(&bound),
        error => invalid(error.to_string()),
    })?;
    let export = ConversationExport::from_json(&content.text)?;
    let Some(range) = content.kv else { return Ok((export, None)) };
    let bytes = range.end - range.start;
    let free_bytes = reader.free_bytes().map_err(|error| failed(&error))?;
    if bytes > free_bytes.saturating_sub(SPARE_BYTES) {
        let message = format!("the disk has no room for {bytes} bytes more: free space there");
        return Err(ApiError::new(ErrorKind::TooLarge, message).code("body_too_large"));
    }
    let extracted = unnamed_file(reader).map_err(|error| failed(&error))?;
    archive::extract(file, range, &extracted)
        .map_err(|error| failed(&in_directory(&reader.temporary_dir(), error)))?;
    let kv = Archive::open(extracted).map_err(|error| refused(&error))?;
    match kv.records() {
        [record] if export.id.as_deref() == Some(record.conversation.as_str()) => {}
        _ => return Err(invalid("its KV is that of another conversation".to_owned())),
    }
    if kv.manifest().model == model {
        return Ok((export, Some(Ok(kv))));
    }
    match kv.check_model(reader) {
        Ok(()) => Ok((export, Some(Ok(kv)))),
        Err(kv_archive::ArchiveError::Foreign { fingerprint, difference }) => {
            let reason = format!(
                "it was computed by a model that was never used here ({fingerprint}{difference})"
            );
            Ok((export, Some(Err(reason))))
        }
        Err(error) => Err(refused(&error)),
    }
}

fn invalid(message: String) -> ApiError {
    ApiError::new(ErrorKind::Invalid, message).code("invalid_archive")
}

/// Fails instead of using the last [`SPARE_BYTES`] of the disk.
struct Bounded<'f> {
    file: &'f File,
    left_bytes: u64,
}

impl<'f> Bounded<'f> {
    fn within(reader: &StoreReader, file: &'f File) -> Result<Self, ApiError> {
        let free_bytes = reader.free_bytes().map_err(|error| failed(&error))?;
        Ok(Self { file, left_bytes: free_bytes.saturating_sub(SPARE_BYTES) })
    }
}

impl Write for Bounded<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = match usize::try_from(self.left_bytes) {
            Ok(0) => return Err(io::ErrorKind::StorageFull.into()),
            Ok(left) => self.file.write(&bytes[..bytes.len().min(left)])?,
            Err(_) => self.file.write(bytes)?,
        };
        self.left_bytes -= written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
