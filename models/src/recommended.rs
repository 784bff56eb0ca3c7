//! Models for a first chat: what each takes, where it is published, and which of them suit a machine.
//!
//! - Data and arithmetic: this crate downloads nothing. The size of the file that Hob fetches is exact,
//!   those of the others have the three digits that their pages show.

use serde::Serialize;

use crate::context::ChosenContext;
use crate::fit::{Estimate, Verdict};
use crate::published::{Published, SMOLLM2};

#[derive(Debug)]
pub struct Recommended {
    pub title: &'static str,
    pub licence: &'static str,
    /// The page that has the file.
    pub page: &'static str,
    pub file_name: &'static str,
    pub file_bytes: u64,
    /// KV of one token of context, as f16.
    pub kv_bytes_per_token: u64,
    pub trained_context: u64,
}

const GB: u64 = 1_000_000_000;

/// Ascending in size. All chat, and their licences allow every use.
const RECOMMENDED: [Recommended; 6] = [
    Recommended {
        title: "SmolLM2 135M Instruct",
        licence: SMOLLM2.licence,
        page: SMOLLM2.card,
        file_name: SMOLLM2.file_name,
        file_bytes: SMOLLM2.file_bytes,
        kv_bytes_per_token: 23_040,
        trained_context: 8_192,
    },
    Recommended {
        title: "Qwen2.5 0.5B Instruct",
        licence: "Apache-2.0",
        page: "https://huggingface.co/lmstudio-community/Qwen2.5-0.5B-Instruct-GGUF",
        file_name: "Qwen2.5-0.5B-Instruct-Q4_K_M.gguf",
        file_bytes: GB * 398 / 1000,
        kv_bytes_per_token: 12_288,
        trained_context: 32_768,
    },
    Recommended {
        title: "Qwen2.5 1.5B Instruct",
        licence: "Apache-2.0",
        page: "https://huggingface.co/lmstudio-community/Qwen2.5-1.5B-Instruct-GGUF",
        file_name: "Qwen2.5-1.5B-Instruct-Q4_K_M.gguf",
        file_bytes: GB * 986 / 1000,
        kv_bytes_per_token: 28_672,
        trained_context: 32_768,
    },
    Recommended {
        title: "Qwen3 4B Instruct",
        licence: "Apache-2.0",
        page: "https://huggingface.co/lmstudio-community/Qwen3-4B-Instruct-2507-GGUF",
        file_name: "Qwen3-4B-Instruct-2507-Q4_K_M.gguf",
        file_bytes: GB * 250 / 100,
        kv_bytes_per_token: 147_456,
        trained_context: 262_144,
    },
    Recommended {
        title: "Qwen2.5 7B Instruct",
        licence: "Apache-2.0",
        page: "https://huggingface.co/lmstudio-community/Qwen2.5-7B-Instruct-GGUF",
        file_name: "Qwen2.5-7B-Instruct-Q4_K_M.gguf",
        file_bytes: GB * 468 / 100,
        kv_bytes_per_token: 57_344,
        trained_context: 32_768,
    },
    Recommended {
        title: "Qwen2.5 14B Instruct",
        licence: "Apache-2.0",
        page: "https://huggingface.co/lmstudio-community/Qwen2.5-14B-Instruct-GGUF",
        file_name: "Qwen2.5-14B-Instruct-Q4_K_M.gguf",
        file_bytes: GB * 899 / 100,
        kv_bytes_per_token: 196_608,
        trained_context: 32_768,
    },
];

/// Slower answers come slower than most people read.
const READING_TOKENS_PER_SECOND: f64 = 6.0;

const SHOWN: usize = 3;

/// A recommended model on this machine.
#[derive(Debug, Serialize)]
pub struct Suggestion {
    pub title: &'static str,
    pub licence: &'static str,
    pub page: &'static str,
    pub file_name: &'static str,
    pub size_bytes: u64,
    /// The context that it would run with.
    pub ctx: u64,
    pub kv_bytes: u64,
    pub trained_context: u64,
    pub verdict: Verdict,
    /// Estimated: each token reads all weights once.
    pub tokens_per_second: f64,
}

/// The smallest model, which Hob can fetch, and the two largest that fit into `free_bytes` with their
/// context and answer as fast as people read; where there are fewer, larger ones that fit. Ascending in
/// size. `ctx`: the tokens of each context; `None`: chosen for each model. `bytes_per_second`: how fast
/// this machine reads weights. `published`: what stands for the smallest one.
pub fn suggestions(
    free_bytes: u64,
    ctx: Option<u64>,
    bytes_per_second: f64,
    published: &'static Published,
) -> Vec<Suggestion> {
    let all = RECOMMENDED.iter().map(|model| {
        let is_smallest = model.file_name == SMOLLM2.file_name;
        let (file_name, size_bytes) = if is_smallest {
            (published.file_name, published.file_bytes)
        } else {
            (model.file_name, model.file_bytes)
        };
        let kv_bytes_per_token = model.kv_bytes_per_token;
        let weights = Estimate { weights_bytes: size_bytes, kv_bytes: 0, kv_bytes_per_token };
        let trained = model.trained_context;
        let chosen = || ChosenContext::of_plain(&weights, trained, free_bytes).tokens;
        let ctx = ctx.unwrap_or_else(chosen).min(trained);
        let kv_bytes = kv_bytes_per_token * ctx;
        let estimate = Estimate { kv_bytes, ..weights };
        Suggestion {
            title: model.title,
            licence: model.licence,
            page: model.page,
            file_name,
            size_bytes,
            ctx,
            kv_bytes,
            trained_context: model.trained_context,
            verdict: estimate.verdict(free_bytes),
            tokens_per_second: bytes_per_second / size_bytes as f64,
        }
    });
    let mut fitting: Vec<Suggestion> = all.filter(|one| one.verdict != Verdict::TooLarge).collect();
    let is_quick = |one: &Suggestion| one.tokens_per_second >= READING_TOKENS_PER_SECOND;
    let quick = fitting.iter().filter(|one| is_quick(one)).count();
    fitting.truncate(quick.max(SHOWN));
    let surplus = fitting.len().saturating_sub(SHOWN);
    if surplus > 0 {
        fitting.drain(1..=surplus);
    }
    fitting
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn titles(free_bytes: u64, ctx: u64, gb_per_second: f64) -> Vec<&'static str> {
        let found = suggestions(free_bytes, Some(ctx), gb_per_second * 1e9, &SMOLLM2);
        found.into_iter().map(|one| one.title).collect()
    }

    #[test]
    fn the_smallest_and_the_two_largest_that_fit_and_are_quick_are_suggested() {
        let small = "SmolLM2 135M Instruct";
        let large = [small, "Qwen2.5 7B Instruct", "Qwen2.5 14B Instruct"];
        assert_eq!(titles(64 * GIB, 8_192, 100.0), large);
        // Two cores: a larger model fits, but answers below 6 tokens a second.
        assert_eq!(
            titles(64 * GIB, 8_192, 14.0),
            [small, "Qwen2.5 0.5B Instruct", "Qwen2.5 1.5B Instruct"]
        );
        assert_eq!(
            titles(4 * GIB, 8_192, 100.0),
            [small, "Qwen2.5 1.5B Instruct", "Qwen3 4B Instruct"]
        );
        assert_eq!(titles(GIB, 8_192, 100.0), [small, "Qwen2.5 0.5B Instruct"]);
        assert_eq!(titles(64 * GIB, 8_192, 0.1).len(), 3, "even on a slow machine");
    }

    #[test]
    fn a_model_keeps_to_the_context_that_it_was_trained_with() {
        let found = suggestions(64 * GIB, Some(131_072), 14e9, &SMOLLM2);
        assert_eq!(found[0].kv_bytes, 8_192 * 23_040);
        assert!((found[0].tokens_per_second - 14e9 / 98_362_432.0).abs() < 1e-6);
    }

    #[test]
    fn each_model_has_the_context_that_would_be_chosen_for_it() {
        let contexts = |free_bytes| {
            let found = suggestions(free_bytes, None, 100e9, &SMOLLM2);
            found.into_iter().map(|one| (one.title, one.ctx)).collect::<Vec<_>>()
        };
        let (small, large) = (("SmolLM2 135M Instruct", 8_192), "Qwen2.5 14B Instruct");
        assert_eq!(contexts(64 * GIB), [small, ("Qwen2.5 7B Instruct", 32_768), (large, 32_768)]);
        assert_eq!(contexts(16 * GIB), [small, ("Qwen2.5 7B Instruct", 32_768), (large, 8_192)]);
    }

    #[test]
    fn what_is_recommended_is_ascending_in_size() {
        assert!(RECOMMENDED.is_sorted_by_key(|model| model.file_bytes));
    }
}
