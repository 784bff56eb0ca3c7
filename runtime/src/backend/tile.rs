//! When a micro-batch of few rows takes less time with more of them. Pure.
//!
//! - On a processor, llama.cpp computes attention in tiles of rows where a micro-batch has a tile's rows, and
//!   row by row below: a tile reads each K and V once for all of its rows (`use_tiled` in
//!   `ggml_compute_forward_flash_attn_ext_f16`).
//! - Times are counted in cells to which one row attends row by row. `cargo xtask bench rows` measures them.

/// Rows of a tile (`GGML_FA_TILE_Q` in ggml's `ggml-cpu/common.h`).
pub const TILE_ROWS: usize = 64;

/// The matrix products of a row take the time of 1,095 cells: 4.6 ms for 494 million weights and 21,504 numbers of
/// Q in 24 layers, and 4.2 µs for a cell that a row attends to by itself. This and the constants below are fitted to
/// `MEASURED`: the shape of Qwen2.5-0.5B on two cores of an AMD EPYC.
const CELLS_PER_WEIGHT_OF_Q: f64 = 1095.0 / (494e6 / 21_504.0);

/// Each micro-batch reads the weights once. That takes the time of this many rows.
const ROWS_TO_READ_WEIGHTS: f64 = 4.35;

/// A row by itself attends to this many cells at no cost: a processor's cache still has them from the row before.
const CELLS_IN_CACHE: f64 = 290.0;

/// Time of a cell for a row of a tile, as a part of that for a row by itself; and the fixed time of a row of a
/// tile, in cells.
const IN_TILE: f64 = 0.27;
const CELLS_OF_TILE_ROW: f64 = 130.0;

/// The time of a model's attention in tiles, and row by row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AttentionTile {
    /// The matrix products of a row, in cells.
    row: f64,
}

impl AttentionTile {
    /// The tile of a model of `weights` numbers, with `q` numbers of Q in all layers.
    pub fn new(weights: u64, q: usize) -> Self {
        Self { row: weights as f64 / q.max(1) as f64 * CELLS_PER_WEIGHT_OF_Q }
    }

    /// The time of a micro-batch that fills a tile, by that of one of `rows` rows. `seen`: the cells that each of
    /// them attends to, summed. `cells`: those that any of them attends to.
    pub fn ratio(self, rows: usize, seen: usize, cells: usize) -> f64 {
        let (tile, rows) = (TILE_ROWS as f64, rows as f64);
        let weights = ROWS_TO_READ_WEIGHTS * self.row;
        let by_itself = (seen as f64 - rows * CELLS_IN_CACHE).max(0.0);
        let in_tile = CELLS_OF_TILE_ROW + cells as f64 * IN_TILE;
        (weights + tile * (self.row + in_tile)) / (weights + rows * self.row + by_itself)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Milliseconds that `cargo xtask bench rows` prints: cells, rows, row by row, in a tile.
    const MEASURED: [(usize, usize, f64, f64); 9] = [
        (1024, 32, 265.0, 417.0),
        (1024, 48, 401.0, 417.0),
        (2048, 32, 406.0, 483.0),
        (2048, 48, 601.0, 483.0),
        (4096, 24, 536.0, 616.0),
        (4096, 32, 698.0, 616.0),
        (8192, 16, 614.0, 1012.0),
        (8192, 32, 1231.0, 1012.0),
        (8192, 63, 2379.0, 1012.0),
    ];

    #[test]
    fn the_ratio_is_about_that_which_the_benchmark_prints() {
        let tile = AttentionTile::new(494_000_000, 21_504);
        for (cells, rows, alone, filled) in MEASURED {
            let (ratio, measured) = (tile.ratio(rows, rows * cells, cells), filled / alone);
            assert!((ratio / measured - 1.0).abs() < 0.1, "{rows} at {cells}: {ratio} {measured}");
        }
    }
}
