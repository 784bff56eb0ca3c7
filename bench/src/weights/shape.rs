//! The dimensions of the models whose weights are made.

/// The dimensions of a model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// As `--model` has it.
    pub name: &'static str,
    /// As headings have it.
    pub title: &'static str,
    pub architecture: Architecture,
    /// Width of the residual stream; a multiple of 32, like every other width.
    pub embedding: usize,
    pub layers: usize,
    /// Query heads; the head size is `embedding / heads`, but [`QWEN35_HEAD_SIZE`] in a Qwen3.5.
    pub heads: usize,
    /// Key and value heads.
    pub kv_heads: usize,
    /// Width of the feed-forward part.
    pub feed_forward: usize,
    /// Entries of the vocabulary, at least as many as the bundled tokenizer has.
    pub vocabulary: usize,
    /// Base of the rotary frequencies.
    pub rope_base: f32,
    /// Trained context that the file declares.
    pub context: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Architecture {
    Qwen2,
    /// Qwen2 without biases.
    Llama,
    /// Short convolutions, whose state is a running one, and attention in the layers of [`LFM2_ATTENTION`].
    Lfm2,
    /// A running state, attention in every fourth layer, and an MTP head behind the last.
    Qwen35(Guesses),
}

/// How often the MTP head is right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guesses {
    /// Its weights are as random as the model's.
    Seldom,
    /// The model says one token of the vocabulary after the other, and so does its head. Layers cost what
    /// random ones cost, and decide nothing.
    Always,
}

/// The layers with attention in LFM2-350M.
const LFM2_ATTENTION: [usize; 6] = [2, 5, 8, 10, 12, 14];

/// Numbers of an attention head of Qwen3.5-0.8B.
const QWEN35_HEAD_SIZE: usize = 256;

/// Of so many layers of a Qwen3.5, the last one has attention.
pub const QWEN35_INTERVAL: usize = 4;

impl Shape {
    /// The shapes that have a name for a person.
    pub const KNOWN: [Self; 8] = [
        Self::QWEN2_5_0_5B,
        Self::QWEN2_5_0_5B_LONG,
        Self::LFM2_350M,
        Self::QWEN3_5_0_8B,
        Self::QWEN3_5_0_8B_RIGHT,
        Self::LLAMA_3_2_1B,
        Self::QWEN2_5_7B,
        Self::LLAMA_3_1_8B,
    ];

    /// Qwen2.5-0.5B: 494 million weights, 529 MB.
    pub const QWEN2_5_0_5B: Self = Self {
        name: "qwen2.5-0.5b",
        title: "Qwen2.5-0.5B",
        architecture: Architecture::Qwen2,
        embedding: 896,
        layers: 24,
        heads: 14,
        kv_heads: 2,
        feed_forward: 4864,
        vocabulary: 151_936,
        rope_base: 1e6,
        context: 32_768,
    };

    /// The same for prompts beyond the context that Qwen2.5-0.5B was trained with.
    pub const QWEN2_5_0_5B_LONG: Self = Self {
        name: "qwen2.5-0.5b-long",
        title: "Qwen2.5-0.5B with a context of 131,072 tokens",
        context: 131_072,
        ..Self::QWEN2_5_0_5B
    };

    /// LFM2-350M, a hybrid: 354 million weights, 377 MB.
    pub const LFM2_350M: Self = Self {
        name: "lfm2-350m",
        title: "LFM2-350M",
        architecture: Architecture::Lfm2,
        embedding: 1024,
        layers: 16,
        heads: 16,
        kv_heads: 8,
        feed_forward: 4608,
        vocabulary: 65_536,
        rope_base: 1e6,
        context: 128_000,
    };

    /// The text part of Qwen3.5-0.8B but for its vocabulary, which is 248,320: a hybrid with an MTP head, 586 million
    /// weights, 622 MB.
    pub const QWEN3_5_0_8B: Self = Self {
        name: "qwen3.5-0.8b",
        title: "Qwen3.5-0.8B with an MTP head and a vocabulary of 65,536",
        architecture: Architecture::Qwen35(Guesses::Seldom),
        embedding: 1024,
        layers: 24,
        heads: 8,
        kv_heads: 2,
        feed_forward: 3584,
        vocabulary: 65_536,
        rope_base: 1e7,
        context: 262_144,
    };

    /// The same with an output matrix of its own: 653 million weights, 694 MB.
    pub const QWEN3_5_0_8B_RIGHT: Self = Self {
        name: "qwen3.5-0.8b-right",
        title: "Qwen3.5-0.8B with an MTP head that is always right and a vocabulary of 65,536",
        architecture: Architecture::Qwen35(Guesses::Always),
        ..Self::QWEN3_5_0_8B
    };

    /// Llama-3.2-1B: 1.24 billion weights, 1.3 GB.
    pub const LLAMA_3_2_1B: Self = Self {
        name: "llama-3.2-1b",
        title: "Llama-3.2-1B",
        architecture: Architecture::Llama,
        embedding: 2048,
        layers: 16,
        heads: 32,
        kv_heads: 8,
        feed_forward: 8192,
        vocabulary: 128_256,
        rope_base: 5e5,
        context: 131_072,
    };

    /// Qwen2.5-7B but for its output matrix, which is the embedding here: 7.07 billion weights, 7.5 GB.
    pub const QWEN2_5_7B: Self = Self {
        name: "qwen2.5-7b",
        title: "Qwen2.5-7B",
        architecture: Architecture::Qwen2,
        embedding: 3584,
        layers: 28,
        heads: 28,
        kv_heads: 4,
        feed_forward: 18_944,
        vocabulary: 152_064,
        rope_base: 1e6,
        context: 32_768,
    };

    /// Llama-3.1-8B but for its output matrix, which is the embedding here: 7.5 billion weights, 8.0 GB.
    pub const LLAMA_3_1_8B: Self = Self {
        name: "llama-3.1-8b",
        title: "Llama-3.1-8B",
        architecture: Architecture::Llama,
        embedding: 4096,
        layers: 32,
        heads: 32,
        kv_heads: 8,
        feed_forward: 14_336,
        vocabulary: 128_256,
        rope_base: 5e5,
        context: 131_072,
    };

    /// Small enough to compare many answers: 36 million weights, 39 MB.
    pub const RANDOM_36M: Self = Self {
        name: "random-36m",
        title: "a small Llama",
        architecture: Architecture::Llama,
        embedding: 512,
        layers: 12,
        heads: 8,
        kv_heads: 2,
        feed_forward: 1536,
        vocabulary: 2048,
        rope_base: 1e4,
        context: 8192,
    };

    /// Small enough for a test: under 200 thousand weights.
    #[cfg(test)]
    pub const SMALL: Self = Self {
        name: "small",
        title: "a Qwen2 for tests",
        architecture: Architecture::Qwen2,
        embedding: 64,
        layers: 2,
        heads: 4,
        kv_heads: 2,
        feed_forward: 128,
        vocabulary: 1600,
        rope_base: 1e4,
        context: 4096,
    };

    /// Small enough for a test, with an MTP head: under 4 million weights.
    #[cfg(test)]
    pub const fn small_with_head(guesses: Guesses) -> Self {
        Self {
            architecture: Architecture::Qwen35(guesses),
            layers: 4,
            heads: 2,
            kv_heads: 1,
            ..Self::SMALL
        }
    }

    pub fn head_size(&self) -> usize {
        match self.architecture {
            Architecture::Qwen35(_) => QWEN35_HEAD_SIZE,
            Architecture::Qwen2 | Architecture::Llama | Architecture::Lfm2 => {
                self.embedding / self.heads
            }
        }
    }

    /// Layers that predict further tokens, behind the others.
    pub fn mtp_heads(&self) -> usize {
        usize::from(matches!(self.architecture, Architecture::Qwen35(_)))
    }

    /// Whether the layer has attention.
    pub fn attends(&self, layer: usize) -> bool {
        match self.architecture {
            Architecture::Qwen2 | Architecture::Llama => true,
            Architecture::Lfm2 => LFM2_ATTENTION.contains(&layer),
            Architecture::Qwen35(_) => {
                layer >= self.layers || (layer + 1).is_multiple_of(QWEN35_INTERVAL)
            }
        }
    }

    /// Bytes of f16 KV a token.
    pub fn kv_bytes(&self) -> usize {
        let layers = (0..self.layers).filter(|&layer| self.attends(layer)).count();
        2 * 2 * layers * self.kv_heads * self.head_size()
    }
}
