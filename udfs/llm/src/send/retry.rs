//! Pauses before a failed request is sent again.

use std::time::Duration;

use chrono::{DateTime, NaiveDateTime, Utc};

/// The first pause is at most this long; each later one may be twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Returns the pause before the retry of this number, from 0: exponential backoff, times `jitter`.
pub(crate) fn pause(retry: u32, jitter: f64) -> Duration {
    FIRST_PAUSE.saturating_mul(1 << retry.min(16)).min(LONGEST_PAUSE).mul_f64(jitter)
}

/// Returns a random factor, so that calls that failed together are not retried together.
pub(crate) fn jitter() -> f64 {
    rand::random_range(0.5..=1.0)
}

/// Parses the header Retry-After: seconds or an HTTP date in any of its three forms. None if it is neither.
pub(crate) fn retry_after(header: &str, now: DateTime<Utc>) -> Option<Duration> {
    let header = header.trim();
    if let Ok(seconds) = header.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let older = ["%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y"];
    let date = DateTime::parse_from_rfc2822(header).ok().map(|date| date.naive_utc());
    let date = date.or_else(|| older.iter().find_map(|form| NaiveDateTime::parse_from_str(header, form).ok()))?;
    Some((date.and_utc() - now).to_std().unwrap_or(Duration::ZERO))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_have_an_end() {
        for retry in 0..100 {
            let longest = (FIRST_PAUSE * (1 << retry.min(16))).min(LONGEST_PAUSE);
            assert_eq!(pause(retry, 1.0), longest);
            assert!((0.5..=1.0).contains(&jitter()));
        }
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now = DateTime::parse_from_rfc3339("2026-11-21T10:00:00Z").unwrap().to_utc();
        let seconds = |header| retry_after(header, now).map(|pause| pause.as_secs_f64());
        assert_eq!(seconds("7"), Some(7.0));
        assert_eq!(seconds(" 0.5 "), Some(0.5));
        for date in ["Sat, 21 Nov 2026 10:00:30 GMT", "Saturday, 21-Nov-26 10:00:30 GMT", "Sat Nov 21 10:00:30 2026"] {
            assert_eq!(seconds(date), Some(30.0), "{date}");
        }
        assert_eq!(seconds("Sat, 21 Nov 2026 09:00:00 GMT"), Some(0.0));
        for neither in ["", "soon", "-3", "NaN", "2026-11-21"] {
            assert_eq!(seconds(neither), None, "{neither}");
        }
    }
}
