//! Median, 99th percentile and maximum of durations. No I/O.

use serde::Serialize;

/// Three quantiles, in milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Quantiles {
    /// The median.
    pub p50_ms: f64,
    /// The 99th percentile.
    pub p99_ms: f64,
    /// The maximum.
    pub max_ms: f64,
}

impl Quantiles {
    /// The quantiles by nearest rank: each is one of the values. All zero without values.
    pub fn of(mut values_ms: Vec<f64>) -> Quantiles {
        values_ms.sort_by(f64::total_cmp);
        let rank = |per_mille| nearest_rank(&values_ms, per_mille).unwrap_or_default();
        Quantiles { p50_ms: rank(500), p99_ms: rank(990), max_ms: rank(1000) }
    }
}

/// The quantile of sorted values by nearest rank: one of the values.
pub fn nearest_rank<T: Copy>(sorted: &[T], per_mille: usize) -> Option<T> {
    sorted.get((sorted.len() * per_mille).div_ceil(1000).max(1) - 1).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_by_nearest_rank() {
        let of = |count: u32| Quantiles::of((1..=count).rev().map(f64::from).collect());
        assert_eq!(of(200), Quantiles { p50_ms: 100.0, p99_ms: 198.0, max_ms: 200.0 });
        assert_eq!(of(80), Quantiles { p50_ms: 40.0, p99_ms: 80.0, max_ms: 80.0 });
        assert_eq!(of(1), Quantiles { p50_ms: 1.0, p99_ms: 1.0, max_ms: 1.0 });
        assert_eq!(of(0), Quantiles::default());
    }
}
