//! The model that answers, in words.

use hob_api::Status;

use super::{context_tokens, line, plain};

/// `qwen3 · context 8,192 tokens`; of an engine at another address, [`upstream_words`].
pub fn model_words(status: &Status) -> String {
    upstream_words(status).unwrap_or_else(|| {
        format!("{} · context {} tokens", line(&status.model, 60), context_tokens(status))
    })
}

/// `qwen3 of vllm at http://127.0.0.1:8000`, or why that engine cannot be asked and the remedy; `None`: the engine in
/// hobd answers.
pub fn upstream_words(status: &Status) -> Option<String> {
    let upstream = status.upstream.as_ref()?;
    Some(match &upstream.error {
        Some(error) => plain(error),
        None => {
            let url = plain(&upstream.url);
            format!("{} of {} at {url}", plain(&status.model), plain(&upstream.engine))
        }
    })
}

#[cfg(test)]
mod tests {
    use hob_api::status::Upstream;

    use super::*;

    #[test]
    fn an_upstream_is_named_by_its_address_and_not_by_a_context() {
        let status = Status { model: "qwen3".into(), context_tokens: 8192, ..Status::default() };
        assert_eq!(model_words(&status), "qwen3 · context 8,192 tokens");
        let url = "http://127.0.0.1:8000".to_owned();
        let upstream = Upstream { url, engine: "vllm".into(), ..Upstream::default() };
        let at = |upstream| Status { upstream: Some(upstream), ..status.clone() };
        assert_eq!(model_words(&at(upstream.clone())), "qwen3 of vllm at http://127.0.0.1:8000");
        let error = Some("the upstream cannot be reached: start it".into());
        let lost = at(Upstream { error, ..upstream });
        assert_eq!(model_words(&lost), "the upstream cannot be reached: start it");
    }
}
