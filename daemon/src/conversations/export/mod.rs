//! Conversations that leave as one file, and come in as one.
//!
//! - The text comes in whole or not at all. KV only spares a prefill: what is wrong with it is told,
//!   unless the archive itself is damaged, which changes nothing.
//! - An archive's KV is that of its own conversation and of no other.

pub mod archive;
pub mod markdown;

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::sync::Arc;

use hob_slots::archive::{self as slot_archive, Archive, Wishes};
use hob_slots::store::StoreReader;
use hob_slots::{ConversationId, ModelHash};

use self::archive::ArchiveError;
use crate::chat::names;
use crate::conversations::transcript::{Document, Extent, ImportedConversation};
use crate::error::{ApiError, ErrorKind};
use crate::service::kept::{SPARE_BYTES, Upload, failed, private_dir, refused};
use crate::service::{Service, compute};

/// A conversation that came in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// What it is called here.
    pub id: ConversationId,
    /// What it was called, where that is something else.
    pub renamed_from: Option<String>,
    /// Every message of it was here before.
    pub was_here: bool,
    /// What became of its KV, if it had any.
    pub kv: Option<ReceivedKv>,
}

/// What became of KV that came in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReceivedKv {
    /// It is kept for so many tokens.
    Kept {
        /// How many.
        tokens: usize,
    },
    /// It is of no use here.
    LeftOut {
        /// Why.
        reason: String,
    },
}

impl Service {
    /// A conversation by itself; `None` when there is none of that name.
    pub async fn document(
        &self,
        id: &ConversationId,
        extent: Extent,
    ) -> Result<Option<Document>, ApiError> {
        let text = self.inner.transcript.get(id).done().await?;
        Ok(text.map(|text| Document::of(&text, extent)))
    }

    /// A conversation and its KV for the model that runs, as far as that is kept whole.
    pub async fn archive(&self, id: &ConversationId) -> Result<Option<File>, ApiError> {
        let Some(document) = self.document(id, Extent::Tree).await? else { return Ok(None) };
        let (reader, model, now) = (self.reader()?, self.engine().fingerprint(), self.now());
        self.with_store(|_, _, _| ()).await?; // What was to be saved before is saved.
        let id = id.clone();
        let made = compute(move || {
            let bundle = temporary(&reader)?;
            let out = Bounded::within(&reader, &bundle)?;
            let exported =
                slot_archive::export(&reader, &[id], Some(model), now, BufWriter::new(out));
            let bundle = match exported {
                Ok(_) => Some(bundle),
                Err(slot_archive::ArchiveError::Absent { .. }) => None,
                Err(error @ slot_archive::ArchiveError::NotWhole { .. }) => {
                    tracing::warn!(%error, "exported without its KV");
                    None
                }
                Err(error) => return Err(refused(&error)),
            };
            let whole = temporary(&reader)?;
            let out = BufWriter::new(Bounded::within(&reader, &whole)?);
            archive::write(&document.to_json(), bundle.as_ref(), out)
                .map_err(|error| failed(&error))?;
            Ok(whole)
        });
        made.await.map(Some)
    }

    /// Takes in a conversation that came as text alone.
    pub async fn receive_document(&self, document: Document) -> Result<Received, ApiError> {
        let was_called = document.id.clone();
        let wanted = was_called.as_deref().and_then(|id| ConversationId::new(id).ok());
        let wanted = wanted
            .unwrap_or_else(|| ConversationId::new(&names::answer("chat")).expect("a short name"));
        let taken = self.inner.transcript.import(wanted, document, self.now()).done().await?;
        let ImportedConversation { id, was_here } = taken;
        let renamed_from = was_called.filter(|name| name != id.as_str());
        Ok(Received { id, renamed_from, was_here, kv: None })
    }

    /// Takes in an archive that was received whole; its text has `most_bytes` at most.
    pub async fn receive_archive(
        &self,
        upload: Upload,
        most_bytes: u64,
    ) -> Result<Received, ApiError> {
        let (file, reader) = (upload.finish().await?, self.reader()?);
        let model = self.engine().fingerprint();
        let (document, bundle) = compute(move || open(&file, &reader, model, most_bytes)).await?;
        let mut received = self.receive_document(document).await?;
        received.kv = match bundle {
            None => None,
            Some(Err(reason)) => Some(ReceivedKv::LeftOut { reason }),
            Some(Ok(bundle)) => Some(self.receive_kv(&received.id, bundle).await),
        };
        Ok(received)
    }

    /// The text is here: whatever happens now costs a prefill at most.
    async fn receive_kv(&self, id: &ConversationId, mut bundle: Archive) -> ReceivedKv {
        bundle.rename(id);
        let (model, tokens) = (bundle.manifest().model, bundle.records()[0].tokens.clone());
        let imported = match self.take_in(Arc::new(bundle), Wishes::default()).await {
            Ok(imported) => imported,
            Err(error) => return ReceivedKv::LeftOut { reason: error.message },
        };
        if let Some(skipped) = imported.skipped.into_iter().next() {
            return ReceivedKv::LeftOut { reason: skipped.reason };
        }
        let count = tokens.len();
        // So that its next turn is cut into the very tokens that the KV is of.
        self.inner.transcript.put_tokens(id, model, tokens, true, self.now());
        ReceivedKv::Kept { tokens: count }
    }
}

/// What an archive holds: the text, and the KV or why it is of no use here.
type Opened = (Document, Option<Result<Archive, String>>);

fn open(
    file: &File,
    reader: &StoreReader,
    model: ModelHash,
    most_bytes: u64,
) -> Result<Opened, ApiError> {
    let content = archive::read(file, most_bytes).map_err(|error| match error {
        ArchiveError::Io(error) => failed(&error),
        error => invalid(error.to_string()),
    })?;
    let document = Document::from_json(&content.text)?;
    let Some((begins, bytes)) = content.bundle else { return Ok((document, None)) };
    let free = reader.free_bytes().map_err(|error| failed(&error))?;
    if bytes > free.saturating_sub(SPARE_BYTES) {
        let message = format!("the disk has no room for {bytes} bytes more");
        return Err(ApiError::new(ErrorKind::TooLarge, message).code("body_too_large"));
    }
    let extracted = temporary(reader)?;
    archive::extract(file, (begins, bytes), &extracted).map_err(|error| failed(&error))?;
    let bundle = Archive::open(extracted).map_err(|error| refused(&error))?;
    match bundle.records() {
        [record] if document.id.as_deref() == Some(record.conversation.as_str()) => {}
        _ => return Err(invalid("its KV is that of another conversation".to_owned())),
    }
    let known = match bundle.manifest().model == model {
        true => Ok(()),
        false => bundle.check_model(reader),
    };
    let bundle = match known {
        Ok(()) => Ok(bundle),
        Err(slot_archive::ArchiveError::Foreign { fingerprint, difference }) => Err(format!(
            "it was computed by a model that nobody has used here ({fingerprint}{difference})"
        )),
        Err(error) => return Err(refused(&error)),
    };
    Ok((document, Some(bundle)))
}

/// A file without a name, beside what is kept.
fn temporary(reader: &StoreReader) -> Result<File, ApiError> {
    let dir = reader.temporary_dir();
    private_dir(&dir).and_then(|()| tempfile::tempfile_in(&dir)).map_err(|error| failed(&error))
}

fn invalid(message: String) -> ApiError {
    ApiError::new(ErrorKind::Invalid, message).code("invalid_archive")
}

/// Writes only as much as leaves the disk some room.
struct Bounded<'f> {
    file: &'f File,
    left: u64,
}

impl<'f> Bounded<'f> {
    fn within(reader: &StoreReader, file: &'f File) -> Result<Self, ApiError> {
        let free = reader.free_bytes().map_err(|error| failed(&error))?;
        Ok(Self { file, left: free.saturating_sub(SPARE_BYTES) })
    }
}

impl Write for Bounded<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = match usize::try_from(self.left) {
            Ok(0) => return Err(io::ErrorKind::StorageFull.into()),
            Ok(left) => self.file.write(&bytes[..bytes.len().min(left)])?,
            Err(_) => self.file.write(bytes)?,
        };
        self.left -= written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
