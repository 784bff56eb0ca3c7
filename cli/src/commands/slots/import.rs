//! `hob slots import`

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;

use hob_slots::archive::{Archive, ImportOptions, Imported};
use hob_slots::{NoEngine, Store, TtlClass};

use super::access::{self, Access};
use super::dir::Purpose;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{conversations, count, plain, size};

/// Import an archive that `hob slots export` wrote
///
/// Every byte is verified before anything is written. Nothing can verify that the named model
/// computed the KV: import archives only from people that you trust.
#[derive(clap::Args)]
pub struct Args {
    /// The archive
    file: PathBuf,

    /// Replace a conversation also when the KV saved here was used later
    #[arg(long)]
    force: bool,

    /// Import also KV of a model that was never used with this directory
    #[arg(long)]
    keep_foreign: bool,

    /// Save it with this class: short, long, extended or permanent
    #[arg(long, value_name = "CLASS")]
    class: Option<TtlClass>,
}

pub fn run(args: &Args, context: &mut Context) -> Result<(), Failure> {
    let Args { file: path, force, keep_foreign, class } = args;
    let failed = |source| Failure::File { doing: "read", path: path.clone(), source };
    let file = File::open(path).map_err(failed)?;
    let options = ImportOptions { force: *force, keep_foreign: *keep_foreign, class: *class };
    // Before anything owns or creates the directory: a damaged archive fails here.
    let unusable = |source| Failure::Archive { path: path.clone(), source };
    let archive = Archive::open(file.try_clone().map_err(failed)?).map_err(unusable)?;
    let report: Imported = match Access::open(Purpose::Add, context)? {
        Access::Direct(store) => import(&archive, &store, options, context).map_err(unusable)?,
        Access::Daemon(client) => {
            std::io::Seek::rewind(&mut &file).map_err(failed)?;
            let class = class.map_or(String::new(), |class| format!("&class={class}"));
            let path = format!("/v1/slots/import?force={force}&keep_foreign={keep_foreign}{class}");
            access::confirmed(client.upload(&path, "application/x-tar", &file))?
        }
    };
    if context.json {
        return context.write_json(&report);
    }
    for slot in &report.imported {
        let (name, tokens) = (plain(&slot.conversation), count(slot.tokens.into()));
        writeln!(context.out, "{name}: {tokens} tokens, {}", slot.class)?;
    }
    let kept = conversations(report.imported.len());
    writeln!(context.out, "{kept} imported, {} written", size(report.written_bytes))?;
    context.out.flush()?;
    access::warn_skipped(&report.skipped);
    Ok(())
}

fn import(
    archive: &Archive,
    store: &Store,
    options: ImportOptions,
    context: &Context,
) -> Result<Imported, hob_slots::archive::ArchiveError> {
    if !options.keep_foreign {
        archive.check_model(store)?;
    }
    let written_bytes = archive.put_objects(store)?;
    let report = archive.put_slots(store, &NoEngine, options, context.now.into())?;
    Ok(Imported { written_bytes: report.written_bytes + written_bytes, ..report })
}
