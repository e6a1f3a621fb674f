//! Draws the ramp: latency against throughput.

use anyhow::{anyhow, ensure};
use plotters::{
    prelude::{
        ChartBuilder, Circle, IntoDrawingArea, IntoFont, IntoLogRange, LineSeries, PathElement,
        RGBColor, SVGBackend, SeriesLabelPosition,
    },
    style::{Color, FontDesc, ShapeStyle, TRANSPARENT, TextStyle},
};

use super::report::{Quantiles, Step};

/// The size in pixels.
const SIZE: (u32, u32) = (760, 420);
// Colours that are legible on white and on black: the background is left out.
const TEXT: RGBColor = RGBColor(0x80, 0x8a, 0x96);
const P50: RGBColor = RGBColor(0x3b, 0x86, 0xd8);
const P99: RGBColor = RGBColor(0xd9, 0x6a, 0x2f);

/// A line: its name, its colour, and the value that it shows.
type Line = (&'static str, RGBColor, fn(Quantiles) -> f64);

/// Draws the steps as an SVG.
pub fn draw(steps: &[Step]) -> anyhow::Result<String> {
    ensure!(!steps.is_empty(), "there is nothing to draw; give --ramp");
    let mut text = String::new();
    // Convert the error: it borrows `text`.
    draw_into(steps, &mut text).map_err(|error| anyhow!("drawing the picture: {error}"))?;
    Ok(text)
}

fn draw_into(steps: &[Step], text: &mut String) -> Result<(), Box<dyn std::error::Error>> {
    let root = SVGBackend::with_string(text, SIZE).into_drawing_area();
    let x_max = steps.iter().map(|step| step.figures.messages_per_s).fold(1.0, f64::max) * 1.05;
    let (low, high) = bounds(steps);
    let mut chart = ChartBuilder::on(&root)
        .caption("Latency at parts of the throughput", style(20))
        .margin(16)
        .x_label_area_size(48)
        .y_label_area_size(64)
        .build_cartesian_2d(0.0..x_max, (low..high).log_scale())?;
    chart
        .configure_mesh()
        .x_desc("messages/s")
        .y_desc("latency, ms")
        .axis_style(TEXT)
        .axis_desc_style(style(17))
        .label_style(style(16))
        .x_label_formatter(&|value| format!("{value:.0}"))
        .y_label_formatter(&|value| format!("{value}"))
        .light_line_style(TRANSPARENT)
        .bold_line_style(TEXT.mix(0.3))
        .draw()?;
    // A step above the possible throughput may be slower than the step before it, so sort the steps.
    let mut by_rate: Vec<&Step> = steps.iter().collect();
    by_rate.sort_by(|a, b| a.rate.total_cmp(&b.rate));
    let lines: [Line; 2] = [("p50", P50, |of| of.p50), ("p99", P99, |of| of.p99)];
    for (name, color, of) in lines {
        let point = |step: &Step| (step.figures.messages_per_s, ms(of(step.figures.latency_us)));
        let points: Vec<(f64, f64)> = by_rate.iter().map(|step| point(step)).collect();
        let line: ShapeStyle = color.stroke_width(2);
        chart
            .draw_series(LineSeries::new(points.clone(), line))?
            .label(name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], line));
        chart.draw_series(points.into_iter().map(|at| Circle::new(at, 3, color.filled())))?;
    }
    let mut labels = chart.configure_series_labels();
    labels.position(SeriesLabelPosition::UpperLeft).label_font(style(17)).draw()?;
    root.present()?;
    Ok(())
}

fn style(size: u32) -> TextStyle<'static> {
    let font: FontDesc = ("sans-serif", size).into_font();
    font.color(&TEXT)
}

/// Whole powers of ten, in milliseconds, around all values.
fn bounds(steps: &[Step]) -> (f64, f64) {
    let all = steps.iter().flat_map(|step| {
        let latency = step.figures.latency_us;
        [ms(latency.p50), ms(latency.p99)]
    });
    let (low, high) = all.fold((f64::MAX, 0.0f64), |(low, high), ms| (low.min(ms), high.max(ms)));
    (10f64.powf(low.log10().floor()), 10f64.powf(high.log10().ceil()).max(low * 10.0))
}

/// Milliseconds, but never zero, because a logarithmic scale has no zero.
fn ms(us: f64) -> f64 {
    (us / 1e3).max(0.001)
}
