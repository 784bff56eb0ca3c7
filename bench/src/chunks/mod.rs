//! Text that a prompt has at another place than before: time to the first token and likeness to the exact
//! answer, by each strategy of repair, against computing it exactly, in one run.
//!
//! - Documents in another order, a text in front of known ones, and files that an agent reads again in other
//!   orders. One conversation has read the documents; every arm is a new one.
//! - Two engines: what the exact one computes is no source or beginning of the others.
//! - Time is measured on random weights in the shape of Qwen2.5-0.5B, whose answers say nothing. Likeness is
//!   measured on models that were trained, with pages of Hob's documentation as documents: the exact answer's
//!   tokens are given to each arm, one by one, and its distribution for the next token is compared.
//! - KL is that of the exact distribution's likeliest tokens; a token that an arm does not list among its own
//!   likeliest has the probability of its last one.

mod likeness;
mod speed;

use anyhow::{Result, ensure};
use hob_runtime::Reuse;
use hob_slots::content::Repair;

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
    /// Rounds; each time is the median of as many samples.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Measure likeness on these models, paths or names; `none` for no model.
    #[arg(long, value_name = "PATH|NAME", value_delimiter = ',',
          default_values_t = ["bundled".to_owned(), "smollm2".to_owned()])]
    likeness: Vec<String>,
    /// Measure likeness alone.
    #[arg(long)]
    no_speed: bool,
    /// Print the figures without failing on a missed bar.
    #[arg(long)]
    no_bars: bool,
}

/// Minimum speed-up of the default strategy, of the documents and of the long ones.
const SPEED_BARS: [f64; 2] = [10.0, 40.0];

/// Minimum agreement of the default strategy.
const AGREEMENT_BAR: f64 = 0.98;

/// Each strategy, and how tables name it.
const ARMS: [(&str, Repair); 7] = [
    ("none", Repair::None),
    ("sinks (4)", Repair::Sinks),
    ("boundary (16)", Repair::Boundary(16)),
    ("head (8)", Repair::Head(8)),
    ("head (16)", Repair::Head(16)),
    ("head (32)", Repair::Head(32)),
    ("full", Repair::Full),
];

/// What is moved: documents by their numbers, in order; a number that no document has is new text.
struct Case {
    name: &'static str,
    order: Vec<usize>,
}

fn cases(documents: usize) -> Vec<Case> {
    let all = || (0..documents).collect::<Vec<_>>();
    let mut turned = all();
    turned.rotate_left(documents / 2);
    let evens = all().into_iter().step_by(2);
    let evens_first: Vec<usize> = evens.chain(all().into_iter().skip(1).step_by(2)).collect();
    vec![
        Case { name: "reversed", order: all().into_iter().rev().collect() },
        Case { name: "turned", order: turned },
        Case { name: "others first", order: evens_first },
        Case { name: "text in front", order: std::iter::once(documents).chain(all()).collect() },
    ]
}

fn is_default(repair: Repair) -> bool {
    repair == Repair::default()
}

fn reuse(repair: Repair) -> Reuse {
    Reuse::Repaired(repair)
}

pub fn run(options: &Options) -> Result<()> {
    let mut missed = Vec::new();
    if !options.no_speed {
        missed.extend(speed::run(options)?);
    }
    for name in options.likeness.iter().filter(|name| *name != "none") {
        missed.extend(likeness::run(name)?);
    }
    ensure!(missed.is_empty() || options.no_bars, "missed: {}", missed.join("; "));
    Ok(())
}
