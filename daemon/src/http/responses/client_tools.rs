//! The client's tools, by the names of the functions that stand for them in the chat.
//!
//! - A chat has no namespaces: a function of one has its name in front of its own.
//! - A chat has no custom tools: a function with the argument `input` stands for one, see [`crate::wire::freeform`],
//!   one with the fields of an action for the local shell, see [`super::local_shell`], and one for the search for
//!   tools, see [`super::tool_search`].
//! - Read from the tools that a response repeats, which are stored with it.

use std::collections::BTreeMap;

use serde_json::Value;

use super::local_shell;
use crate::wire::message::calls_made;

/// The search for tools, which [`super::tool_search`] reads.
pub const SEARCH: &str = "tool_search";

/// What a call and its result are to the client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    #[default]
    Function,
    Custom,
    LocalShell,
    ToolSearch,
}

/// A tool as the client calls it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientTool {
    pub kind: Kind,
    pub name: String,
    pub namespace: Option<String>,
}

/// The client's tools that the chat has under another name.
#[derive(Clone, Debug, Default)]
pub struct ClientTools(BTreeMap<String, ClientTool>);

impl ClientTools {
    /// `tools`: those that a response repeats.
    pub fn of(tools: Option<&Value>) -> Self {
        let mut read = Self::default();
        read.add(tools, None);
        read
    }

    /// The tool that this function stands for.
    pub fn get(&self, function: &str) -> ClientTool {
        let plain = || ClientTool { name: function.to_owned(), ..ClientTool::default() };
        self.0.get(function).cloned().unwrap_or_else(plain)
    }

    /// The kind of each call in these messages, by its id. Calls of functions may be missing.
    pub fn kinds<'m>(&self, messages: impl Iterator<Item = &'m Value>) -> BTreeMap<&'m str, Kind> {
        let calls = messages.flat_map(|message| calls_made(message.get("tool_calls")));
        calls.filter_map(|call| Some((call.id, self.0.get(call.name)?.kind))).collect()
    }

    fn add(&mut self, tools: Option<&Value>, namespace: Option<&str>) {
        for tool in tools.and_then(Value::as_array).into_iter().flatten() {
            let named = tool["name"].as_str().unwrap_or_default();
            let (kind, name) = match (tool["type"].as_str().unwrap_or_default(), namespace) {
                ("namespace", None) => {
                    self.add(tool.get("tools"), Some(named));
                    continue;
                }
                ("function", Some(_)) => (Kind::Function, named),
                ("custom", _) => (Kind::Custom, named),
                (local_shell::NAME, None) => (Kind::LocalShell, local_shell::NAME),
                (SEARCH, None) => (Kind::ToolSearch, SEARCH),
                _ => continue,
            };
            let namespace = namespace.map(str::to_owned);
            let function = function_name(namespace.as_deref(), name);
            self.0.insert(function, ClientTool { kind, name: name.to_owned(), namespace });
        }
    }
}

/// The name of the function that stands for a tool. Some namespaces end with the mark that separates them.
pub fn function_name(namespace: Option<&str>, name: &str) -> String {
    const MARK: &str = "__";
    match namespace {
        Some(namespace) if namespace.ends_with(MARK) => format!("{namespace}{name}"),
        Some(namespace) => format!("{namespace}{MARK}{name}"),
        None => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::wire::message::tool_call;

    #[test]
    fn a_function_of_a_namespace_is_found_by_the_name_that_the_chat_has() {
        let within = json!([{"type": "function", "name": "light"}]);
        let tools = json!([
            {"type": "namespace", "name": "home", "tools": within},
            {"type": "namespace", "name": "mcp__away__", "tools": within},
            {"type": "function", "name": "light"},
        ]);
        let tools = ClientTools::of(Some(&tools));
        for (function, namespace) in [
            ("home__light", Some("home")),
            ("mcp__away__light", Some("mcp__away__")),
            ("light", None),
        ] {
            let expected = ClientTool {
                kind: Kind::Function,
                name: "light".into(),
                namespace: namespace.map(str::to_owned),
            };
            assert_eq!(tools.get(function), expected);
            assert_eq!(function_name(namespace, "light"), function);
        }
        assert_eq!(tools.get("home__other").name, "home__other");
    }

    #[test]
    fn the_kind_of_a_call_is_that_of_its_tool() {
        let within = json!([{"type": "custom", "name": "patch"}]);
        let tools = json!([
            {"type": "custom", "name": "patch"},
            {"type": "namespace", "name": "home", "tools": within},
            {"type": "local_shell"},
        ]);
        let tools = ClientTools::of(Some(&tools));
        let calls = ["patch", "home__patch", "light", "local_shell"]
            .map(|name| tool_call(name, name, "{}"));
        let messages = [json!({"role": "user"}), json!({"role": "assistant", "tool_calls": calls})];
        let kinds = tools.kinds(messages.iter());
        let expected = [
            ("home__patch", Kind::Custom),
            ("local_shell", Kind::LocalShell),
            ("patch", Kind::Custom),
        ];
        assert_eq!(kinds.into_iter().collect::<Vec<_>>(), expected);
    }
}
