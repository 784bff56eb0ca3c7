//! `cargo xtask`: set-up, run, test and measure, with nothing but a Rust toolchain.
//!
//! - Prints every command before it runs it, in a form that can be pasted.
//! - Installs nothing without printing what and why, and without consent (`--yes`, or `CI` is set).
//! - Has one dependency, because it is the first crate that compiles on a fresh machine.
//!
//! Reading order: [`args`] parses the task; [`need`] and [`packages`] list what building and
//! testing need; [`detect`] and [`setup`] install what is missing; [`gpu`] chooses the device of a
//! build; [`build`] builds programs; [`model`] fetches a real model; [`run`] and [`app`] start hobd and the app; [`bundle`] makes
//! packages to install elsewhere; [`bench`] runs benchmarks; [`peer`] builds llama-server, which one of
//! them compares hobd with; [`openai`] runs the clients of others; [`test`] and [`test_gpu`] run the checks, and
//! [`failed_tests`] repeats at their end what failed.

#[cfg(not(unix))]
compile_error!("Hob is built on Linux and macOS; on Windows, use WSL.");

mod app;
mod args;
mod bench;
mod build;
mod bundle;
mod circles;
mod command;
mod deny;
mod detect;
mod failed_tests;
mod gpu;
mod layers;
mod libclang;
mod llama_server;
mod model;
mod need;
mod openai;
mod outcome;
mod packages;
mod peer;
mod pure;
mod run;
mod setup;
mod test;
mod test_gpu;

use std::path::Path;
use std::process::ExitCode;

use args::Task;
use command::Failure;
use gpu::{Choice, Wish};
use need::Need;

fn main() -> ExitCode {
    let task = match args::parse(std::env::args().skip(1)) {
        Ok(task) => task,
        Err(problem) => {
            eprintln!("{problem}\n\n{}", args::USAGE);
            return ExitCode::from(2);
        }
    };
    match perform(task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("\n{failure}");
            ExitCode::FAILURE
        }
    }
}

fn perform(task: Task) -> Result<(), Failure> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is in the workspace");
    std::env::set_current_dir(root).map_err(|e| {
        Failure::new(
            format!("cannot enter {}: {e}", root.display()),
            "build xtask again if the project was moved",
        )
    })?;
    match task {
        Task::Help => {
            println!("{}", args::USAGE);
            Ok(())
        }
        Task::Setup { yes } => setup::ensure(&Need::all(), yes),
        Task::Run { yes, gpu, native, hobd_args } => {
            setup::ensure(&Need::BUILD, yes)?;
            let choice = Choice { native, ..setup::for_gpu(gpu, yes)? };
            model::before_start(&hobd_args, yes)?;
            run::run(&choice, &hobd_args)
        }
        Task::App { yes, gpu, native, app_args } => {
            setup::ensure(&Need::app(), yes)?;
            let choice = Choice { native, ..setup::for_gpu(gpu, yes)? };
            model::before_start(&app_args, yes)?;
            app::run(&choice, &app_args)
        }
        Task::Bundle { yes, headless, gpu } => {
            let needs = if headless { Need::BUILD.to_vec() } else { Need::bundle() };
            setup::ensure(&needs, yes)?;
            if let Some(gpu) = gpu {
                setup::for_gpu(Wish::Only(gpu), yes)?;
            }
            bundle::make(headless, gpu)
        }
        Task::Model { yes, flags } => model::fetch(&flags, yes),
        Task::Announce { ready_file, native, hob_flags } => {
            run::announce(&ready_file, native, &hob_flags)
        }
        Task::Test { yes, whole } => {
            test::ensure_components()?;
            setup::ensure(&Need::all(), yes)?;
            test::run(whole)
        }
        Task::TestGpu { yes, gpu } => {
            setup::ensure(&Need::BUILD, yes)?;
            setup::for_gpu(Wish::Only(gpu), yes)?;
            test_gpu::run(gpu, yes)
        }
        Task::Clients { yes, writes } => {
            setup::ensure(&Need::BUILD, yes)?;
            setup::ensure(&[Need::Python, Need::Speech], yes)?;
            build::programs(&["hobd"])?;
            openai::check(writes)
        }
        Task::Peer { yes } => {
            setup::ensure(&Need::BUILD, yes)?;
            setup::ensure(&[Need::Curl], yes)?;
            peer::build()
        }
        Task::Bench { yes, bench_args } => bench::run(&bench_args, yes),
        Task::Soak { yes, mut soak_args } => {
            soak_args.insert(0, "soak".to_owned());
            bench::run(&soak_args, yes)
        }
    }
}
