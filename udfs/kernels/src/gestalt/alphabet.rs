//! The scalars of a text as small numbers, with their positions.

use std::collections::HashMap;

const ABSENT: u32 = u32::MAX;

#[derive(Debug, Clone)]
pub(crate) struct Alphabet {
    ascii: [u32; 128],
    others: HashMap<char, u32>,
    len: usize,
}

impl Default for Alphabet {
    fn default() -> Self {
        Self { ascii: [ABSENT; 128], others: HashMap::new(), len: 0 }
    }
}

impl Alphabet {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn clear(&mut self) {
        self.ascii.fill(ABSENT);
        self.others.clear();
        self.len = 0;
    }

    pub(crate) fn add(&mut self, scalar: char) -> u32 {
        let number = match self.ascii.get_mut(scalar as usize) {
            Some(number) => number,
            None => self.others.entry(scalar).or_insert(ABSENT),
        };
        if *number == ABSENT {
            *number = self.len as u32;
            self.len += 1;
        }
        *number
    }

    /// Returns the number of a scalar, or `u32::MAX` if it is absent.
    pub(crate) fn get(&self, scalar: char) -> u32 {
        match self.ascii.get(scalar as usize) {
            Some(number) => *number,
            None => self.others.get(&scalar).copied().unwrap_or(ABSENT),
        }
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Occurrences {
    ends: Vec<u32>,
    places: Vec<u32>,
}

impl Occurrences {
    /// Indexes `text`, whose symbol s occurs `counts[s]` times, except symbols that occur `popular_from` times or more.
    pub(crate) fn rebuild(&mut self, text: &[u32], counts: &[u32], popular_from: usize) {
        let indexed = |symbol: u32| (counts[symbol as usize] as usize) < popular_from;
        self.ends.clear();
        let mut total = 0;
        for (symbol, count) in counts.iter().enumerate() {
            self.ends.push(total);
            if indexed(symbol as u32) {
                total += count;
            }
        }
        self.places.clear();
        self.places.resize(total as usize, 0);
        for (place, &symbol) in text.iter().enumerate().filter(|(_, symbol)| indexed(**symbol)) {
            let end = &mut self.ends[symbol as usize];
            self.places[*end as usize] = place as u32;
            *end += 1;
        }
    }

    pub(crate) fn of(&self, symbol: u32, within: (usize, usize)) -> &[u32] {
        let symbol = symbol as usize;
        let Some(&end) = self.ends.get(symbol) else { return &[] };
        let start = if symbol == 0 { 0 } else { self.ends[symbol - 1] };
        let places = &self.places[start as usize..end as usize];
        let from = places.partition_point(|place| (*place as usize) < within.0);
        let to = places.partition_point(|place| (*place as usize) < within.1);
        &places[from..to]
    }
}
