//! A completion in llama-server's form: one object a prompt, or events, of which the last of each prompt has
//! `stop`.

use std::collections::VecDeque;

use hob_slots::Token;
use serde_json::{Map, Value, json};

use super::super::sse::Source;
use super::probabilities;
use super::request::{AnswerFields, renamed};
use super::settings::settings;
use crate::chat::answer::{Answer, Piece};
use crate::chat::figures::{Figures, Stop};
use crate::error::ApiError;
use crate::wire::completion::CompletionRequest;

pub struct Reply {
    request: CompletionRequest,
    answer_fields: AnswerFields,
    answer: Answer,
    ready: VecDeque<Value>,
}

impl Reply {
    pub fn new(request: CompletionRequest, answer_fields: AnswerFields, answer: Answer) -> Self {
        Self { request, answer_fields, answer, ready: VecDeque::new() }
    }

    /// An object, or an array of them where there are several.
    pub async fn whole(mut self) -> Result<Value, ApiError> {
        let choices = self.answer.collect().await.map_err(renamed)?;
        let mut whole = Vec::with_capacity(choices.len());
        for (index, choice) in choices.iter().enumerate() {
            let tokens = if self.answer_fields.returns_tokens { &*choice.tokens } else { &[] };
            let mut object = self.last(index, choice.message.text(), tokens);
            if self.answer_fields.n_probs > 0 {
                object["completion_probabilities"] =
                    probabilities::of(&choice.logprobs, self.answer_fields.as_probabilities);
            }
            whole.push(chosen(object, &self.answer_fields.response_fields));
        }
        Ok(if whole.len() == 1 { whole.remove(0) } else { whole.into() })
    }

    /// The object that ends a choice. `text`: what was not streamed of it.
    fn last(&self, index: usize, text: &str, tokens: &[Token]) -> Value {
        let figures = self.answer.figures(index);
        let (kind, word) = match &figures.stop {
            None => ("none", ""),
            Some(Stop::End) => ("eos", ""),
            Some(Stop::Word(word)) => ("word", word.as_str()),
            Some(Stop::Limit) => ("limit", ""),
        };
        let mut object = self.common(index, text, tokens);
        let whole = self.answer.message(index);
        let more = json!({
            "stop": true,
            "model": self.answer.head().model,
            "generation_settings": settings(&self.request, &self.answer_fields, &self.answer),
            "prompt": self.answer.prompt(index),
            "has_new_line": whole.text().contains('\n'),
            "truncated": figures.is_context_full,
            "stop_type": kind,
            "stopping_word": word,
            "tokens_cached": figures.prompt + figures.predicted.saturating_sub(1),
            "timings": figures.timings(),
            "hob": self.answer.hob(),
        });
        if let (Value::Object(object), Value::Object(more)) = (&mut object, more) {
            object.extend(more);
        }
        object
    }

    fn common(&self, index: usize, text: &str, tokens: &[Token]) -> Value {
        let figures = self.answer.figures(index);
        json!({
            "index": index,
            "content": text,
            "tokens": tokens.iter().map(|token| token.0).collect::<Vec<_>>(),
            "stop": false,
            "id_slot": self.answer_fields.id_slot.unwrap_or(figures.slot.map_or(-1, i64::from)),
            "tokens_predicted": figures.predicted,
            "tokens_evaluated": figures.prompt,
        })
    }

    fn push(&mut self, piece: Piece) {
        let object = match piece {
            Piece::Begin { .. } => return,
            Piece::Progress(report) => {
                let mut object = self.common(0, "", &[]);
                object["prompt_progress"] = report.to_llama_server();
                object["hob"] = json!({"progress": report.to_json()});
                if self.answer_fields.timings_per_token {
                    object["timings"] = Figures::timings_of(&report);
                }
                object
            }
            Piece::More { choice, delta, tokens, logprobs } => {
                let mut object = self.common(choice, &delta.content, &tokens);
                if self.answer_fields.n_probs > 0 {
                    let probabilities =
                        probabilities::of(&logprobs, self.answer_fields.as_probabilities);
                    object["completion_probabilities"] = probabilities;
                }
                if self.answer_fields.timings_per_token {
                    object["timings"] = self.answer.figures(choice).timings();
                }
                object
            }
            Piece::End { choice, .. } => {
                chosen(self.last(choice, "", &[]), &self.answer_fields.response_fields)
            }
        };
        self.ready.push_back(object);
    }
}

impl Source for Reply {
    type Object = Value;

    const DONE: &'static str = "";

    async fn next(&mut self) -> Option<Value> {
        while self.ready.is_empty() {
            match self.answer.next().await? {
                Ok(piece) => self.push(piece),
                Err(error) => return Some(renamed(error).to_json()),
            }
        }
        self.ready.pop_front()
    }
}

/// The fields at these paths, such as `generation_settings/seed`, under their paths; all without any.
fn chosen(object: Value, paths: &[String]) -> Value {
    if paths.is_empty() {
        return object;
    }
    let found = |path: &String| {
        let value = path.split('/').try_fold(&object, |value, name| value.get(name))?;
        Some((path.clone(), value.clone()))
    };
    paths.iter().filter_map(found).collect::<Map<_, _>>().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_of_an_answer_are_chosen_by_their_paths() {
        let object = json!({"content": "a", "generation_settings": {"seed": 1}, "stop": true});
        let paths = ["content", "generation_settings/seed", "none/at/all"].map(str::to_owned);
        let expected = json!({"content": "a", "generation_settings/seed": 1});
        assert_eq!(chosen(object.clone(), &paths), expected);
        assert_eq!(chosen(object.clone(), &[]), object);
    }
}
