//! The sampling parameters that the model's file recommends, within the ranges of a request's.

use hob_models::SamplingEntry;
use serde_json::{Map, Value, json};

use crate::wire::sampling::SamplingFields;

/// What counts where neither request, conversation, profile nor client sets a parameter.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelSampling {
    fields: SamplingFields,
    json: Map<String, Value>,
}

impl ModelSampling {
    /// Logs a warning for each entry that a request could not have: it does not count.
    pub fn of(entries: &[SamplingEntry]) -> Self {
        let mut json = Map::new();
        for entry in entries {
            match checked(entry) {
                Ok((parameter, value)) => drop(json.insert(parameter.to_owned(), value)),
                Err(reason) => {
                    tracing::warn!(key = entry.key, reason, "the model file's entry is ignored");
                }
            }
        }
        let fields = SamplingFields::parse_all(&Value::Object(json.clone()), "general.sampling");
        Self { fields: fields.expect("each of them was checked"), json }
    }

    pub fn fields(&self) -> &SamplingFields {
        &self.fields
    }

    /// As a request has them.
    pub fn to_json(&self) -> Value {
        Value::Object(self.json.clone())
    }
}

/// The entry's name and value in a request.
fn checked(entry: &SamplingEntry) -> Result<(&'static str, Value), String> {
    let Some(parameter) = entry.parameter else {
        return Err("Hob has no such sampler".to_owned());
    };
    let Some(number) = entry.value.filter(|number| number.is_finite()) else {
        return Err("it is not a number".to_owned());
    };
    // A request has `top_k` as a whole number.
    let is_whole = number.fract() == 0.0 && number.abs() < 1e15;
    let value = if is_whole { json!(number as i64) } else { json!(number) };
    match SamplingFields::parse_all(&json!({ parameter: value }), "general.sampling") {
        Ok(_) => Ok((parameter, value)),
        Err(error) => Err(error.message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(entries: &[(&'static str, Option<&'static str>, Option<f64>)]) -> ModelSampling {
        let entry = |&(key, parameter, value)| SamplingEntry { key, parameter, value };
        ModelSampling::of(&entries.iter().map(entry).collect::<Vec<_>>())
    }

    #[test]
    fn parameters_of_the_file_are_those_of_a_request() {
        let sampling = of(&[
            ("temp", Some("temperature"), Some(0.6)),
            ("top_k", Some("top_k"), Some(20.0)),
            ("penalty_repeat", Some("repeat_penalty"), Some(1.0)),
            ("penalty_last_n", Some("repeat_last_n"), Some(-1.0)),
        ]);
        let json =
            json!({"temperature": 0.6, "top_k": 20, "repeat_penalty": 1, "repeat_last_n": -1});
        assert_eq!(sampling.to_json(), json);
        assert_eq!(sampling.fields().temperature, Some(0.6));
        assert_eq!(sampling.fields().top_k, Some(20));
    }

    #[test]
    fn what_a_request_could_not_have_does_not_count() {
        let sampling = of(&[
            ("temp", Some("temperature"), Some(f64::NAN)),
            ("top_p", Some("top_p"), Some(-0.5)),
            ("min_p", Some("min_p"), None),
            ("top_k", Some("top_k"), Some(1e300)),
            ("penalty_repeat", Some("repeat_penalty"), Some(f64::INFINITY)),
            ("mirostat", None, Some(2.0)),
        ]);
        assert_eq!(sampling, ModelSampling::default());
        let sampling = of(&[
            ("temp", Some("temperature"), Some(3.0)),
            ("top_k", Some("top_k"), Some(2.5)),
            ("min_p", Some("min_p"), Some(0.05)),
        ]);
        assert_eq!(sampling.to_json(), json!({"min_p": 0.05}));
    }
}
