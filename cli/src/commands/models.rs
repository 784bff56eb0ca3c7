//! `hob models`

use std::io::Write;
use std::time::Duration;

use hob_api::{Device, ModelMemory};
use hob_config::{Flags, GpuLayers, Key, RunningDaemon, Settings, paths};
use hob_models::{
    Available, ChosenContext, ContextSettings, Discovery, Estimate, HashCache, MachineMemory,
    MemoryKind, ModelError, ModelFile, Verdict, discover,
};
use serde_json::{Value, json};

use crate::client::Client;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{Align, Table, context_limit, count, device_words, line, plain, size, warn};
use crate::progress;

/// List the models on this machine with the memory that each needs, or describe one
#[derive(clap::Args)]
pub struct Args {
    /// Describe this model: a name from the list or the path of a GGUF file
    model: Option<String>,

    /// Estimate for this context instead of the configured one
    #[arg(long, value_name = "TOKENS|auto")]
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
    let machine = Machine::of(context);
    match &args.model {
        Some(name) => {
            let model = hob_models::resolve(name, || discover(&context.roots))?;
            show(&model, &machine, args.hash, context)
        }
        None => list(discover(&context.roots), &machine, context),
    }
}

/// For the daemon's answer: the list is complete without it.
const PATIENCE: Duration = Duration::from_secs(2);

/// What decides about the context of each model.
struct Machine {
    settings: ContextSettings,
    memory: Option<MachineMemory>,
    /// As the running daemon says it.
    next: ModelMemory,
    /// The devices that the running daemon knows. This program is built without llama.cpp.
    devices: Vec<Device>,
    /// Whether a daemon has said which those are.
    knows_devices: bool,
}

impl Machine {
    fn of(context: &Context) -> Self {
        let settings = &context.settings;
        let is_used = settings.gpu_layers != GpuLayers::Count(0) && settings.kv_offload;
        let running = RunningDaemon::read(&settings.data_dir).ok().flatten();
        let client = running.and_then(|running| Client::of(&running, Some(PATIENCE)).ok());
        let status = client.as_ref().and_then(|client| client.status().ok());
        let next = client.and_then(|client| client.get("/v1/models/local").ok());
        let knows_devices = status.is_some();
        let mut devices = status.map_or(Vec::new(), |status| status.devices);
        let names = &settings.device;
        let is_named =
            |device: &Device| names.iter().any(|name| name.eq_ignore_ascii_case(&device.name));
        devices.retain(|device| is_used && (names.is_empty() || is_named(device)));
        let Settings { ctx, slots, cache_type_k, cache_type_v, gpu_layers, .. } = settings;
        let cache_types = [cache_type_k.as_str(), cache_type_v.as_str()];
        let prefixes = settings.prefix_slots() as u64;
        let settings = ContextSettings::new(ctx.tokens(), (*slots).into(), prefixes, cache_types)
            .with_gpu_layers(gpu_layers.count());
        let (memory, next) = (MachineMemory::read(), next.unwrap_or_default());
        Self { settings, memory, next, devices, knows_devices }
    }

    fn usable(&self, host_bytes: u64) -> Available {
        let own = self.devices.iter().filter(|device| !device.shares_memory);
        let free_bytes = own.map(|device| device.free_bytes).reduce(u64::saturating_add);
        let device_bytes = free_bytes.map_or(0, |free| free.max(self.next.device_free_bytes));
        Available { host_bytes, device_bytes }
    }

    /// What is free, with what a running model would free.
    fn available(&self) -> Option<u64> {
        self.next.free_bytes.or_else(|| self.memory?.available_bytes)
    }

    fn fit(&self, model: &ModelFile) -> Fit {
        let host_bytes = self.available();
        let host_bytes = host_bytes.unwrap_or_else(|| MachineMemory::usable_bytes(self.memory));
        let usable = self.usable(host_bytes);
        let chosen = self.settings.context_of(model, usable);
        let estimate = model.estimate(&self.settings.demand(chosen.tokens));
        Fit {
            context: chosen,
            estimate,
            verdict: self.available().map(|free| estimate.verdict(self.usable(free).total_bytes())),
        }
    }
}

/// A model on this machine.
struct Fit {
    context: ChosenContext,
    estimate: Estimate,
    /// `None` if the system does not report its free memory.
    verdict: Option<Verdict>,
}

fn list(found: Discovery, machine: &Machine, context: &mut Context) -> Result<(), Failure> {
    if context.json {
        let problems: Vec<_> = found.problems.iter().map(ModelError::to_string).collect();
        let described = |model| described(model, &machine.fit(model));
        let models: Vec<_> = found.models.iter().map(described).collect();
        let document = json!({
            "ctx": setting(context), "memory": machine.memory, "devices": machine.devices, "models": models, "problems": problems,
        });
        return context.write_json(&document);
    }
    if found.models.is_empty() {
        let dir = paths::models_dir(&context.settings.data_dir);
        writeln!(
            context.out,
            "no model is here: put a GGUF file into {}, or start `hobd --model FILE`; without one \
             hobd runs its bundled model",
            dir.display()
        )?;
    } else {
        write_table(&found.models, machine, context)?;
    }
    context.out.flush()?;
    for problem in &found.problems {
        warn(&format!("hob: {}", plain(&problem.to_string())));
    }
    Ok(())
}

/// The models, and the memory that decides which of them fit.
fn write_table(
    models: &[ModelFile],
    machine: &Machine,
    context: &mut Context,
) -> Result<(), Failure> {
    let mut table = Table::new(&[
        ("NAME", Align::Left),
        ("FROM", Align::Left),
        ("SIZE", Align::Right),
        ("ARCHITECTURE", Align::Left),
        ("WEIGHTS AS", Align::Left),
        ("TRAINED WITH", Align::Right),
        ("CONTEXT", Align::Right),
        ("WEIGHTS + KV", Align::Right),
        ("", Align::Left),
    ])
    // `hob models NAME` shows them.
    .wrap(0)
    .spare([3, 5, 4, 1]);
    let mut is_short = false;
    for model in models {
        let Fit { context, estimate, verdict } = machine.fit(model);
        is_short |= verdict.is_some_and(|verdict| verdict != Verdict::Fits);
        table.row(vec![
            plain(&model.name),
            model.source.as_str().to_owned(),
            size(model.size_bytes),
            line(&model.summary.architecture, 20),
            model.summary.quantisation.clone(),
            model.summary.trained_context.map_or("-".to_owned(), count),
            count(context.tokens),
            format!("{} + {}", size(estimate.weights_bytes), size(estimate.kv_bytes)),
            verdict.map_or("", remark).to_owned(),
        ]);
    }
    let text = table.text(context.columns());
    context.out.write_all(text.as_bytes())?;
    let free = machine.available().map_or("unknown".to_owned(), size);
    let ctx = context.settings.ctx;
    writeln!(context.out, "\nKV for the context of each model, ctx = {ctx}; free memory: {free}")?;
    for device in &machine.devices {
        writeln!(context.out, "device {}", device_words(device))?;
    }
    if is_short && !machine.knows_devices {
        writeln!(context.out, "the memory of graphics cards counts while hobd runs")?;
    }
    Ok(())
}

fn show(
    model: &ModelFile,
    machine: &Machine,
    with_hash: bool,
    context: &mut Context,
) -> Result<(), Failure> {
    let fit = machine.fit(model);
    let mut description = described(model, &fit);
    if with_hash {
        description["sha256"] = hash(model, context)?.into();
    }
    if context.json {
        return context.write_json(&description);
    }
    let summary = &model.summary;
    let yes = |flag: bool| if flag { "yes" } else { "no" }.to_owned();
    let or_none = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
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
        ("attention", attention(summary.memory).to_owned()),
        ("context", context_words(&fit.context, summary.trained_context)),
        ("weights", size(fit.estimate.weights_bytes)),
        ("KV", format!("{} for {} tokens", size(fit.estimate.kv_bytes), count(fit.context.tokens))),
        ("free memory", or_none(machine.available().map(size))),
    ];
    rows.extend(machine.devices.iter().map(|device| ("device", device_words(device))));
    if let Some(hash) = description["sha256"].as_str() {
        rows.push(("sha256", hash.to_owned()));
    }
    for (name, value) in rows {
        writeln!(context.out, "{name:<16} {value}")?;
    }
    Ok(())
}

/// The setting, as the file has it.
fn setting(context: &Context) -> Value {
    let ctx = context.settings.ctx;
    ctx.tokens().map_or_else(|| ctx.to_string().into(), Value::from)
}

fn described(model: &ModelFile, fit: &Fit) -> Value {
    let mut description = json!(model);
    description["ctx"] = fit.context.tokens.into();
    description["ctx_limit"] = fit.context.limit.as_str().into();
    description["estimate"] = json!(fit.estimate);
    description["estimate"]["total_bytes"] = fit.estimate.total_bytes().into();
    description["estimate"]["verdict"] = json!(fit.verdict);
    description
}

/// What a conversation holds, as `hob status` says it of the running model.
fn context_words(context: &ChosenContext, trained: Option<u64>) -> String {
    let tokens = trained.map_or(context.tokens, |trained| trained.min(context.tokens));
    format!("{} tokens{}", count(tokens), context_limit(context.limit.as_str(), trained))
}

/// What the tokens that are computed read of those before.
fn attention(memory: MemoryKind) -> &'static str {
    match memory {
        MemoryKind::Plain => "to every token",
        MemoryKind::SlidingWindow => "in some layers to a window of tokens only",
        MemoryKind::Hybrid => "in some layers; the others keep a recurrent state",
        MemoryKind::Recurrent => "none: every layer keeps a recurrent state",
    }
}

fn remark(verdict: Verdict) -> &'static str {
    match verdict {
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
