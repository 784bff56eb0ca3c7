//! Measures Hob's claims, in one run with what they are compared with.
//!
//! - Random weights in the shape of a known model, written once under `target/bench`.
//! - The compared runs are interleaved; a figure is a median.
//! - A benchmark prints each figure beside its bar and fails when a bar is missed.

mod bars;
mod beside;
mod chunks;
mod cold;
mod documents;
mod draft;
mod hobd;
mod http;
mod idle;
mod load;
mod measure;
mod peer;
mod raw;
mod recall;
mod record;
mod render;
mod resume;
mod rows;
mod soak;
mod splice;
mod store;
mod stream;
mod template;
mod threads;
mod ttft;
mod turns;
mod typing;
mod weights;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use hob_models::Roots;
use hob_runtime::Model;
use hob_runtime::backend::{Offload, devices as devices_here};
use weights::Shape;

/// Benchmarks, each beside what it is compared with.
#[derive(Parser)]
#[command(name = "cargo xtask bench")]
struct Args {
    #[command(subcommand)]
    bench: Bench,
}

#[derive(Subcommand)]
enum Bench {
    /// What the cells of idle conversations cost the answer of another one, parked and not.
    Beside(beside::Options),
    /// Text that a prompt has at another place than before: time to first token and likeness to the exact
    /// answer, by each strategy of repair.
    Chunks(chunks::Options),
    /// Time to first token of cold prompts: against llama.cpp alone, several equal ones at once, a
    /// short one behind a long one.
    Cold(cold::Options),
    /// Time to first token of a question about a document that was read before a restart, against the
    /// same question cold; time to list documents.
    Documents(documents::Options),
    /// Tokens a second of an edit of a shown file and of free text, with drafts and without.
    Draft(draft::Options),
    /// Processor time of an idle hobd with warm prefixes; latency of speech start and filler
    /// phrases.
    Idle(idle::Options),
    /// How hobd refuses 200 clients on 4 slots, answers behind 500 slow connections, and ends under that load.
    Load(load::Options),
    /// hobd beside llama-server, which `cargo xtask peer` builds, over HTTP: first tokens, streams, an
    /// agent's day, bytes, what HTTP adds, memory.
    Peer(peer::Options),
    /// How many facts of a conversation a model still finds when the conversation has fewer cells than
    /// tokens, by eviction policy.
    Recall(recall::Options),
    /// Makes the documents' tables and plots of the files that `peer` writes.
    Render(render::Options),
    /// Time to first token: cold, follow-up, after park, after restart; against llama.cpp alone.
    Resume(resume::Options),
    /// The time of a micro-batch by its rows and the cells before it, on llama.cpp alone.
    Rows(rows::Options),
    /// Mixed traffic of many conversations for hours: slopes of memory, descriptors, disk and latency.
    Soak(soak::Options),
    /// Ranges of cells that leave a sequence and come back, against computing them; decode speed with holes.
    Splice(splice::Options),
    /// The cost of saved KV: restore against llama.cpp's own file, stalls, bytes, listings.
    Store(store::Options),
    /// Time to first token after a prewarm, a second boot, speech start and a streamed transcript;
    /// against llama.cpp alone.
    Ttft(ttft::Options),
    /// What it costs to render a chat template in a child process.
    Template(template::Options),
    /// Time from Enter to the first token of a message that was computed while it was typed;
    /// against llama.cpp alone.
    Typing(typing::Options),
    /// Compute threads and their polling, on an idle and on a busy machine.
    Threads(threads::Options),
}

fn main() -> Result<()> {
    match Args::parse().bench {
        Bench::Beside(options) => beside::run(&options),
        Bench::Chunks(options) => chunks::run(&options),
        Bench::Cold(options) => cold::run(&options),
        Bench::Documents(options) => documents::run(&options),
        Bench::Draft(options) => draft::run(&options),
        Bench::Idle(options) => idle::run(&options),
        Bench::Load(options) => load::run(&options),
        Bench::Peer(options) => peer::run(&options),
        Bench::Recall(options) => recall::run(&options),
        Bench::Render(options) => render::run(&options),
        Bench::Resume(options) => resume::run(&options),
        Bench::Rows(options) => rows::run(&options),
        Bench::Soak(options) => soak::run(&options),
        Bench::Splice(options) => splice::run(&options),
        Bench::Store(options) => store::run(&options),
        Bench::Ttft(options) => ttft::run(&options),
        Bench::Template(options) => template::run(&options),
        Bench::Typing(options) => typing::run(&options),
        Bench::Threads(options) => threads::run(&options),
    }
}

#[derive(clap::Args)]
struct SubjectFlags {
    /// Measure this model without bars: a shape such as `qwen2.5-7b`, a path, or `smollm2`; otherwise random
    /// weights in the shape of Qwen2.5-0.5B.
    #[arg(long, value_name = "SHAPE|PATH|NAME")]
    model: Option<String>,
}

/// A model to measure, and how the heading names it.
struct Subject {
    path: PathBuf,
    title: String,
}

impl Subject {
    /// `named`: the name of a shape, a path, or a name among the models that were fetched for the tests;
    /// otherwise the benchmark model.
    fn of(named: Option<&str>) -> Result<Self> {
        let named = named.unwrap_or(Shape::QWEN2_5_0_5B.name);
        if let Some(shape) = Shape::KNOWN.into_iter().find(|shape| shape.name == named) {
            let title = format!("shape of {} (Q8_0, random weights)", shape.title);
            return Ok(Self { path: written(shape)?, title });
        }
        let fetched = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/models");
        let roots = Roots { own: vec![fetched], ..Roots::default() };
        let model = hob_models::resolve(named, || hob_models::discover(&roots)).context(
            "a benchmark finds names in target/models only, where `cargo xtask bench` puts smollm2: run it so, or \
             give the path of a file",
        )?;
        Ok(Self { path: model.path, title: model.name })
    }

    /// The title, and the devices that hold layers of it, if any.
    fn on(&self, model: &dyn Model) -> String {
        let Some(offload) = model.offload() else { return self.title.clone() };
        let Offload { layers, all_layers, devices, .. } = offload;
        let known = devices_here();
        let described = |name| known.iter().find(|device| &device.name == name);
        let devices: Vec<_> = devices
            .iter()
            .map(|name| described(name).map_or(name.as_str(), |device| device.description.as_str()))
            .collect();
        format!("{}, {layers} of {all_layers} layers on {}", self.title, devices.join(" and "))
    }
}

/// A small model whose matrices are Q8_0.
fn small_model_path() -> Result<PathBuf> {
    written(Shape::RANDOM_36M)
}

/// The benchmark model: the shape of Qwen2.5-0.5B, in Q8_0.
fn model_path() -> Result<PathBuf> {
    written(Shape::QWEN2_5_0_5B)
}

fn written(shape: Shape) -> Result<PathBuf> {
    let name = format!("{}-random-q8_0.gguf", shape.name);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/bench").join(name);
    weights::ensure(shape, &path)
        .with_context(|| format!("cannot write the benchmark's weights to {}", path.display()))?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use clap::{Command, CommandFactory};

    use super::Args;

    /// The options of one benchmark that `words` give.
    pub fn options<O: clap::Args>(words: &[&str]) -> Result<O, clap::Error> {
        let command = O::augment_args(Command::new("bench")).no_binary_name(true);
        O::from_arg_matches(&command.try_get_matches_from(words)?)
    }

    #[test]
    fn each_benchmark_with_bars_can_be_run_without_them() {
        let args = Args::command();
        let has_bars =
            |bench: &Command| bench.get_arguments().any(|it| it.get_id().as_str() == "no_bars");
        let others = args.get_subcommands().filter(|bench| !has_bars(bench));
        let others: Vec<&str> = others.map(Command::get_name).collect();
        assert_eq!(others, ["render", "rows", "soak", "threads"]);
    }
}
