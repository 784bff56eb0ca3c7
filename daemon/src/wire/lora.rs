//! The field `lora`: the adapters of a request, in llama-server's form and by name.

use serde_json::Value;

use super::fields::{Fields, whole, wrong_type};
use crate::error::ApiError;

/// Each is loaded beside the model.
const MAX_ADAPTERS: usize = 8;

/// An adapter that a request names.
#[derive(Clone, Debug, PartialEq)]
pub struct WantedAdapter {
    pub name: AdapterName,
    /// Its place in `lora`.
    pub index: usize,
    /// Finite.
    pub scale: f32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdapterName {
    /// A number, as llama-server has it: the place in the setting `adapters`.
    Place(usize),
    Name(String),
    Path(String),
}

impl WantedAdapter {
    /// The field that names it.
    pub fn field(&self) -> String {
        let field = if matches!(self.name, AdapterName::Path(_)) { "path" } else { "id" };
        format!("lora[{}].{field}", self.index)
    }
}

pub(super) fn lora(fields: &Fields<'_>) -> Result<Vec<WantedAdapter>, ApiError> {
    let Some(list) = fields.list("lora")? else { return Ok(Vec::new()) };
    if list.len() > MAX_ADAPTERS {
        let message = format!("`lora` may have {MAX_ADAPTERS} adapters, not {}", list.len());
        return Err(ApiError::field("lora", message));
    }
    list.iter().enumerate().map(|(index, entry)| adapter(index, entry)).collect()
}

fn adapter(index: usize, entry: &Value) -> Result<WantedAdapter, ApiError> {
    let path = format!("lora[{index}]");
    let fields = Fields::of(entry, &path)?;
    let name = match (fields.get("id"), fields.string("path")?) {
        (Some(_), Some(_)) | (None, None) => {
            let message = format!("`{path}` needs either an `id` or a `path`");
            return Err(ApiError::field(path, message));
        }
        (None, Some(path)) => AdapterName::Path(path.to_owned()),
        (Some(Value::String(name)), None) => AdapterName::Name(name.clone()),
        (Some(id), None) => match whole(id).and_then(|place| usize::try_from(place).ok()) {
            Some(place) => AdapterName::Place(place),
            None => return Err(wrong_type(&fields.path("id"), "a name or a number", id)),
        },
    };
    let scale = fields.number("scale", f64::from(f32::MIN)..=f64::from(f32::MAX))?.unwrap_or(1.0);
    Ok(WantedAdapter { name, index, scale })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn parse(lora: Value) -> Result<Vec<WantedAdapter>, ApiError> {
        let body = json!({"lora": lora});
        super::lora(&Fields::of_body(&body).unwrap())
    }

    #[test]
    fn an_adapter_has_a_number_a_name_or_a_path() {
        let wanted = parse(json!([{"id": 1, "scale": 0.5}, {"id": "style"}, {"path": "/a.gguf"}]));
        let wanted = wanted.unwrap();
        assert_eq!(wanted[0], WantedAdapter { name: AdapterName::Place(1), index: 0, scale: 0.5 });
        assert_eq!(wanted[1].name, AdapterName::Name("style".to_owned()));
        assert_eq!((wanted[1].scale, wanted[1].field().as_str()), (1.0, "lora[1].id"));
        assert_eq!(wanted[2].field(), "lora[2].path");
        assert_eq!(parse(json!([{"id": 2.0}])).unwrap()[0].name, AdapterName::Place(2));
        assert_eq!(parse(json!(null)).unwrap(), []);
    }

    #[test]
    fn each_wrong_field_is_named() {
        for (lora, param) in [
            (json!("style"), "lora"),
            (json!(vec![json!({"id": 0}); 9]), "lora"),
            (json!([7]), "lora[0]"),
            (json!([{"scale": 1}]), "lora[0]"),
            (json!([{"id": 0, "path": "a"}]), "lora[0]"),
            (json!([{"id": 0}, {"id": -1}]), "lora[1].id"),
            (json!([{"id": 0.5}]), "lora[0].id"),
            (json!([{"path": 1}]), "lora[0].path"),
            (json!([{"id": 0, "scale": 1e300}]), "lora[0].scale"),
            (json!([{"id": 0, "scale": "much"}]), "lora[0].scale"),
        ] {
            let error = parse(lora.clone()).expect_err(&lora.to_string());
            assert_eq!(error.param.as_deref(), Some(param), "{lora}");
        }
    }
}
