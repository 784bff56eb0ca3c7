//! Finds the tools that a prompt declares, in the template's spelling.

use serde_json::Value;

/// Braces that begin no JSON; the search ends after this many.
const MAX_FAILURES: usize = 1000;

#[derive(Debug, Default)]
pub struct Tools {
    /// The byte at which the first one begins.
    pub start: usize,
    pub list: Vec<Value>,
}

impl Tools {
    /// A tool is an object with a name and a description or parameters.
    pub fn in_text(text: &str) -> Self {
        let mut tools = Self::default();
        let (mut at, mut failures) = (0, 0);
        while failures < MAX_FAILURES
            && let Some(brace) = text[at..].find('{')
        {
            at += brace;
            let mut values = serde_json::Deserializer::from_str(&text[at..]).into_iter::<Value>();
            match values.next() {
                Some(Ok(value)) => {
                    if name(&value).is_some() {
                        tools.start = if tools.list.is_empty() { at } else { tools.start };
                        tools.list.push(value);
                    }
                    at += values.byte_offset();
                }
                _ => {
                    at += 1;
                    failures += 1;
                }
            }
        }
        tools
    }

    /// Ignores the order.
    pub fn same_as(&self, other: &Self) -> bool {
        let mut left: Vec<&Value> = other.list.iter().collect();
        let mut remove = |tool: &Value| {
            let found = left.iter().position(|other| *other == tool);
            found.map(|at| left.swap_remove(at)).is_some()
        };
        self.list.len() == other.list.len() && self.list.iter().all(&mut remove)
    }

    /// The differences by name: `set_light was added`.
    pub fn changes_since(&self, before: &Self) -> Vec<String> {
        let has =
            |tools: &Self, wanted: &Value| tools.list.iter().any(|tool| name(tool) == name(wanted));
        let names = |tools: &Self, say: &str, which: &dyn Fn(&Value) -> bool| -> Vec<String> {
            let names = tools.list.iter().filter(|tool| which(tool)).filter_map(name);
            names.map(|name| format!("{name} {say}")).collect()
        };
        let mut changes = names(self, "was added", &|tool| !has(before, tool));
        changes.extend(names(before, "is missing", &|tool| !has(self, tool)));
        let changed = |tool: &Value| has(before, tool) && !before.list.contains(tool);
        changes.extend(names(self, "changed", &changed));
        changes
    }
}

/// `None` if the value is no declaration of a tool; calls have names, too.
fn name(value: &Value) -> Option<&str> {
    let tool = value.get("function").unwrap_or(value);
    let declares = ["description", "parameters", "input_schema"];
    declares.iter().any(|field| tool.get(field).is_some()).then(|| tool.get("name")?.as_str())?
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIGHT: &str =
        r#"{"type": "function", "function": {"name": "light", "parameters": {"a": 1}}}"#;
    const HEAT: &str = r#"{"name": "heat", "description": "Warms"}"#;

    #[test]
    fn tools_are_found_in_any_text() {
        let text = format!(
            "Use {{these}}:\n<tools>\n{LIGHT}\n{HEAT}\n</tools>\n{{\"name\": \"x\", \"arguments\": {{}}}}"
        );
        let tools = Tools::in_text(&text);
        let names: Vec<_> = tools.list.iter().filter_map(name).collect();
        assert_eq!(names, ["light", "heat"]);
        assert_eq!(tools.start, text.find(LIGHT).unwrap());
        assert_eq!(Tools::in_text(&format!("[{LIGHT}, {HEAT}]")).list.len(), 2);
    }

    #[test]
    fn the_order_of_tools_and_of_their_keys_does_not_matter() {
        let one = Tools::in_text(&format!("{LIGHT}{HEAT}"));
        let other =
            Tools::in_text(&format!(r#"{{"description": "Warms", "name": "heat"}}{LIGHT}"#));
        assert!(one.same_as(&other));
        assert!(!one.same_as(&Tools::in_text(LIGHT)));
        assert!(!Tools::in_text(&format!("{LIGHT}{LIGHT}")).same_as(&one));
    }

    #[test]
    fn changes_are_listed_by_name() {
        let one = Tools::in_text(&format!("{LIGHT}{HEAT}"));
        let other = Tools::in_text(&format!(
            "{}{}",
            HEAT.replace("Warms", "Cools"),
            HEAT.replace("heat", "cool")
        ));
        let changes = other.changes_since(&one);
        assert_eq!(changes, ["cool was added", "light is missing", "heat changed"]);
    }
}
