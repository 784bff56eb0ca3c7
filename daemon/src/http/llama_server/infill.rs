//! `/infill`: the text between two others, with other files in front.

use axum::extract::State;
use axum::response::Response;

use super::super::body::JsonBody;
use super::completion::respond;
use super::request::translated;
use crate::chat::Chat;
use crate::error::{ApiError, ErrorKind};
use crate::prompt::infill::{OtherFile, infill_beside};
use crate::wire::fields::Fields;

/// `POST /infill {"input_prefix", "input_suffix", "prompt", "input_extra": [{"filename", "text"}]}`
pub async fn infill(State(chat): State<Chat>, body: JsonBody) -> Result<Response, ApiError> {
    let fields = Fields::of_body(&body.value)?;
    let prefix = fields.required_string("input_prefix")?;
    let suffix = fields.required_string("input_suffix")?;
    let begun = fields.string("prompt")?.unwrap_or_default();
    let mut files = Vec::new();
    for (n, file) in fields.list("input_extra")?.into_iter().flatten().enumerate() {
        let path = format!("input_extra[{n}]");
        let file = Fields::of(file, &path)?;
        let name = file.string("filename")?.unwrap_or("tmp").to_owned();
        files.push(OtherFile { name, text: file.required_string("text")?.to_owned() });
    }
    let model = chat.engine().model().as_ref();
    let prompt = infill_beside(model, &files, &format!("{prefix}{begun}"), suffix);
    let prompt = prompt.ok_or_else(|| {
        let message = "this model has no marks for a text that is filled in: `/infill` needs one \
                       that was trained for it";
        ApiError::new(ErrorKind::NotImplemented, message).code("unsupported_model")
    })?;
    let (request, answer_fields) = translated(&chat, &fields, prompt.into()).await?;
    respond(&chat, &request, &body.session, answer_fields).await
}
