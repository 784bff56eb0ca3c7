//! The front page's rows as bars, on a logarithmic scale: a bar of a thousandth of the longest time is visible.

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
    let plot = Plot { axis: Axis::of(&rows), colours: look.colours() };
    let height = bottom(rows.len()) + 24.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" \
         font-size=\"13\" fill=\"{}\">\n<text x=\"0\" y=\"18\" font-size=\"15\" font-weight=\"bold\">Time to the \
         first token, ms (logarithmic)</text>\n",
        plot.colours.text
    );
    plot.write_legend(&mut svg);
    plot.write_ticks(&mut svg, bottom(rows.len()));
    for (row, top) in rows.iter().zip((0..).map(|at| TOP + ROW * f64::from(at))) {
        plot.write_row(&mut svg, row, top);
    }
    svg + "</svg>\n"
}

/// Where the last of `rows` ends.
fn bottom(rows: usize) -> f64 {
    TOP + ROW * rows as f64
}

/// The medians of hobd and of the other server, in milliseconds.
fn medians(row: &Row) -> [f64; 2] {
    [median(&row.hobd), median(&row.other)].map(|it| it.unwrap_or(1.0))
}

/// A logarithmic scale from a whole power of ten to the longest time.
struct Axis {
    from: f64,
    most: f64,
}

impl Axis {
    fn of(rows: &[&Row]) -> Self {
        let all: Vec<f64> = rows.iter().flat_map(|row| medians(row)).collect();
        let least = all.iter().copied().fold(f64::INFINITY, f64::min);
        let most = all.iter().copied().fold(1.0, f64::max);
        Self { from: 10f64.powf(least.max(0.01).log10().floor()), most }
    }

    fn x(&self, ms: f64) -> f64 {
        LEFT + (RIGHT - LEFT) * (ms / self.from).ln() / (self.most / self.from).ln().max(0.1)
    }
}

struct Plot {
    axis: Axis,
    colours: Colours,
}

impl Plot {
    fn write_legend(&self, svg: &mut String) {
        let names = [(self.colours.hobd, "hobd"), (self.colours.other, "llama-server")];
        for (at, (colour, name)) in names.into_iter().enumerate() {
            let left = LEFT + 190.0 + 90.0 * at as f64;
            let _ = writeln!(
                svg,
                "<rect x=\"{left}\" y=\"8\" width=\"{BAR}\" height=\"{BAR}\" fill=\"{colour}\"/><text x=\"{}\" \
                 y=\"18\">{name}</text>",
                left + 18.0
            );
        }
    }

    /// A line and a label at each power of ten, down to `bottom`.
    fn write_ticks(&self, svg: &mut String, bottom: f64) {
        let mut tick = self.axis.from;
        while tick <= self.axis.most {
            let _ = writeln!(
                svg,
                "<line x1=\"{0:.1}\" y1=\"{TOP}\" x2=\"{0:.1}\" y2=\"{bottom}\" stroke=\"{1}\"/><text x=\"{0:.1}\" \
                 y=\"{2}\" text-anchor=\"middle\">{3}</text>",
                self.axis.x(tick),
                self.colours.faint,
                bottom + 18.0,
                Unit::Tokens.show(tick)
            );
            tick *= 10.0;
        }
    }

    fn write_row(&self, svg: &mut String, row: &Row, top: f64) {
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>",
            LEFT - 10.0,
            top + 22.0,
            escaped(&row.title)
        );
        let bars = medians(row).into_iter().zip([self.colours.hobd, self.colours.other]);
        for (at, (ms, colour)) in bars.enumerate() {
            let (x, y) = (self.axis.x(ms), top + 4.0 + (BAR + 2.0) * at as f64);
            let _ = writeln!(
                svg,
                "<rect x=\"{LEFT}\" y=\"{y}\" width=\"{:.1}\" height=\"{BAR}\" fill=\"{colour}\"/><text x=\"{:.1}\" \
                 y=\"{}\" font-size=\"11\">{}</text>",
                (x - LEFT).max(1.0),
                x.max(LEFT + 1.0) + 6.0,
                y + 10.0,
                Unit::Ms.show(ms)
            );
        }
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
