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

impl Chat {
    /// # Errors
    /// When the model ranks no texts, or the engine's queue is full.
    pub async fn rank(&self, query: &str, texts: &[String]) -> Result<Ranking, ApiError> {
        if let Some(upstream) = self.upstream() {
            return Ok(upstream.rank(query, texts).await?);
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
        let (before, behind) = template.split_once("{document}").unwrap_or((template, ""));
        let fill = |part: &str| part.replace("{query}", query);
        return model.tokenize(&[&fill(before), text, &fill(behind)].concat(), false, true);
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

#[cfg(test)]
mod tests {
    use hob_runtime::backend::fake::FakeModel;

    use super::*;

    #[test]
    fn without_marks_the_texts_follow_each_other() {
        let model = FakeModel::new();
        assert_eq!(pair(&model, "ab", "c"), model.tokenize("abc", false, false));
    }
}
