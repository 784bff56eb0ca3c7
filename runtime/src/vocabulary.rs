//! The tokens of a model, as bytes: read once when the model is loaded, then shared.
//!
//! - Pieces are bytes, not text: one character may be spread over several tokens.
//! - Control tokens keep their written form (`<|im_end|>`), so a rendered prompt can be compared
//!   with tokens byte by byte.

use hob_slots::Token;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenKind {
    /// Structure, not text: `<|im_start|>`, `<s>`.
    pub control: bool,
    /// Ends an answer: `<|im_end|>`, `</s>`.
    pub end_of_generation: bool,
}

/// What stands between and behind two texts that a model reads as one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PairMarks {
    pub sep: Option<Token>,
    /// The end token closes each of them.
    pub adds_eos: bool,
}

/// Indexed by [`Token`]; an id outside the vocabulary has no bytes.
#[derive(Clone, Debug, Default)]
pub struct Vocabulary {
    bytes: Vec<u8>,
    ends: Vec<u32>, // Piece `i` is `bytes[ends[i - 1]..ends[i]]`.
    kinds: Vec<TokenKind>,
    eog: Vec<Token>,
    bos: Option<Token>,
    eos: Option<Token>,
    adds_bos: bool,
    pair_marks: PairMarks,
}

impl Vocabulary {
    /// `pieces` in the order of their ids.
    pub fn new<P: AsRef<[u8]>>(
        pieces: impl IntoIterator<Item = (P, TokenKind)>,
        bos: Option<Token>,
        eos: Option<Token>,
        adds_bos: bool,
    ) -> Self {
        let mut vocabulary = Self { bos, eos, adds_bos, ..Self::default() };
        for (id, (piece, kind)) in pieces.into_iter().enumerate() {
            vocabulary.bytes.extend_from_slice(piece.as_ref());
            let end = u32::try_from(vocabulary.bytes.len()).expect("pieces take less than 4 GiB");
            vocabulary.ends.push(end);
            vocabulary.kinds.push(kind);
            if kind.end_of_generation {
                let id = i32::try_from(id).expect("a vocabulary has fewer than 2^31 tokens");
                vocabulary.eog.push(Token(id));
            }
        }
        vocabulary
    }

    #[must_use]
    pub fn with_pair_marks(mut self, marks: PairMarks) -> Self {
        self.pair_marks = marks;
        self
    }

    pub fn pair_marks(&self) -> PairMarks {
        self.pair_marks
    }

    pub fn len(&self) -> usize {
        self.ends.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    pub fn contains(&self, token: Token) -> bool {
        self.index(token).is_some()
    }

    /// A token's bytes; of a control token, its written form.
    pub fn piece(&self, token: Token) -> &[u8] {
        let Some(index) = self.index(token) else { return &[] };
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start as usize..self.ends[index] as usize]
    }

    pub fn is_control(&self, token: Token) -> bool {
        self.kind(token).control
    }

    pub fn is_eog(&self, token: Token) -> bool {
        self.kind(token).end_of_generation
    }

    /// The tokens that end an answer, in the order of their ids.
    pub fn eog_tokens(&self) -> &[Token] {
        &self.eog
    }

    /// Begins every sequence, where the model has one.
    pub fn bos(&self) -> Option<Token> {
        self.bos
    }

    /// The model's main end token.
    pub fn eos(&self) -> Option<Token> {
        self.eos
    }

    /// Whether the model wants its begin token in front of every prompt.
    pub fn adds_bos(&self) -> bool {
        self.adds_bos
    }

    pub fn bytes(&self, tokens: &[Token]) -> Vec<u8> {
        tokens.iter().flat_map(|&token| self.piece(token)).copied().collect()
    }

    fn kind(&self, token: Token) -> TokenKind {
        self.index(token).map_or_else(TokenKind::default, |index| self.kinds[index])
    }

    fn index(&self, token: Token) -> Option<usize> {
        usize::try_from(token.0).ok().filter(|&index| index < self.ends.len())
    }
}
