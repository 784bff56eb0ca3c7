//! The header of a slot file, of every version: fixed fields and the conversation's name.

use xxhash_rust::xxh3::xxh3_128;

use crate::format::FormatError;
use crate::format::bytes::{Fields, version};
use crate::id::{ConversationId, ModelHash};
use crate::time::Timestamp;
use crate::ttl::TtlClass;

const MAGIC: &[u8; 8] = b"HOBSLT\0\x01";
/// The latest: with weights and pins of segments, and with a lineage.
pub(super) const VERSION: u16 = 5;
pub(super) const VERSION_WITH_ADAPTERS: u16 = 4;
pub(super) const VERSION_WITH_BRANCHES: u16 = 3;
const WHAT: &str = "slot file";

/// Offsets of the fields. Those up to `OBJECT_BYTES` are the same in every version, those up to
/// `STORED_TOKENS` since version 2.
mod at {
    pub const CLASS: usize = 10;
    pub const CONVERSATION_BYTES: usize = 11;
    pub const TOKENS: usize = 12;
    pub const MODEL: usize = 16;
    pub const CREATED_AT: usize = 24;
    pub const USED_AT: usize = 32;
    pub const BLOCKS: usize = 40;
    pub const SNAPSHOTS: usize = 44;
    pub const OBJECT_BYTES: usize = 48;
    pub const SEGMENTS: usize = 56;
    pub const TURNS: usize = 60;
    pub const TABLE: usize = 64;
    pub const STORED_TOKENS: usize = 88;
    pub const BRANCHES: usize = 112;
    /// 0 in version 3.
    pub const ADAPTERS: usize = 116;
    pub const VIEWS: usize = 120;
    pub const AWAY: usize = 124;
    pub const HEADER_CHECKSUM: usize = 128;
    pub const END: usize = 136;
}

/// Versions 3 and 4 have no lineage.
mod at_v3 {
    pub const HEADER_CHECKSUM: usize = 120;
    pub const END: usize = 128;
}

/// Version 2 has no branches.
mod at_v2 {
    pub const HEADER_CHECKSUM: usize = 112;
    pub const END: usize = 120;
}

/// Version 1 has one record of tokens and lists, and no segments.
mod at_v1 {
    pub const RECORD: usize = 56;
    pub const HEADER_CHECKSUM: usize = 80;
    pub const END: usize = 88;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotHeader {
    pub model: ModelHash,
    pub conversation: ConversationId,
    pub class: TtlClass,
    pub created_at: Timestamp,
    pub used_at: Timestamp,
    pub turns: u32,
    /// The length of the timeline.
    pub tokens: u32,
    pub blocks: u32,
    pub snapshots: u32,
    pub segments: u32,
    /// Objects of earlier branches.
    pub branches: u32,
    /// Adapters of the timeline.
    pub adapters: u32,
    /// Runs of views.
    pub views: u32,
    /// Ranges that are away.
    pub away: u32,
    /// The saturated sum of the raw lengths of all objects.
    pub object_bytes: u64,
    pub(super) body: Body,
}

/// The layout of the body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Body {
    /// Version 1: tokens and lists in one record.
    Record(Part),
    /// Since version 2: lists, then tokens.
    Parts { version: u16, table: Part, tokens: Part },
}

/// A part of the file with its own checksum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    bytes: u64,
    checksum: u128,
}

impl Body {
    pub fn of(version: u16, table: &[u8], tokens: &[u8]) -> Self {
        Self::Parts { version, table: Part::of(table), tokens: Part::of(tokens) }
    }

    fn read_parts<const N: usize>(fields: &Fields<N>, version: u16) -> Result<Self, FormatError> {
        Ok(Self::Parts {
            version,
            table: Part::read(fields, "table bytes", at::TABLE)?,
            tokens: Part::read(fields, "token bytes", at::STORED_TOKENS)?,
        })
    }
}

impl Part {
    fn of(bytes: &[u8]) -> Self {
        Self { bytes: bytes.len() as u64, checksum: xxh3_128(bytes) }
    }

    fn read<const N: usize>(
        fields: &Fields<N>,
        field: &'static str,
        at: usize,
    ) -> Result<Self, FormatError> {
        Ok(Self { bytes: fields.length(field, at)?, checksum: fields.u128(at + 8) })
    }

    fn put<const N: usize>(&self, fields: &mut Fields<N>, at: usize) {
        fields.put(at, &self.bytes.to_le_bytes());
        fields.put(at + 8, &self.checksum.to_le_bytes());
    }

    pub fn verify(&self, part: &'static str, bytes: &[u8]) -> Result<(), FormatError> {
        if xxh3_128(bytes) == self.checksum { Ok(()) } else { Err(FormatError::Checksum { part }) }
    }
}

impl SlotHeader {
    /// The maximum number of tokens: the stored ones of few bytes may unpack to 256 MiB, and to no more.
    pub const MAX_TOKENS: u32 = 1 << 26;

    /// The maximum length of a header.
    pub const MAX_BYTES: usize = at::END + ConversationId::MAX_BYTES;

    /// Decodes and verifies the header alone.
    pub fn decode(file: &[u8]) -> Result<Self, FormatError> {
        match version(file, WHAT, MAGIC, VERSION, at_v3::END)? {
            1 => {
                let fields = Fields::<{ at_v1::END }>::first(file)?;
                let name = name_after(&fields, file)?;
                fields.verify(at_v1::HEADER_CHECKSUM, name)?;
                let body = Body::Record(Part::read(&fields, "record bytes", at_v1::RECORD)?);
                Self::read(&fields, name, body)
            }
            version @ 2 => {
                let fields = Fields::<{ at_v2::END }>::first(file)?;
                let name = name_after(&fields, file)?;
                fields.verify(at_v2::HEADER_CHECKSUM, name)?;
                Self::read_parts(&fields, name, version)
            }
            version @ (VERSION_WITH_BRANCHES | VERSION_WITH_ADAPTERS) => {
                let fields = Fields::<{ at_v3::END }>::first(file)?;
                let name = name_after(&fields, file)?;
                fields.verify(at_v3::HEADER_CHECKSUM, name)?;
                let adapters = fields.u32(at::ADAPTERS);
                if version == VERSION_WITH_BRANCHES {
                    fields.expect_zero("reserved", adapters)?;
                } else if adapters == 0 {
                    return Err(FormatError::Field { field: "adapters", value: 0 });
                }
                let header = Self::read_parts(&fields, name, version)?;
                Ok(Self { branches: fields.u32(at::BRANCHES), adapters, ..header })
            }
            version => {
                let fields = Fields::<{ at::END }>::first(file)?;
                let name = name_after(&fields, file)?;
                fields.verify(at::HEADER_CHECKSUM, name)?;
                let [branches, adapters, views, away] =
                    [at::BRANCHES, at::ADAPTERS, at::VIEWS, at::AWAY].map(|at| fields.u32(at));
                let header = Self::read_parts(&fields, name, version)?;
                Ok(Self { branches, adapters, views, away, ..header })
            }
        }
    }

    /// The fields since version 2.
    fn read_parts<const N: usize>(
        fields: &Fields<N>,
        name: &[u8],
        version: u16,
    ) -> Result<Self, FormatError> {
        let header = Self::read(fields, name, Body::read_parts(fields, version)?)?;
        let (turns, segments) = (fields.u32(at::TURNS), fields.u32(at::SEGMENTS));
        Ok(Self { turns, segments, ..header })
    }

    fn read<const N: usize>(
        fields: &Fields<N>,
        name: &[u8],
        body: Body,
    ) -> Result<Self, FormatError> {
        let class = fields.u8(at::CLASS);
        let Some(&class) = TtlClass::ALL.get(usize::from(class)) else {
            return Err(FormatError::Field { field: "class", value: class.into() });
        };
        let name = std::str::from_utf8(name).ok().and_then(|name| ConversationId::new(name).ok());
        let Some(conversation) = name else {
            return Err(FormatError::Record { what: "its conversation has no valid id".into() });
        };
        let tokens = fields.u32(at::TOKENS);
        if tokens > Self::MAX_TOKENS {
            return Err(FormatError::Field { field: "tokens", value: tokens.into() });
        }
        Ok(Self {
            model: ModelHash(fields.get(at::MODEL)),
            conversation,
            class,
            created_at: Timestamp(fields.u64(at::CREATED_AT)),
            used_at: Timestamp(fields.u64(at::USED_AT)),
            turns: 0,
            tokens,
            blocks: fields.u32(at::BLOCKS),
            snapshots: fields.u32(at::SNAPSHOTS),
            segments: 0,
            branches: 0,
            adapters: 0,
            views: 0,
            away: 0,
            object_bytes: fields.u64(at::OBJECT_BYTES),
            body,
        })
    }

    /// The header, with the conversation's name.
    pub(super) fn encode(&self) -> Vec<u8> {
        match self.version() {
            VERSION => {
                let mut fields = self.fields::<{ at::END }>();
                fields.put(at::VIEWS, &self.views.to_le_bytes());
                fields.put(at::AWAY, &self.away.to_le_bytes());
                self.sealed(fields, at::HEADER_CHECKSUM)
            }
            _ => self.sealed(self.fields::<{ at_v3::END }>(), at_v3::HEADER_CHECKSUM),
        }
    }

    /// The fields up to the adapters.
    fn fields<const N: usize>(&self) -> Fields<N> {
        let Body::Parts { version, table, tokens } = &self.body else {
            unreachable!("new files have their parts apart");
        };
        let name = self.conversation.as_str();
        let name_bytes = u8::try_from(name.len()).expect("an id has at most 200 bytes");
        let class = TtlClass::ALL.into_iter().position(|class| class == self.class);
        let class = class.expect("every class is listed") as u8;

        let mut header = Fields::zeroed(MAGIC, *version);
        header.put(at::CLASS, &[class]);
        header.put(at::CONVERSATION_BYTES, &[name_bytes]);
        header.put(at::TOKENS, &self.tokens.to_le_bytes());
        header.put(at::MODEL, &self.model.0);
        header.put(at::CREATED_AT, &self.created_at.0.to_le_bytes());
        header.put(at::USED_AT, &self.used_at.0.to_le_bytes());
        header.put(at::BLOCKS, &self.blocks.to_le_bytes());
        header.put(at::SNAPSHOTS, &self.snapshots.to_le_bytes());
        header.put(at::OBJECT_BYTES, &self.object_bytes.to_le_bytes());
        header.put(at::SEGMENTS, &self.segments.to_le_bytes());
        header.put(at::TURNS, &self.turns.to_le_bytes());
        table.put(&mut header, at::TABLE);
        tokens.put(&mut header, at::STORED_TOKENS);
        header.put(at::BRANCHES, &self.branches.to_le_bytes());
        header.put(at::ADAPTERS, &self.adapters.to_le_bytes());
        header
    }

    /// The fields with their checksum, and the conversation's name.
    fn sealed<const N: usize>(&self, mut fields: Fields<N>, checksum_at: usize) -> Vec<u8> {
        let name = self.conversation.as_str().as_bytes();
        let checksum = fields.checksum(checksum_at, name);
        fields.put(checksum_at, &checksum.to_le_bytes());
        [&fields.0[..], name].concat()
    }

    pub(super) fn version(&self) -> u16 {
        match self.body {
            Body::Record(_) => 1,
            Body::Parts { version, .. } => version,
        }
    }

    pub fn file_bytes(&self) -> u64 {
        match &self.body {
            Body::Record(_) => self.head_bytes(),
            Body::Parts { tokens, .. } => self.head_bytes() + tokens.bytes,
        }
    }

    /// Bytes that [`SlotTable::decode`](super::SlotTable::decode) needs; in version 1, the whole
    /// file.
    pub fn head_bytes(&self) -> u64 {
        let (Body::Record(table) | Body::Parts { table, .. }) = &self.body;
        self.bytes() as u64 + table.bytes
    }

    /// The length of the header with the conversation's name.
    pub(super) fn bytes(&self) -> usize {
        let fixed = match self.version() {
            1 => at_v1::END,
            2 => at_v2::END,
            VERSION_WITH_BRANCHES | VERSION_WITH_ADAPTERS => at_v3::END,
            _ => at::END,
        };
        fixed + self.conversation.as_str().len()
    }
}

fn name_after<'a, const N: usize>(
    fields: &Fields<N>,
    file: &'a [u8],
) -> Result<&'a [u8], FormatError> {
    let end = N + usize::from(fields.u8(at::CONVERSATION_BYTES));
    let truncated = FormatError::Truncated { expected: end as u64, got: file.len() as u64 };
    file.get(N..end).ok_or(truncated)
}
