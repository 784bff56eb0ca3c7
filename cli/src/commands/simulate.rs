//! `hob simulate`

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use hob_simulate::bundled::Traces;
use hob_simulate::closed::{self, Disk};
use hob_simulate::plot;
use hob_simulate::policy::PolicyKind;
use hob_simulate::study::{self, Row, Scope, Setup, WaitRow};
use hob_simulate::summary::Summary;
use hob_simulate::trace::Trace;
use serde::Serialize;

use crate::context::Context;
use crate::failure::Failure;
use crate::output::{Align, Table, count};

/// Replay request traces against eviction policies
#[derive(clap::Args)]
#[command(after_help = "\
Set-ups:
  claude-N   N clients replay Claude Code sessions back to back
  mixed-N    the same, with one unrepeated cold prompt per request
  mooncake   one hour of a chat service, in order of arrival

hob contains small extracts of the traces; --trace replaces them by the full files.")]
pub struct Args {
    /// Request patterns to replay
    #[arg(value_name = "SETUP", default_values = ["mixed-4", "claude-8", "claude-16", "mooncake"])]
    setups: Vec<Setup>,

    /// Trace file that replaces the bundled extract of its kind
    #[arg(long = "trace", value_name = "FILE")]
    traces: Vec<PathBuf>,

    /// Capacities of memory, in blocks of 512 tokens
    #[arg(long, value_name = "BLOCKS", value_delimiter = ',', default_value = "275,550,1100,4400",
          value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    capacity: Vec<u64>,

    /// Policies to compare [default: all]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    policy: Vec<PolicyKind>,

    /// Shuffled session orders to average over [default: 3; 1 with --check]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=64))]
    seeds: Option<u64>,

    /// Number of requests to replay [default: 8000; 3000 with --check]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    requests: Option<u32>,

    /// Skip the optimum: the hit ratio of a policy that knows the future
    #[arg(long)]
    no_optimum: bool,

    /// Simulate a closed loop instead: each client waits for its answer and thinks
    #[arg(long, conflicts_with_all = ["no_optimum", "plot", "check"])]
    closed: bool,

    /// Number of clients in the closed loop
    #[arg(long, default_value_t = 8, requires = "closed",
          value_parser = clap::value_parser!(u16).range(1..=256))]
    clients: u16,

    /// Prefill speed in the closed loop
    #[arg(long, value_name = "TOKENS_PER_SEC", default_value_t = 1_000, requires = "closed",
          value_parser = clap::value_parser!(u32).range(1..))]
    prefill: u32,

    /// Time to read one block from disk in the closed loop
    #[arg(long, value_name = "MILLIS", default_value_t = 7, requires = "closed")]
    disk_read: u32,

    /// Plot the hit ratios to this SVG file
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,

    /// Measure the default policy against its bars, and fail when it misses one
    #[arg(long, conflicts_with = "plot")]
    check: bool,

    /// Check all capacities, three orders and 8,000 requests: minutes instead of seconds
    #[arg(long, requires = "check")]
    whole: bool,

    /// Fit the prior of the default policy, and write it to this file
    #[arg(long, value_name = "FILE", conflicts_with_all = ["plot", "check", "closed"])]
    fit: Option<PathBuf>,
}

pub fn run(args: &Args, context: &mut Context) -> Result<(), Failure> {
    let mut traces = Traces::bundled();
    for path in &args.traces {
        traces.replace(Trace::open(path).map_err(|error| Failure::Usage(error.to_string()))?);
    }
    match (&args.fit, args.check, args.closed) {
        (Some(path), ..) => fit(args, &traces, path),
        (_, true, _) => check(args, &traces, context),
        (_, _, true) => closed_loop(args, &traces, context),
        _ => hit_ratios(args, &traces, context),
    }
}

fn fit(args: &Args, traces: &Traces, path: &Path) -> Result<(), Failure> {
    let prior = hob_simulate::fit::prior(traces, args.requests());
    let failed = |source| Failure::File { doing: "write", path: path.to_owned(), source };
    fs::write(path, prior.to_text()).map_err(failed)
}

impl Args {
    fn is_bounded(&self) -> bool {
        self.check && !self.whole
    }

    fn seeds(&self) -> u64 {
        self.seeds.unwrap_or(if self.is_bounded() { 1 } else { 3 })
    }

    fn requests(&self) -> usize {
        self.requests.unwrap_or(if self.is_bounded() { 3_000 } else { 8_000 }) as usize
    }

    fn policies(&self) -> Vec<PolicyKind> {
        if self.policy.is_empty() { PolicyKind::ALL.to_vec() } else { self.policy.clone() }
    }
}

fn hit_ratios(args: &Args, traces: &Traces, context: &mut Context) -> Result<(), Failure> {
    let scope = Scope {
        policies: args.policies(),
        seeds: args.seeds(),
        requests: args.requests(),
        optimum: !args.no_optimum,
    };
    let summaries = study::summaries(traces, &args.setups, scope.requests);
    if !context.json {
        write_workloads(&summaries, &mut *context.out)?;
    }
    let mut tables: Vec<(String, Vec<Row>)> = Vec::new();
    for &setup in &args.setups {
        let rows = study::hits(traces, setup, &args.capacity, &scope);
        if !context.json {
            write_hits(setup, &rows, &mut *context.out)?;
        }
        tables.push((setup.to_string(), rows));
    }
    if let Some(path) = &args.plot {
        let plot = plot::hit_ratios(&tables).map_err(|error| Failure::Usage(error.to_string()))?;
        let failed = |source| Failure::File { doing: "write", path: path.clone(), source };
        fs::write(path, plot).map_err(failed)?;
    }
    if context.json {
        let rows: Vec<_> = tables.into_iter().flat_map(|(_, rows)| rows).collect();
        context.write_json(&rows)?;
    }
    Ok(())
}

/// What the set-ups ask of a cache.
fn write_workloads(summaries: &[Summary], out: &mut dyn Write) -> Result<(), Failure> {
    let right = |name| (name, Align::Right);
    let mut table = Table::new(&[
        ("SET-UP", Align::Left),
        right("REQUESTS"),
        right("SESSIONS"),
        right("TURNS P50, P95"),
        right("PROMPT TOKENS P50, P95"),
        right("MULTI-TURN %"),
        right("CROSS-SESSION %"),
        right("GAP SECS P50, P90, P99"),
    ]);
    let list = |numbers: &[u64]| {
        numbers.iter().map(|number| count(*number)).collect::<Vec<_>>().join("  ")
    };
    for summary in summaries {
        table.row(vec![
            summary.setup.clone(),
            count(summary.requests as u64),
            count(summary.sessions as u64),
            list(&summary.turns),
            list(&summary.prompt_tokens),
            format!("{:.1}", summary.multi_turn_percent),
            format!("{:.1}", summary.cross_session_percent),
            list(&summary.gap_secs),
        ]);
    }
    table.write(out)?;
    Ok(writeln!(out)?)
}

fn write_hits(setup: Setup, rows: &[Row], out: &mut dyn Write) -> Result<(), Failure> {
    writeln!(out, "{setup}: hits, % (and how much of the gap from LRU to infinite is closed)")?;
    let mut columns = vec![("", Align::Left)];
    columns.resize(1 + rows.len(), ("", Align::Right));
    let mut table = Table::new(&columns);
    let head = rows.iter().map(|row| format!("{} blocks", count(row.capacity_blocks)));
    table.row([String::new()].into_iter().chain(head).collect());
    let policies = rows.first().map_or(0, |row| row.policies.len());
    for column in 0..policies {
        let cells = rows.iter().map(|row| {
            let cell = &row.policies[column];
            let closed = cell.gap_closed_percent.map_or("-".to_owned(), |gap| format!("{gap:+.0}"));
            format!("{:.1} {:>6}", cell.hit_percent, format!("({closed})"))
        });
        table.row([rows[0].policies[column].policy.to_owned()].into_iter().chain(cells).collect());
    }
    let default = PolicyKind::DEFAULT;
    let lost = |row: &Row| {
        let cell = row.cell(default)?;
        Some((cell.lost_multi_turn_percent, cell.lost_cross_session_percent))
    };
    let mut bound = |name: &str, of: &dyn Fn(&Row) -> Option<f64>| {
        let cells: Option<Vec<_>> =
            rows.iter().map(|row| Some(format!("{:.1}       ", of(row)?))).collect();
        if let Some(cells) = cells {
            table.row([name.to_owned()].into_iter().chain(cells).collect());
        }
    };
    bound("optimum, pinned", &|row| row.optimum_pinned_percent);
    bound("optimum, bypass", &|row| row.optimum_bypass_percent);
    bound("infinite", &|row| Some(row.infinite_percent));
    bound(&format!("{default} lost: multi-turn"), &|row| Some(lost(row)?.0));
    bound(&format!("{default} lost: cross-session"), &|row| Some(lost(row)?.1));
    table.write(out)?;
    Ok(writeln!(out)?)
}

fn closed_loop(args: &Args, traces: &Traces, context: &mut Context) -> Result<(), Failure> {
    let setup = closed::Setup {
        clients: args.clients.into(),
        requests: args.requests() / 2,
        prefill_tokens_per_sec: args.prefill.into(),
        ..closed::Setup::default()
    };
    let disk = Disk { block_millis: args.disk_read.into(), ..Disk::default() };
    let mut tables = Vec::new();
    for &capacity in &args.capacity {
        let rows = study::waits(traces, &setup, capacity, disk, &args.policies(), args.seeds());
        if !context.json {
            let (clients, blocks) = (setup.clients, count(capacity));
            writeln!(
                context.out,
                "{clients} clients, {blocks} blocks: seconds to the first token"
            )?;
            write_waits(&rows, &mut *context.out)?;
        }
        tables.push(WaitTable { capacity_blocks: capacity, rows });
    }
    if context.json { context.write_json(&tables) } else { Ok(()) }
}

/// A table of the closed loop.
#[derive(Serialize)]
struct WaitTable {
    capacity_blocks: u64,
    rows: Vec<WaitRow>,
}

fn write_waits(rows: &[WaitRow], out: &mut dyn Write) -> Result<(), Failure> {
    let right = |name| (name, Align::Right);
    let left = |name| (name, Align::Left);
    let mut table = Table::new(&[
        left("POLICY"),
        left("TIERS"),
        right("MEAN"),
        right("P50"),
        right("P95"),
        right("REUSED %"),
    ]);
    for row in rows {
        let waits = &row.waits;
        let figures = [waits.mean_secs, waits.p50_secs, waits.p95_secs, waits.reused_percent];
        let tiers = if row.disk { "memory, disk" } else { "memory" };
        let words = [row.policy.to_owned(), tiers.to_owned()].into_iter();
        table.row(words.chain(figures.map(|figure| format!("{figure:.1}"))).collect());
    }
    table.write(out)?;
    Ok(writeln!(out)?)
}

fn check(args: &Args, traces: &Traces, context: &mut Context) -> Result<(), Failure> {
    // The bounded check measures at the capacities of the bars and at one beside them.
    let cells: &[u64] = if args.whole { &study::CELLS } else { &[275] };
    let figures = study::figures(traces, args.seeds(), args.requests(), cells);
    if context.json {
        context.write_json(&figures)?;
    } else {
        let right = |name| (name, Align::Right);
        let mut table =
            Table::new(&[("FIGURE", Align::Left), right("MEASURED"), right("BAR"), right("")]);
        for figure in &figures {
            let sign = if figure.is_cost { "<=" } else { ">=" };
            let bar = format!("{sign} {}", figure.bar);
            let holds = if figure.holds() { "reached" } else { "MISSED" };
            let measured = format!("{:.2}", figure.measured);
            table.row(vec![figure.what.clone(), measured, bar, holds.to_owned()]);
        }
        table.write(&mut *context.out)?;
    }
    let missed = figures.iter().filter(|figure| !figure.holds()).count();
    match missed {
        0 => Ok(()),
        _ => Err(Failure::Missed { missed, of: figures.len() }),
    }
}
