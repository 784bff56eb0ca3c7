//! Tables as Markdown.

use std::fmt::Write;

use crate::record::{Record, Row, Table, median};

/// A ratio above it is a loss, and no noise.
const NOISE: f64 = 1.02;

/// One table, with medians, spreads and bars.
pub fn table(table: &Table) -> String {
    let others = table.rows.iter().map(|row| row.against.as_deref().unwrap_or("llama-server"));
    let mut others: Vec<&str> = others.collect();
    others.dedup();
    let other = if let [one] = others[..] { one } else { "llama-server" };
    let mut text = format!("| {} | unit | hobd | {other} | ratio | bar |\n", table.title);
    text += "|---|---|---:|---:|---:|---:|\n";
    for row in &table.rows {
        let against = match &row.against {
            Some(against) if against != other => format!(" (against {against})"),
            _ => String::new(),
        };
        let bar = row.bar.map_or(String::new(), |bar| format!("{bar:.2}"));
        let missed = if row.missed().is_some() { ": missed" } else { "" };
        let (title, unit) = (&row.title, row.unit.name());
        let (hobd, other, ratio) = (spread(row, &row.hobd), spread(row, &row.other), ratio(row));
        let _ = writeln!(
            text,
            "| {title}{against} | {unit} | {hobd} | {other} | {ratio} | {bar}{missed} |"
        );
    }
    text
}

/// The table of the front page: what a user waits for, and every row beside llama-server in which hobd loses.
pub fn readme(record: &Record) -> String {
    let rounds = record.tables.first().map_or(0, |table| table.rounds);
    let mut text = "| | hobd | llama-server | ratio |\n|---|---:|---:|---:|\n".to_owned();
    for table in &record.tables {
        let rows = table.rows.iter().filter(|row| row.against.is_none());
        let rows: Vec<&Row> = rows.filter(|row| is_of_front_page(&table.name, row)).collect();
        if !rows.is_empty() {
            let _ = writeln!(text, "| **{}**{} | | | |", table.title, rounds_of(table, rounds));
        }
        for row in rows {
            let shown = |samples: &[f64]| {
                median(samples).map_or(String::new(), |it| {
                    let shown = format!("{} {}", row.unit.show(it), row.unit.name());
                    shown.replace(" MB bytes", " MB")
                })
            };
            let (hobd, other) = (shown(&row.hobd), shown(&row.other));
            let _ = writeln!(text, "| {} | {hobd} | {other} | {} |", row.title, ratio(row));
        }
    }
    let plot = "<picture><source media=\"(prefers-color-scheme: dark)\" srcset=\"docs/images/peer-dark.svg\"><img \
                src=\"docs/images/peer-light.svg\" alt=\"The times to the first token as bars: hobd beside \
                llama-server, on a logarithmic scale\"></picture>";
    format!(
        "{text}\n{plot}\n\n{}. {}. A ratio below 1 is in Hob's favour; no row above {NOISE} is left out; medians of {rounds} \
         interleaved rounds where a table does not say otherwise. [All tables](docs/MEASUREMENTS.md#beside-llama-server). To repeat it on your machine: `cargo xtask peer`, \
         then `cargo xtask bench peer`.\n",
        sentence(&record.machine.title()),
        sentence(&record.model)
    )
}

/// What a table of other than `usual` rounds adds to its title.
fn rounds_of(table: &Table, usual: usize) -> String {
    match table.rounds {
        rounds if rounds == usual => String::new(),
        1 => " (one run)".to_owned(),
        rounds => format!(" ({rounds} rounds)"),
    }
}

fn is_of_front_page(table: &str, row: &Row) -> bool {
    let loses = row.ratio().is_some_and(|ratio| ratio > NOISE);
    loses || is_waited_for(table, row)
}

fn is_waited_for(table: &str, row: &Row) -> bool {
    match table {
        "first-token" => true,
        "streams" => row.key.starts_with("speed") || row.key.starts_with("p99"),
        "agent-day" => row.key != "again",
        "bytes" => row.key == "conversations",
        // The row behind it, which may lose alone, is titled `of it`.
        "footprint" => row.key == "memory",
        _ => false,
    }
}

/// A section of each run, with all of its tables.
pub fn measurements(records: &[(String, Record)]) -> String {
    let mut text = String::new();
    for (name, record) in records {
        let _ = writeln!(
            text,
            "### {}\n\n{}; {}; {}. Every sample is in [{name}.json](measurements/{name}.json).\n",
            sentence(&record.model),
            record.machine.title(),
            record.hobd,
            record.llama_server
        );
        for one in &record.tables {
            let _ = writeln!(
                text,
                "`{}` at commit {}: {} {} threads, {} cells, rounds: {}, {} s in all; load of the machine before \
                 it: {:.1}.\n\n{}",
                one.command,
                one.commit,
                one.conditions,
                one.threads,
                one.context,
                one.rounds,
                one.took_secs,
                one.load,
                table(one)
            );
            if let Some(factors) = factors(one) {
                let _ = writeln!(text, "{factors}\n");
            }
        }
    }
    text
}

/// How many times faster hobd is in the rows where llama-server computes the whole prompt again. The bar of 50
/// times is for the long prompt; a short one costs llama-server less, and hobd nearly as much.
fn factors(table: &Table) -> Option<String> {
    const AGAIN: [&str; 3] = ["after-restart", "after-unload", "restart-long"];
    let rows = AGAIN.iter().filter_map(|key| table.rows.iter().find(|row| row.key == *key));
    let factors = rows.filter_map(|row| {
        let factor = 1.0 / row.ratio()?;
        let bar = row.bar.filter(|bar| *bar < 0.1).map(|bar| format!(" (bar: {:.0})", 1.0 / bar));
        Some(format!("{}, {factor:.0} times{}", row.title, bar.unwrap_or_default()))
    });
    let factors: Vec<String> = factors.collect();
    let what = "Where llama-server computes the whole prompt again, hobd is faster";
    (!factors.is_empty()).then(|| format!("{what}: {}.", factors.join("; ")))
}

fn ratio(row: &Row) -> String {
    row.ratio().map_or(String::new(), |ratio| {
        if ratio < 0.1 { format!("{ratio:.3}") } else { format!("{ratio:.2}") }
    })
}

/// The median, and the least and the most in brackets.
fn spread(row: &Row, samples: &[f64]) -> String {
    let Some(middle) = median(samples) else { return String::new() };
    let show = |value: f64| row.unit.show(value);
    let least = samples.iter().copied().fold(f64::INFINITY, f64::min);
    let most = samples.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if show(least) == show(most) {
        return show(middle);
    }
    format!("{} ({} to {})", show(middle), show(least), show(most))
}

/// The text with a capital as its first letter.
fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Unit, Who};

    #[test]
    fn the_front_page_leaves_out_no_row_in_which_hobd_loses() {
        let row = |key: &str, hobd| {
            let mut row = Row::lower(key, key, Unit::Ms);
            row.push(Who::Hobd, hobd);
            row.push(Who::Other, 100.0);
            row
        };
        assert!(is_of_front_page("streams", &row("newcomer-16", 103.0)));
        assert!(is_of_front_page("footprint", &row("program", 300.0)));
        assert!(!is_of_front_page("streams", &row("newcomer-16", 101.0)), "that is noise");
        assert!(!is_of_front_page("footprint", &row("start", 50.0)));
        assert!(is_of_front_page("first-token", &row("cold", 50.0)));
    }

    #[test]
    fn short_rows_have_their_factor_beside_that_of_the_long_one() {
        let row = |key, title, bar, hobd| {
            let mut row = Row::lower(key, title, Unit::Ms).bar(bar);
            row.push(Who::Hobd, hobd);
            row.push(Who::Other, 1_000.0);
            row
        };
        let rows = vec![
            row("follow-up", "follow-up", 1.02, 900.0),
            row("after-restart", "follow-up after a restart", 1.02, 30.0),
            row("restart-long", "follow-up of 3,000 tokens after a restart", 0.02, 19.0),
        ];
        let mut table = Table::of_rows("first-token", rows);
        let expected = "Where llama-server computes the whole prompt again, hobd is faster: follow-up after a restart, \
                        33 times; follow-up of 3,000 tokens after a restart, 53 times (bar: 50).";
        assert_eq!(factors(&table).as_deref(), Some(expected));
        table.rows.truncate(1);
        assert_eq!(factors(&table), None);
    }
}
