//! A distribution on a line: its values in ascending order, from left to right.

use maud::{Markup, html};

const WIDTH: f64 = 160.0;
const HEIGHT: f64 = 34.0;
/// Room for the width of the line.
const EDGE: f64 = 2.0;

/// A small picture of values in ascending order. Its height is that of the greatest, and the line at
/// zero is drawn.
pub(crate) fn quantiles(ascending: &[i64]) -> Markup {
    let (Some(&first), Some(&last)) = (ascending.first(), ascending.last()) else {
        return html! {};
    };
    let (low, high) = (first.min(0) as f64, last.max(0) as f64);
    let span = if high > low { high - low } else { 1.0 };
    let y = |value: f64| EDGE + (high - value) / span * (HEIGHT - 2.0 * EDGE);
    let step = (WIDTH - 2.0 * EDGE) / ascending.len() as f64;
    // A stair: each value holds for its share of the width.
    let points: Vec<String> = ascending
        .iter()
        .enumerate()
        .flat_map(|(i, &value)| [i, i + 1].map(|at| (at, value)))
        .map(|(at, value)| format!("{:.1},{:.1}", EDGE + at as f64 * step, y(value as f64)))
        .collect();
    html! {
        svg.quantiles width=(WIDTH) height=(HEIGHT) viewBox={ "0 0 " (WIDTH) " " (HEIGHT) }
            role="img" aria-label="values in ascending order"
        {
            line.axis x1=(EDGE) x2=(WIDTH - EDGE) y1=(format!("{:.1}", y(0.0)))
                y2=(format!("{:.1}", y(0.0))) {}
            polyline.quantile.q0 points=(points.join(" ")) {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nothing draws nothing; negative values lie below the line at zero.
    #[test]
    fn values_are_drawn() {
        assert_eq!(quantiles(&[]).into_string(), "");
        let drawn = quantiles(&[-1, 1]).into_string();
        assert!(drawn.contains("points=\"2.0,32.0 80.0,32.0 80.0,2.0 158.0,2.0\""), "{drawn}");
        assert!(drawn.contains("y1=\"17.0\""), "{drawn}");
    }
}
