//! Rounds the contents of the fake's cells: their low bytes become zero, which answers see.
//!
//! The heads are the first position; then, for each cell, two bytes of its token and the high bytes of its content.

use hob_slots::Lossy;

use super::CELL_BYTES;
use crate::backend::lossy::{Unrounded, header, parts, saves_little};

/// Bytes of a rounded cell.
fn cell_bytes(lossy: Lossy) -> usize {
    match lossy {
        Lossy::Q8 => 8,
        Lossy::Q4 => 4,
    }
}

pub fn rounded(state: &[u8], lossy: Lossy) -> Result<Vec<u8>, Unrounded> {
    let (cells, rest) = state.as_chunks::<CELL_BYTES>();
    let position = |cell: &[u8; CELL_BYTES]| {
        u32::from_le_bytes(*cell.first_chunk().expect("a cell is longer"))
    };
    let first = position(cells.first().ok_or(Unrounded::Layout)?);
    if !rest.is_empty() || !cells.iter().map(position).eq((first..).take(cells.len())) {
        return Err(Unrounded::Layout);
    }
    let mut rounded = header(lossy, 4).to_vec();
    rounded.extend(first.to_le_bytes());
    for cell in cells {
        if cell[6..8] != [0; 2] {
            return Err(Unrounded::Layout); // A token of more than two bytes.
        }
        rounded.extend_from_slice(&cell[4..6]);
        rounded.extend_from_slice(&cell[CELL_BYTES + 2 - cell_bytes(lossy)..]);
    }
    let saves_little = saves_little(rounded.len(), state.len());
    if saves_little { Err(Unrounded::SavesLittle) } else { Ok(rounded) }
}

pub fn state_of(rounded: &[u8], mut state: Vec<u8>) -> Option<Vec<u8>> {
    let (lossy, heads, cells) = parts(rounded)?;
    let first = u32::from_le_bytes(heads.try_into().ok()?);
    let cells = cells.chunks_exact(cell_bytes(lossy));
    if !cells.remainder().is_empty() {
        return None;
    }
    state.clear();
    for (cell, position) in cells.zip(first..) {
        let (token, content) = cell.split_at(2);
        state.extend(position.to_le_bytes());
        state.extend_from_slice(token);
        state.extend([0; 2]);
        state.resize(state.len() + 8 - content.len(), 0);
        state.extend_from_slice(content);
    }
    Some(state)
}
