//! What a record's lineage tells, and which lineages its reader refuses.

use std::ops::Range;

use super::BlockRef;
use crate::format::FormatError;
use crate::lineage::Lineage;

impl Lineage {
    /// The number of tokens before the first that did not attend to everything, in a timeline of `tokens`.
    pub fn pure_tokens(&self, tokens: u32) -> u32 {
        match self.views.first() {
            None => tokens,
            Some(first) if first.view.is_whole() => first.end,
            Some(_) => 0,
        }
    }

    /// The number of tokens without cells.
    pub fn away_tokens(&self) -> u32 {
        self.away.iter().map(|range| range.end - range.start).sum()
    }

    /// Whether the block of these tokens has no cells.
    pub fn is_away(&self, block: &Range<u32>) -> bool {
        let at = self.away.partition_point(|range| range.end <= block.start);
        self.away.get(at).is_some_and(|range| range.start <= block.start)
    }
}

/// Refuses a lineage that contradicts itself or a timeline of `tokens` tokens in `blocks`.
pub fn check(lineage: &Lineage, blocks: &[BlockRef], tokens: u32) -> Result<(), FormatError> {
    let Lineage { views, away } = lineage;
    let malformed = |what: &str| Err(FormatError::Record { what: what.to_owned() });
    if !views.is_sorted_by(|run, next| run.end < next.end && run.view != next.view) {
        return malformed("its runs of views are out of order");
    }
    if views.first().is_some_and(|run| run.end == 0 || (run.view.is_whole() && run.end == tokens)) {
        return malformed("its first run of views tells nothing");
    }
    if views.last().is_some_and(|run| run.end != tokens) {
        return malformed("its views are not those of its tokens");
    }
    let is_border = |at| at == 0 || blocks.binary_search_by_key(&at, |block| block.end).is_ok();
    if away.iter().any(|it| it.is_empty() || !is_border(it.start) || !is_border(it.end)) {
        return malformed("a range that is away is not one of blocks");
    }
    if !away.is_sorted_by(|range, next| range.end <= next.start) {
        return malformed("its ranges that are away are out of order");
    }
    // The last block always has cells: the next token is computed behind it.
    if away.last().is_some_and(|range| range.end >= tokens) {
        return malformed("its last token is away");
    }
    Ok(())
}
