//! Draws tables as SVG: hit ratio over capacity, a panel a set-up, a line a policy.

use plotters::coord::Shift;
use plotters::prelude::*;

use crate::study::Row;

const WIDTH: u32 = 840;
const PANEL_HEIGHT: u32 = 400;

/// Told apart by people who see colours differently, too (Okabe and Ito); the default is the first.
const COLOURS: [RGBColor; 8] = [
    RGBColor(213, 94, 0),
    RGBColor(0, 114, 178),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
    RGBColor(120, 94, 60),
    RGBColor(90, 90, 90),
];

/// What kept a plot from being drawn.
#[derive(Debug, thiserror::Error)]
#[error("cannot draw the plot: {0}")]
pub struct PlotError(String);

/// Tables of set-ups, by their names, as one SVG document.
///
/// # Errors
/// [`PlotError`] when there is nothing to draw.
pub fn hit_ratios(setups: &[(String, Vec<Row>)]) -> Result<String, PlotError> {
    if setups.iter().all(|(_, rows)| rows.is_empty()) {
        return Err(PlotError("there are no rows".to_owned()));
    }
    let failed = |error: &dyn std::fmt::Display| PlotError(error.to_string());
    let mut document = String::new();
    {
        let height = PANEL_HEIGHT * setups.len() as u32;
        let area = SVGBackend::with_string(&mut document, (WIDTH, height)).into_drawing_area();
        area.fill(&WHITE).map_err(|error| failed(&error))?;
        for (panel, (name, rows)) in area.split_evenly((setups.len(), 1)).iter().zip(setups) {
            draw(panel, name, rows).map_err(|error| failed(&error))?;
        }
        area.present().map_err(|error| failed(&error))?;
    }
    Ok(document)
}

type Panel<'d> = DrawingArea<SVGBackend<'d>, Shift>;

fn draw<'d>(
    panel: &Panel<'d>,
    name: &str,
    rows: &[Row],
) -> Result<(), DrawingAreaErrorKind<<SVGBackend<'d> as DrawingBackend>::ErrorType>> {
    let lines = lines(rows);
    let capacities = rows.iter().map(|row| row.capacity_blocks as f64);
    let (least, most) = capacities.fold((f64::MAX, 0.0_f64), |(least, most), capacity| {
        (least.min(capacity), most.max(capacity))
    });
    let top = lines.iter().flat_map(|line| &line.points).map(|point| point.1).fold(0.0, f64::max);
    let mut chart = ChartBuilder::on(panel)
        .caption(format!("{name}: hit ratio by capacity"), ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(42)
        .y_label_area_size(48)
        .right_y_label_area_size(170)
        .build_cartesian_2d((least * 0.9..most * 1.1).log_scale(), 0.0..(top * 1.05).max(1.0))?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(WHITE)
        .x_desc("blocks of 512 tokens (logarithmic)")
        .y_desc("hits, %")
        .x_label_formatter(&|blocks| format!("{blocks:.0}"))
        .y_label_formatter(&|percent| format!("{percent:.0}"))
        .label_style(("sans-serif", 12))
        .draw()?;
    for line in lines {
        let style = line.colour.stroke_width(line.width);
        chart
            .draw_series(LineSeries::new(line.points.iter().copied(), style).point_size(2))?
            .label(line.label)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::Coordinate(WIDTH as i32 - 230, 10))
        .label_font(("sans-serif", 12))
        .draw()
}

struct Line {
    label: String,
    colour: RGBColor,
    width: u32,
    points: Vec<(f64, f64)>,
}

/// The policies in the order of the columns, from the last one on, then the bounds.
fn lines(rows: &[Row]) -> Vec<Line> {
    let Some(first) = rows.first() else { return Vec::new() };
    let line = |label: &str, colour, width, percent: &dyn Fn(&Row) -> Option<f64>| {
        let point = |row: &Row| Some((row.capacity_blocks as f64, percent(row)?));
        let points = rows.iter().filter_map(point).collect();
        Line { label: label.to_owned(), colour, width, points }
    };
    let mut lines = vec![
        line("infinite", RGBColor(170, 170, 170), 1, &|row| Some(row.infinite_percent)),
        line("optimum, bypass", BLACK, 1, &|row| row.optimum_bypass_percent),
        line("optimum, pinned", RGBColor(90, 90, 90), 1, &|row| row.optimum_pinned_percent),
    ];
    let columns = first.policies.iter().enumerate().rev();
    lines.extend(columns.zip(COLOURS.into_iter().cycle()).enumerate().map(
        |(at, ((column, cell), colour))| {
            let width = if at == 0 { 3 } else { 1 };
            line(cell.policy, colour, width, &|row| Some(row.policies[column].hit_percent))
        },
    ));
    lines.retain(|line| !line.points.is_empty());
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::Cell;

    fn row(capacity_blocks: u64) -> Row {
        let hit_percent = capacity_blocks as f64 / 10.0;
        Row {
            setup: "claude-1".to_owned(),
            capacity_blocks,
            policies: vec![Cell { policy: "lru", hit_percent, gap_closed_percent: None }],
            optimum_pinned_percent: None,
            optimum_bypass_percent: None,
            infinite_percent: 90.0,
        }
    }

    #[test]
    fn a_plot_names_its_set_up_and_its_lines() {
        let plot = hit_ratios(&[("claude-1".to_owned(), vec![row(100), row(400)])]).unwrap();
        assert!(plot.starts_with("<svg") && plot.trim_end().ends_with("</svg>"));
        for text in ["claude-1: hit ratio by capacity", "lru", "infinite"] {
            assert!(plot.contains(text), "{text} is missing");
        }
        assert!(!plot.contains("optimum"));
    }

    #[test]
    fn one_capacity_is_drawn_and_none_is_an_error() {
        assert!(hit_ratios(&[("claude-1".to_owned(), vec![row(100)])]).is_ok());
        assert!(hit_ratios(&[("claude-1".to_owned(), vec![])]).is_err());
    }
}
