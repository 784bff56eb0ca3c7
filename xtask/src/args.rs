//! Parses the arguments of `cargo xtask`. Pure.

use std::path::PathBuf;

use crate::gpu::{Gpu, Wish};

pub const USAGE: &str = "\
usage: cargo xtask <task>

  run    [--yes] [--model NAME] [-- HOBD ARGS]   set up, build, and start hobd; offers a real model before
                                                 the first start; `--model smollm2` fetches and runs it
  run    --app [--yes] [-- APP ARGS]             the same with the desktop app
         --gpu none|cuda|vulkan|metal|rocm       build for this instead of what the machine has
         --native                                build for this processor alone, in target/native
  model  [--yes] [-- HOBD ARGS]                  fetch a real model, SmolLM2 (98 MB), into Hob's models
                                                 directory; hobd runs it unless another is configured
  bundle [--headless] [--yes]                    set up, and make packages to install elsewhere: an archive with
                                                 hobd and hob, and, without --headless, the desktop app
         --gpu cuda|vulkan|metal|rocm            with llama.cpp's backend for such devices, too
  test   [--yes] [--whole]                       set up, and run every check; --whole: the slow tests too
  test   --gpu cuda|vulkan|metal|rocm [--yes]    check the build for a device, on the device; without a
                                                 card, Vulkan's checks run on Mesa's software device
  bench  [--yes] NAME [ARGS]                     set up, and measure; `bench --help` lists the names; `page`
                                                 measures the app's page, `page --app` its window
  clients [--yes] [--write]                      build, and run the clients of others; --write: write
                                                 docs/CLIENTS.md from the run
  soak   [--yes] --hours N [ARGS]                set up, and send requests of 1,000 conversations to hobd for hours:
                                                 fails if memory, descriptors, disk or latency grow
  peer   [--yes]                                 build llama-server, which `bench peer` compares hobd with
  setup  [--yes]                                 install the packages for building and testing

  --yes   install missing packages without asking (as with CI set)";

/// A flag of `run`, and of the process that it starts.
pub const NATIVE: &str = "--native";

#[derive(Debug, PartialEq, Eq)]
pub enum Task {
    Help,
    Setup {
        yes: bool,
    },
    Run {
        yes: bool,
        gpu: Wish,
        native: bool,
        hobd_args: Vec<String>,
    },
    App {
        yes: bool,
        gpu: Wish,
        native: bool,
        app_args: Vec<String>,
    },
    Bundle {
        yes: bool,
        /// Without the desktop app.
        headless: bool,
        /// Besides the processor.
        gpu: Option<Gpu>,
    },
    Model {
        yes: bool,
        /// The flags of hobd that say where its data is.
        flags: Vec<String>,
    },
    /// Started by `run` beside hobd: waits for the ready file, and prints commands to paste.
    Announce {
        ready_file: PathBuf,
        native: bool,
        hob_flags: Vec<String>,
    },
    Test {
        yes: bool,
        whole: bool,
    },
    /// The checks of a build for a device.
    TestGpu {
        yes: bool,
        gpu: Gpu,
    },
    /// Runs the clients of others.
    Clients {
        yes: bool,
        /// Makes their page anew.
        writes: bool,
    },
    /// Builds llama-server.
    Peer {
        yes: bool,
    },
    Bench {
        yes: bool,
        bench_args: Vec<String>,
    },
    /// A long run of mixed traffic.
    Soak {
        yes: bool,
        soak_args: Vec<String>,
    },
}

/// Parses the words after `cargo xtask`.
pub fn parse(words: impl IntoIterator<Item = String>) -> Result<Task, String> {
    let mut words = words.into_iter();
    let task = words.next().unwrap_or_else(|| "help".to_owned());
    let mut rest: Vec<String> = words.collect();
    if asks_for_help(&rest) && !PASS_HELP_ON.contains(&task.as_str()) {
        return Ok(Task::Help);
    }
    match task.as_str() {
        "help" | "--help" | "-h" => Ok(Task::Help),
        "setup" => {
            let yes = take_flag(&mut rest, "--yes");
            nothing_else(&rest).map(|()| Task::Setup { yes })
        }
        "run" => {
            let own_args = split_off_after_dashes(&mut rest);
            let yes = take_flag(&mut rest, "--yes");
            let is_app = take_flag(&mut rest, "--app");
            let native = take_flag(&mut rest, NATIVE);
            let model = take_option(&mut rest, "--model")?;
            let gpu = take_gpu(&mut rest)?;
            nothing_else(&rest)?;
            let model_args = model.into_iter().flat_map(|model| ["--model".to_owned(), model]);
            let own_args = model_args.chain(own_args).collect();
            Ok(if is_app {
                Task::App { yes, gpu, native, app_args: own_args }
            } else {
                Task::Run { yes, gpu, native, hobd_args: own_args }
            })
        }
        "bundle" => {
            let yes = take_flag(&mut rest, "--yes");
            let headless = take_flag(&mut rest, "--headless");
            let gpu = match take_gpu(&mut rest)? {
                Wish::Only(gpu) => Some(gpu),
                // What this machine has says nothing of those that install it.
                Wish::Detect | Wish::None => None,
            };
            nothing_else(&rest).map(|()| Task::Bundle { yes, headless, gpu })
        }
        "model" => {
            let flags = split_off_after_dashes(&mut rest);
            let yes = take_flag(&mut rest, "--yes");
            nothing_else(&rest).map(|()| Task::Model { yes, flags })
        }
        "announce" => {
            let native = take_flag(&mut rest, NATIVE);
            match rest.split_first() {
                Some((ready_file, hob_flags)) => {
                    let (ready_file, hob_flags) = (ready_file.into(), hob_flags.to_vec());
                    Ok(Task::Announce { ready_file, native, hob_flags })
                }
                None => Err("announce needs the path of a ready file".to_owned()),
            }
        }
        "test" => {
            let yes = take_flag(&mut rest, "--yes");
            let whole = take_flag(&mut rest, "--whole");
            let gpu = take_gpu(&mut rest)?;
            nothing_else(&rest)?;
            match gpu {
                Wish::Only(_) if whole => Err("--whole does not go with --gpu".to_owned()),
                Wish::Only(gpu) => Ok(Task::TestGpu { yes, gpu }),
                Wish::Detect | Wish::None => Ok(Task::Test { yes, whole }),
            }
        }
        "clients" => {
            let yes = take_flag(&mut rest, "--yes");
            let writes = take_flag(&mut rest, "--write");
            nothing_else(&rest).map(|()| Task::Clients { yes, writes })
        }
        "peer" => {
            let yes = take_flag(&mut rest, "--yes");
            nothing_else(&rest).map(|()| Task::Peer { yes })
        }
        "bench" => {
            let yes = take_flag(&mut rest, "--yes");
            Ok(Task::Bench { yes, bench_args: rest })
        }
        "soak" => {
            let yes = take_flag(&mut rest, "--yes");
            Ok(Task::Soak { yes, soak_args: rest })
        }
        other => Err(format!("there is no task {other:?}")),
    }
}

/// Tasks whose words are those of another program.
const PASS_HELP_ON: [&str; 3] = ["announce", "bench", "soak"];

/// Behind the dashes, hobd is asked.
fn asks_for_help(words: &[String]) -> bool {
    let mut own = words.iter().take_while(|word| *word != "--");
    own.any(|word| word == "--help" || word == "-h")
}

fn split_off_after_dashes(words: &mut Vec<String>) -> Vec<String> {
    match words.iter().position(|word| word == "--") {
        Some(at) => words.drain(at..).skip(1).collect(),
        None => Vec::new(),
    }
}

fn take_flag(words: &mut Vec<String>, flag: &str) -> bool {
    let before = words.len();
    words.retain(|word| word != flag);
    words.len() < before
}

/// In either spelling: `--name VALUE`, `--name=VALUE`.
fn take_option(words: &mut Vec<String>, name: &str) -> Result<Option<String>, String> {
    let start = format!("{name}=");
    if let Some(at) = words.iter().position(|word| word.starts_with(&start)) {
        return Ok(Some(words.remove(at)[start.len()..].to_owned()));
    }
    let Some(at) = words.iter().position(|word| word == name) else { return Ok(None) };
    if at + 1 == words.len() {
        return Err(format!("{name} needs a value"));
    }
    Ok(words.drain(at..at + 2).nth(1))
}

fn take_gpu(words: &mut Vec<String>) -> Result<Wish, String> {
    take_option(words, "--gpu")?.map_or(Ok(Wish::Detect), |word| Wish::parse(&word))
}

fn nothing_else(words: &[String]) -> Result<(), String> {
    match words.first() {
        None => Ok(()),
        Some(word) => {
            Err(format!("unknown argument {word:?}; arguments for hobd or the app follow --"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_after_the_dashes_go_to_hobd() {
        let task = parsed("run --yes -- --ctx 8192 --yes");
        assert_eq!(task, Ok(run(true, Wish::Detect, "--ctx 8192 --yes")));
    }

    #[test]
    fn a_model_may_be_named_without_the_dashes() {
        let task = parsed("run --model qwen.gguf -- --slots 2");
        assert_eq!(task, Ok(run(false, Wish::Detect, "--model qwen.gguf --slots 2")));
        assert_eq!(parsed("run --model"), Err("--model needs a value".to_owned()));
    }

    #[test]
    fn an_option_is_read_in_both_spellings() {
        let task = parsed("run --model=qwen.gguf --gpu=vulkan -- --slots=2");
        let vulkan = Wish::Only(Gpu::Vulkan);
        assert_eq!(task, Ok(run(false, vulkan, "--model qwen.gguf --slots=2")));
        assert!(parsed("run --gpu=voodoo").unwrap_err().contains("choose none, cuda"));
    }

    #[test]
    fn help_is_given_behind_a_task_too() {
        assert_eq!(parsed("run --help"), Ok(Task::Help));
        assert_eq!(parsed("test -h"), Ok(Task::Help));
        assert_eq!(parsed("run -- --help"), Ok(run(false, Wish::Detect, "--help")));
        let bench_args = words("--help");
        assert_eq!(parsed("bench --help"), Ok(Task::Bench { yes: false, bench_args }));
    }

    #[test]
    fn the_app_gets_its_own_arguments() {
        let task = parsed("run --app --yes -- --smoke-test");
        let app_args = words("--smoke-test");
        assert_eq!(task, Ok(Task::App { yes: true, gpu: Wish::Detect, native: false, app_args }));
    }

    #[test]
    fn a_bundle_has_a_backend_for_devices_only_where_one_is_named() {
        let bundle = |gpu, headless| Ok(Task::Bundle { yes: false, headless, gpu });
        assert_eq!(parsed("bundle"), bundle(None, false));
        assert_eq!(parsed("bundle --headless --gpu vulkan"), bundle(Some(Gpu::Vulkan), true));
        assert_eq!(parsed("bundle --gpu none"), bundle(None, false));
        assert!(parsed("bundle --app").is_err());
    }

    #[test]
    fn the_model_is_fetched_where_hobd_has_its_data() {
        let task = parsed("model --yes -- --data-dir /d");
        assert_eq!(task, Ok(Task::Model { yes: true, flags: words("--data-dir /d") }));
        assert!(parsed("model smollm2").is_err());
    }

    #[test]
    fn the_device_of_a_build_is_named() {
        let task = parsed("run --gpu vulkan -- --gpu-layers 4");
        assert_eq!(task, Ok(run(false, Wish::Only(Gpu::Vulkan), "--gpu-layers 4")));
        assert_eq!(parsed("test --gpu cuda"), Ok(Task::TestGpu { yes: false, gpu: Gpu::Cuda }));
        assert_eq!(parsed("test --gpu none"), Ok(Task::Test { yes: false, whole: false }));
        assert!(parsed("run --gpu voodoo").unwrap_err().contains("choose none, cuda"));
    }

    #[test]
    fn a_build_for_this_processor_alone_is_asked_for() {
        let is_native = |line: &str| match parsed(line) {
            Ok(Task::Run { native, .. } | Task::App { native, .. }) => native,
            other => panic!("{line}: {other:?}"),
        };
        assert!(is_native("run --native") && is_native("run --app --gpu vulkan --native"));
        assert!(!is_native("run") && !is_native("run -- --native"));
        let announced = parsed("announce --native ready.json --data-dir /d");
        let hob_flags = words("--data-dir /d");
        let ready_file = "ready.json".into();
        assert_eq!(announced, Ok(Task::Announce { ready_file, native: true, hob_flags }));
    }

    #[test]
    fn a_benchmark_gets_its_own_arguments() {
        let task = parsed("bench resume --tokens 512 --yes");
        assert_eq!(task, Ok(Task::Bench { yes: true, bench_args: words("resume --tokens 512") }));
    }

    #[test]
    fn a_long_run_gets_its_own_arguments() {
        let task = parsed("soak --hours 24 --yes");
        assert_eq!(task, Ok(Task::Soak { yes: true, soak_args: words("--hours 24") }));
    }

    #[test]
    fn the_page_of_the_clients_is_written_on_demand() {
        assert_eq!(parsed("clients --write"), Ok(Task::Clients { yes: false, writes: true }));
        assert_eq!(parsed("clients --yes"), Ok(Task::Clients { yes: true, writes: false }));
    }

    #[test]
    fn an_unknown_word_is_refused() {
        assert!(parsed("test --hole").is_err());
        assert!(parsed("tset").is_err());
        assert_eq!(parsed(""), Ok(Task::Help));
    }

    fn parsed(line: &str) -> Result<Task, String> {
        parse(words(line))
    }

    fn run(yes: bool, gpu: Wish, hobd_args: &str) -> Task {
        Task::Run { yes, gpu, native: false, hobd_args: words(hobd_args) }
    }

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }
}
