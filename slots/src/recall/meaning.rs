//! The ranking of absent passages by meaning.

use super::Query;
use super::index::Index;
use super::rankings::ranked;
use super::vocabulary::PassageId;

/// Standard deviations above the mean from which on a passage is near in meaning: less than a third of those
/// of a long conversation.
const NEAR: f64 = 0.5;

/// Standard deviations above the mean from which on the nearest passage is asked for, and comes first: of normally
/// distributed cosines one in 161. By all-MiniLM-L6-v2, nine of ten facts were 3.4 to 8.7 from the mean of 55 other
/// passages, whose nearest is at about 2.3 by chance.
const FOREMOST: f64 = 2.5;

/// How near passages are to the query in meaning. The cosines of one model are close together, those of
/// another far apart, so a passage is compared with the others.
pub(super) struct Alike {
    cosines: Vec<(PassageId, f64)>,
    mean: f64,
    deviation: f64,
}

impl Alike {
    pub fn of(index: &Index, query: &Query<'_>) -> Self {
        let meaning = query.meaning.filter(|_| query.by.meaning);
        let cosines = meaning.map(|(vectors, vector)| vectors.cosines(vector)).unwrap_or_default();
        let cosines: Vec<(PassageId, f64)> = cosines
            .into_iter()
            .filter_map(|(block, cosine)| Some((index.passage_id(block)?, cosine)))
            .collect();
        let count = cosines.len().max(1) as f64;
        let mean = cosines.iter().map(|(_, cosine)| cosine).sum::<f64>() / count;
        let variance = cosines.iter().map(|(_, cosine)| (cosine - mean).powi(2)).sum::<f64>();
        Self { cosines, mean, deviation: (variance / count).sqrt() }
    }

    /// Absent passages that are nearer than most.
    pub fn near(&self, index: &Index, is_absent: &[bool]) -> Vec<PassageId> {
        let near = self.mean + NEAR * self.deviation;
        let absent =
            self.cosines.iter().filter(|&&(passage, cosine)| is_absent[passage] && cosine >= near);
        ranked(index, absent.map(|&(passage, cosine)| (passage, cosine, 0.0)))
    }

    /// The nearest passage, if it is far nearer than most.
    pub fn foremost(&self) -> Option<PassageId> {
        let best = self.cosines.iter().max_by(|one, other| one.1.total_cmp(&other.1));
        let least = self.mean + FOREMOST * self.deviation;
        best.filter(|(_, cosine)| self.deviation > 0.0 && *cosine >= least)
            .map(|(passage, _)| *passage)
    }
}
