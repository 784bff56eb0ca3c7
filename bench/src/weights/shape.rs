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
    /// Query heads; the head size is `embedding / heads`.
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
}

/// The layers with attention in LFM2-350M.
const LFM2_ATTENTION: [usize; 6] = [2, 5, 8, 10, 12, 14];

impl Shape {
    /// The shapes that have a name for a person.
    pub const KNOWN: [Self; 6] = [
        Self::QWEN2_5_0_5B,
        Self::QWEN2_5_0_5B_LONG,
        Self::LFM2_350M,
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

    pub fn head_size(&self) -> usize {
        self.embedding / self.heads
    }

    /// Whether the layer has attention.
    pub fn attends(&self, layer: usize) -> bool {
        self.architecture != Architecture::Lfm2 || LFM2_ATTENTION.contains(&layer)
    }

    /// Bytes of f16 KV a token.
    pub fn kv_bytes(&self) -> usize {
        let layers = (0..self.layers).filter(|&layer| self.attends(layer)).count();
        2 * 2 * layers * self.kv_heads * self.head_size()
    }
}
