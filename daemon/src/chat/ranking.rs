//! Scores of texts for a query, for rerankers.
//!
//! - Query and text are one row of tokens: as the model's file says, or with the vocabulary's own marks between them.
//! - A row is made when the one before has its score: the query stands in each, and a row that is longer than the context
//!   is refused before others are made.

use std::sync::Arc;

use hob_runtime::TurnError;
use hob_runtime::backend::{Model, RANK};
use hob_slots::Token;

use super::Chat;
use crate::blocking::compute;
use crate::error::ApiError;
use crate::wire::ranking::Ranking;

/// Places of the query on each side of the text: those of a hostile file could be as many as its bytes.
const MAX_QUERIES: usize = 4;

impl Chat {
    /// `asked`: the name of the model, of which an engine at another address may have several.
    ///
    /// # Errors
    /// When the model ranks no texts, or the engine's queue is full.
    pub async fn rank(
        &self,
        asked: Option<&str>,
        query: &str,
        texts: &[String],
    ) -> Result<Ranking, ApiError> {
        if let Some(upstream) = self.upstream() {
            return Ok(upstream.rank(asked, query, texts).await?);
        }
        let (model, query) = (self.engine().model(), Arc::<str>::from(query));
        if model.facts().pooling.as_deref() != Some(RANK) {
            return Err(TurnError::NotRanking.into());
        }
        let _active_turn = self.shared.options.events.turn(None);
        let mut ranking = Ranking::default();
        for text in texts {
            let (model, query, text) = (model.clone(), query.clone(), text.clone());
            let pair = compute(move || pair(model.as_ref(), &query, &text)).await;
            ranking.tokens += pair.len();
            ranking.scores.push(self.engine().rank(pair).await?);
        }
        Ok(ranking)
    }
}

/// Where the file has a template for it, marks in it are control tokens, and so are those that the texts write out;
/// else none are.
fn pair(model: &dyn Model, query: &str, text: &str) -> Vec<Token> {
    if let Some(template) = &model.facts().rank_template {
        return model.tokenize(&framed(template, query, text), false, true);
    }
    let vocabulary = model.vocabulary();
    let marks = vocabulary.pair_marks();
    let bos = vocabulary.bos().filter(|_| vocabulary.adds_bos());
    let eos = vocabulary.eos().or(marks.sep).filter(|_| marks.adds_eos);
    let mut pair: Vec<Token> = bos.into_iter().collect();
    pair.extend(model.tokenize(query, false, false));
    pair.extend(eos.into_iter().chain(marks.sep));
    pair.extend(model.tokenize(text, false, false));
    pair.extend(eos);
    pair
}

/// Fills the template in. A text that stands for the query within `query` or `text` is none.
fn framed(template: &str, query: &str, text: &str) -> String {
    let (before, behind) = template.split_once("{document}").unwrap_or((template, ""));
    let fill = |part: &str| part.replacen("{query}", query, MAX_QUERIES);
    [&fill(before), text, &fill(behind)].concat()
}

#[cfg(test)]
mod tests {
    use hob_runtime::backend::fake::FakeModel;

    use super::*;

    #[test]
    fn without_marks_the_texts_follow_each_other() {
        let model = FakeModel::new();
        assert_eq!(pair(&model, "ab", "c"), model.tokenize("abc", false, false));
    }

    #[test]
    fn a_template_repeats_the_query_a_few_times_at_most() {
        assert_eq!(
            framed("{query}: {document}? {query}", "{document}", "t"),
            "{document}: t? {document}"
        );
        let hostile = "{query}".repeat(1000);
        let whole = framed(&format!("{hostile}{{document}}{hostile}"), "a long query", "t");
        assert_eq!(whole.matches("a long query").count(), 2 * MAX_QUERIES);
    }
}
