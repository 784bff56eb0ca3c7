//! The rest of a call, from where its name follows.
//!
//! - Behind the last call of an answer, only closing marks follow.
//! - It allows more than a forced call has: other white space and ids in JSON, other headers of gpt-oss.

use serde_json::{Value, json};

use hob_dialect::forms::{Call, Channels, Json, Named, Notation};

use super::{ToolCalls, is_always_named, literal};
use crate::grammar::lark::{Control, Lark, SPACE, quoted};
use crate::grammar::schema::{JSON_SPACE, json_rule};

/// What may be in one token with the end of a call: white space, and of JSON the end of the object
/// around the arguments, and of a list.
const BEHIND: &str = r"/[ \n]{1,4}/";
const BEHIND_JSON: &str = r"/[ \n]{0,2}\}[\] \n]{0,3}/";

/// Closing marks behind a call: its own, that of all calls, and that of the message.
const MAX_MARKS: usize = 3;

/// What a model writes as the id of a call.
const ID: &str = "/[A-Za-z0-9_]{1,64}/";

impl ToolCalls {
    /// A token that ends a call may go on with what stands behind it.
    pub(super) fn begun(&self, lark: &mut Lark<'_>, control: Control<'_>) -> String {
        let form = self.form;
        let letter = quoted(form.before_name().1);
        let (call, behind) = match &form.call {
            _ if !form.marks_names() => {
                let call = self.of_tools(lark, |lark, tool, schema| {
                    let arguments = lark.rule(&json_rule(schema));
                    format!("{} {arguments}", quoted(&format!("{}\n", tool.name)))
                });
                (call, if matches!(&form.call, Call::Json(_)) { BEHIND_JSON } else { BEHIND })
            }
            Call::Json(Json { named: Some(named), .. }) => {
                (self.begun_behind_mark(lark, named, control), BEHIND)
            }
            Call::Json(json) => (self.begun_json(lark, json.is_keyed), BEHIND_JSON),
            Call::Literal(Notation::Python) => {
                let call = self.of_tools(lark, literal::python_call);
                let close = lark.text(form.around_calls.1);
                let more = self.more(&format!("\", \" {call}"));
                (format!("{letter} \"[\" {call}{more} \"]\" {close}"), BEHIND)
            }
            Call::Literal(Notation::Gemma) => {
                let call = self.of_tools(lark, literal::gemma_call);
                (format!("{letter} {call} {}", lark.text(form.around_call.1)), BEHIND)
            }
            Call::Channel(Channels { tagged: None, call: (_, behind_name), .. }) => {
                let behind_name: Vec<String> =
                    behind_name.iter().map(|text| lark.text(text)).collect();
                let behind_name = lark.any_of(&behind_name);
                let call = self.of_tools(lark, |lark, tool, schema| {
                    let arguments = lark.rule(&json_rule(schema));
                    format!("{} {behind_name} {arguments}", quoted(&tool.name))
                });
                (format!("{letter} {call}"), BEHIND)
            }
            _ => (format!("{letter} {}", self.call(lark)), BEHIND),
        };
        if self.is_last() {
            format!("{call}{}", self.end(lark, behind))
        } else {
            format!("{call} {behind}?")
        }
    }

    /// What may stand between the last call and the end of the answer.
    fn end(&self, lark: &mut Lark<'_>, behind: &str) -> String {
        let object = if behind == BEHIND_JSON { format!(" {BEHIND_JSON}?") } else { String::new() };
        let marks: Vec<String> = self.form.behind.iter().map(|mark| lark.text(mark)).collect();
        if marks.is_empty() {
            return format!("{object} {SPACE}");
        }
        let mark = lark.any_of(&marks);
        format!("{object} ({SPACE} {mark}){{0,{MAX_MARKS}}} {SPACE}")
    }

    /// The name, and the JSON behind it.
    fn begun_json(&self, lark: &mut Lark<'_>, is_keyed: bool) -> String {
        let space = json_space();
        self.of_tools(lark, |lark, tool, schema| {
            let name = quoted(&Value::from(tool.name.as_str()).to_string());
            let arguments = lark.shared_rule(&json_rule(schema));
            let between = if is_keyed {
                String::new()
            } else {
                format!("{space} \",\" {space} (\"\\\"arguments\\\"\" | \"\\\"parameters\\\"\")")
            };
            format!("{space} {name} {between} {space} \":\" {space} {arguments}")
        })
    }

    /// A name and arguments or, where the vocabulary lacks the mark between them, a list of JSON.
    fn begun_behind_mark(&self, lark: &mut Lark<'_>, form: &Named, control: Control<'_>) -> String {
        let [mark, others @ ..] = form.name_ends else { return String::new() };
        let ids = others.iter().map(|end| format!("({} {ID})?", lark.text(end)));
        let between = format!("{} {}", ids.collect::<String>(), lark.text(mark));
        let named = self.of_tools(lark, |lark, tool, schema| {
            let arguments = lark.shared_rule(&json_rule(schema));
            format!("{} {between} {arguments}", quoted(&tool.name))
        });
        if is_always_named(form, control) {
            return named;
        }
        let space = json_space();
        let member = |name: &str| format!("{} {space} \":\"", quoted(&format!("\"{name}\"")));
        let call = self.begun_json(lark, false);
        let id = lark.rule(&json_rule(&json!({"type": "string"})));
        let id = format!("({space} \",\" {space} {} {space} {id})?", member("id"));
        let call = lark
            .rule(&format!("{space} \"{{\" {space} {} {call}{id} {space} \"}}\"", member("name")));
        let more = self.more(&format!("{space} \",\" {call}"));
        let either = lark.any_of(&[format!("\"[\" {call}{more} {space} \"]\""), named]);
        format!("{SPACE} {either}")
    }
}

fn json_space() -> String {
    format!("/({JSON_SPACE})?/")
}
