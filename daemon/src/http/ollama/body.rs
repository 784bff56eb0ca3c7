//! The body of a request, and what it may name without the token.

use axum::extract::{FromRequest, Request};
use serde_json::Value;

use super::super::Shared;
use super::super::body::JsonBody;
use super::super::guard::WithoutToken;
use crate::chat::identity::{Identity, Session};
use crate::error::{ApiError, ErrorKind};

/// A JSON body. A request without the token names no stored conversation: its text is for those who have the
/// token.
pub struct OllamaBody {
    pub value: Value,
    pub session: Session,
}

impl FromRequest<Shared> for OllamaBody {
    type Rejection = ApiError;

    async fn from_request(request: Request, shared: &Shared) -> Result<Self, ApiError> {
        let has_token = request.extensions().get::<WithoutToken>().is_none();
        let JsonBody { value, session } = JsonBody::from_request(request, shared).await?;
        if !has_token && Identity::of(&value, &session)?.named().is_some() {
            let message = "a conversation needs the token: send `Authorization: Bearer <token>`";
            let refused = ApiError::new(ErrorKind::Unauthorized, message);
            return Err(refused.param("conversation").code("missing_token"));
        }
        Ok(Self { value, session })
    }
}
