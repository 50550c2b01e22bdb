//! Where each answer of a folder lies; the answers themselves stay on the store.

use std::collections::hash_map::Entry::{Occupied, Vacant};
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;

use asap_udfs::llm::store::RequestKey;

use super::segment::{self, Entry};

/// Where an answer lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    segment: u32,
    length: u32,
    offset: u64,
}

impl Place {
    /// The bytes of its body in its segment.
    pub fn body(&self) -> Range<u64> {
        segment::body(self.offset, self.length)
    }
}

/// The answers of a folder by their keys, some 70 bytes for each.
#[derive(Debug, Default)]
pub struct Index {
    /// Names of segments; a place holds the number of its segment.
    names: Vec<Arc<str>>,
    numbers: HashMap<Arc<str>, u32>,
    places: HashMap<RequestKey, Place>,
    /// Answers whose key has a place already, in order: two writers asked the same, or the first answer was torn.
    others: HashMap<RequestKey, Vec<Place>>,
}

impl Index {
    /// The names of all segments that are indexed.
    pub fn segments(&self) -> BTreeSet<Arc<str>> {
        self.numbers.keys().cloned().collect()
    }

    /// Adds the answers of a segment behind those that are there; a segment that is there is not added again.
    pub fn add(&mut self, name: &str, entries: &[Entry]) {
        if self.numbers.contains_key(name) {
            return;
        }
        let (name, number) = (Arc::<str>::from(name), self.names.len() as u32);
        self.names.push(Arc::clone(&name));
        self.numbers.insert(name, number);
        for entry in entries {
            let place = Place { segment: number, length: entry.length, offset: entry.offset };
            match self.places.entry(entry.key) {
                Vacant(first) => {
                    first.insert(place);
                }
                Occupied(_) => self.others.entry(entry.key).or_default().push(place),
            }
        }
    }

    /// The first place of an answer, and the name of its segment.
    pub fn find(&self, key: &RequestKey) -> Option<(Place, Arc<str>)> {
        let place = self.places.get(key).or_else(|| self.others.get(key)?.first())?;
        Some((*place, Arc::clone(self.names.get(place.segment as usize)?)))
    }

    /// Forgets one place of an answer.
    pub fn forget_place(&mut self, key: &RequestKey, place: Place) {
        if self.places.get(key) == Some(&place) {
            self.places.remove(key);
        }
        if let Some(others) = self.others.get_mut(key) {
            others.retain(|other| *other != place);
        }
    }

    /// Forgets all answers of segments.
    pub fn forget_segments(&mut self, names: &BTreeSet<Arc<str>>) {
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

    /// How many keys have an answer.
    pub fn len(&self) -> usize {
        self.places.len() + self.others.keys().filter(|key| !self.places.contains_key(*key)).count()
    }
}
