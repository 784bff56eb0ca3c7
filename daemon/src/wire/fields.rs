//! Reads the fields of a request, and names the one that is wrong.
//!
//! - `null` counts as absent, as it does for OpenAI's clients.
//! - An error names the field by its path: `messages[2].content[0].type`.

use std::fmt::Display;
use std::ops::RangeInclusive;

use serde_json::{Map, Value};

use crate::error::ApiError;

/// An object of the request and the path that leads to it.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a> {
    object: &'a Map<String, Value>,
    path: &'a str,
}

impl<'a> Fields<'a> {
    pub fn of_body(body: &'a Value) -> Result<Self, ApiError> {
        match body {
            Value::Object(object) => Ok(Self { object, path: "" }),
            _ => Err(ApiError::new(
                crate::error::ErrorKind::Invalid,
                "the body must be a JSON object",
            )
            .code("invalid_type")),
        }
    }

    pub fn of(value: &'a Value, path: &'a str) -> Result<Self, ApiError> {
        match value {
            Value::Object(object) => Ok(Self { object, path }),
            other => Err(wrong_type(path, "an object", other)),
        }
    }

    /// The path of one of this object's fields.
    pub fn path(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    /// `None` if the field is absent or null.
    pub fn get(&self, name: &str) -> Option<&'a Value> {
        self.object.get(name).filter(|value| !value.is_null())
    }

    pub fn required(&self, name: &str) -> Result<&'a Value, ApiError> {
        self.get(name).ok_or_else(|| {
            let path = self.path(name);
            let message = format!("`{path}` is required");
            ApiError::field(path, message).code("missing")
        })
    }

    pub fn object(&self) -> &'a Map<String, Value> {
        self.object
    }

    pub fn string(&self, name: &str) -> Result<Option<&'a str>, ApiError> {
        self.typed(name, "a string", Value::as_str)
    }

    pub fn required_string(&self, name: &str) -> Result<&'a str, ApiError> {
        let value = self.required(name)?;
        value.as_str().ok_or_else(|| wrong_type(&self.path(name), "a string", value))
    }

    pub fn boolean(&self, name: &str) -> Result<Option<bool>, ApiError> {
        self.typed(name, "a boolean", Value::as_bool)
    }

    pub fn list(&self, name: &str) -> Result<Option<&'a Vec<Value>>, ApiError> {
        self.typed(name, "an array", Value::as_array)
    }

    pub fn map(&self, name: &str) -> Result<Option<&'a Map<String, Value>>, ApiError> {
        self.typed(name, "an object", Value::as_object)
    }

    pub fn number(&self, name: &str, within: RangeInclusive<f64>) -> Result<Option<f32>, ApiError> {
        let Some(number) = self.typed(name, "a number", Value::as_f64)? else { return Ok(None) };
        self.check_range(name, number, &within)?;
        Ok(Some(number as f32))
    }

    pub fn integer(
        &self,
        name: &str,
        within: RangeInclusive<i64>,
    ) -> Result<Option<i64>, ApiError> {
        let Some(number) = self.typed(name, "an integer", whole)? else { return Ok(None) };
        self.check_range(name, number, &within)?;
        Ok(Some(number))
    }

    fn check_range<T: PartialOrd + Display>(
        &self,
        name: &str,
        number: T,
        within: &RangeInclusive<T>,
    ) -> Result<(), ApiError> {
        if within.contains(&number) {
            return Ok(());
        }
        let (path, start, end) = (self.path(name), within.start(), within.end());
        let message = format!("`{path}` must be between {start} and {end}, not {number}");
        Err(ApiError::field(path, message))
    }

    fn typed<T>(
        &self,
        name: &str,
        expected: &str,
        read: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, ApiError> {
        let Some(value) = self.get(name) else { return Ok(None) };
        match read(value) {
            Some(read) => Ok(Some(read)),
            None => Err(wrong_type(&self.path(name), expected, value)),
        }
    }
}

/// A whole number, also as a language without integers writes it: `8.0`.
pub fn whole(value: &Value) -> Option<i64> {
    const EXACT: f64 = (1_u64 << 53) as f64; // Beyond it, neighbours are the same float.
    let float = || value.as_f64().filter(|n| n.fract() == 0.0 && n.abs() <= EXACT);
    value.as_i64().or_else(|| float().map(|number| number as i64))
}

/// The error for a field of another type than it should have.
pub fn wrong_type(path: &str, expected: &str, got: &Value) -> ApiError {
    let got = match got {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    };
    let message = format!("`{path}` must be {expected}, not {got}");
    ApiError::field(path, message).code("invalid_type")
}

/// The error for something that OpenAI has and Hob has not.
pub fn unsupported(path: impl Into<String>, message: impl Into<String>) -> ApiError {
    ApiError::field(path, message).code("unsupported")
}
