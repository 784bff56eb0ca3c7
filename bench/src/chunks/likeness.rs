//! Likeness of answers to exact ones, and facts that they still tell.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use hob_runtime::backend::llama::{LlamaModel, LlamaOptions};
use hob_runtime::likeness::{Likeness, Measured};
use hob_runtime::{Engine, EngineOptions, Model, Reuse, TurnRequest};
use hob_slots::content::Repair;
use hob_slots::{ConversationId, Token};

use super::readers::{Question, Reader, TEXTS, USUAL};
use super::{AGREEMENT_BAR, Case, NONE_BAR, Options, Part, RECALL_BAR, arms, cases, is_default};
use crate::Subject;
use crate::recall::language::Draw;
use crate::turns::{ask, request, settle, start, wait_for};

/// Tokens of an answer that are compared, at most: it ends before.
pub(super) const COMPARED: usize = 32;

/// Likeness and values of one arm over all prompts.
#[derive(Clone, Default)]
struct Figures {
    likeness: Likeness,
    /// Answers that tell the value which the exact answer tells.
    told: usize,
    /// Prompts whose exact answer tells a value.
    telling: usize,
    /// Answers that tell a value of what is asked for, also where the exact answer tells none.
    tells: usize,
}

/// Returns the bars that were missed.
pub fn run(name: &str, options: &Options) -> Result<Vec<String>> {
    let directory = tempfile::tempdir()?;
    let (model, title) = load(name, directory.path())?;
    let directories = [tempfile::tempdir()?, tempfile::tempdir()?];
    let engine = |at: usize| {
        let options = EngineOptions {
            context_tokens: 8 * 1024,
            slots: 4,
            drafts: false,
            ..EngineOptions::default()
        };
        start(model.clone(), directories[at].path(), options)
    };
    let (exact, moving) = (engine(0)?, engine(1)?);
    let (mut missed, arms) = (Vec::new(), arms(options));
    let mut overall = Vec::new();
    let wanted = TEXTS
        .iter()
        .enumerate()
        .filter(|(at, _)| options.texts.map_or(*at < USUAL, |it| it == *at));
    for (_, texts) in wanted {
        let count = texts.documents;
        let mut by_case = vec![none(&arms); cases(count).len()];
        let mut lengths = Vec::new();
        for seed in 0..options.readers {
            let mut draw = Draw::new((seed * 100 + count) as u64);
            let reader = Reader::new(&model, &mut draw, *texts, options);
            let source: Vec<Part> = (0..count).map(Part::Known).collect();
            ask(&moving, request("source", &reader.prompt(&source, &Question::hello()), 1))?;
            settle(&moving);
            for (case, figures) in cases(count).iter().zip(&mut by_case) {
                for asked in asked(case) {
                    let document = &reader.documents[asked];
                    let prompt = reader.prompt(&case.order, &document.question);
                    lengths.push(prompt.len());
                    compare([&exact, &moving], &prompt, &document.values, &arms, figures)?;
                }
            }
            forget(&moving, "source")?;
        }
        let least = lengths.iter().min().unwrap_or(&0);
        let most = lengths.iter().max().unwrap_or(&0);
        println!(
            "Likeness to exact answers, {title}: {count} documents{} at other places, prompts of {least} to {most} tokens, \
             {} answers of up to {COMPARED} tokens.\n",
            texts.tells.title(),
            lengths.len()
        );
        let all = summed(&arms, &by_case);
        print(&arms, &all);
        print_by_case(&arms, &cases(count), &by_case);
        let title = format!("{title}, {count} documents{}", texts.tells.title());
        missed.extend(agrees(&title, &arms, &all));
        overall.push(all);
    }
    let overall = summed(&arms, &overall);
    println!("All of these texts:\n");
    print(&arms, &overall);
    missed.extend(tells(&title, &arms, &overall));
    exact.shutdown();
    moving.shutdown();
    Ok(missed)
}

/// The model and its title. `directory`: for the bundled one.
pub(super) fn load(name: &str, directory: &Path) -> Result<(Arc<dyn Model>, String)> {
    let (path, title) = if name == "bundled" {
        (hob_models::bundled::materialise(directory)?, "the bundled model".to_owned())
    } else {
        let Subject { path, title } =
            Subject::of(Some(name)).with_context(|| format!("there is no model {name}"))?;
        (path, title)
    };
    Ok((Arc::new(LlamaModel::load(&path, LlamaOptions::default())?), title))
}

/// The first, a middle and the last document of the case.
fn asked(case: &Case) -> Vec<usize> {
    let known = case.order.iter().filter_map(|part| match part {
        Part::Known(number) => Some(*number),
        Part::New(_) | Part::Call => None,
    });
    let known: Vec<usize> = known.collect();
    vec![known[0], known[known.len() / 2], known[known.len() - 1]]
}

/// Asks all arms. What one has computed is forgotten before the next.
fn compare(
    [exact, moving]: [&Engine; 2],
    prompt: &[Token],
    values: &[String],
    arms: &[(String, Repair)],
    all: &mut [Figures],
) -> Result<()> {
    let asked = |name: &str| TurnRequest { ignore_eog: false, ..request(name, prompt, COMPARED) };
    let of_exact = wait_for(Measured::ask(exact, asked("exact")))?;
    for ((_, repair), figures) in arms.iter().zip(all) {
        // Computing all tells how much rounding alone differs.
        let is_full = *repair == Repair::Full;
        let engine = if is_full { exact } else { moving };
        let arm = TurnRequest { reuse: Reuse::Repaired(*repair), cold: is_full, ..asked("arm") };
        let (likeness, own) = wait_for(of_exact.compare(engine, &arm))?;
        figures.likeness.add(&likeness);
        if let Some(value) = values.iter().find(|value| of_exact.text.contains(*value)) {
            figures.telling += 1;
            figures.told += usize::from(own.text.contains(value));
        }
        figures.tells += usize::from(values.iter().any(|value| own.text.contains(value)));
        forget(engine, "arm")?;
    }
    forget(exact, "exact")
}

pub(super) fn forget(engine: &Engine, conversation: &str) -> Result<()> {
    let conversation = ConversationId::new(conversation).expect("a short name");
    Ok(wait_for(engine.forget(conversation))?)
}

fn none(arms: &[(String, Repair)]) -> Vec<Figures> {
    arms.iter().map(|_| Figures::default()).collect()
}

fn summed(arms: &[(String, Repair)], parts: &[Vec<Figures>]) -> Vec<Figures> {
    let mut all = none(arms);
    for part in parts {
        all.iter_mut().zip(part).for_each(|(all, figures)| all.add(figures));
    }
    all
}

impl Figures {
    fn add(&mut self, other: &Self) {
        self.likeness.add(&other.likeness);
        self.told += other.told;
        self.telling += other.telling;
        self.tells += other.tells;
    }

    /// The part of the facts which exact answers tell that the arm's answers tell, too.
    fn recall(&self) -> f64 {
        self.told as f64 / self.telling.max(1) as f64
    }
}

fn print(arms: &[(String, Repair)], all: &[Figures]) {
    println!(
        "| strategy | moved | repaired | computed | same likeliest token | bar | mean KL | F1 | facts told, of exact | bar | facts told, of all |"
    );
    println!("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|");
    for ((name, repair), figures) in arms.iter().zip(all) {
        let Figures { likeness, told, telling, tells } = figures;
        let per_answer = |tokens: usize| tokens / likeness.answers.max(1);
        let bars = if is_default(*repair) {
            [AGREEMENT_BAR, RECALL_BAR].map(|bar| format!("{bar}"))
        } else {
            [String::new(), String::new()]
        };
        println!(
            "| {name} | {} | {} | {} | {:.3} | {} | {:.4} | {:.3} | {told} of {telling} | {} | {tells} |",
            per_answer(likeness.tokens.moved),
            per_answer(likeness.tokens.repaired),
            per_answer(likeness.tokens.computed),
            likeness.agreement(),
            bars[0],
            likeness.mean_divergence(),
            likeness.mean_f1(),
            bars[1],
        );
    }
    println!();
}

/// Agreement, and KL in brackets.
fn print_by_case(arms: &[(String, Repair)], cases: &[Case], by_case: &[Vec<Figures>]) {
    let names = arms.iter().map(|(name, _)| format!(" {name} |"));
    println!("| same likeliest token (mean KL) |{}", names.collect::<String>());
    println!("|---|{}", "---:|".repeat(arms.len()));
    for (case, figures) in cases.iter().zip(by_case) {
        let figure = |figures: &Figures| {
            let Figures { likeness, .. } = figures;
            format!(" {:.3} ({:.4}) |", likeness.agreement(), likeness.mean_divergence())
        };
        println!("| {} |{}", case.name, figures.iter().map(figure).collect::<String>());
    }
    println!();
}

/// The bar of each kind of texts that the default missed.
fn agrees(title: &str, arms: &[(String, Repair)], all: &[Figures]) -> Option<String> {
    let likeness = &of(arms, all, Repair::default())?.likeness;
    let agreement = likeness.agreement();
    // The agreement of no tokens is 1.
    (likeness.compared == 0 || agreement < AGREEMENT_BAR)
        .then(|| format!("{title}: the default agrees in {agreement:.4} of {AGREEMENT_BAR}"))
}

/// The bars of all texts together that were missed: one kind alone has too few facts to tell 0.97 from less.
fn tells(title: &str, arms: &[(String, Repair)], all: &[Figures]) -> Vec<String> {
    let Some(default) = of(arms, all, Repair::default()) else { return Vec::new() };
    let (recall, repaired) = (default.recall(), default.likeness.mean_divergence());
    let mut missed = Vec::new();
    if recall < RECALL_BAR {
        missed.push(format!("{title}: the default tells {recall:.3} of {RECALL_BAR}"));
    }
    let none = of(arms, all, Repair::None).map(|none| none.likeness.mean_divergence());
    if let Some(none) = none.filter(|none| *none < NONE_BAR * repaired) {
        missed.push(format!(
            "{title}: without repair, KL is {none:.4}, with it {repaired:.4}: too easy"
        ));
    }
    missed
}

fn of<'f>(arms: &[(String, Repair)], all: &'f [Figures], wanted: Repair) -> Option<&'f Figures> {
    let at = arms.iter().position(|(_, repair)| *repair == wanted)?;
    Some(&all[at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bars_of_answers_without_tokens_are_missed() {
        let arms = [("default".to_owned(), Repair::default())];
        let all = [Figures::default()];
        assert!(agrees("no answers", &arms, &all).is_some());
        assert_eq!(tells("no answers", &arms, &all).len(), 1);
    }
}
