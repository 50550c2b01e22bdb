//! The index of the answers of a folder. The answers themselves stay on the store.

use std::collections::hash_map::Entry::{Occupied, Vacant};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use asap_llm::request::RequestKey;
use datafusion::parquet::arrow::arrow_reader::ArrowReaderMetadata;
use tokio::sync::OnceCell;

use crate::answers::folder::Segment;
use crate::answers::segment::Entry;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct EntryPlace {
    pub segment: u32,
    pub row: u32,
}

#[derive(Debug)]
pub(crate) struct Indexed {
    pub segment: Segment,
    pub metadata: OnceCell<ArrowReaderMetadata>,
}

/// The answers of a folder by their keys, about 60 bytes each.
#[derive(Debug, Default)]
pub(super) struct Index {
    segments: Vec<Arc<Indexed>>,
    numbers: HashMap<String, u32>,
    places: HashMap<RequestKey, EntryPlace>,
    /// Further answers to keys in `places`, in order: two writers sent the same request, or the first answer was
    /// damaged.
    others: HashMap<RequestKey, Vec<EntryPlace>>,
}

impl Index {
    pub(super) fn segments(&self) -> BTreeSet<String> {
        self.numbers.keys().cloned().collect()
    }

    /// Adds the answers of a segment after the existing ones. A known segment is not added again.
    pub(super) fn add(&mut self, segment: Segment, metadata: Option<ArrowReaderMetadata>, entries: &[Entry]) {
        if self.numbers.contains_key(&segment.name) {
            return;
        }
        let number = self.segments.len() as u32;
        self.numbers.insert(segment.name.clone(), number);
        self.segments.push(Arc::new(Indexed { segment, metadata: OnceCell::new_with(metadata) }));
        for (row, entry) in entries.iter().enumerate() {
            let place = EntryPlace { segment: number, row: row as u32 };
            match self.places.entry(entry.key) {
                Vacant(first) => {
                    first.insert(place);
                }
                Occupied(_) => self.others.entry(entry.key).or_default().push(place),
            }
        }
    }

    pub(super) fn find(&self, key: &RequestKey) -> Option<(EntryPlace, Arc<Indexed>)> {
        let place = self.places.get(key).or_else(|| self.others.get(key)?.first())?;
        Some((*place, Arc::clone(self.segments.get(place.segment as usize)?)))
    }

    pub(crate) fn forget_place(&mut self, key: &RequestKey, place: EntryPlace) {
        if self.places.get(key) == Some(&place) {
            self.places.remove(key);
        }
        if let Some(others) = self.others.get_mut(key) {
            others.retain(|other| *other != place);
        }
    }

    /// Removes the answers of a damaged segment, but keeps the segment so that it is not read again.
    pub(crate) fn forget_answers(&mut self, name: &str) {
        let Some(number) = self.numbers.get(name).copied() else { return };
        self.places.retain(|_, place| place.segment != number);
        self.others.values_mut().for_each(|places| places.retain(|place| place.segment != number));
    }

    pub(crate) fn forget_segments(&mut self, names: &BTreeSet<String>) {
        let gone: BTreeSet<u32> = names.iter().filter_map(|name| self.numbers.remove(name)).collect();
        if gone.is_empty() {
            return;
        }
        self.places.retain(|_, place| !gone.contains(&place.segment));
        self.others.retain(|_, places| {
            places.retain(|place| !gone.contains(&place.segment));
            !places.is_empty()
        });
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.places.len() + self.others.keys().filter(|key| !self.places.contains_key(*key)).count()
    }
}
