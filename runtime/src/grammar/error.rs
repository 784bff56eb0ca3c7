//! Why a grammar cannot be used, in words for the client that sent it.

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GrammarError {
    #[error("{0}")]
    Unsupported(String),
    #[error("this model's chat template has no form for tool calls")]
    NoToolForm,
    #[error("a tool call is required, but no tool is offered")]
    NoTools,
    /// The parser failed in the middle of an answer.
    #[error("the format cannot be followed any further: {0}")]
    Stuck(String),
}

/// llguidance's error in one line, without backtraces and without the excerpt of the grammar, which
/// is in a notation that the client has not written.
pub(super) fn one_line(error: impl std::fmt::Display) -> String {
    let text = error.to_string();
    if text.contains("panic: ") {
        return "its parser failed".to_owned();
    }
    let text = text.rsplit("failed to compile JSON schema: ").next().unwrap_or_default();
    let is_excerpt = |line: &str| {
        let numbered = line.trim_start().trim_start_matches(|c: char| c.is_ascii_digit());
        numbered.starts_with(" | ") || line.starts_with("<backtrace>")
    };
    let lines = text.lines().take_while(|line| !is_excerpt(line));
    let words: Vec<&str> = lines.flat_map(str::split_whitespace).collect();
    words.join(" ").chars().take(300).collect()
}

/// Keywords of JSON Schema. Those that are ordinary words count in quotation marks alone.
const KEYWORDS: [&str; 38] = [
    "$defs",
    "$dynamicRef",
    "$id",
    "$ref",
    "additionalItems",
    "additionalProperties",
    "allOf",
    "anyOf",
    "const",
    "contains",
    "dependentRequired",
    "dependentSchemas",
    "enum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "items",
    "maxContains",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minContains",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "oneOf",
    "pattern",
    "patternProperties",
    "prefixItems",
    "properties",
    "propertyNames",
    "required",
    "type",
    "unevaluatedProperties",
    "uniqueItems",
];
const QUOTED: [&str; 4] = ["else", "if", "not", "then"];

/// llguidance's error about the parameters of a tool, reduced to the keywords of JSON schema in it: the rest quotes
/// the client's tools, whose content reaches no error and no log.
pub(super) fn of_tools(error: impl std::fmt::Display) -> String {
    let text = one_line(error);
    let is_named = |keyword: &&&str| {
        text.split(|c: char| !c.is_alphanumeric() && c != '$').any(|word| word == **keyword)
    };
    let named = KEYWORDS.iter().filter(is_named);
    let quoted = QUOTED.iter().filter(|keyword| text.contains(&format!("\"{keyword}\"")));
    let named: Vec<String> = named.chain(quoted).map(|keyword| format!("`{keyword}`")).collect();
    if named.is_empty() {
        "simplify their schema".to_owned()
    } else {
        format!("look at {}", named.join(", "))
    }
}
