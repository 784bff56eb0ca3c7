//! The chat template that llama.cpp gives by name alone, in Jinja.
//!
//! - For a file of Mistral's without a template, with the vocabulary Tekken and 40 layers (Small 2503, Nemo),
//!   `llama_model_chat_template` returns a name in place of a template.

const NAME: &str = "mistral-v7-tekken";

/// As llama.cpp's `llm_chat_apply_template` writes it.
const MISTRAL_V7_TEKKEN: &str = "{{ bos_token }}{% for message in messages %}\
    {% if message.role == 'system' %}[SYSTEM_PROMPT]{{ message.content }}[/SYSTEM_PROMPT]\
    {% elif message.role == 'user' %}[INST]{{ message.content }}[/INST]\
    {% else %}{{ message.content }}{{ eos_token }}{% endif %}{% endfor %}";

/// The template for what llama.cpp has returned.
pub(super) fn in_jinja(returned: String) -> String {
    if returned == NAME { MISTRAL_V7_TEKKEN.to_owned() } else { returned }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};

    use super::*;
    use crate::template::{ChatTemplate, RenderInput};

    #[test]
    fn the_template_that_is_a_name_writes_the_messages() {
        let said = |role: &str, content: &str| json!({"role": role, "content": content});
        let messages = [
            said("system", "Be brief."),
            said("user", "Hi"),
            said("assistant", "Hello"),
            said("user", "Bye"),
        ];
        let input = RenderInput {
            messages: &messages,
            tools: None,
            add_generation_prompt: true,
            extra: &Map::new(),
        };
        let template = ChatTemplate::new(&in_jinja(NAME.to_owned()), "<s>", "</s>").unwrap();
        assert_eq!(
            template.render(&input).unwrap(),
            "<s>[SYSTEM_PROMPT]Be brief.[/SYSTEM_PROMPT][INST]Hi[/INST]Hello</s>[INST]Bye[/INST]"
        );
        assert_eq!(in_jinja("{{ messages }}".to_owned()), "{{ messages }}");
    }
}
