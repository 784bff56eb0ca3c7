//! `/v1/embeddings`: the request, checked, and the answer.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::completion::{Prompt, prompts};
use super::fields::Fields;
use super::sampling::refuse;
use crate::error::ApiError;

/// As many as OpenAI accepts: clients send that many at once.
const MAX_INPUTS: usize = 2048;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmbeddingRequest {
    /// The name by which the client asks for the model.
    pub model: Option<String>,
    /// At least one.
    pub inputs: Vec<Prompt>,
    pub encoding: Encoding,
    /// Numbers of a vector; `None`: all that the model makes.
    pub dimensions: Option<usize>,
}

/// The encoding of a vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    Float,
    /// Little-endian 32-bit floats.
    Base64,
}

/// What an embedding model makes of inputs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Embeddings {
    /// One an input, in their order.
    pub vectors: Vec<Vec<f32>>,
    /// Of all inputs.
    pub tokens: usize,
    /// The model of an engine at another address.
    pub model: Option<String>,
}

impl EmbeddingRequest {
    /// `vocabulary`: the number of tokens.
    pub fn parse(body: &Value, vocabulary: usize) -> Result<Self, ApiError> {
        let fields = Fields::of_body(body)?;
        let model = fields.string("model")?.map(str::to_owned);
        refuse(&fields, &[("lora", "embeddings are computed without adapters of a request")])?;
        let inputs = prompts(fields.required("input")?, "input", vocabulary, MAX_INPUTS)?;
        let dimensions = fields.integer("dimensions", 1..=i64::from(u32::MAX))?;
        let encoding = match fields.string("encoding_format")? {
            None | Some("float") => Encoding::Float,
            Some("base64") => Encoding::Base64,
            Some(other) => {
                let message = format!(
                    "`encoding_format` must be float or base64, not `{}`",
                    other.escape_debug()
                );
                return Err(ApiError::field("encoding_format", message));
            }
        };
        Ok(Self { model, inputs, encoding, dimensions: dimensions.map(|count| count as usize) })
    }
}

/// The first numbers of each vector, scaled to the length 1, as models are trained whose vectors may be cut.
///
/// # Errors
/// When the model makes fewer numbers.
pub fn shortened(mut vectors: Vec<Vec<f32>>, dimensions: usize) -> Result<Vec<Vec<f32>>, ApiError> {
    for vector in &mut vectors {
        if dimensions > vector.len() {
            let made = vector.len();
            let message =
                format!("`dimensions` may be {made}, which the model makes, not {dimensions}");
            return Err(ApiError::field("dimensions", message));
        }
        vector.truncate(dimensions);
        let length = vector.iter().map(|number| number * number).sum::<f32>().sqrt();
        if length > 0.0 {
            vector.iter_mut().for_each(|number| *number /= length);
        }
    }
    Ok(vectors)
}

/// `own`: the name of the model in this process.
pub fn response(own: &str, encoding: Encoding, embeddings: &Embeddings) -> Value {
    let Embeddings { vectors, tokens, model } = embeddings;
    let entry = |(index, vector): (usize, &Vec<f32>)| {
        let embedding = encode(vector, encoding);
        json!({"object": "embedding", "index": index, "embedding": embedding})
    };
    let data: Vec<Value> = vectors.iter().enumerate().map(entry).collect();
    json!({
        "object": "list",
        "data": data,
        "model": model.as_deref().unwrap_or(own),
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
    })
}

fn encode(vector: &[f32], encoding: Encoding) -> Value {
    match encoding {
        Encoding::Float => vector.into(),
        Encoding::Base64 => {
            let bytes: Vec<u8> = vector.iter().flat_map(|value| value.to_le_bytes()).collect();
            STANDARD.encode(bytes).into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_holds_the_same_floats() {
        let embeddings = Embeddings { vectors: vec![vec![1.0, -0.5]], tokens: 3, model: None };
        let answer = response("m", Encoding::Base64, &embeddings);
        assert_eq!(answer["data"][0]["embedding"], "AACAPwAAAL8=");
        let answer = response("m", Encoding::Float, &embeddings);
        assert_eq!(answer["data"][0]["embedding"], json!([1.0, -0.5]));
    }

    #[test]
    fn a_shortened_vector_has_the_length_one() {
        let vectors = vec![vec![3.0, 4.0, 12.0], vec![0.0, 0.0, 1.0]];
        let expected = [vec![0.6, 0.8], vec![0.0, 0.0]];
        assert_eq!(shortened(vectors.clone(), 2).unwrap(), expected);
        assert_eq!(shortened(vectors, 4).unwrap_err().param.as_deref(), Some("dimensions"));
    }

    #[test]
    fn an_unknown_encoding_is_named() {
        let body = json!({"input": "a", "encoding_format": "hex"});
        let error = EmbeddingRequest::parse(&body, 9).unwrap_err();
        assert_eq!(error.param.as_deref(), Some("encoding_format"));
    }
}
