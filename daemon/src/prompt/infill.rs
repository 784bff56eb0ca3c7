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

/// A file of the same project, which the model reads before the text that it fills in.
pub struct OtherFile {
    pub name: String,
    pub text: String,
}

/// The marks before a project's name and before a file's: of Qwen, of StarCoder and Granite.
const PROJECT_MARKS: [(&str, &str); 3] = [
    ("<|repo_name|>", "<|file_sep|>"),
    ("<repo_name>", "<file_sep>"),
    ("<reponame>", "<filename>"),
];

/// As [`infill`], behind other files, as llama-server writes them.
pub fn infill_beside(
    model: &dyn Model,
    files: &[OtherFile],
    prefix: &str,
    suffix: &str,
) -> Option<String> {
    let is_token = |mark: &str| model.tokenize(mark, false, true).len() == 1;
    Some(files_with(is_token, files) + &infill_with(is_token, prefix, suffix)?)
}

fn files_with(is_token: impl Fn(&str) -> bool, files: &[OtherFile]) -> String {
    if files.is_empty() {
        return String::new();
    }
    let marks = PROJECT_MARKS.iter().find(|(project, file)| is_token(project) && is_token(file));
    let Some((project, mark)) = marks else {
        let texts = files.iter().map(|file| format!("\n\n--- snippet ---\n\n{}", file.text));
        return texts.collect();
    };
    let texts = files.iter().map(|OtherFile { name, text }| format!("{mark}{name}\n{text}"));
    let texts: String = texts.collect();
    format!("{project}myproject\n{texts}{mark}filename\n")
}

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

    #[test]
    fn other_files_stand_in_front_with_the_marks_of_the_vocabulary() {
        let files = [OtherFile { name: "a.h".into(), text: "int a;".into() }];
        let qwen = |mark: &str| mark.contains('|');
        let written = "<|repo_name|>myproject\n<|file_sep|>a.h\nint a;<|file_sep|>filename\n";
        assert_eq!(files_with(qwen, &files), written);
        assert_eq!(files_with(|_| false, &files), "\n\n--- snippet ---\n\nint a;");
        assert_eq!(files_with(qwen, &[]), "");
    }
}
