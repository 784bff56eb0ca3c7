//! The contents of cells: digests of all that a token attended to.

use hob_slots::{AdapterSet, ModelHash, Token};

use super::CELL_BYTES;

/// A cell in a state.
pub(super) fn encoded_cell(position: usize, token: Token, kv: u64) -> [u8; CELL_BYTES] {
    let token = u64::from(token.0.unsigned_abs());
    let (head, content) = ((token << 32 | position as u64).to_le_bytes(), kv.to_le_bytes());
    std::array::from_fn(|at| if at < 8 { head[at] } else { content[at - 8] })
}

/// The content of a cell: of its token, of the positions and contents that it attended to, in order, and of what
/// else it depends on.
pub(super) fn kv_of(seen: &[(usize, u64)], token: Token, extra: u64) -> u64 {
    let seen = seen.iter().fold(0, |all, (position, kv)| mix(all ^ mix(kv ^ *position as u64)));
    mix(seen ^ mix(u64::from(token.0.unsigned_abs())) ^ extra)
}

/// 0 without any.
pub(super) fn digest_of(adapters: &AdapterSet) -> u64 {
    if adapters.is_empty() {
        return 0;
    }
    let root = adapters.root(ModelHash([0; 8])).0;
    let digest = root.as_chunks::<8>().0.iter().map(|part| u64::from_le_bytes(*part));
    digest.fold(1, |all, part| mix(all ^ part))
}

/// The finaliser of SplitMix64 (Steele, Lea and Flood, 2014): every input bit moves every output
/// bit.
pub(super) fn mix(mut value: u64) -> u64 {
    value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}
