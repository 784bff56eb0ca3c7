//! `hob slots verify`
//!
//! - Reads every byte of every slot file and object of every model, also of unreferenced objects, on all
//!   cores. It moves nothing: the owner quarantines a damaged file when it reads it.
//! - Prints the cost of damage: tokens are computed again from the first damaged block on.
//! - A file that a running daemon removes meanwhile is not damage.

use std::collections::BTreeMap;
use std::io::Write;
use std::ops::ControlFlow;

use hob_slots::verify::{Cost, Fault, Reading, all_files, files_of};
use hob_slots::{ModelHash, StoreReader, StoredFile};
use serde_json::json;

use super::{dir, named};
use crate::context::Context;
use crate::failure::Failure;
use crate::names::label;
use crate::output::{count, counted, line, plain, size};
use crate::progress;

/// Read every saved byte and report damaged files
#[derive(clap::Args)]
pub struct Args {
    /// Only these conversations (ids, titles, or beginnings of them) and their objects
    conversations: Vec<String>,

    /// Only the directory of this model
    #[arg(long, value_name = "FINGERPRINT")]
    fingerprint: Option<ModelHash>,
}

pub fn run(args: &Args, context: &mut Context) -> Result<(), Failure> {
    let reader = dir::reader(context)?;
    let files = match &reader {
        Some(reader) => files(reader, args, context)?,
        None if args.conversations.is_empty() => Vec::new(),
        None => return Err(dir::absent(&args.conversations[0], context)),
    };
    let bytes = files.iter().map(|file| file.bytes).sum();
    let bar = progress::bytes(bytes, "verifying", context.terminal.error);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut read = match &reader {
        Some(reader) => Reading::of(reader, &files, threads, &|file| {
            bar.inc(file.bytes);
            ControlFlow::Continue(())
        }),
        None => Reading::default(),
    };
    bar.finish_and_clear();
    let costs = match &reader {
        Some(reader) => read.costs(reader),
        None => Vec::new(),
    };
    report(&read, &costs, files.len(), bytes, context)
}

/// The files to read: all, or those of the given conversations.
fn files(reader: &StoreReader, args: &Args, context: &Context) -> Result<Vec<StoredFile>, Failure> {
    let models = dir::models(reader, args.fingerprint)?;
    if args.conversations.is_empty() {
        return Ok(all_files(reader, &models)?);
    }
    let mut wanted = BTreeMap::new(); // Reads shared objects once.
    for text in &args.conversations {
        let id = named::one(reader, text, context)?;
        let files = files_of(reader, &models, &id)?;
        let files = files.ok_or_else(|| dir::absent(text, context))?;
        wanted.extend(files.into_iter().map(|file| (file.path.clone(), file)));
    }
    Ok(wanted.into_values().collect())
}

fn report(
    read: &Reading,
    costs: &[Cost],
    files: usize,
    bytes: u64,
    context: &mut Context,
) -> Result<(), Failure> {
    let damaged: Vec<&Fault> = read.faults.iter().filter(|fault| fault.condemned).collect();
    let unread = read.faults.len() - damaged.len();
    if context.json {
        let fault = |fault: &Fault| {
            json!({
                "path": fault.file.path.to_string_lossy(), "fingerprint": fault.file.model,
                "bytes": fault.file.bytes, "reason": fault.reason, "damaged": fault.condemned,
            })
        };
        context.write_json(&json!({
            "files": files,
            "bytes": bytes,
            "whole": read.is_whole(costs),
            "faults": read.faults.iter().map(fault).collect::<Vec<_>>(),
            "costs": costs,
        }))?;
    } else {
        for fault in &read.faults {
            let path = plain(&fault.file.path.display().to_string());
            writeln!(context.out, "{path}: {}", plain(&fault.reason))?;
        }
        for cost in costs {
            writeln!(context.out, "{}", cost_line(cost))?;
        }
        let whole = if read.is_whole(costs) { ", all whole" } else { "" };
        let files = counted(files, "file");
        writeln!(context.out, "{files}, {} read and verified{whole}", size(bytes))?;
        context.out.flush()?;
    }
    let plural = |number: usize| if number == 1 { "file is" } else { "files are" };
    match (damaged.len(), unread, costs.len()) {
        (0, 0, 0) => Ok(()),
        (0, 0, affected) => Err(Failure::Damaged(format!(
            "nothing is damaged, but objects of {} are missing; their tokens will be computed \
             again",
            crate::output::conversations(affected)
        ))),
        (0, unread, _) => Err(Failure::Unhealthy(format!(
            "{unread} {} not readable and could not be verified",
            plural(unread)
        ))),
        (damaged, ..) => Err(Failure::Damaged(format!(
            "{damaged} {} damaged; none will be used, and their tokens will be computed again",
            plural(damaged)
        ))),
    }
}

fn cost_line(cost: &Cost) -> String {
    let name = line(&label(&cost.conversation), 60);
    let Cost { lost_tokens, tokens, damaged, missing, .. } = cost;
    let (lost, all) = (count((*lost_tokens).into()), count((*tokens).into()));
    let lost =
        if lost == all { format!("all {all} tokens") } else { format!("{lost} of {all} tokens") };
    let damaged = counted(*damaged, "object");
    format!("{name}: {lost} will be computed again ({damaged} damaged, {missing} missing)")
}
