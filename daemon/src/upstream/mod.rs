//! The engine at another address that generates in place of one in this process: a server of OpenAI's API.
//!
//! Reading order: this file (the calls), [`web`] (HTTP), `error`, [`engine`] (which engine it is) and
//! [`hints`] (the fields that steer its prefix cache), `lookups` (names of models that it does not list),
//! [`request`] (the fields of a request), [`answer`] (the events of a stream) with `lines` and [`chunk`].
//!
//! - It knows no conversation, no profile and no prompt: [`crate::chat`] makes the messages, and stores the text.
//! - Dropping what it returns closes the connection, by which the engine learns that the answer is not wanted.
//! - The name of a conversation never leaves this process: the engine gets a hash of it.

pub mod answer;
pub mod chunk;
pub mod engine;
mod error;
pub mod hints;
mod lines;
mod lookups;
pub mod request;
mod web;

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::Method;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::wire::embedding::Embeddings;
use crate::wire::ranking::Ranking;
pub use answer::{Event, UpstreamAnswer};
pub use engine::EngineKind;
pub use error::UpstreamError;
pub use hints::{CacheHint, Privacy};
use lookups::Lookups;
use web::Web;

/// The longest wait of [`Upstream::refresh`]: clients that ask for the daemon's state wait for it.
const REFRESH_TIMEOUT: Duration = Duration::from_secs(2);

/// The engine. Clones share everything.
#[derive(Clone)]
pub struct Upstream {
    inner: Arc<Inner>,
}

struct Inner {
    web: Web,
    /// As the engine listed them last.
    served: Mutex<Option<Served>>,
    /// Held while the engine is asked because of a name: another request for it waits for the list.
    lookups: tokio::sync::Mutex<Lookups>,
}

/// What the engine serves.
#[derive(Clone, Debug)]
pub struct Served {
    pub kind: EngineKind,
    /// In OpenAI's form, at least one.
    pub models: Vec<Value>,
}

impl Served {
    /// The name under which it serves `asked`, with or without Ollama's tag `latest`; the first one's where it does not
    /// know that, as a daemon with one model answers to every name.
    pub fn model(&self, asked: Option<&str>) -> &str {
        let found = asked.and_then(|asked| self.find(asked));
        found.or_else(|| self.models.first().map(name_of)).unwrap_or_default()
    }

    fn find(&self, asked: &str) -> Option<&str> {
        let names = self.models.iter().map(name_of);
        let means_asked = |name: &&str| without_latest(name) == without_latest(asked);
        names.clone().find(|name| *name == asked).or_else(|| names.clone().find(means_asked))
    }
}

/// Ollama lists a model without a tag under this tag, and its clients ask for either name.
fn without_latest(name: &str) -> &str {
    name.strip_suffix(":latest").unwrap_or(name)
}

/// What a conversation holds at most, by the names of vLLM, OpenRouter and llama-server; `None`: the engine says
/// nothing of it.
pub fn context_of(model: &Value) -> Option<usize> {
    let names = ["/max_model_len", "/context_length", "/meta/n_ctx"];
    let mut found = names.into_iter().filter_map(|name| model.pointer(name)?.as_u64());
    found.next().and_then(|tokens| usize::try_from(tokens).ok())
}

/// The name of a listed model.
pub fn name_of(model: &Value) -> &str {
    model["id"].as_str().unwrap_or_default()
}

impl Upstream {
    /// `url`: without `/v1`. `silence`: the longest that the engine may send nothing.
    ///
    /// # Errors
    /// When the token cannot be a header, or the system's certificates cannot be read.
    pub fn open(url: &str, token: Option<&str>, silence: Duration) -> anyhow::Result<Self> {
        let web = Web::open(url, token, silence)?;
        let (served, lookups) = (Mutex::default(), tokio::sync::Mutex::default());
        Ok(Self { inner: Arc::new(Inner { web, served, lookups }) })
    }

    pub fn url(&self) -> &str {
        self.inner.web.url()
    }

    /// What it serves, as known; asks it at the first call, and after a failure.
    ///
    /// # Errors
    /// When it cannot be asked, or lists no model.
    pub async fn served(&self) -> Result<Served, UpstreamError> {
        let known = self.inner.served.lock().clone();
        match known {
            Some(served) => Ok(served),
            None => self.fetch_models().await,
        }
    }

    /// What it serves, for a request that asks for the model `asked`. Because of a name that it did not list, it is
    /// asked again: it may have got the model since then.
    ///
    /// # Errors
    /// As for [`Self::served`].
    pub async fn served_for(&self, asked: Option<&str>) -> Result<Served, UpstreamError> {
        let known = self.served().await?;
        let is_unknown = |name: &&str| !name.is_empty() && known.find(name).is_none();
        let Some(name) = asked.filter(is_unknown) else { return Ok(known) };
        let mut lookups = self.inner.lookups.lock().await;
        let known = self.served().await?; // Another request may have asked meanwhile.
        if known.find(name).is_some() || !lookups.is_due(name, Instant::now()) {
            return Ok(known);
        }
        let listed = self.refresh().await;
        lookups.note(name, Instant::now());
        Ok(listed.unwrap_or(known)) // An engine that cannot be asked says why in its answer.
    }

    /// Asks it what it serves now.
    ///
    /// # Errors
    /// As for [`Self::served`], and when it takes more than two seconds.
    pub async fn refresh(&self) -> Result<Served, UpstreamError> {
        let asked = tokio::time::timeout(REFRESH_TIMEOUT, self.fetch_models()).await;
        asked.unwrap_or_else(|_| Err(self.inner.web.silent(REFRESH_TIMEOUT)))
    }

    async fn fetch_models(&self) -> Result<Served, UpstreamError> {
        let web = &self.inner.web;
        let mut listed = self.noted(web.json(Method::GET, "/v1/models", &[], None).await)?;
        let models = match listed["data"].take() {
            Value::Array(models) if models.iter().any(|model| !name_of(model).is_empty()) => models,
            _ => return Err(web.foreign("its /v1/models lists no model")),
        };
        let kind = EngineKind::of(models[0]["owned_by"].as_str().unwrap_or_default());
        let served = Served { kind, models };
        *self.inner.served.lock() = Some(served.clone());
        Ok(served)
    }

    /// Begins to answer `body` at `path`, as a stream. It names the model that the client asks for. An engine that
    /// refuses it, and serves other models than it did, is asked once more.
    ///
    /// # Errors
    /// When the engine cannot be reached or refuses the request.
    pub async fn begin(
        &self,
        path: &'static str,
        mut body: Value,
        hint: CacheHint,
    ) -> Result<UpstreamAnswer, UpstreamError> {
        let asked = body["model"].take();
        let served = self.served_for(asked.as_str()).await?;
        request::suit(&mut body, served.kind);
        let headers = hint.add_to(served.kind, &mut body);
        let mut model = served.model(asked.as_str()).to_owned();
        body["model"] = model.as_str().into();
        let mut response = self.noted(self.inner.web.stream(path, &headers, &body).await);
        let is_refused = matches!(response, Err(UpstreamError::Refused { .. }));
        if is_refused && let Some(now) = self.changed_from(&served).await {
            model = now.model(asked.as_str()).to_owned();
            body["model"] = model.as_str().into();
            response = self.noted(self.inner.web.stream(path, &headers, &body).await);
        }
        Ok(UpstreamAnswer::new(self.inner.web.clone(), response?, model))
    }

    /// What the engine serves now, where it is of the same kind and its models are others than those that were
    /// known: it was started again with another model.
    async fn changed_from(&self, known: &Served) -> Option<Served> {
        let now = self.fetch_models().await.ok()?;
        let is_other = !now.models.iter().map(name_of).eq(known.models.iter().map(name_of));
        (is_other && now.kind == known.kind).then_some(now)
    }

    /// The engine's answer to `body` at `path`, as a whole, and the model that gave it. `body` names the model that the
    /// client asks for.
    ///
    /// # Errors
    /// As for [`Self::begin`].
    async fn call(&self, path: &str, mut body: Value) -> Result<(Value, String), UpstreamError> {
        let asked = body["model"].take();
        let served = self.served_for(asked.as_str()).await?;
        let mut model = served.model(asked.as_str()).to_owned();
        body["model"] = model.as_str().into();
        let web = &self.inner.web;
        let mut answer = self.noted(web.json(Method::POST, path, &[], Some(&body)).await);
        let is_refused = matches!(answer, Err(UpstreamError::Refused { .. }));
        if is_refused && let Some(now) = self.changed_from(&served).await {
            now.model(asked.as_str()).clone_into(&mut model);
            body["model"] = model.as_str().into();
            answer = self.noted(web.json(Method::POST, path, &[], Some(&body)).await);
        }
        Ok((answer?, model))
    }

    /// `model`: as for [`Served::model`].
    ///
    /// # Errors
    /// As for [`Self::begin`]; when the answer is not one of an embedding model.
    pub async fn embed(
        &self,
        model: Option<&str>,
        input: Value,
    ) -> Result<Embeddings, UpstreamError> {
        let count = input.as_array().map_or(1, Vec::len);
        let body = json!({"model": model, "input": input});
        let (answer, model) = self.call("/v1/embeddings", body).await?;
        let vector = |entry: &Value| -> Option<Vec<f32>> {
            let numbers = entry["embedding"].as_array()?.iter();
            numbers.map(|number| number.as_f64().map(|number| number as f32)).collect()
        };
        let vectors: Option<Vec<_>> =
            answer["data"].as_array().and_then(|data| data.iter().map(vector).collect());
        match vectors.filter(|vectors| vectors.len() == count) {
            Some(vectors) => {
                Ok(Embeddings { vectors, tokens: prompt_tokens(&answer), model: Some(model) })
            }
            None => Err(self.inner.web.foreign("its embeddings have another form")),
        }
    }

    /// `model`: as for [`Served::model`].
    ///
    /// # Errors
    /// As for [`Self::begin`]; when the answer is not one of a reranker.
    pub async fn rank(
        &self,
        model: Option<&str>,
        query: &str,
        texts: &[String],
    ) -> Result<Ranking, UpstreamError> {
        let body = json!({"model": model, "query": query, "documents": texts});
        let (answer, model) = self.call("/v1/rerank", body).await?;
        let mut by_place = vec![None; texts.len()];
        for result in answer["results"].as_array().into_iter().flatten() {
            let place = result["index"].as_u64().and_then(|index| usize::try_from(index).ok());
            if let Some(place) = place.and_then(|place| by_place.get_mut(place)) {
                *place = result["relevance_score"].as_f64().map(|score| score as f32);
            }
        }
        let complete: Option<Vec<f32>> = by_place.into_iter().collect();
        let scores = complete.ok_or_else(|| self.inner.web.foreign("it scores not every text"))?;
        Ok(Ranking { scores, tokens: prompt_tokens(&answer), model: Some(model) })
    }

    /// After a failure the engine may come back as another one.
    fn noted<T>(&self, result: Result<T, UpstreamError>) -> Result<T, UpstreamError> {
        if result.is_err() {
            *self.inner.served.lock() = None;
        }
        result
    }
}

fn prompt_tokens(answer: &Value) -> usize {
    answer["usage"]["prompt_tokens"].as_u64().unwrap_or(0) as usize
}
