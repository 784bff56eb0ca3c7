//! The scores that a reranker gives to texts.

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ranking {
    /// One a text, in their order. The higher, the better the text fits the query.
    pub scores: Vec<f32>,
    /// Of the query and the text, over all texts.
    pub tokens: usize,
    /// The model of an engine at another address.
    pub model: Option<String>,
}
