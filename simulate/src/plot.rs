//! Draws tables as SVG: hit ratio over capacity, one panel per set-up, one line per policy.

use crate::policy::PolicyKind;
use plotters::coord::Shift;
use plotters::prelude::*;

use crate::study::Row;

const WIDTH: u32 = 840;
const LEGEND_WIDTH: u32 = 160;
const PANEL_HEIGHT: u32 = 400;

/// Distinct for colour-blind people too (after Okabe and Ito).
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

#[derive(Debug, thiserror::Error)]
#[error("cannot draw the plot: {0}")]
pub struct PlotError(String);

/// Tables of named set-ups as one SVG document.
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
type Drawn<'d> = Result<(), DrawingAreaErrorKind<<SVGBackend<'d> as DrawingBackend>::ErrorType>>;

fn draw<'d>(panel: &Panel<'d>, name: &str, rows: &[Row]) -> Drawn<'d> {
    let lines = lines(rows);
    let capacities: Vec<f64> = rows.iter().map(|row| row.capacity_blocks as f64).collect();
    let least = capacities.iter().copied().fold(f64::MAX, f64::min);
    let most = capacities.iter().copied().fold(1.0, f64::max);
    let top = lines.iter().flat_map(|line| &line.points).map(|point| point.1).fold(1.0, f64::max);
    let (chart_area, legend_area) = panel.split_horizontally(WIDTH - LEGEND_WIDTH);
    let across = (least * 0.9..most * 1.1).log_scale().with_key_points(capacities);
    let mut chart = ChartBuilder::on(&chart_area)
        .caption(format!("{name}: hit ratio by capacity"), ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(42)
        .y_label_area_size(48)
        .build_cartesian_2d(across, 0.0..top * 1.05)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .max_light_lines(0)
        .x_desc("blocks of 512 tokens (logarithmic)")
        .y_desc("hits, %")
        .x_label_formatter(&|blocks| format!("{blocks:.0}"))
        .y_label_formatter(&|percent| format!("{percent:.0}"))
        .label_style(("sans-serif", 12))
        .draw()?;
    for line in &lines {
        let points = line.points.iter().copied();
        chart.draw_series(LineSeries::new(points, line.style()).point_size(2))?;
    }
    draw_legend(&legend_area, &lines)
}

fn draw_legend<'d>(area: &Panel<'d>, lines: &[Line]) -> Drawn<'d> {
    for (line, top) in lines.iter().zip((48..).step_by(18)) {
        area.draw(&PathElement::new([(0, top + 6), (22, top + 6)], line.style()))?;
        area.draw(&Text::new(line.label.clone(), (30, top), ("sans-serif", 12)))?;
    }
    Ok(())
}

struct Line {
    label: String,
    colour: RGBColor,
    width: u32,
    points: Vec<(f64, f64)>,
}

impl Line {
    fn style(&self) -> ShapeStyle {
        self.colour.stroke_width(self.width)
    }
}

/// The policies in column order, from the last one, then the bounds.
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
    lines.extend(columns.zip(COLOURS.into_iter().cycle()).map(|((column, cell), colour)| {
        let width = if cell.policy == PolicyKind::DEFAULT.name() { 3 } else { 1 };
        line(cell.policy, colour, width, &|row| Some(row.policies[column].hit_percent))
    }));
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
            policies: vec![Cell {
                policy: "lru",
                hit_percent,
                gap_closed_percent: None,
                lost_multi_turn_percent: 0.0,
                lost_cross_session_percent: 0.0,
            }],
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
