//! A tensor of random weights: its shape, how its numbers are stored, and how they are drawn.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    F32,
    /// Blocks of 32 numbers: an f16 scale and 32 signed bytes.
    Q8_0,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Content {
    /// All equal.
    Same(f32),
    /// Bell-shaped around 0.
    Random { deviation: f32 },
    /// Those of the embeddings, with this deviation and one row later: row 1 has what token 0 has there.
    Shifted { deviation: f32 },
    /// Hands out the first half of its input.
    FirstHalf,
}

/// One tensor: `rows` of `width` numbers.
#[derive(Clone, Debug)]
pub struct Tensor {
    pub name: String,
    pub width: usize,
    /// `None`: a vector.
    pub rows: Option<usize>,
    pub storage: Storage,
    pub content: Content,
}

impl Tensor {
    pub fn row_bytes(&self) -> usize {
        match self.storage {
            Storage::F32 => self.width * 4,
            Storage::Q8_0 => self.width / 32 * 34,
        }
    }

    pub fn bytes(&self) -> usize {
        self.row_bytes() * self.rows.unwrap_or(1)
    }

    pub fn ones(name: String, width: usize) -> Self {
        Self::same(name, width, 1.0)
    }

    pub fn same(name: String, width: usize, value: f32) -> Self {
        Self { name, width, rows: None, storage: Storage::F32, content: Content::Same(value) }
    }

    pub fn bias(name: String, width: usize) -> Self {
        let content = Content::Random { deviation: 0.1 };
        Self { name, width, rows: None, storage: Storage::F32, content }
    }

    /// The kernel of a convolution over `width` tokens: small, so it is not quantised.
    pub fn kernel(name: String, rows: usize, width: usize) -> Self {
        Self { storage: Storage::F32, ..Self::matrix(name, rows, width) }
    }

    pub fn matrix(name: String, rows: usize, width: usize) -> Self {
        let content = Content::Random { deviation: 1.0 / (width as f32).sqrt() };
        Self { name, width, rows: Some(rows), storage: Storage::Q8_0, content }
    }

    /// With random numbers that are larger by this factor.
    pub fn scaled(self, factor: f32) -> Self {
        let content = match self.content {
            Content::Random { deviation } => Content::Random { deviation: deviation * factor },
            content => content,
        };
        Self { content, ..self }
    }
}
