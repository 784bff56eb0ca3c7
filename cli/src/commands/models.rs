//! `hob models`

use std::io::Write;

use hob_config::{Flags, Key, Settings, paths};
use hob_models::{
    Demand, Discovery, Estimate, HashCache, MachineMemory, ModelError, ModelFile, Verdict, discover,
};
use serde_json::{Value, json};

use crate::context::Context;
use crate::failure::Failure;
use crate::output::{Align, Table, count, line, plain, size};
use crate::progress;

/// List the models on this machine with the memory that each needs, or describe one
#[derive(clap::Args)]
pub struct Args {
    /// Describe this model: a name from the list or the path of a GGUF file
    model: Option<String>,

    /// Estimate for this context instead of the configured one
    #[arg(long, value_name = "TOKENS")]
    ctx: Option<String>,

    /// Also read the file and print its SHA-256
    #[arg(long, requires = "model")]
    hash: bool,
}

impl Args {
    /// `--ctx` overrides the setting.
    pub fn set_flags(&self, flags: &mut Flags) {
        if let Some(ctx) = &self.ctx {
            flags.set(Key::Ctx, ctx);
        }
    }
}

pub fn run(args: &Args, context: &mut Context) -> Result<(), Failure> {
    let demand = demand(context);
    match &args.model {
        Some(name) => {
            let model = hob_models::resolve(name, || discover(&context.roots))?;
            show(&model, &demand, args.hash, context)
        }
        None => list(discover(&context.roots), &demand, context),
    }
}

fn demand(context: &Context) -> Demand {
    let Settings { ctx, slots, cache_type_k, cache_type_v, .. } = &context.settings;
    Demand::new((*ctx).into(), (*slots).into(), [cache_type_k.as_str(), cache_type_v.as_str()])
}

fn list(found: Discovery, demand: &Demand, context: &mut Context) -> Result<(), Failure> {
    let memory = MachineMemory::read();
    let available = memory.and_then(|memory| memory.available_bytes);
    if context.json {
        let problems: Vec<_> = found.problems.iter().map(ModelError::to_string).collect();
        let models: Vec<_> =
            found.models.iter().map(|model| described(model, demand, available)).collect();
        let document = json!({
            "ctx": demand.ctx, "memory": memory, "models": models, "problems": problems,
        });
        return context.write_json(&document);
    }
    let mut table = Table::new(&[
        ("NAME", Align::Left),
        ("FROM", Align::Left),
        ("SIZE", Align::Right),
        ("ARCHITECTURE", Align::Left),
        ("WEIGHTS AS", Align::Left),
        ("TRAINED CONTEXT", Align::Right),
        ("WEIGHTS + KV", Align::Right),
        ("", Align::Left),
    ]);
    for model in &found.models {
        let estimate = model.estimate(demand);
        table.row(vec![
            plain(&model.name),
            model.source.as_str().to_owned(),
            size(model.size_bytes),
            line(&model.summary.architecture, 20),
            model.summary.quantisation.clone(),
            model.summary.trained_context.map_or("-".to_owned(), count),
            format!("{} + {}", size(estimate.weights_bytes), size(estimate.kv_bytes)),
            available.map_or("", |available| remark(&estimate, available)).to_owned(),
        ]);
    }
    if found.models.is_empty() {
        writeln!(context.out, "no models found; {}", where_to_put_them(context))?;
    } else {
        table.write(&mut *context.out)?;
    }
    let free = available.map_or("unknown".to_owned(), size);
    let ctx = count(demand.ctx);
    writeln!(context.out, "\nKV for a context of {ctx} tokens; free memory: {free}")?;
    context.out.flush()?;
    for problem in &found.problems {
        eprintln!("hob: {}", plain(&problem.to_string()));
    }
    Ok(())
}

fn where_to_put_them(context: &Context) -> String {
    let dir = paths::models_dir(&context.settings.data_dir);
    format!("hobd runs its bundled model, a path, or a GGUF file in {}", dir.display())
}

fn show(
    model: &ModelFile,
    demand: &Demand,
    with_hash: bool,
    context: &mut Context,
) -> Result<(), Failure> {
    let available = MachineMemory::read().and_then(|memory| memory.available_bytes);
    let mut description = described(model, demand, available);
    if with_hash {
        description["sha256"] = hash(model, context)?.into();
    }
    if context.json {
        return context.write_json(&description);
    }
    let summary = &model.summary;
    let estimate = model.estimate(demand);
    let yes = |flag: bool| if flag { "yes" } else { "no" }.to_owned();
    let or_none = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
    let memory = json!(summary.memory);
    let mut rows = vec![
        ("name", plain(&model.name)),
        ("title", or_none(summary.title.as_deref().map(|title| line(title, 60)))),
        ("path", plain(&model.path.display().to_string())),
        ("files", model.files.len().to_string()),
        ("size", size(model.size_bytes)),
        ("architecture", line(&summary.architecture, 20)),
        ("weights as", summary.quantisation.clone()),
        ("layers", summary.n_layer.to_string()),
        ("vocabulary", count(summary.vocabulary_size)),
        ("trained context", or_none(summary.trained_context.map(count))),
        ("chat template", yes(summary.chat_template)),
        ("pooling", or_none(summary.pooling.clone())),
        ("memory", or_none(memory.as_str().map(str::to_owned))),
        ("weights", size(estimate.weights_bytes)),
        ("KV", format!("{} for {} tokens", size(estimate.kv_bytes), count(demand.ctx))),
        ("free memory", or_none(available.map(size))),
    ];
    if let Some(hash) = description["sha256"].as_str() {
        rows.push(("sha256", hash.to_owned()));
    }
    for (name, value) in rows {
        writeln!(context.out, "{name:<16} {value}")?;
    }
    Ok(())
}

fn described(model: &ModelFile, demand: &Demand, available: Option<u64>) -> Value {
    let estimate = model.estimate(demand);
    let mut description = json!(model);
    description["estimate"] = json!(estimate);
    description["estimate"]["total_bytes"] = estimate.total_bytes().into();
    description["estimate"]["verdict"] = json!(available.map(|bytes| estimate.verdict(bytes)));
    description
}

fn remark(estimate: &Estimate, available: u64) -> &'static str {
    match estimate.verdict(available) {
        Verdict::Fits => "fits",
        Verdict::Tight => "tight",
        Verdict::TooLarge => "too large",
    }
}

fn hash(model: &ModelFile, context: &Context) -> Result<String, Failure> {
    let bar = progress::bytes(model.size_bytes, "hashing", context.terminal.error);
    let cache = HashCache::at(paths::hash_cache_file(&context.settings.data_dir));
    let hash = cache.hash(&model.files, &mut |progress| bar.set_position(progress.done_bytes));
    bar.finish_and_clear();
    let failed = |source| Failure::File { doing: "read", path: model.path.clone(), source };
    hash.map(|hash| hash.to_string()).map_err(failed)
}
