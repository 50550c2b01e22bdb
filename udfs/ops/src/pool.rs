//! Scratch memory that tasks reuse, since fresh memory costs a task more than much of its arithmetic.

use std::sync::{Mutex, PoisonError};

/// Values that each task borrows exclusively while it runs.
#[derive(Debug, Default)]
pub struct Pool<T>(Mutex<Vec<T>>);

impl<T: Default> Pool<T> {
    /// Runs a task with a value that no other task uses. The value may have contents from an earlier task.
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
