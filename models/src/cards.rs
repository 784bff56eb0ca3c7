//! The sampling parameters that authors recommend for their models, on a model's card or in its
//! `generation_config.json`. They count for a file that recommends none itself.
//!
//! - Data, and a search in it: a header in, entries out.
//! - A model is found by the names in its file's header, `general.name` first, then `general.basename` with size,
//!   variant and version. The file's name counts only if the header has none of them: files are renamed.
//! - A name begins with the words of its row, and the architecture is one of the row's. A fine-tuned model that is
//!   named after its origin has the origin's parameters.
//! - A model without a chat template has none: authors recommend them for chats.
//! - A row has what its source says and nothing else. A model whose source has no number has no row: Ministral 3
//!   ("below 0.1"), Granite.

use crate::gguf::Header;
use crate::sampling::SamplingEntry;

/// What the authors of a model, or of a family of models, recommend.
struct Card {
    /// llama.cpp's names.
    architectures: &'static [&'static str],
    /// How the model's name begins, in words of lower case and [`SIZE`]: one of these ways.
    begins: &'static [&'static [&'static str]],
    /// Words that the name has, too.
    has: &'static [&'static str],
    /// Words of members of the family for which the row does not hold.
    lacks: &'static [&'static str],
    /// By the names in a request.
    parameters: &'static [(&'static str, f64)],
}

/// A word such as `8b` or `135m`.
const SIZE: &str = "a size";

const NO_WORDS: Card =
    Card { architectures: &[], begins: &[], has: &[], lacks: &[], parameters: &[] };

/// The first row that holds for a model counts. A model that thinks by default has the parameters of thinking.
static CARDS: &[Card] = &[
    // The example on https://huggingface.co/HuggingFaceTB/SmolLM2-135M-Instruct, which the card has in place of a
    // recommendation. A model of this size writes no sentence at temperature 1.
    Card {
        architectures: &["llama"],
        begins: &[&["smollm2", SIZE]],
        parameters: &[("temperature", 0.2), ("top_p", 0.9)],
        ..NO_WORDS
    },
    // "We recommend setting": https://huggingface.co/HuggingFaceTB/SmolLM3-3B
    Card {
        architectures: &["smollm3"],
        begins: &[&["smollm3", SIZE]],
        parameters: &[("temperature", 0.6), ("top_p", 0.95)],
        ..NO_WORDS
    },
    // "Best Practices": https://huggingface.co/Qwen/Qwen3-Coder-480B-A35B-Instruct
    // Qwen3-Coder-Next is of another architecture, and its card differs.
    Card {
        architectures: &["qwen3moe"],
        begins: &[&["qwen3", "coder"]],
        parameters: QWEN_INSTRUCT,
        ..NO_WORDS
    },
    // "Best Practices": https://huggingface.co/Qwen/Qwen3-4B-Instruct-2507, which does not think.
    Card {
        architectures: &["qwen3", "qwen3moe"],
        begins: &[&["qwen3", SIZE]],
        has: &["instruct"],
        parameters: &[("temperature", 0.7), ("top_p", 0.8), ("top_k", 20.0), ("min_p", 0.0)],
        ..NO_WORDS
    },
    // "Best Practices", thinking: https://huggingface.co/Qwen/Qwen3-8B
    Card {
        architectures: &["qwen3", "qwen3moe"],
        begins: &[&["qwen3", SIZE]],
        parameters: &[("temperature", 0.6), ("top_p", 0.95), ("top_k", 20.0), ("min_p", 0.0)],
        ..NO_WORDS
    },
    // generation_config.json of https://huggingface.co/Qwen/Qwen2.5-7B-Instruct, and of the two others. Further
    // sizes have other penalties, such as 1.1 (Coder 7B).
    Card {
        architectures: &["qwen2"],
        begins: &[&["qwen2.5", "7b"], &["qwen2.5", "72b"], &["qwen2.5", "coder", "32b"]],
        has: &["instruct"],
        parameters: QWEN_INSTRUCT,
        ..NO_WORDS
    },
    // "Recommended Sampling Parameters": https://github.com/openai/gpt-oss
    Card {
        architectures: &["gpt-oss"],
        begins: &[&["gpt", "oss"]],
        parameters: &[("temperature", 1.0), ("top_p", 1.0)],
        ..NO_WORDS
    },
    // "According to the Gemma team", for 3 and 3n: https://unsloth.ai/docs/models/tutorials/gemma-3-how-to-run-and-fine-tune
    // "Use the following standardized sampling configuration": https://huggingface.co/google/gemma-4-31B-it
    Card {
        architectures: &["gemma3", "gemma3n", "gemma4"],
        begins: &[&["gemma", "3"], &["gemma", "3n"], &["gemma", "4"]],
        has: &["it"],
        parameters: &[("temperature", 1.0), ("top_k", 64.0), ("top_p", 0.95)],
        ..NO_WORDS
    },
    // The defaults of the authors' service, here and in the next row: https://docs.z.ai/api-reference/llm/chat-completion
    Card {
        architectures: &["glm4moe"],
        begins: &[&["glm", "4.5"]],
        parameters: &[("temperature", 0.6), ("top_p", 0.95)],
        ..NO_WORDS
    },
    Card {
        architectures: &["glm4moe"],
        begins: &[&["glm", "4.6"], &["glm", "4.7"]],
        parameters: &[("temperature", 1.0), ("top_p", 0.95)],
        ..NO_WORDS
    },
    // "Recommended Settings" of text models, here and in the next row:
    // https://docs.liquid.ai/docs/key-concepts/text-generation-and-prompting
    Card {
        architectures: &["lfm2", "lfm2moe"],
        begins: &[&["lfm2", SIZE]],
        lacks: LFM2_OF_ONE_TASK,
        parameters: &[("temperature", 0.3), ("min_p", 0.15), ("repeat_penalty", 1.05)],
        ..NO_WORDS
    },
    Card {
        architectures: &["lfm2", "lfm2moe"],
        begins: &[&["lfm2.5", SIZE]],
        has: &["instruct"],
        parameters: &[
            ("temperature", 0.1),
            ("top_k", 50.0),
            ("top_p", 0.1),
            ("repeat_penalty", 1.05),
        ],
        ..NO_WORDS
    },
    // "We recommend using a relatively low temperature, such as", Small 3 and its successors:
    // https://huggingface.co/mistralai/Mistral-Small-24B-Instruct-2501
    Card {
        architectures: &["llama", "mistral3"],
        begins: &[&["mistral", "small"]],
        has: &["24b", "instruct"],
        parameters: &[("temperature", 0.15)],
        ..NO_WORDS
    },
    // "We recommend to use a temperature of 0.3": https://huggingface.co/mistralai/Mistral-Nemo-Instruct-2407
    Card {
        architectures: &["llama"],
        begins: &[&["mistral", "nemo"]],
        has: &["instruct"],
        parameters: &[("temperature", 0.3)],
        ..NO_WORDS
    },
    // "Usage Recommendations" of the series, the distilled models too; their cards add top_p:
    // https://huggingface.co/deepseek-ai/DeepSeek-R1-Distill-Qwen-7B
    Card {
        architectures: &["deepseek2", "llama", "qwen2", "qwen3"],
        begins: &[&["deepseek", "r1"]],
        parameters: &[("temperature", 0.6), ("top_p", 0.95)],
        ..NO_WORDS
    },
    // generation_config.json of https://huggingface.co/meta-llama/Llama-3.1-8B-Instruct, and of the three others.
    Card {
        architectures: &["llama"],
        begins: &[&["llama", "3"], &["llama", "3.1"], &["llama", "3.2"], &["llama", "3.3"]],
        has: &["instruct"],
        parameters: &[("temperature", 0.6), ("top_p", 0.9)],
        ..NO_WORDS
    },
];

const QWEN_INSTRUCT: &[(&str, f64)] =
    &[("temperature", 0.7), ("top_p", 0.8), ("top_k", 20.0), ("repeat_penalty", 1.05)];

/// LFM2's models for one task have cards of their own, which recommend greedy decoding, for example.
const LFM2_OF_ONE_TASK: &[&str] =
    &["colbert", "enjp", "extract", "math", "pii", "rag", "tool", "transcript"];

/// Members of families that do not chat.
const OTHER_USES: [&str; 2] = ["base", "pt"];

/// A publisher in front of a name, as in `Meta Llama 3.1 8B Instruct`.
const PUBLISHERS: [&str; 4] = ["google", "meta", "mistralai", "openai"];

impl Card {
    fn holds_for(&self, architecture: &str, name: &[String]) -> bool {
        let is = |wanted: &str, word: &str| wanted == word || (wanted == SIZE && is_size(word));
        let begins = |words: &&[&str]| {
            words.len() <= name.len()
                && words.iter().zip(name).all(|(wanted, word)| is(wanted, word))
        };
        let has = |wanted: &&str| name.iter().any(|word| word == wanted);
        self.architectures.contains(&architecture)
            && self.begins.iter().any(begins)
            && self.has.iter().all(has)
            && !self.lacks.iter().any(has)
    }

    fn entries(&self) -> Vec<SamplingEntry> {
        let entry = |&(parameter, value): &(&str, f64)| SamplingEntry::of(parameter, value);
        self.parameters.iter().map(entry).collect()
    }
}

/// What the authors of the file's model recommend, as if the file had these entries. `stem`: the file's name
/// without its extension.
pub(crate) fn sampling_of(header: &Header, stem: &str) -> Vec<SamplingEntry> {
    let names = names(header, stem);
    let has_other_use = names.iter().flatten().any(|word| OTHER_USES.contains(&word.as_str()));
    if has_other_use || header.text("tokenizer.chat_template").is_none() {
        return Vec::new();
    }
    let architecture = header.text("general.architecture").unwrap_or_default();
    let card_of = |name: &Vec<String>| CARDS.iter().find(|card| card.holds_for(architecture, name));
    names.iter().find_map(card_of).map(Card::entries).unwrap_or_default()
}

fn is_size(word: &str) -> bool {
    let number = word.strip_suffix(['b', 'm']);
    number.is_some_and(|number| number.parse::<f32>().is_ok())
}

/// The words of each name that the model has, the most trusted name first.
fn names(header: &Header, stem: &str) -> Vec<Vec<String>> {
    let mut names: Vec<_> = header.text("general.name").map(words).into_iter().collect();
    if header.text("general.basename").is_some() {
        let parts = ["basename", "size_label", "finetune", "version"];
        let parts = parts.iter().filter_map(|part| header.text(&format!("general.{part}")));
        names.push(parts.flat_map(words).collect());
    }
    names.retain(|words| !words.is_empty());
    if names.is_empty() {
        names.push(words(stem));
    }
    names
}

/// Words in lower case, without the publisher. A point is part of a word: `Qwen2.5`.
fn words(name: &str) -> Vec<String> {
    let lower = name.to_ascii_lowercase();
    let words = lower.split(|c: char| !c.is_ascii_alphanumeric() && c != '.');
    let words = words.filter(|word| !word.is_empty());
    words.skip_while(|word| PUBLISHERS.contains(word)).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Gguf;

    fn parameters(gguf: &Gguf, stem: &str) -> Vec<(&'static str, f64)> {
        let bytes = gguf.bytes();
        let len = bytes.len() as u64;
        let header = crate::gguf::read(std::io::Cursor::new(bytes), len).unwrap();
        let entries = sampling_of(&header, stem).into_iter();
        entries.map(|entry| (entry.parameter.unwrap(), entry.value.unwrap())).collect()
    }

    fn chat(architecture: &str) -> Gguf {
        Gguf::new(architecture).text("tokenizer.chat_template", "{{ messages }}")
    }

    fn named(architecture: &str, name: &str) -> Vec<(&'static str, f64)> {
        parameters(&chat(architecture).text("general.name", name), "model")
    }

    #[test]
    fn a_model_has_the_parameters_of_its_card() {
        let temperatures = [
            ("smollm3", "SmolLM3 3B", 0.6),
            ("qwen3moe", "Qwen3-Coder-30B-A3B-Instruct", 0.7),
            ("qwen3", "Qwen3 4B Instruct 2507", 0.7),
            ("qwen3", "Qwen3 8B", 0.6),
            ("qwen2", "Qwen2.5 7B Instruct", 0.7),
            ("qwen2", "Qwen2.5 Coder 32B Instruct", 0.7),
            ("gpt-oss", "Gpt Oss 20b", 1.0),
            ("gemma3", "Gemma 3 4b It", 1.0),
            ("gemma3n", "gemma-3n-E4B-it", 1.0),
            ("glm4moe", "GLM 4.5 Air", 0.6),
            ("lfm2", "LFM2 1.2B", 0.3),
            ("lfm2", "LFM2.5 1.2B Instruct", 0.1),
            ("llama", "Mistral Small 3.2 24B Instruct 2506", 0.15),
            ("llama", "Mistral Nemo Instruct 2407", 0.3),
            ("qwen2", "DeepSeek R1 Distill Qwen 7B", 0.6),
            ("llama", "Meta Llama 3.1 8B Instruct", 0.6),
            ("llama", "Llama-3.2-3B-Instruct", 0.6),
        ];
        for (architecture, name, temperature) in temperatures {
            let found = named(architecture, name);
            assert_eq!(found.first(), Some(&("temperature", temperature)), "{name}");
        }
        let coder =
            [("temperature", 0.7), ("top_p", 0.8), ("top_k", 20.0), ("repeat_penalty", 1.05)];
        assert_eq!(named("qwen3moe", "Qwen3 Coder 30B A3B Instruct"), coder);
    }

    #[test]
    fn models_without_a_row_have_none() {
        for (architecture, name) in [
            ("llama", "Hermes 3 Llama 3.1 8B"),
            ("llama", "Qwen3 8B"), // Another architecture than its name says.
            ("qwen3", "qwen3-fixture"), // Of this repository, as `lfm2-fixture`.
            ("lfm2", "lfm2-fixture"),
            ("qwen3", "Qwen3 8B Base"),
            ("qwen3", "Qwen3 Embedding 0.6B"),
            ("qwen3next", "Qwen3 Coder Next"),
            ("qwen2", "Qwen2.5 Coder 7B Instruct"),
            ("gemma3", "Gemma 3 4b Pt"),
            ("lfm2", "LFM2 1.2B Tool"),
            ("llama", "Mistral Small Instruct 2409"),
            ("llama", "Qwen2.5"),
        ] {
            assert_eq!(named(architecture, name), [], "{name}");
        }
        let without_template = Gguf::new("qwen3").text("general.name", "Qwen3 8B");
        assert_eq!(parameters(&without_template, "model"), []);
    }

    #[test]
    fn the_header_names_the_model_and_the_file_name_only_where_it_does_not() {
        let smollm2 = [("temperature", 0.2), ("top_p", 0.9)];
        // As Hob's copy of SmolLM2-135M-Instruct has it.
        let gguf = chat("llama")
            .text("general.name", "Smollm2 135M 8k Lc100K Mix1 Ep2")
            .text("general.basename", "smollm2")
            .text("general.size_label", "135M")
            .text("general.finetune", "8k-lc100k-mix1-ep2");
        assert_eq!(parameters(&gguf, "renamed"), smollm2);
        let based =
            chat("llama").text("general.name", "Export 7").text("general.basename", "smollm2");
        let based = based.text("general.size_label", "135M");
        assert_eq!(parameters(&based, "renamed"), smollm2);
        assert_eq!(parameters(&chat("llama"), "SmolLM2-135M-Instruct.Q4_1"), smollm2);
        let other = chat("llama").text("general.name", "Tiny");
        assert_eq!(parameters(&other, "SmolLM2-135M-Instruct.Q4_1"), []);
    }

    #[test]
    fn each_row_has_parameters_in_their_ranges() {
        for card in CARDS {
            assert!(!card.architectures.is_empty() && !card.parameters.is_empty());
            for entry in card.entries() {
                let range = match entry.parameter.unwrap() {
                    "temperature" => 0.0..=2.0,
                    "top_p" | "min_p" => 0.0..=1.0,
                    "top_k" => 1.0..=1000.0,
                    "repeat_penalty" => 1.0..=1.2,
                    other => panic!("a file has no {other}"),
                };
                assert!(range.contains(&entry.value.unwrap()), "{:?} {entry:?}", card.begins);
            }
        }
    }
}
