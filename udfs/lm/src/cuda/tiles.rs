//! The tiles of attention.

use cudarc::driver::DeviceRepr;

use crate::ops::Sequence;

/// Queries per thread block.
pub(crate) const QUERIES: usize = 128;
/// Keys per step of a thread block.
pub(crate) const KEYS: usize = 64;

/// Consecutive queries of one chain, in the layout of attention.cu.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Tile {
    /// Row of the first query among all queries.
    pub query: u32,
    pub queries: u32,
    /// Row of the chain's first key among all keys.
    pub key: u32,
    /// Number of keys of the chain before the first query's own.
    pub position: u32,
}

// SAFETY: four 32-bit numbers, with the layout of C.
unsafe impl DeviceRepr for Tile {}

/// The queries of all chains, most visible keys first, so that no long tile runs last.
pub(crate) fn tiles(chains: &[Sequence]) -> Vec<Tile> {
    let (mut tiles, mut query, mut key) = (vec![], 0, 0);
    for Sequence { earlier, tokens } in chains {
        for first in (0..*tokens).step_by(QUERIES) {
            tiles.push(Tile {
                query: (query + first) as u32,
                queries: QUERIES.min(tokens - first) as u32,
                key: key as u32,
                position: (earlier + first) as u32,
            });
        }
        query += tokens;
        key += earlier + tokens;
    }
    tiles.sort_by_key(|tile| std::cmp::Reverse(tile.position + tile.queries));
    tiles
}
