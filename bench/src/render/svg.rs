//! The front page's rows as bars, on a logarithmic scale: what takes a thousandth is still seen.

use std::fmt::Write;

use crate::record::{Record, Row, Unit, median};

#[derive(Clone, Copy)]
pub enum Look {
    Light,
    Dark,
}

struct Colours {
    text: &'static str,
    faint: &'static str,
    hobd: &'static str,
    other: &'static str,
}

impl Look {
    fn colours(self) -> Colours {
        match self {
            Self::Light => {
                Colours { text: "#1f2328", faint: "#d1d9e0", hobd: "#b35900", other: "#8c959f" }
            }
            Self::Dark => {
                Colours { text: "#f0f6fc", faint: "#3d444d", hobd: "#f0883e", other: "#7d8590" }
            }
        }
    }
}

const WIDTH: f64 = 840.0;
/// Where labels end and bars begin, and where the longest bar ends.
const LEFT: f64 = 300.0;
const RIGHT: f64 = 740.0;
const TOP: f64 = 48.0;
const ROW: f64 = 40.0;
const BAR: f64 = 12.0;

/// The times to the first token of a run.
pub fn plot(record: &Record, look: Look) -> String {
    let rows: Vec<&Row> = record
        .table("first-token")
        .into_iter()
        .flat_map(|table| &table.rows)
        .filter(|row| row.unit == Unit::Ms && row.against.is_none())
        .filter(|row| !row.hobd.is_empty() && !row.other.is_empty())
        .collect();
    let medians = |row: &Row| [median(&row.hobd), median(&row.other)].map(|it| it.unwrap_or(1.0));
    let all: Vec<f64> = rows.iter().flat_map(|row| medians(row)).collect();
    let least = all.iter().copied().fold(f64::INFINITY, f64::min);
    let most = all.iter().copied().fold(1.0, f64::max);
    // From a whole power of ten.
    let from = 10f64.powf(least.max(0.01).log10().floor());
    let x = |ms: f64| LEFT + (RIGHT - LEFT) * (ms / from).ln() / (most / from).ln().max(0.1);
    let colours = look.colours();
    let height = TOP + ROW * rows.len() as f64 + 24.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" \
         font-size=\"13\" fill=\"{}\">\n<text x=\"0\" y=\"18\" font-size=\"15\" font-weight=\"bold\">Time to the \
         first token, ms (logarithmic)</text>\n",
        colours.text
    );
    for (at, (colour, name)) in
        [(colours.hobd, "hobd"), (colours.other, "llama-server")].into_iter().enumerate()
    {
        let left = LEFT + 190.0 + 90.0 * at as f64;
        let _ = writeln!(
            svg,
            "<rect x=\"{left}\" y=\"8\" width=\"{BAR}\" height=\"{BAR}\" fill=\"{colour}\"/><text x=\"{}\" \
             y=\"18\">{name}</text>",
            left + 18.0
        );
    }
    let bottom = TOP + ROW * rows.len() as f64;
    let mut tick = from;
    while tick <= most {
        let _ = writeln!(
            svg,
            "<line x1=\"{0:.1}\" y1=\"{TOP}\" x2=\"{0:.1}\" y2=\"{bottom}\" stroke=\"{1}\"/><text x=\"{0:.1}\" \
             y=\"{2}\" text-anchor=\"middle\">{3}</text>",
            x(tick),
            colours.faint,
            bottom + 18.0,
            Unit::Tokens.show(tick)
        );
        tick *= 10.0;
    }
    for (row, top) in rows.iter().zip((0..).map(|at| TOP + ROW * f64::from(at))) {
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>",
            LEFT - 10.0,
            top + 22.0,
            escaped(&row.title)
        );
        for (at, (ms, colour)) in
            medians(row).into_iter().zip([colours.hobd, colours.other]).enumerate()
        {
            let y = top + 4.0 + (BAR + 2.0) * at as f64;
            let _ = writeln!(
                svg,
                "<rect x=\"{LEFT}\" y=\"{y}\" width=\"{:.1}\" height=\"{BAR}\" fill=\"{colour}\"/><text x=\"{:.1}\" \
                 y=\"{}\" font-size=\"11\">{}</text>",
                (x(ms) - LEFT).max(1.0),
                x(ms).max(LEFT + 1.0) + 6.0,
                y + 10.0,
                Unit::Ms.show(ms)
            );
        }
    }
    svg + "</svg>\n"
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
