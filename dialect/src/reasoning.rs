//! Reasoning at the end of a prompt, and in the text of an answer that is written again.

use crate::Dialect;
use crate::forms::Call;

/// Whether a rendered prompt ends with an open think mark, so that the answer begins with
/// reasoning.
pub fn opens_reasoning(prompt: &str) -> bool {
    let end = prompt.trim_end();
    marks().any(|(open, _)| end.ends_with(open))
}

/// The marks around reasoning, of all dialects: a fine-tuned model may write those of another.
pub(crate) fn marks() -> impl Iterator<Item = (&'static str, &'static str)> {
    let of_others = Dialect::ALL.into_iter().map(|dialect| dialect.form().reasoning);
    std::iter::once(crate::forms::THINK).chain(of_others)
}

/// The marks that may begin an answer: words alone open reasoning only in a prompt.
pub(crate) fn written_marks() -> impl Iterator<Item = (&'static str, &'static str)> {
    marks().filter(|(open, _)| open.starts_with(['<', '[']))
}

/// The text that a model has written for this answer, as far as its marks are known.
/// `starts_in_reasoning`: as for [`Parser::new`](crate::Parser::new). Calls are not written, nor is
/// reasoning where the model has none and the prompt does not open it.
pub fn written(
    dialect: Dialect,
    starts_in_reasoning: bool,
    reasoning: &str,
    content: &str,
) -> String {
    let form = dialect.form();
    let (open, close) = form.written_reasoning;
    let writes_reasoning = starts_in_reasoning || !(reasoning.is_empty() || open.is_empty());
    let mut text = String::new();
    if writes_reasoning {
        text.push_str(if starts_in_reasoning { "" } else { open });
        text.push_str(reasoning);
    }
    if content.is_empty() {
        return text;
    }
    if writes_reasoning {
        text.push_str(close);
    }
    if writes_reasoning || matches!(form.call, Call::Channel(_)) {
        text.push_str(form.before_text);
    }
    text.push_str(content);
    text
}
