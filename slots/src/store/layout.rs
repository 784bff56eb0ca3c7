//! File names in the directory, both ways. Does no I/O.

use std::ffi::OsStr;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::format::Seal;
use crate::id::{
    BlockId, ConversationId, ModelHash, ParseIdError, hex_text, hex_text_form, parse_hex,
};
use crate::ttl::TtlClass;

#[derive(Clone, Debug)]
pub struct Layout {
    pub root: PathBuf,
    /// In a sealed directory, names are keyed hashes.
    pub seal: Option<Arc<Seal>>,
}

/// The file name of an object, without its extension.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectName(pub(crate) [u8; 32]);

hex_text_form!(ObjectName, "object name");

impl Layout {
    pub fn model(&self, model: ModelHash) -> PathBuf {
        self.root.join(model.to_string())
    }

    pub fn model_toml(&self, model: ModelHash) -> PathBuf {
        self.model(model).join("model.toml")
    }

    pub fn temporary(&self, model: ModelHash) -> PathBuf {
        self.model(model).join("tmp")
    }

    pub fn quarantine(&self, model: ModelHash) -> PathBuf {
        self.model(model).join("quarantine")
    }

    pub fn crash_marks(&self, model: ModelHash) -> PathBuf {
        self.model(model).join("crashes")
    }

    pub fn objects(&self, model: ModelHash) -> PathBuf {
        self.model(model).join("objects")
    }

    pub fn clock(&self) -> PathBuf {
        self.root.join("clock.toml")
    }

    pub fn eviction(&self) -> PathBuf {
        self.root.join("eviction.toml")
    }

    pub fn key_check(&self) -> PathBuf {
        self.root.join("key.check")
    }

    pub fn lock(&self) -> PathBuf {
        self.root.join("owner.lock")
    }

    pub fn root_temporary(&self) -> PathBuf {
        self.root.join("tmp")
    }

    pub fn object_name(&self, id: BlockId) -> ObjectName {
        match &self.seal {
            Some(seal) => ObjectName(seal.hidden_name("object", &id.0)),
            None => ObjectName(id.0),
        }
    }

    /// The name of a conversation's slot files, up to the first dot.
    pub fn stem(&self, id: &ConversationId) -> String {
        match &self.seal {
            Some(seal) => hex_text(&seal.hidden_name("conversation", id.as_str().as_bytes())),
            None => id.file_stem(),
        }
    }

    /// Objects are spread over 256 directories: some file systems are slow with large ones.
    pub fn object(&self, model: ModelHash, name: ObjectName) -> PathBuf {
        let name = name.to_string();
        self.objects(model).join(&name[..2]).join(format!("{name}.kv"))
    }

    pub fn slot(&self, model: ModelHash, id: &ConversationId, class: TtlClass) -> PathBuf {
        self.model(model).join(format!("{}.{}.bin", self.stem(id), class.file_word()))
    }

    /// Every possible slot file of a conversation, and the class that its name means.
    pub fn slot_candidates(
        &self,
        model: ModelHash,
        id: &ConversationId,
    ) -> Vec<(PathBuf, TtlClass)> {
        let with_class = TtlClass::ALL.map(|class| (self.slot(model, id, class), class));
        let without = self.model(model).join(format!("{}.bin", self.stem(id)));
        with_class.into_iter().chain([(without, TtlClass::default())]).collect()
    }
}

/// The stem and class of a slot file's name.
pub fn parse_slot_name(name: &str) -> Option<(&str, TtlClass)> {
    let stem = name.strip_suffix(".bin")?;
    let classed = stem.rsplit_once('.');
    let classed = classed.and_then(|(stem, class)| Some((stem, TtlClass::from_file_word(class)?)));
    Some(classed.unwrap_or((stem, TtlClass::default())))
}

pub fn parse_object_name(name: &OsStr) -> Option<ObjectName> {
    name.to_str()?.strip_suffix(".kv")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_slot_file_is_named_after_its_conversation_and_class() {
        let layout = Layout { root: "slots".into(), seal: None };
        let path = layout.slot(ModelHash([0xab; 8]), &"v1.2".parse().unwrap(), TtlClass::Permanent);
        assert_eq!(path, Path::new("slots/abababababababab/v1%2E2.kept.bin"));
        assert_eq!(parse_slot_name("v1%2E2.kept.bin"), Some(("v1%2E2", TtlClass::Permanent)));
    }

    #[test]
    fn a_slot_file_without_a_class_counts_as_long() {
        assert_eq!(parse_slot_name("chat.bin"), Some(("chat", TtlClass::Long)));
        assert_eq!(parse_slot_name("chat.forever.bin"), Some(("chat.forever", TtlClass::Long)));
        assert_eq!(parse_slot_name("model.toml"), None);
    }

    #[test]
    fn sealed_names_are_hashes_that_differ_from_key_to_key() {
        let sealed =
            |key| Layout { root: "slots".into(), seal: Some(Arc::new(Seal::new([key; 32]))) };
        let (chat, block) = ("chat".parse().unwrap(), BlockId([0xcd; 32]));
        let stem = sealed(1).stem(&chat);
        assert_eq!(stem.len(), 64);
        assert_eq!(stem, sealed(1).stem(&chat));
        assert_ne!(stem, sealed(2).stem(&chat));
        assert_ne!(sealed(1).object_name(block), ObjectName(block.0));
        let path = sealed(1).slot(ModelHash([0; 8]), &chat, TtlClass::Permanent);
        let name = path.file_name().unwrap().to_str().unwrap();
        assert_eq!(parse_slot_name(name), Some((stem.as_str(), TtlClass::Permanent)));
    }

    #[test]
    fn the_path_of_an_object_follows_from_its_name() {
        let layout = Layout { root: "slots".into(), seal: None };
        let name = layout.object_name(BlockId([0xcd; 32]));
        let path = layout.object(ModelHash([0; 8]), name);
        assert!(path.starts_with("slots/0000000000000000/objects/cd"));
        assert_eq!(parse_object_name(path.file_name().unwrap()), Some(name));
        assert_eq!(parse_object_name(OsStr::new("notes.txt")), None);
    }
}
