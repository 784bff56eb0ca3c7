//! The layout of a sequence's state where memory is plain attention, as llama.cpp writes it.
//!
//! - Taken from llama.cpp's source and pinned with it. A state that does not match to the last byte
//!   is imported by itself, not joined.
//! - A joined state is, byte for byte, what llama.cpp would have written for those cells in that
//!   order.
//!
//! ```text
//! magic, sequence, streams = 1, cells                               4 x 4 bytes
//! for each cell: position, sequences = 1, sequence                  3 x 4
//! V transposed = 0, layers, rotation of K, rotation of V            4 x 4
//! for each layer's K, then for each layer's V:
//!   type (4), bytes of a row (8), one row for each cell
//! ```

const HEAD: usize = 16;
const CELL: usize = 12;
const SHAPE: usize = 16;
const SECTION_HEAD: usize = 12;

/// The states of adjacent cells, joined into one: importing it walks the cache once for all of
/// them. See [`Model::append_state`](super::Model::append_state).
#[derive(Debug, Default)]
pub struct JoinedState {
    pub(super) bytes: Vec<u8>,
    /// Cells that fit.
    pub(super) room: usize,
    pub(super) cells: usize,
    heads: Option<Heads>,
}

impl JoinedState {
    /// An empty one for `room` cells, in memory that was used before.
    pub fn with_room(room: usize, buffer: Vec<u8>) -> Self {
        Self { bytes: buffer, room, cells: 0, heads: None }
    }

    /// How many cells it holds.
    pub fn cells(&self) -> usize {
        self.cells
    }

    /// The state, once it is sealed.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The memory, for the next one.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

/// A parsed state: every byte is accounted for.
pub struct PlainState<'s> {
    bytes: &'s [u8],
    cells: usize,
    /// The start of each section's head, and the length of its rows.
    sections: Vec<(usize, usize)>,
}

impl<'s> PlainState<'s> {
    /// `None` when `bytes` have another layout.
    pub fn parse(bytes: &'s [u8]) -> Option<Self> {
        let cells = number(bytes, 12)?;
        if number(bytes, 8)? != 1 || cells == 0 {
            return None;
        }
        let shape = HEAD + cells.checked_mul(CELL)?;
        let metas = bytes.get(HEAD..shape)?;
        if metas.chunks_exact(CELL).any(|cell| number(cell, 4) != Some(1)) {
            return None;
        }
        let layers = number(bytes, shape + 4)?;
        if number(bytes, shape)? != 0 {
            return None;
        }
        let mut sections = Vec::with_capacity(2 * layers.min(1024));
        let mut at = shape + SHAPE;
        while at < bytes.len() {
            let field = bytes.get(at + 4..at + SECTION_HEAD)?;
            let value = u64::from_le_bytes(field.try_into().expect("eight bytes"));
            let row_bytes = usize::try_from(value).ok().filter(|&bytes| bytes > 0)?;
            sections.push((at, row_bytes));
            at = cells.checked_mul(row_bytes)?.checked_add(at + SECTION_HEAD)?;
        }
        let whole = at == bytes.len() && sections.len() == 2 * layers;
        whole.then_some(Self { bytes, cells, sections })
    }

    /// How many cells it holds.
    pub fn cells(&self) -> usize {
        self.cells
    }

    /// The cells' positions, in the order of the cells.
    pub fn positions(&self) -> impl Iterator<Item = i32> {
        self.metas().chunks_exact(CELL).map(|cell| {
            i32::from_le_bytes(*cell.first_chunk().expect("a cell has more than four bytes"))
        })
    }

    /// Whether it has one cell at each of these positions, and no other.
    pub fn holds(&self, positions: &std::ops::Range<usize>) -> bool {
        if self.cells != positions.len() {
            return false;
        }
        let mut seen = vec![false; self.cells];
        self.positions().all(|position| {
            let at = usize::try_from(position).ok().and_then(|it| it.checked_sub(positions.start));
            let place = at.and_then(|at| seen.get_mut(at));
            place.is_some_and(|seen| !std::mem::replace(seen, true))
        })
    }

    /// The ranges of K and V in the state, section by section.
    pub fn rows(&self) -> impl Iterator<Item = std::ops::Range<usize>> {
        self.sections.iter().map(|&(at, row_bytes)| {
            let start = at + SECTION_HEAD;
            start..start + self.cells * row_bytes
        })
    }

    /// Each layer's K.
    pub(super) fn keys(&self) -> impl Iterator<Item = Section> {
        self.typed_rows().take(self.sections.len() / 2)
    }

    /// Each layer's K, then each layer's V.
    pub(super) fn typed_rows(&self) -> impl Iterator<Item = Section> {
        self.rows().zip(&self.sections).map(|(rows, &(at, row_bytes))| {
            let number_type = self.bytes[at..].first_chunk().expect("a section has a head");
            Section { rows, row_bytes, number_type: u32::from_le_bytes(*number_type) }
        })
    }

    /// All but the rows: what is before the first section, then the head of each section.
    pub(super) fn heads(&self) -> Vec<u8> {
        let sections = self.sections.iter().enumerate();
        let before = &self.bytes[..HEAD + self.cells * CELL + SHAPE];
        sections.fold(before.to_vec(), |mut heads, (index, _)| {
            heads.extend_from_slice(self.section_head(index));
            heads
        })
    }

    /// Numbers that the Hadamard rotation of K mixes; 0: it has none.
    pub(super) fn rotation_of_k(&self) -> usize {
        number(self.shape(), 8).expect("a shape has four numbers")
    }

    /// The state of some of its cells, in their order.
    pub(super) fn of_cells(&self, cells: &[usize]) -> Vec<u8> {
        let count = u32::try_from(cells.len()).expect("cells fit 32 bits");
        let mut bytes = Vec::with_capacity(self.bytes.len());
        bytes.extend_from_slice(&self.bytes[..HEAD - 4]);
        bytes.extend(count.to_le_bytes());
        let metas = self.metas();
        cells.iter().for_each(|cell| bytes.extend_from_slice(&metas[cell * CELL..][..CELL]));
        bytes.extend_from_slice(self.shape());
        for (index, &(at, row_bytes)) in self.sections.iter().enumerate() {
            bytes.extend_from_slice(self.section_head(index));
            let rows = &self.bytes[at + SECTION_HEAD..];
            cells
                .iter()
                .for_each(|cell| bytes.extend_from_slice(&rows[cell * row_bytes..][..row_bytes]));
        }
        bytes
    }

    /// Where a state has the position of its `cell`.
    pub(super) fn position_at(cell: usize) -> usize {
        HEAD + cell * CELL
    }

    fn metas(&self) -> &'s [u8] {
        &self.bytes[HEAD..HEAD + self.cells * CELL]
    }

    fn shape(&self) -> &'s [u8] {
        &self.bytes[HEAD + self.cells * CELL..][..SHAPE]
    }

    fn section_head(&self, index: usize) -> &'s [u8] {
        &self.bytes[self.sections[index].0..][..SECTION_HEAD]
    }
}

/// An empty state with these [`PlainState::heads`], in the memory of `bytes`; its cells, and its sections.
/// `rows_fit` is called with both before memory is taken for rows. `None` where it returns `false`, or `heads`
/// are none of a state.
pub(super) fn with_heads(
    heads: &[u8],
    mut bytes: Vec<u8>,
    rows_fit: impl Fn(usize, &[Section]) -> bool,
) -> Option<(Vec<u8>, usize, Vec<Section>)> {
    let cells = number(heads, 12).filter(|&cells| cells > 0)?;
    let shape = HEAD.checked_add(cells.checked_mul(CELL)?)?;
    let layers = number(heads, shape + 4)?;
    let before = shape + SHAPE;
    let (section_heads, rest) = heads.get(before..)?.as_chunks::<SECTION_HEAD>();
    if !rest.is_empty() || section_heads.len() != layers.checked_mul(2)? {
        return None;
    }
    let mut sections = Vec::with_capacity(section_heads.len());
    let mut at = before;
    for head in section_heads {
        let row_bytes = u64::from_le_bytes(*head.last_chunk().expect("it has twelve bytes"));
        let row_bytes = usize::try_from(row_bytes).ok().filter(|&bytes| bytes > 0)?;
        let start = at.checked_add(SECTION_HEAD)?;
        at = start.checked_add(cells.checked_mul(row_bytes)?)?;
        let number_type = u32::from_le_bytes(*head.first_chunk().expect("it has twelve bytes"));
        sections.push(Section { rows: start..at, row_bytes, number_type });
    }
    if !rows_fit(cells, &sections) {
        return None;
    }
    bytes.truncate(at);
    bytes.resize(at, 0); // Old content is written over.
    put(&mut bytes, 0, &heads[..before]);
    for (head, section) in section_heads.iter().zip(&sections) {
        put(&mut bytes, section.rows.start - SECTION_HEAD, head);
    }
    Some((bytes, cells, sections))
}

/// The K or the V of a layer, in a state.
pub(super) struct Section {
    pub rows: std::ops::Range<usize>,
    pub row_bytes: usize,
    /// As ggml numbers types.
    pub number_type: u32,
}

/// Appends the cells of `state` to `joined`. Returns `false`, and leaves `joined` as it was, when
/// there is no room or the layouts differ.
pub fn append(joined: &mut JoinedState, state: &[u8]) -> bool {
    let Some(state) = PlainState::parse(state) else { return false };
    if joined.cells + state.cells > joined.room {
        return false;
    }
    if joined.cells == 0 {
        lay_out(joined, &state);
    } else {
        // All but the cells must equal the first state's.
        let same = joined.heads.as_ref().is_some_and(|heads| *heads == Heads::of(&state));
        if !same {
            return false;
        }
    }
    let (room, before) = (joined.room, joined.cells);
    put(&mut joined.bytes, HEAD + before * CELL, state.metas());
    let mut at = HEAD + room * CELL + SHAPE;
    for (range, &(_, row_bytes)) in state.rows().zip(&state.sections) {
        put(&mut joined.bytes, at + SECTION_HEAD + before * row_bytes, &state.bytes[range]);
        at += SECTION_HEAD + room * row_bytes;
    }
    joined.cells += state.cells;
    true
}

/// Closes the gaps of cells that were never appended.
pub fn seal(joined: &mut JoinedState) {
    let (room, cells) = (joined.room, joined.cells);
    let Some(heads) = joined.heads.take().filter(|_| cells > 0) else {
        return joined.bytes.clear();
    };
    let count = u32::try_from(cells).expect("cells fit 32 bits").to_le_bytes();
    put(&mut joined.bytes, 12, &count);
    joined.room = cells;
    if cells == room {
        return;
    }
    let (mut from, mut to) = (HEAD + room * CELL, HEAD + cells * CELL);
    joined.bytes.copy_within(from..from + SHAPE, to);
    (from, to) = (from + SHAPE, to + SHAPE);
    for head in &heads.sections {
        let row_bytes = row_bytes(head);
        let filled = SECTION_HEAD + cells * row_bytes;
        joined.bytes.copy_within(from..from + filled, to);
        from += SECTION_HEAD + room * row_bytes;
        to += filled;
    }
    joined.bytes.truncate(to);
}

/// The bytes in which two states must agree to be joined.
#[derive(Debug, PartialEq, Eq)]
pub struct Heads {
    magic: [u8; 4],
    shape: [u8; SHAPE],
    sections: Vec<[u8; SECTION_HEAD]>,
}

impl Heads {
    fn of(state: &PlainState<'_>) -> Self {
        let head = |i| state.section_head(i).try_into().expect("a section's head");
        Self {
            magic: *state.bytes.first_chunk().expect("a state begins with its magic"),
            shape: state.shape().try_into().expect("a shape"),
            sections: (0..state.sections.len()).map(head).collect(),
        }
    }
}

fn row_bytes(head: &[u8; SECTION_HEAD]) -> usize {
    let bytes = head.last_chunk().expect("a section's head has twelve bytes");
    usize::try_from(u64::from_le_bytes(*bytes)).expect("it was parsed")
}

/// Makes room for all cells and writes the heads.
fn lay_out(joined: &mut JoinedState, first: &PlainState<'_>) {
    let heads = Heads::of(first);
    let room = joined.room;
    let rows: usize = heads.sections.iter().map(|head| SECTION_HEAD + room * row_bytes(head)).sum();
    let bytes = HEAD + room * CELL + SHAPE + rows;
    if joined.bytes.len() > bytes {
        joined.bytes.truncate(bytes);
    }
    joined.bytes.resize(bytes, 0); // Old content is written over.
    put(&mut joined.bytes, 0, &first.bytes[..HEAD]);
    let mut at = HEAD + room * CELL;
    put(&mut joined.bytes, at, &heads.shape);
    at += SHAPE;
    for head in &heads.sections {
        put(&mut joined.bytes, at, head);
        at += SECTION_HEAD + room * row_bytes(head);
    }
    joined.heads = Some(heads);
}

pub(super) fn put(bytes: &mut [u8], at: usize, part: &[u8]) {
    bytes[at..at + part.len()].copy_from_slice(part);
}

fn number(bytes: &[u8], at: usize) -> Option<usize> {
    let four = bytes.get(at..at + 4)?.try_into().expect("four bytes");
    usize::try_from(u32::from_le_bytes(four)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A state of two layers with rows of 4 and 2 bytes, as llama.cpp writes one.
    fn state(positions: std::ops::Range<i32>) -> Vec<u8> {
        let words = |words: &[i32]| words.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<_>>();
        let cells = i32::try_from(positions.len()).unwrap();
        let mut state = words(&[0x67_67, 5, 1, cells]);
        positions.clone().for_each(|position| state.extend(words(&[position, 1, 5])));
        state.extend(words(&[0, 2, 0, 0]));
        for section in 0..4u8 {
            let row_bytes = if section < 2 { 4 } else { 2 };
            state.extend(words(&[1, row_bytes, 0]));
            for position in positions.clone() {
                let value = u8::try_from(position).unwrap() ^ (section << 6);
                state.extend(std::iter::repeat_n(value, usize::try_from(row_bytes).unwrap()));
            }
        }
        state
    }

    fn joined(room: usize, states: &[Vec<u8>]) -> Vec<u8> {
        let mut joined = JoinedState::with_room(room, vec![7; 3000]);
        states.iter().for_each(|state| assert!(append(&mut joined, state)));
        seal(&mut joined);
        joined.into_bytes()
    }

    #[test]
    fn a_joined_state_equals_one_state_of_all_cells() {
        assert_eq!(joined(10, &[state(0..3), state(3..4), state(4..10)]), state(0..10));
    }

    #[test]
    fn a_state_holds_the_positions_of_its_cells_and_no_others() {
        let holds = |bytes: &[u8], held| PlainState::parse(bytes).unwrap().holds(&held);
        let (whole, with_a_hole) = (state(2..6), joined(10, &[state(2..4), state(5..6)]));
        let twice = joined(10, &[state(2..4), state(3..4), state(5..6)]);
        let swapped = joined(10, &[state(4..6), state(2..4)]);
        assert!(holds(&whole, 2..6) && holds(&swapped, 2..6));
        assert!(!holds(&whole, 2..5) && !holds(&whole, 1..5) && !holds(&whole, 2..7));
        assert!(!holds(&with_a_hole, 2..6) && !holds(&with_a_hole, 2..5));
        assert!(!holds(&twice, 2..6));
    }

    #[test]
    fn missing_cells_leave_no_gaps() {
        assert_eq!(joined(30, &[state(2..3), state(3..9)]), state(2..9));
    }

    #[test]
    fn a_misfit_is_refused_and_changes_nothing() {
        let mut other = state(3..6);
        *other.last_chunk_mut::<1>().unwrap() = [9];
        let section = 16 + 3 * 12 + 16;
        other[section] = 8; // Another type.
        for (what, misfit) in [
            ("too many cells", state(3..20)),
            ("another layout", other),
            ("cut short", state(3..6)[..80].to_vec()),
            ("too long", [state(3..6), vec![0]].concat()),
            ("nothing", Vec::new()),
        ] {
            let mut joined = JoinedState::with_room(10, Vec::new());
            assert!(append(&mut joined, &state(0..3)));
            assert!(!append(&mut joined, &misfit), "{what}");
            seal(&mut joined);
            assert_eq!(joined.into_bytes(), state(0..3), "{what}");
        }
    }

    #[test]
    fn every_truncation_is_refused() {
        let whole = state(0..5);
        assert!((0..whole.len()).all(|len| PlainState::parse(&whole[..len]).is_none()));
        assert_eq!(
            PlainState::parse(&whole).unwrap().positions().collect::<Vec<_>>(),
            [0, 1, 2, 3, 4]
        );
    }
}
