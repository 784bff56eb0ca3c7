//! The calls of a chat's answer in the form in which the client has its tools.
//!
//! - The model calls functions. A function that stands for a custom tool is called with a text, see
//!   [`crate::wire::freeform`].
//! - A client that sent `functions` reads a `function_call`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::wire::answer::EndReason;
use crate::wire::chat::ChatRequest;
use crate::wire::freeform::{InputReader, input_of};
use crate::wire::functions::FUNCTION_CALL;
use crate::wire::tools::CUSTOM;

const CALLS: &str = "tool_calls";

pub struct CallForm {
    calls_functions: bool,
    /// The names of the custom tools.
    custom: BTreeSet<String>,
}

impl CallForm {
    pub fn of(request: &ChatRequest) -> Self {
        let custom = request.tools.iter().filter(|tool| tool.is_custom);
        let custom = custom.map(|tool| tool.name.clone()).collect();
        Self { calls_functions: request.calls_functions, custom }
    }

    /// A whole message.
    pub fn message(&self, mut message: Value) -> Value {
        let Some(calls) = message.get_mut(CALLS).and_then(Value::as_array_mut) else {
            return message;
        };
        for call in calls.iter_mut().filter(|call| self.is_custom(call)) {
            let text = |field: &str| call["function"][field].as_str().unwrap_or_default();
            let custom = json!({"name": text("name"), "input": input_of(text("arguments"))});
            *call = json!({"id": call["id"], "type": CUSTOM, CUSTOM: custom});
        }
        if self.calls_functions
            && let Some(object) = message.as_object_mut()
        {
            let calls = object.shift_remove(CALLS).unwrap_or_default();
            object.insert(FUNCTION_CALL.into(), calls[0]["function"].clone());
        }
        message
    }

    /// OpenAI's `finish_reason`.
    pub fn reason(&self, reason: EndReason) -> &'static str {
        match reason {
            EndReason::ToolCalls if self.calls_functions => FUNCTION_CALL,
            reason => reason.as_str(),
        }
    }

    fn is_custom(&self, call: &Value) -> bool {
        let name = call["function"]["name"].as_str();
        name.is_some_and(|name| self.custom.contains(name))
    }
}

/// [`CallForm`] for an answer that arrives in pieces.
pub struct StreamedCalls {
    form: CallForm,
    /// The texts of custom tools, by the choice and the place of the call in it.
    inputs: BTreeMap<(usize, u64), InputReader>,
}

impl StreamedCalls {
    pub fn new(form: CallForm) -> Self {
        Self { form, inputs: BTreeMap::new() }
    }

    pub fn form(&self) -> &CallForm {
        &self.form
    }

    /// Puts pieces of calls into the `delta` of a choice.
    pub fn add(&mut self, choice: usize, pieces: Vec<Value>, delta: &mut Value) {
        if self.form.calls_functions {
            return add_function_call(&pieces, delta);
        }
        let pieces: Vec<Value> =
            pieces.into_iter().filter_map(|piece| self.piece(choice, piece)).collect();
        if !pieces.is_empty() {
            delta[CALLS] = pieces.into();
        }
    }

    /// The rest of the texts of a choice that has ended: of arguments in another form, it is known only now.
    pub fn end(&mut self, choice: usize, delta: &mut Value) {
        let of_choice = self.inputs.range_mut((choice, 0)..=(choice, u64::MAX));
        let rests = of_choice.filter_map(|(&(_, index), input)| {
            let rest = input.finish();
            (!rest.is_empty()).then(|| json!({"index": index, CUSTOM: {"input": rest}}))
        });
        let rests: Vec<Value> = rests.collect();
        if !rests.is_empty() {
            delta[CALLS] = rests.into();
        }
    }

    /// `None`: it adds nothing to the text of a custom tool.
    fn piece(&mut self, choice: usize, piece: Value) -> Option<Value> {
        let key = (choice, piece["index"].as_u64().unwrap_or_default());
        let begins = self.form.is_custom(&piece);
        if begins {
            self.inputs.insert(key, InputReader::default());
        }
        let Some(input) = self.inputs.get_mut(&key) else { return Some(piece) };
        let text = input.push(piece["function"]["arguments"].as_str().unwrap_or_default());
        if begins {
            let custom = json!({"name": piece["function"]["name"], "input": text});
            return Some(
                json!({"index": key.1, "id": piece["id"], "type": CUSTOM, CUSTOM: custom}),
            );
        }
        (!text.is_empty()).then(|| json!({"index": key.1, CUSTOM: {"input": text}}))
    }
}

/// Adds the first call of an answer. Another engine may send further ones; a client of `functions` reads one.
fn add_function_call(pieces: &[Value], delta: &mut Value) {
    for piece in pieces.iter().filter(|piece| piece["index"] == 0) {
        for field in ["name", "arguments"] {
            if let Some(text) = piece["function"][field].as_str() {
                let before = delta[FUNCTION_CALL][field].as_str().unwrap_or_default();
                delta[FUNCTION_CALL][field] = format!("{before}{text}").into();
            }
        }
    }
}
