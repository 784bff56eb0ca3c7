//! Text that a prompt has at another place than before: time to the first token and likeness to the exact
//! answer, by each strategy of repair, against computing it exactly, in one run.
//!
//! - Documents in another order, a text in front of known ones, and files that an agent reads again in other
//!   orders. One conversation has read the documents; every arm is a new one.
//! - Two engines: what the exact one computes is no source or beginning of the others.
//! - Time is measured on random weights in the shape of Qwen2.5-0.5B, whose answers say nothing. Likeness is
//!   measured on models that were trained, with texts and files that tell values: the exact answer's tokens are
//!   given to each arm, one by one, and its distribution for the next token is compared. What an arm has
//!   computed is forgotten before the next one.
//! - Rounded KV of the lossy tiers is measured in the same way, on conversations that have aged.
//! - KL is that of the exact distribution's likeliest tokens; a token that an arm does not list among its own
//!   likeliest has the probability of its last one.

mod likeness;
mod lossy;
mod pair;
mod readers;
mod replay;
mod server;
mod speed;

use anyhow::Result;
use hob_slots::content::Repair;

use crate::bars::BarFlags;

#[derive(clap::Args)]
pub struct Options {
    /// Documents.
    #[arg(long, default_value_t = 8)]
    documents: usize,
    /// Tokens of each.
    #[arg(long, default_value_t = 512)]
    tokens: usize,
    /// Four documents of 2,000 words, about 2,600 tokens each.
    #[arg(long)]
    long: bool,
    /// Eight documents of 256 to 1,024 tokens.
    #[arg(long, conflicts_with_all = ["documents", "tokens", "long", "published"])]
    mixed: bool,
    /// Four documents of each length of which mistral.rs' prototype has published figures.
    #[arg(long)]
    published: bool,
    /// Measure this many rewritten prompts of the trace instead, and those that take longest.
    #[arg(long, default_value_t = 0)]
    compactions: usize,
    /// Of these, measure those alone whose prompt is not longer than before.
    #[arg(long, requires = "compactions")]
    not_longer: bool,
    /// Tokens that stand for a block of 64 of the trace.
    #[arg(long, default_value_t = 2)]
    block_tokens: usize,
    /// Measure the speed of the case alone whose name begins so.
    #[arg(long)]
    case: Option<String>,
    /// Compare these strategies alone, such as `head:48`.
    #[arg(long, value_delimiter = ',')]
    strategies: Vec<Repair>,
    /// Measure the speed of this model without bars: a shape such as `llama-3.1-8b`, a path, or a name;
    /// otherwise random weights in the shape of Qwen2.5-0.5B.
    #[arg(long, value_name = "SHAPE|PATH|NAME")]
    model: Option<String>,
    /// Rounds; each time is the median of as many samples.
    #[arg(long, default_value_t = 1)]
    rounds: usize,
    /// Measure likeness on these models, paths or names; `none` for no model.
    #[arg(long, value_name = "PATH|NAME", value_delimiter = ',',
          default_values_t = ["bundled".to_owned()])]
    likeness: Vec<String>,
    /// Readers of other documents each, on whose answers likeness is measured.
    #[arg(long, default_value_t = 8)]
    readers: usize,
    /// Measure likeness on the texts of this number alone: 0 to 5, of which 5 are eight documents of 256 to 1,024
    /// tokens, for models of long prompts.
    #[arg(long)]
    texts: Option<usize>,
    /// Begin each answer in the words of the text that tells it: a model that was not trained for the
    /// questions of these texts continues them.
    #[arg(long)]
    begun: bool,
    /// Put this many sentences of instructions in front of the documents, as a chat has.
    #[arg(long, default_value_t = 0)]
    instructions: usize,
    /// Measure likeness alone.
    #[arg(long)]
    no_speed: bool,
    /// Measure likeness over rounded KV alone: of the lossy tiers.
    #[arg(long)]
    lossy: bool,
    /// Compute threads of the speed. One: ratios hold beside other programs, which make several wait for each
    /// other.
    #[arg(long)]
    threads: Option<usize>,
    #[command(flatten)]
    bars: BarFlags,
}

/// Documents, and the bar of the default strategy where they are reversed.
struct Shape {
    /// Tokens of each, in the order in which they are read.
    lengths: Vec<usize>,
    bar: Option<f64>,
    /// How many times sooner a prototype without repair was.
    published: Option<f64>,
}

/// Words of a document, and how many times sooner the first token was (p50, issue 1936 of mistral.rs).
const PUBLISHED: [(usize, f64); 6] =
    [(10, 2.35), (50, 5.59), (200, 17.62), (500, 35.48), (1000, 66.89), (2000, 120.24)];

/// A question, in tokens.
const QUESTION: usize = 24;

/// Minimum speed-up of the default strategy where a summary takes the place of half of them.
const COMPACTED_BAR: f64 = 5.0;

/// Minimum where nothing can be reused.
const NEW_BAR: f64 = 0.95;

/// Minimum agreement of the default strategy with the exact answer's likeliest tokens.
const AGREEMENT_BAR: f64 = 0.98;

/// Minimum of the facts of exact answers that those of the default strategy tell.
const RECALL_BAR: f64 = 0.97;

/// Without repair, the divergence is this many times that of the default strategy: else the test is too easy.
const NONE_BAR: f64 = 2.0;

/// Each strategy, and how tables name it.
const ARMS: [(&str, Repair); 19] = [
    ("none", Repair::None),
    ("head by length, all of what saw nothing (255)", Repair::HeadBySeen(255)),
    ("head by length", Repair::HeadByLength),
    ("sinks (4)", Repair::Sinks),
    ("boundary (16)", Repair::Boundary(16)),
    ("head (16)", Repair::Head(16)),
    ("head (24)", Repair::Head(24)),
    ("head (32)", Repair::Head(32)),
    ("head (36)", Repair::Head(36)),
    ("head (40)", Repair::Head(40)),
    ("head (48)", Repair::Head(48)),
    ("head (64)", Repair::Head(64)),
    ("head by move (16, 48)", Repair::HeadByMove { nearer: 16, further: 48 }),
    ("head (64) of short chunks", Repair::HeadOfShort(64)),
    ("head of long chunks alone (256)", Repair::HeadOfLong(256)),
    ("head, grows above 20 %", Repair::HeadGrowing(20)),
    ("selective (15 %)", Repair::Selective(15)),
    ("head, selective (15 %)", Repair::HeadAndSelective(15)),
    ("full", Repair::Full),
];

/// A prompt of documents in another order than that in which they were read.
struct Case {
    name: &'static str,
    order: Vec<Part>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    /// The document of this number.
    Known(usize),
    /// A text that was never read: a document's mean length divided by this.
    New(usize),
    /// A few tokens that were never read.
    Call,
}

fn cases(documents: usize) -> Vec<Case> {
    let known = |order: Vec<usize>| order.into_iter().map(Part::Known).collect::<Vec<_>>();
    let all = || (0..documents).collect::<Vec<_>>();
    let evens = all().into_iter().step_by(2);
    let evens_first: Vec<usize> = evens.chain(all().into_iter().skip(1).step_by(2)).collect();
    let agent =
        evens_first.iter().rev().flat_map(|number| [Part::Call, Part::Known(*number)]).collect();
    let behind = |first: Part, rest: Vec<usize>| [vec![first], known(rest)].concat();
    vec![
        Case { name: "reversed", order: known(all().into_iter().rev().collect()) },
        Case { name: "others first", order: known(evens_first) },
        Case { name: "files in another order, a call before each", order: agent },
        Case { name: "text in front", order: behind(Part::New(1), all()) },
        Case {
            name: "compacted: a summary for the first half",
            order: behind(Part::New(2), (documents / 2..documents).collect()),
        },
    ]
}

/// The repairs that are compared, and how tables name them.
fn arms(options: &Options) -> Vec<(String, Repair)> {
    if options.strategies.is_empty() {
        return ARMS.iter().map(|(name, repair)| ((*name).to_owned(), *repair)).collect();
    }
    options.strategies.iter().map(|repair| (repair.to_string(), *repair)).collect()
}

fn is_default(repair: Repair) -> bool {
    repair == Repair::default()
}

pub fn run(options: &Options) -> Result<()> {
    let mut missed = Vec::new();
    if options.compactions > 0 {
        missed.extend(replay::run(options)?);
    } else if !options.no_speed && !options.lossy {
        missed.extend(speed::run(options)?);
    }
    for name in options.likeness.iter().filter(|name| *name != "none") {
        if !options.lossy {
            missed.extend(likeness::run(name, options)?);
        }
        if options.lossy || options.texts.is_none() {
            missed.extend(lossy::run(name, options)?);
        }
    }
    options.bars.check_on(options.model.as_deref(), &missed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_strategy_is_measured_once() {
        let default = ARMS.iter().filter(|(_, repair)| is_default(*repair));
        assert_eq!(default.count(), 1);
    }
}
