//! Reads the query of an address.

use axum::extract::FromRequestParts;
use axum::http::Uri;
use axum::http::request::Parts;
use serde::de::DeserializeOwned;
use serde_urlencoded::Deserializer;

use crate::error::{ApiError, ErrorKind};

/// The query of a request. An error names the invalid field.
pub struct Query<T>(pub T);

impl<T: DeserializeOwned> Query<T> {
    pub fn of(uri: &Uri) -> Result<T, ApiError> {
        let fields = form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes());
        serde_path_to_error::deserialize(Deserializer::new(fields)).map_err(|error| {
            let why = error.inner();
            match error.path().iter().next().map(ToString::to_string) {
                Some(field) => ApiError::field(&field, format!("`{field}`: {why}")),
                None => ApiError::new(ErrorKind::Invalid, why.to_string()).code("invalid_value"),
            }
        })
    }
}

impl<T: DeserializeOwned, S: Sync> FromRequestParts<S> for Query<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        Self::of(&parts.uri).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    struct SearchFields {
        q: String,
        #[serde(default)]
        trashed: bool,
    }

    fn parse(path: &str) -> Result<SearchFields, ApiError> {
        Query::of(&path.parse().unwrap())
    }

    #[test]
    fn known_fields_are_read_and_unknown_ones_are_ignored() {
        let expected = SearchFields { q: "a kettle".to_owned(), trashed: true };
        assert_eq!(parse("/?q=a+kettle&trashed=true&colour=red"), Ok(expected));
    }

    #[test]
    fn an_error_names_the_invalid_field() {
        let refused = |path| parse(path).unwrap_err();
        let maybe = refused("/?q=a&trashed=maybe");
        assert_eq!(maybe.param.as_deref(), Some("trashed"));
        assert!(maybe.message.starts_with("`trashed`: "), "{}", maybe.message);
        let nothing = refused("/");
        assert_eq!((nothing.param, nothing.code), (None, Some("invalid_value")));
        assert_eq!(nothing.message, "missing field `q`");
    }
}
