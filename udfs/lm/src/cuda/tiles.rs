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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn each_query_is_in_one_tile_with_its_place(
            chains in prop::collection::vec((0_usize..500, 0_usize..500), 0..8),
        ) {
            let chains: Vec<Sequence> = chains.into_iter().map(|(earlier, tokens)| Sequence { earlier, tokens }).collect();
            let tiles = tiles(&chains);
            prop_assert!(tiles.is_sorted_by_key(|tile| std::cmp::Reverse(tile.position + tile.queries)));
            // Row of the query, row of its chain's first key, its position in the chain.
            let mut found: Vec<(u32, u32, u32)> = tiles
                .iter()
                .flat_map(|tile| (0..tile.queries).map(|i| (tile.query + i, tile.key, tile.position + i)))
                .collect();
            found.sort_unstable();
            let (mut expected, mut key) = (vec![], 0);
            for Sequence { earlier, tokens } in &chains {
                expected.extend((0..*tokens).map(|i| (key as u32, (earlier + i) as u32)));
                key += earlier + tokens;
            }
            let expected: Vec<_> =
                expected.into_iter().enumerate().map(|(row, (key, place))| (row as u32, key, place)).collect();
            prop_assert_eq!(found, expected);
            prop_assert!(tiles.iter().all(|tile| (1..=QUERIES as u32).contains(&tile.queries)));
        }
    }
}
