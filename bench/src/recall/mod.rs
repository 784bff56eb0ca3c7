//! How many facts of a conversation a model still finds when the conversation has fewer cells than tokens.
//!
//! - Sessions are run turn by turn through the engine, once without a budget of cells and then with budgets of
//!   a part of their length: by each eviction policy, without recovery, with notes of the evicted blocks, with
//!   each retrieval alone and with all. With a policy other than the default, notes and single retrievals have
//!   fewer sessions.
//! - The bundled model, which is small and fast, measures all of them: whether the needle is resident when the
//!   answer begins, which needs no skill. Whether the answer has the needle is measured with a model that has
//!   it there with full context: SmolLM2 at 1,500 tokens. Both measure loss and overlap.
//! - No clock: figures do not depend on the machine's speed.

mod figures;
pub mod language;
mod probe;
mod sessions;

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Result, bail};
use clap::ValueEnum;
use figures::{Figures, Part};
use hob_runtime::backend::llama::{GpuLayers, LlamaModel, LlamaOptions, Placement};
use hob_runtime::{Embedder, Engine, EngineOptions, Model, Recovery};
use hob_slots::away::Policy;
use hob_slots::recall::Retrievals;
use probe::{Outcome, Refused};
use sessions::{Form, Kind};

use crate::Subject;
use crate::bars::BarFlags;
use crate::turns::FINGERPRINT;

#[derive(clap::Args)]
pub struct Options {
    /// Measure this model alone, a path, a name or `bundled`; otherwise the bundled model with every
    /// policy, and SmolLM2, which `cargo xtask bench` fetches, where it answers.
    #[arg(long, value_name = "PATH|NAME")]
    model: Option<String>,
    /// Measure this eviction policy alone.
    #[arg(long)]
    policy: Option<Policy>,
    /// Measure this recovery alone; several times for several.
    #[arg(long)]
    recovery: Vec<Back>,
    /// Measure this haystack alone.
    #[arg(long)]
    haystack: Option<Kind>,
    /// Measure with this embedding model as well, a path or a name: also what is asked for in other words.
    #[arg(long, value_name = "PATH|NAME")]
    recall_model: Option<String>,
    /// Length of a session, in tokens, about.
    #[arg(long)]
    tokens: Option<usize>,
    /// Sessions of a haystack; more of them narrow the intervals.
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..=100))]
    sessions: Option<u8>,
    /// Fewer sessions, of the bundled model alone.
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    bars: BarFlags,
}

/// The budget is the session's length divided by this, and the bar of recall and residency there.
const BUDGETS: [(f64, Bars); 3] = [
    (1.8, Bars { recall: 0.98, resident: 0.98 }),
    (3.6, Bars { recall: 0.98, resident: 0.98 }),
    (7.0, Bars { recall: 0.95, resident: 0.95 }),
];

#[derive(Clone, Copy)]
struct Bars {
    /// Relative to full context.
    recall: f64,
    resident: f64,
}

/// Without recovery, less than this is resident; otherwise the test is too easy.
const DISCARD_BAR: f64 = 0.30;

/// Recall of full context below which a model's answers prove nothing.
const SKILL: f64 = 0.80;

/// Sessions of a kind that are measured with a policy other than the default, and with something else than no or all
/// recovery: a needle at each depth.
const OTHERS: usize = 5;

/// Cells of an engine beside those of a session of the length that is asked for, which is not exact.
const BESIDE: usize = 1024;

/// What is measured unless the options say otherwise.
#[derive(Clone, Copy)]
struct Run<'a> {
    model: &'a str,
    /// Length of a session.
    tokens: usize,
    kinds: &'a [Kind],
    /// Every policy and recovery; otherwise the default policy, without recovery and with all.
    is_survey: bool,
}

/// The first one where nothing is asked of the model's skill; the others where it answers with full context.
const RUNS: [Run<'_>; 4] = [
    Run { model: "bundled", tokens: 3600, kinds: &Kind::ALL, is_survey: true },
    Run { model: "bundled", tokens: 1000, kinds: &[Kind::Needle], is_survey: false },
    Run { model: "bundled", tokens: 700, kinds: &[Kind::Turn14], is_survey: false },
    Run { model: "smollm2", tokens: 1500, kinds: &[Kind::Facts], is_survey: false },
];

/// What is measured on one model.
struct Subjects {
    title: String,
    model: Arc<dyn Model>,
    policies: Vec<Policy>,
    kinds: Vec<Kind>,
    form: Form,
    embedder: Option<Embedder>,
    recoveries: Vec<Back>,
    /// Of a kind, if not its own number.
    sessions: Option<usize>,
    is_quick: bool,
    /// The model must answer with full context: the sessions have a length at which it does.
    is_mastered: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Arm {
    policy: Policy,
    back: Back,
    /// An index of [`BUDGETS`].
    budget: usize,
}

/// How evicted blocks come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
enum Back {
    #[value(name = "no")]
    Nothing,
    /// Notes of what left stay.
    Notes,
    #[value(name = "mentions")]
    ByMentions,
    #[value(name = "words")]
    ByWords,
    #[value(name = "meaning")]
    ByMeaning,
    #[value(name = "all")]
    ByAll,
}

impl Back {
    fn recovery(self) -> (Recovery, Retrievals) {
        match self {
            Self::Nothing => (Recovery::Discard, Retrievals::ALL),
            Self::Notes => (Recovery::Breadcrumb, Retrievals::ALL),
            Self::ByMentions => (Recovery::Restore, Retrievals::MENTIONS),
            Self::ByWords => (Recovery::Restore, Retrievals::WORDS),
            Self::ByMeaning => (Recovery::Restore, Retrievals::MEANING),
            Self::ByAll => (Recovery::Restore, Retrievals::ALL),
        }
    }

    fn name(self) -> String {
        self.to_possible_value().expect("all are values").get_name().to_owned()
    }
}

pub fn run(options: &Options) -> Result<()> {
    let directory = tempfile::tempdir()?;
    let mut missed = Vec::new();
    let own = |name| Run { model: name, ..RUNS[0] };
    let runs: Vec<Run<'_>> = match &options.model {
        Some(name) => vec![own(name.as_str())],
        None if options.quick => vec![RUNS[0]],
        None => RUNS.to_vec(),
    };
    for run in runs {
        let subjects = Subjects::of(run, directory.path(), options)?;
        missed.extend(subjects.measure(options.tokens.unwrap_or(run.tokens))?);
    }
    options.bars.check(&missed)
}

impl Subjects {
    fn of(run: Run<'_>, directory: &Path, options: &Options) -> Result<Self> {
        let is_bundled = run.model == "bundled";
        let (path, title) = if is_bundled {
            (hob_models::bundled::materialise(directory)?, "the bundled model".to_owned())
        } else {
            let Subject { path, title } = Subject::of(Some(run.model))?;
            (path, title)
        };
        let policies = match options.policy {
            Some(policy) => vec![policy],
            None if run.is_survey && is_bundled => Policy::ALL.to_vec(),
            None => vec![Policy::default()],
        };
        let embedder = options.recall_model.as_deref().map(load_embedder).transpose()?;
        let mut kinds = options.haystack.map_or(run.kinds.to_vec(), |kind| vec![kind]);
        if embedder.is_some() && options.haystack.is_none() {
            kinds.push(Kind::Paraphrase);
        }
        let recoveries = match options.recovery.as_slice() {
            [] if !run.is_survey => vec![Back::Nothing, Back::ByAll],
            recoveries => recoveries.to_vec(),
        };
        let form = if is_bundled { Form::Answer } else { Form::Quote };
        let model = Arc::new(LlamaModel::load(
            &path,
            LlamaOptions { threads: 1, ..LlamaOptions::default() },
        )?);
        Ok(Self {
            title,
            model,
            policies,
            kinds,
            form,
            embedder,
            recoveries,
            sessions: options.sessions.map(usize::from),
            is_quick: options.quick,
            is_mastered: !run.is_survey && options.tokens.is_none() && options.haystack.is_none(),
        })
    }

    fn engine(&self, tokens: usize, away: Option<Policy>, back: Back) -> Result<Engine> {
        let (recovery, retrievals) = back.recovery();
        let options = EngineOptions {
            context_tokens: tokens * 2 + BESIDE,
            slots: 1,
            prefixes: 1,
            micro_batch_target: None,
            drafts: false,
            away,
            recovery,
            retrievals,
            embedder: self.embedder.clone().filter(|_| retrievals.meaning),
            ..EngineOptions::default()
        };
        Ok(Engine::start(self.model.clone(), FINGERPRINT, None, options)?)
    }

    /// Prints the tables; returns which bars were missed.
    fn measure(&self, tokens: usize) -> Result<Vec<String>> {
        let full = in_parallel(&self.kinds, |&kind| self.full_context(kind, tokens))?;
        let full: Full = self.kinds.iter().copied().zip(full).collect();
        let mut engines = Vec::new();
        for &policy in &self.policies {
            let is_measured = |back: &Back| {
                if self.recoveries.is_empty() {
                    *back != Back::ByMeaning || self.embedder.is_some()
                } else {
                    self.recoveries.contains(back)
                }
            };
            for back in Back::value_variants().iter().copied().filter(is_measured) {
                engines.extend(self.kinds.iter().map(|&kind| (policy, back, kind)));
            }
        }
        let measured = in_parallel(&engines, |&(policy, back, kind)| {
            self.with_budgets(policy, back, kind, &full[&kind], tokens)
        })?;
        let figures: BTreeMap<(Kind, Arm), Figures> = measured.into_iter().flatten().collect();
        let lengths = || full.values().flatten().flatten().map(|outcome| outcome.tokens);
        println!(
            "\n{}, prompts of {} to {} tokens, {} probes.\n",
            self.title,
            lengths().min().unwrap_or(0),
            lengths().max().unwrap_or(0),
            lengths().count()
        );
        let mut missed = print(&full, &figures);
        if self.is_mastered {
            missed.extend(too_little_skill(&full));
        }
        Ok(missed)
    }

    /// The outcomes of each session of the kind, without a budget.
    fn full_context(&self, kind: Kind, tokens: usize) -> Result<Vec<Vec<Outcome>>> {
        let engine = self.engine(tokens, None, Back::Nothing)?;
        let mut all = Vec::new();
        for seed in 0..self.sessions.unwrap_or_else(|| kind.sessions(self.is_quick)) {
            match probe::run(&engine, &kind.session(seed, tokens, self.form), None, false)? {
                Ok(outcomes) => all.push(outcomes),
                Err(Refused) => bail!("a budget was refused that was not asked for"),
            }
        }
        engine.shutdown();
        eprintln!("{}, full context, {}: {}", self.title, kind.as_str(), answers(&all));
        Ok(all)
    }

    /// How many sessions of a kind are measured with a policy and a recovery, at most.
    fn at_most(&self, policy: Policy, back: Back) -> usize {
        let is_whole = matches!(back, Back::Nothing | Back::ByAll);
        let is_asked_for = self.policies.len() == 1 || policy == Policy::default();
        if is_whole || is_asked_for { usize::MAX } else { OTHERS }
    }

    fn with_budgets(
        &self,
        policy: Policy,
        back: Back,
        kind: Kind,
        full: &[Vec<Outcome>],
        tokens: usize,
    ) -> Result<Vec<((Kind, Arm), Figures)>> {
        let engine = self.engine(tokens, Some(policy), back)?;
        let mut all = Vec::new();
        for (budget, &(part, _)) in BUDGETS.iter().enumerate() {
            let mut figures = Figures::default();
            for (seed, full) in full.iter().enumerate().take(self.at_most(policy, back)) {
                let length = full.last().map_or(0, |outcome| outcome.tokens);
                let cells = (length as f64 / part) as usize;
                let embeds = self.embedder.is_some() && back.recovery().1.meaning;
                let session = kind.session(seed, tokens, self.form);
                match probe::run(&engine, &session, Some(cells), embeds)? {
                    Ok(outcomes) => {
                        outcomes.iter().zip(full).for_each(|(it, full)| figures.add(it, full));
                    }
                    Err(Refused) => full.iter().for_each(|_| figures.refuse()),
                }
            }
            eprintln!(
                "{}, {policy}, recovery: {}, {}, 1/{part}: {} resident",
                self.title,
                back.name(),
                kind.as_str(),
                figures.resident
            );
            all.push(((kind, Arm { policy, back, budget }), figures));
        }
        engine.shutdown();
        Ok(all)
    }
}

/// On one thread of the processor, as hobd loads it.
fn load_embedder(named: &str) -> Result<Embedder> {
    let Subject { path, .. } = Subject::of(Some(named))?;
    let placement = Placement { layers: GpuLayers::Count(0), ..Placement::default() };
    let options = LlamaOptions { threads: 1, placement, ..LlamaOptions::default() };
    Ok(Embedder::start(Arc::new(LlamaModel::load(&path, options)?))?)
}

/// By kind and session.
type Full = BTreeMap<Kind, Vec<Vec<Outcome>>>;

/// The results of `work`, in the order of `jobs`: as many at once as there are cores. A model computes on
/// one thread, so that small micro-batches do not wait for a second one.
fn in_parallel<J: Sync, R: Send>(
    jobs: &[J],
    work: impl Fn(&J) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let next = AtomicUsize::new(0);
    let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let take = || {
        let mut done = Vec::new();
        while let Some((at, job)) = {
            let at = next.fetch_add(1, Ordering::Relaxed);
            jobs.get(at).map(|job| (at, job))
        } {
            done.push((at, work(job)?));
        }
        anyhow::Ok(done)
    };
    let mut results = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(take)).collect();
        let mut results = Vec::new();
        for thread in threads {
            results.extend(thread.join().expect("a job does not panic")?);
        }
        anyhow::Ok(results)
    })?;
    results.sort_by_key(|(at, _)| *at);
    Ok(results.into_iter().map(|(_, result)| result).collect())
}

/// The right answers in all sessions.
fn answers(sessions: &[Vec<Outcome>]) -> Part {
    let mut answers = Part::default();
    sessions.iter().flatten().for_each(|outcome| answers.add(outcome.is_right));
    answers
}

/// The kinds of which too little is answered with full context: there no bar of recall is asked.
fn too_little_skill(full: &Full) -> Vec<String> {
    let told = full.iter().map(|(kind, sessions)| (kind.as_str(), answers(sessions)));
    let little = told.filter(|(_, answers)| answers.value() < SKILL);
    little.map(|(name, answers)| format!("{name}: full context answers {answers} alone")).collect()
}

fn print(full: &Full, figures: &BTreeMap<(Kind, Arm), Figures>) -> Vec<String> {
    println!(
        "| haystack | full context answers | policy | recovery | budget | probes | answers | resident | loss | \
         overlap | by mention, words, meaning, group | refused |"
    );
    println!("|---|---|---|---|---|---:|---|---|---:|---:|---|---:|");
    let mut missed = Vec::new();
    for ((kind, arm), figures) in figures {
        let (part, bars) = BUDGETS[arm.budget];
        let name = kind.as_str();
        let answers = answers(&full[kind]);
        println!(
            "| {name} | {answers} | {} | {} | 1/{part} | {} | {} | {} | {:+.2} | {:.2} | {}, {}, {}, {} | {} |",
            arm.policy,
            arm.back.name(),
            figures.right.of,
            figures.right,
            figures.resident,
            figures.more_loss(),
            figures.overlap(),
            figures.mentions,
            figures.words,
            figures.meanings,
            figures.groups,
            figures.refused,
        );
        let what = format!("{name}, {}, 1/{part}", arm.policy);
        let resident = figures.resident.value();
        if arm.back == Back::Nothing {
            if resident >= DISCARD_BAR {
                missed.push(format!("{what}: {resident:.2} resident without recovery"));
            }
            continue;
        }
        let is_default = arm.policy == Policy::default() && arm.back == Back::ByAll;
        let has_room = figures.refused < figures.right.of; // Else the budget is below what must stay.
        if !is_default || !has_room {
            continue;
        }
        if resident < bars.resident {
            missed.push(format!("{what}: {resident:.2} resident"));
        }
        let relative = figures.right.value() / answers.value();
        if answers.value() >= SKILL && relative < bars.recall {
            missed.push(format!("{what}: {relative:.2} of full context's answers"));
        }
    }
    missed
}
