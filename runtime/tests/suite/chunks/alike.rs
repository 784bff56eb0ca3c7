//! On llama.cpp, with the bundled model: how like exact answers those over moved KV are. Four texts that were read in
//! another order. Their heads tell what is asked for: KV further back differs less by what is before it.

use std::sync::Arc;

use hob_runtime::likeness::{Likeness, Measured};
use hob_runtime::{Model, TurnRequest};
use hob_slots::content::Repair;
use hob_slots::content::repair::SHORT_HEAD;

use crate::support::*;

const CODES: [(&str, u32); 4] =
    [("Oslo", 48_213), ("Lima", 90_417), ("Cairo", 35_582), ("Quito", 71_906)];

const SENTENCES: [&str; 8] = [
    "The mayor opened the wooden gate at dusk. A baker followed the late ferry before noon.",
    "My neighbor painted seven old boats after the rain. The school closed an iron fence on a cold day.",
    "A painter crossed the frozen lake late at night. The museum found a box of apples at dusk.",
    "The river reached the green hills in early spring. A farmer carried the last letter every summer.",
    "The harbor watched many small houses for many years. The market visited a narrow street before noon.",
    "The library repaired a bright lantern during the fair. A small boat crowded the tall grass at dusk.",
    "The clock tower closed the empty hall in the morning. The old bridge painted the quiet square at dusk.",
    "A farmer watched the wooden gate on a cold day. The mayor found an iron fence after the rain.",
];

/// Long enough that it has the first 32 tokens of a block, by which it is found.
fn text(number: usize) -> String {
    let (city, code) = CODES[number];
    let [one, two, three, four] =
        [0, 1, 3, 6].map(|behind| SENTENCES[(2 * number + behind) % SENTENCES.len()]);
    format!(
        "<|im_start|>user\nRead this. The secret code of {city} is {code}. {one} {two} {three} {four}<|im_end|>\n\
         <|im_start|>assistant\nI read it.<|im_end|>\n"
    )
}

fn asked(model: &Arc<dyn Model>, order: [usize; 4], question: &str) -> TurnRequest {
    let read: String = order.map(text).concat();
    let question = user(question);
    TurnRequest::answer(None, tokens(model, &format!("{read}{question}")), 12)
}

/// The likeness of the answers over each of these repairs, all together.
fn compared<const REPAIRS: usize>(repairs: [Repair; REPAIRS]) -> [Likeness; REPAIRS] {
    let model = load("hob-tiny-f16.gguf");
    let tiers = OnDisk::new(&model);
    let first = asked(&model, [0, 1, 2, 3], "Hello.").prompt;
    ask(&tiers.engine, request("first", &first, 1));
    settle(&tiers.engine);
    let mut sums = [Likeness::default(); REPAIRS];
    for (city, _) in CODES {
        let question = format!("What is the secret code of {city}?");
        let asked = asked(&model, [3, 2, 1, 0], &question);
        let exact = block_on(Measured::exactly(&tiers.engine, &asked)).unwrap();
        for (sum, repair) in sums.iter_mut().zip(repairs) {
            let beside = exact.beside_moved(&tiers.engine, &asked, name("beside"), repair);
            sum.add(&block_on(beside).unwrap());
        }
    }
    sums
}

#[test]
fn answers_over_repaired_kv_are_liker_to_exact_ones_than_over_kv_that_is_not_repaired() {
    let [none, repaired] = compared([Repair::None, Repair::HeadByLength]);
    assert_eq!((none.tokens.repaired, repaired.tokens.repaired), (0, 4 * 4 * SHORT_HEAD));
    assert!(none.tokens.moved > repaired.tokens.moved, "{none:?} {repaired:?}");
    let [none, repaired] = [none, repaired].map(|sum| sum.mean_divergence());
    assert!(repaired * 20.0 < none, "{repaired} repaired, {none} not");
}

/// The first text of the source is the last one of the prompt, right before the question.
#[test]
fn answers_are_liker_to_exact_ones_where_the_short_text_that_was_read_first_is_computed() {
    let [heads, default] = compared([Repair::HeadByLength, Repair::default()]);
    let counts = [heads.tokens.repaired, default.tokens.repaired];
    assert_eq!(counts, [4 * 4 * SHORT_HEAD, 4 * 3 * SHORT_HEAD]);
    let less = heads.tokens.moved - default.tokens.moved;
    assert_eq!(default.tokens.computed - heads.tokens.computed, less, "{default:?} {heads:?}");
    let [heads, default] = [heads, default].map(|sum| sum.mean_divergence());
    assert!(default < heads, "{default} with the text computed, {heads} with its head");
}

#[test]
fn a_head_grows_where_its_last_tokens_differ_by_more_than_the_strategy_allows() {
    let repairs = [Repair::HeadByLength, Repair::HeadGrowing(4096), Repair::HeadGrowing(1)];
    let [head, never, often] = compared(repairs);
    let counts = |sum: &Likeness| (sum.tokens.moved, sum.tokens.repaired);
    assert_eq!(counts(&never), counts(&head), "nothing differs by 41 times its length");
    assert!(often.tokens.repaired > head.tokens.repaired, "{often:?} {head:?}");
    let all = |sum: &Likeness| sum.tokens.moved + sum.tokens.repaired;
    assert_eq!(all(&often), all(&head), "each token is moved or computed once");
    let [head, often] = [head, often].map(|sum| sum.mean_divergence());
    assert!(often < head, "{often} where it grows, {head} where it does not");
}

#[test]
fn the_most_deviating_tokens_of_a_chunk_are_computed_anew_where_the_strategy_chooses_them() {
    let repairs = [Repair::Selective(15), Repair::HeadAndSelective(15), Repair::HeadByLength];
    let [chosen, behind_heads, heads] = compared(repairs);
    // Of each chunk 15 in 100, rounded up.
    let all = chosen.tokens.moved + chosen.tokens.repaired;
    let part = chosen.tokens.repaired as f64 / all as f64;
    assert!((0.15..0.17).contains(&part), "{chosen:?}");
    let behind = heads.tokens.moved as f64;
    let part = (behind_heads.tokens.repaired - heads.tokens.repaired) as f64 / behind;
    assert!((0.15..0.18).contains(&part), "{behind_heads:?} {heads:?}");
}
