//! Memory that tasks hand on to each other, since fresh memory costs a task more than much of its arithmetic.

use std::sync::{Mutex, PoisonError};

/// Values of which each task takes one while it runs.
#[derive(Debug, Default)]
pub struct Pool<T>(Mutex<Vec<T>>);

impl<T: Default> Pool<T> {
    /// Runs a task with a value that no other task holds, with what an earlier task left in it.
    pub fn with<R>(&self, task: impl FnOnce(&mut T) -> R) -> R {
        let mut values = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = values.pop();
        drop(values);
        let mut value = taken.unwrap_or_default();
        let result = task(&mut value);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(value);
        result
    }
}
