//! When a failed request is sent again.

use std::time::Duration;

use chrono::{DateTime, Utc};

/// The first pause is at most this long; each later one may be twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// No pause is longer, ...
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// ... unless the endpoint asks for it.
const LONGEST_ASKED: Duration = Duration::from_secs(600);

/// How long to wait before the retry of this number, from 0: by exponential backoff with jitter, and no shorter than the
/// endpoint asked for, up to ten minutes.
pub fn pause(retry: u32, asked_for: Option<Duration>) -> Duration {
    let longest = FIRST_PAUSE.saturating_mul(1 << retry.min(16)).min(LONGEST_PAUSE);
    // On top of what is asked for: those who were sent away together do not come back together.
    asked(asked_for.unwrap_or_default()) + longest.mul_f64(rand::random_range(0.5..=1.0))
}

/// The pause that an endpoint asked for, as far as it is made.
pub fn asked(after: Duration) -> Duration {
    after.min(LONGEST_ASKED)
}

/// The header Retry-After: seconds, or a date as HTTP writes it. None if it is neither.
pub fn retry_after(header: &str, now: DateTime<Utc>) -> Option<Duration> {
    let header = header.trim();
    if let Ok(seconds) = header.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let date = DateTime::parse_from_rfc2822(header).ok()?;
    Some((date.with_timezone(&Utc) - now).to_std().unwrap_or(Duration::ZERO))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_have_an_end() {
        for retry in 0..100 {
            assert!(pause(retry, None) <= FIRST_PAUSE * (1 << retry.min(7)));
            assert!(pause(retry, None) <= LONGEST_PAUSE);
            let asked = pause(retry, Some(Duration::from_secs(3)));
            let longest = FIRST_PAUSE * (1 << retry.min(7));
            assert!(asked >= Duration::from_secs(3) && asked <= Duration::from_secs(3) + longest);
        }
        assert!(pause(0, Some(Duration::from_secs(86_400))) <= LONGEST_ASKED + FIRST_PAUSE);
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now = DateTime::parse_from_rfc3339("2026-11-21T10:00:00Z").unwrap().to_utc();
        let seconds = |header| retry_after(header, now).map(|pause| pause.as_secs_f64());
        assert_eq!(seconds("7"), Some(7.0));
        assert_eq!(seconds(" 0.5 "), Some(0.5));
        assert_eq!(seconds("Sat, 21 Nov 2026 10:00:30 GMT"), Some(30.0));
        assert_eq!(seconds("Sat, 21 Nov 2026 09:00:00 GMT"), Some(0.0));
        for neither in ["", "soon", "-3", "NaN", "2026-11-21"] {
            assert_eq!(seconds(neither), None, "{neither}");
        }
    }
}
