//! `hob slots top`: a live view of saved conversations and their states.
//!
//! - Reads the directory once a second, and asks the daemon that owns it, if one runs.
//! - Restores the terminal at the end, also after a panic.

mod view;

use std::time::{Duration, Instant, SystemTime};

use hob_slots::ModelHash;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};

use self::view::{Budgets, View};
use super::{dir, ls};
use crate::client::Client;
use crate::context::{Context, Terminal};
use crate::failure::Failure;

const REFRESH: Duration = Duration::from_secs(1);

/// Watch saved conversations live; keys: arrows move, s sorts, r reverses, q quits
#[derive(clap::Args)]
pub struct Args {
    /// Only KV of this model
    #[arg(long, value_name = "FINGERPRINT")]
    fingerprint: Option<ModelHash>,

    /// Sort key at the start
    #[arg(long, value_enum, default_value_t = ls::Sort::Used)]
    sort: ls::Sort,
}

pub fn run(args: &Args, context: &mut Context) -> Result<(), Failure> {
    let Terminal { input, output, is_dumb, .. } = context.terminal;
    if context.json || !output || !input || is_dumb {
        let message =
            "`hob slots top` needs a terminal that is not dumb; programs use `hob slots ls --json`";
        return Err(Failure::Usage(message.to_owned()));
    }
    let mut view = View::new(args.sort, context.lifetimes());
    load(args, &mut view, context)?;
    // This also has panics restore the terminal.
    let mut terminal = ratatui::try_init()?;
    let ended = watch(args, &mut terminal, &mut view, context);
    ratatui::restore();
    ended
}

fn watch(
    args: &Args,
    terminal: &mut ratatui::DefaultTerminal,
    view: &mut View,
    context: &mut Context,
) -> Result<(), Failure> {
    let mut loaded = Instant::now();
    loop {
        terminal.draw(|frame| view.draw(frame))?;
        if event::poll(REFRESH.saturating_sub(loaded.elapsed()))? {
            let Event::Key(key) = event::read()? else { continue };
            let interrupted =
                key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
            if key.kind != KeyEventKind::Release && (interrupted || !view.press(key.code)) {
                return Ok(());
            }
            continue;
        }
        load(args, view, context)?;
        loaded = Instant::now();
    }
}

fn load(args: &Args, view: &mut View, context: &mut Context) -> Result<(), Failure> {
    context.now = SystemTime::now();
    let reader = dir::reader(context)?;
    let contents = match &reader {
        Some(reader) => ls::read(reader, args.fingerprint, context)?,
        None => ls::Contents::default(),
    };
    let running = dir::owner_daemon(&context.settings);
    let client = running.and_then(|daemon| Client::of(&daemon, Some(REFRESH / 2)).ok());
    let status = client.and_then(|client| client.status().ok());
    let budgets = Budgets { disk_bytes: contents.bytes, disk_budget: contents.quota_bytes };
    view.show(contents.slots, contents.titles, budgets, status.as_ref());
    Ok(())
}
