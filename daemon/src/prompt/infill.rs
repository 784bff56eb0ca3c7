//! A prompt for the text between two others, with the marks that the model was trained with.

use hob_runtime::backend::Model;

/// The marks before the prefix, before the suffix, and before what is generated.
struct Marks {
    prefix: &'static str,
    suffix: &'static str,
    middle: &'static str,
}

/// Of Qwen and CodeGemma, StarCoder and Granite, SantaCoder, DeepSeek, GLM, Code Llama.
const MARKS: [Marks; 6] = [
    Marks { prefix: "<|fim_prefix|>", suffix: "<|fim_suffix|>", middle: "<|fim_middle|>" },
    Marks { prefix: "<fim_prefix>", suffix: "<fim_suffix>", middle: "<fim_middle>" },
    Marks { prefix: "<fim-prefix>", suffix: "<fim-suffix>", middle: "<fim-middle>" },
    Marks {
        prefix: "<｜fim▁begin｜>", suffix: "<｜fim▁hole｜>", middle: "<｜fim▁end｜>"
    },
    Marks { prefix: "<|code_prefix|>", suffix: "<|code_suffix|>", middle: "<|code_middle|>" },
    Marks { prefix: "▁<PRE>", suffix: "▁<SUF>", middle: "▁<MID>" },
];

/// `None`: the vocabulary has no such marks.
pub fn infill(model: &dyn Model, prefix: &str, suffix: &str) -> Option<String> {
    let is_token = |mark: &str| model.tokenize(mark, false, true).len() == 1;
    infill_with(is_token, prefix, suffix)
}

fn infill_with(is_token: impl Fn(&str) -> bool, prefix: &str, suffix: &str) -> Option<String> {
    let has_all =
        |marks: &&Marks| [marks.prefix, marks.suffix, marks.middle].into_iter().all(&is_token);
    let marks = MARKS.iter().find(has_all)?;
    Some([marks.prefix, prefix, marks.suffix, suffix, marks.middle].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_marks_are_those_of_the_vocabulary() {
        let starcoder = |mark: &str| mark.starts_with("<fim_");
        let prompt = infill_with(starcoder, "fn a() {", "}");
        assert_eq!(prompt.as_deref(), Some("<fim_prefix>fn a() {<fim_suffix>}<fim_middle>"));
        assert_eq!(
            infill_with(|mark| mark != "<|fim_middle|>" && mark.contains("fim_"), "a", "b"),
            infill_with(starcoder, "a", "b")
        );
        assert_eq!(infill_with(|_| false, "a", "b"), None);
    }
}
