//! How much an endpoint is asked at once and in a minute. The process has one set of limits per endpoint, whatever
//! sessions and queries ask it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

/// What runs at one endpoint and when more may start.
#[derive(Debug, Default)]
pub struct Endpoint {
    slots: Mutex<Option<(u32, Arc<Semaphore>)>>,
    /// Requests a minute.
    pub requests: Pace,
    /// Tokens a minute.
    pub tokens: Pace,
}

impl Endpoint {
    /// The process's one endpoint at this address.
    pub fn at(base_url: &str) -> Arc<Self> {
        static ENDPOINTS: OnceLock<Mutex<HashMap<String, Arc<Endpoint>>>> = OnceLock::new();
        let endpoints = ENDPOINTS.get_or_init(Mutex::default);
        let mut endpoints = endpoints.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(endpoints.entry(base_url.to_string()).or_default())
    }

    /// Waits until one of `at_once` calls may run; it ends when the permit is dropped. When the number changes, calls
    /// under the earlier one are not counted. None cannot happen: nobody closes the semaphore.
    pub async fn slot(&self, at_once: u32) -> Option<OwnedSemaphorePermit> {
        let semaphore = {
            let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
            match &*slots {
                Some((number, semaphore)) if *number == at_once => Arc::clone(semaphore),
                _ => {
                    let semaphore = Arc::new(Semaphore::new(at_once as usize));
                    *slots = Some((at_once, Arc::clone(&semaphore)));
                    semaphore
                }
            }
        };
        semaphore.acquire_owned().await.ok()
    }
}

/// An even pace: each start is put behind the earlier ones by the time that their amounts take.
#[derive(Debug, Default)]
pub struct Pace {
    next: Mutex<Option<Instant>>,
}

impl Pace {
    /// Waits for the next start, of `amount`, at `per_minute`; without a limit it does not wait.
    pub async fn wait(&self, amount: u64, per_minute: Option<u32>) {
        let Some(per_minute) = per_minute else { return };
        tokio::time::sleep_until(self.start(amount, per_minute, Instant::now())).await;
    }

    fn start(&self, amount: u64, per_minute: u32, now: Instant) -> Instant {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let start = next.map_or(now, |next| next.max(now));
        *next = Some(start + time(amount, per_minute));
        start
    }

    /// Corrects an amount that was only estimated before the start.
    pub fn correct(&self, estimated: u64, actual: u64, per_minute: Option<u32>) {
        let Some(per_minute) = per_minute else { return };
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        *next = next.and_then(|next| match actual.checked_sub(estimated) {
            Some(more) => Some(next + time(more, per_minute)),
            None => next.checked_sub(time(estimated - actual, per_minute)),
        });
    }
}

/// How long an amount takes, a day at most.
fn time(amount: u64, per_minute: u32) -> Duration {
    Duration::from_secs_f64((amount as f64 * 60.0 / f64::from(per_minute)).min(86_400.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pace_spaces_starts_evenly_and_is_corrected() {
        let (pace, now) = (Pace::default(), Instant::now());
        let start = |after: u64| (pace.start(1, 120, now + Duration::from_millis(after)) - now).as_millis();
        assert_eq!([start(0), start(0), start(0), start(100)], [0, 500, 1000, 1500]);
        pace.correct(1, 11, Some(120));
        assert_eq!(start(0), 7000);
        pace.correct(1, 0, Some(120));
        pace.correct(1, 1000, None);
        assert_eq!([start(0), start(9000)], [7000, 9000]);
    }

    #[tokio::test]
    async fn an_endpoint_has_one_set_of_slots_in_the_process() {
        let permits = [Endpoint::at("http://a").slot(2).await, Endpoint::at("http://a").slot(2).await];
        let endpoint = Endpoint::at("http://a");
        let mut third = Box::pin(endpoint.slot(2));
        assert!(futures::poll!(&mut third).is_pending());
        assert!(Endpoint::at("http://b").slot(2).await.is_some());
        drop(permits);
        assert!(third.await.is_some());
    }
}
