//! The throttle against endpoints in virtual time.

use std::collections::BTreeMap;

use super::*;

const FREE: Limits = Limits { at_once: 64, requests_per_minute: None, tokens_per_minute: None };
const AT_ONCE: Duration = Duration::from_millis(5);
const SECOND: Duration = Duration::from_secs(1);
const QUICK: Duration = Duration::from_millis(50);

/// Reproducible pseudo-random numbers from 0 to 1 (SplitMix64).
struct Dice(u64);

impl Dice {
    fn throw(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

enum Does {
    Answer(Duration),
    Limit(Duration),
    /// Fails after a time. Only a failure that comes at once makes calls pause.
    Fail(Duration),
}

struct Took {
    seconds: f64,
    requests: usize,
    most_in_flight: u32,
    state: ThrottleState,
    answers: Vec<f64>,
    /// Whether failures ended it before enough answers arrived.
    is_down: bool,
}

#[derive(Debug, Clone, Copy)]
struct Asks {
    answers: usize,
    at_once: u32,
    after: Option<Duration>,
    seed: u64,
    busy: f64,
}

const EVERY: f64 = 20.0;

impl Asks {
    /// Makes calls until enough answers arrived, or the endpoint is down. New calls always wait, so the last ones do not
    /// run alone.
    fn ask(self, mut endpoint: impl FnMut(f64, &mut Dice) -> Does) -> Took {
        let Self { answers, at_once, after, seed, busy } = self;
        let limits = Limits { at_once, ..FREE };
        let (begin, mut state, mut dice) = (Instant::now(), ThrottleState::default(), Dice(seed));
        let (mut now, mut requests, mut most_in_flight, mut done) = (begin, 0, 0, Vec::new());
        let (mut in_flight, mut idle_until, mut is_down) = (BTreeMap::new(), begin, false);
        while done.len() < answers && !is_down {
            let blocked = loop {
                let second = (now - begin).as_secs_f64();
                if second % EVERY >= busy && now < idle_until {
                    let busy_again = begin + Duration::from_secs_f64((second / EVERY).ceil() * EVERY);
                    break Some(idle_until.min(busy_again));
                }
                idle_until = now + SECOND;
                match state.begin(limits, 1, now) {
                    Ok(number) => {
                        let does = endpoint(second, &mut dice);
                        let (Does::Answer(time) | Does::Limit(time) | Does::Fail(time)) = does;
                        in_flight.insert((now + time, number), does);
                        requests += 1;
                        most_in_flight = most_in_flight.max(state.in_flight);
                    }
                    Err(at) => break at,
                }
            };
            now = blocked.into_iter().chain(in_flight.keys().next().map(|(at, _)| *at)).min().unwrap();
            while let Some(call) = in_flight.first_entry().filter(|call| call.key().0 <= now) {
                let ((_, number), does) = call.remove_entry();
                match does {
                    Does::Answer(_) => {
                        state.answered(number);
                        done.push((now - begin).as_secs_f64());
                    }
                    Does::Limit(_) => {
                        state.limited(number, after.unwrap_or_default(), 0.5 + dice.throw() / 2.0, now);
                    }
                    Does::Fail(time) => is_down |= state.failed(number, time <= AT_ONCE, 1.0, now),
                }
                state.end(number, now);
            }
        }
        Took { seconds: (now - begin).as_secs_f64(), requests, most_in_flight, state, answers: done, is_down }
    }
}

/// An endpoint that accepts `per_second` starts in each second, and limits a share `at_random`.
fn takes(per_second: usize, at_random: f64, latency: Duration) -> impl FnMut(f64, &mut Dice) -> Does {
    let (mut second, mut taken) = (0, 0);
    move |now, dice| {
        if second != now as u64 {
            (second, taken) = (now as u64, 0);
        }
        if dice.throw() < at_random {
            return Does::Limit(AT_ONCE);
        }
        taken += 1;
        if taken <= per_second { Does::Answer(latency) } else { Does::Limit(AT_ONCE) }
    }
}

#[test]
fn limits_at_random_cost_no_more_than_the_calls_that_are_sent_again() {
    for latency in [QUICK, SECOND] {
        for at_once in [1, 8, 64] {
            for share in [0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3] {
                for (after, limit) in [(None, latency), (Some(Duration::ZERO), AT_ONCE), (Some(SECOND), latency)] {
                    let asks = Asks { answers: 20_000, at_once, after, seed: at_once.into(), busy: EVERY };
                    let took = asks.ask(|_, dice| match dice.throw() < share {
                        true => Does::Limit(limit),
                        false => Does::Answer(latency),
                    });
                    // `at_once` calls are always in flight, and those that are not limited are answered.
                    let sent_again = limit.as_secs_f64() * share / (1.0 - share);
                    let ideal = 20_000.0 * (latency.as_secs_f64() + sent_again) / f64::from(at_once);
                    let what = format!("{share} of calls of {latency:?}, {asks:?}: {} s, ideal {ideal}", took.seconds);
                    assert!(took.seconds <= 1.3 * ideal, "{what}");
                    let requests = 20_000.0 / (1.0 - share);
                    assert!((took.requests as f64) < 1.03 * requests + 64.0, "{what}: {} requests", took.requests);
                    assert!(took.state.pace.trials <= 5, "{what}: {} trials", took.state.pace.trials);
                }
            }
        }
    }
}

#[test]
fn a_time_with_few_calls_says_nothing_of_the_pace() {
    for busy in [0.3, 0.4, 0.5, 0.6, 1.0, 3.0] {
        for (share, seed) in [(0.15, 1), (0.2, 2), (0.2, 3), (0.3, 4)] {
            let asks = Asks { answers: 3000, at_once: 64, after: None, seed, busy };
            let took = asks.ask(|_, dice| match dice.throw() < share {
                true => Does::Limit(QUICK),
                false => Does::Answer(QUICK),
            });
            // Includes a trial of 50 to 150 calls, and the time until all are in flight.
            let ideal = (3000.0 / (1.0 - share) + 400.0) * 0.05 / 64.0 * EVERY / busy;
            assert!(took.seconds <= 1.3 * ideal + EVERY, "{busy} s, {share}: {} s, ideal {ideal}", took.seconds);
        }
    }
}

#[test]
fn a_limit_of_the_account_is_kept_to_with_and_without_limits_at_random() {
    for per_second in [2, 5, 20] {
        for latency in [QUICK, SECOND] {
            for at_random in [0.0, 0.05] {
                for after in [None, Some(SECOND)] {
                    let asks = Asks { answers: 300, at_once: 64, after, seed: 7, busy: EVERY };
                    let took = asks.ask(takes(per_second, at_random, latency));
                    let least = 300.0 / per_second as f64 + latency.as_secs_f64();
                    let requests = took.requests as f64 / 300.0;
                    let what = format!(
                        "{per_second} a second, {latency:?}, {at_random}, {after:?}: {requests}, {}",
                        took.seconds
                    );
                    assert!(requests <= 1.3 && took.seconds <= 1.4 * least, "{what}");
                }
            }
        }
    }
}

#[test]
fn an_incident_costs_few_requests_and_is_over_soon_after_its_end() {
    for long in [10.0, 30.0] {
        for latency in [QUICK, SECOND] {
            for at_once in [1, 8, 64] {
                let (begins, ends) = (20.0, 20.0 + long);
                let full = f64::from(at_once) / latency.as_secs_f64();
                let asks = Asks { answers: (60.0 * full) as usize, at_once, after: None, seed: 1, busy: EVERY };
                let took = asks.ask(|now, _| match (begins..ends).contains(&now) {
                    true => Does::Limit(AT_ONCE),
                    false => Does::Answer(latency),
                });
                let wasted = took.requests - took.answers.len() - took.state.in_flight as usize;
                let again = took
                    .answers
                    .windows(full as usize)
                    .find(|all| all[0] > ends && all.last().unwrap() - all[0] < 1.15);
                let after = again.map_or(f64::INFINITY, |all| all[0]) - ends;
                let what =
                    format!("{long} s, {latency:?}, {at_once} at once: {wasted} wasted, {after} s after its end");
                assert!(wasted <= 20 + at_once as usize && after < 0.9 * long + 6.0, "{what}");
            }
        }
    }
}

#[test]
fn a_limit_that_comes_late_is_found_by_a_trial() {
    for at_random in [0.0, 0.05] {
        // Accepts 45 per second of the possible 64. Limits take as long as answers, about a second.
        let (mut tokens, mut last) = (10.0_f64, 0.0);
        let took = Asks { answers: 5000, at_once: 64, after: None, seed: 1, busy: EVERY }.ask(|now, dice| {
            (tokens, last) = ((tokens + (now - last) * 45.0).min(10.0), now);
            let time = SECOND.mul_f64(0.5 + dice.throw());
            if dice.throw() < at_random || tokens < 1.0 {
                return Does::Limit(time);
            }
            tokens -= 1.0;
            Does::Answer(time)
        });
        let (requests, trials) = (took.requests as f64 / 5000.0, took.state.pace.trials);
        assert!(requests <= 1.25 && took.seconds <= 1.2 * 5000.0 / 45.0, "{requests}, {}", took.seconds);
        assert!((1..=5).contains(&trials), "{trials} trials");
    }
}

#[test]
fn a_limit_of_the_calls_in_flight_is_kept_to() {
    for (most, latency) in [(16, SECOND), (48, SECOND), (16, 10 * SECOND), (48, 10 * SECOND), (16, 60 * SECOND)] {
        let mut running: Vec<f64> = Vec::new();
        let took = Asks { answers: 1000, at_once: 64, after: None, seed: 5, busy: EVERY }.ask(|now, _| {
            running.retain(|end| *end > now);
            if running.len() == most {
                return Does::Limit(AT_ONCE);
            }
            running.push(now + latency.as_secs_f64());
            Does::Answer(latency)
        });
        let ideal = 1000.0 * latency.as_secs_f64() / most as f64;
        let requests = took.requests as f64 / 1000.0;
        assert!(took.seconds <= 1.6 * ideal && requests <= 2.0, "{most}, {latency:?}: {requests}, {}", took.seconds);
    }
}

#[test]
fn all_that_is_allowed_is_in_flight_soon() {
    let asks = Asks { answers: 376, at_once: 64, after: None, seed: 1, busy: EVERY };
    let took = asks.ask(|_, _| Does::Answer(SECOND));
    // 8 + 16 + 32 + 5 × 64.
    assert_eq!((took.seconds, took.requests - took.state.in_flight as usize, took.most_in_flight), (8.0, 376, 64));
}

#[test]
fn who_fails_all_calls_is_tried_one_by_one_and_is_down_after_twenty() {
    for at_once in [1, 8, 64] {
        let mut calls = 0;
        let took = Asks { answers: 1000, at_once, after: None, seed: 1, busy: EVERY }.ask(|_, _| {
            calls += 1;
            if calls <= 64 { Does::Answer(Duration::ZERO) } else { Does::Fail(Duration::ZERO) }
        });
        let (requests, seconds) = (took.requests - 64, took.seconds);
        assert!(took.is_down && requests <= 20 + at_once as usize, "{requests} requests, {at_once} at once");
        assert!((20.0..60.0).contains(&seconds), "{seconds} s, {at_once} at once");
    }
}

#[test]
fn one_in_five_calls_that_hang_or_fail_does_not_make_an_endpoint_down() {
    for long in [AT_ONCE, SECOND, 20 * SECOND] {
        let asks = Asks { answers: 16_000, at_once: 64, after: None, seed: 3, busy: EVERY };
        let took = asks.ask(|_, dice| if dice.throw() < 0.2 { Does::Fail(long) } else { Does::Answer(QUICK) });
        assert!(!took.is_down && took.state.stops == 0, "{long:?}: {} stops", took.state.stops);
    }
}

#[test]
fn a_long_pause_is_announced_once() {
    let (now, mut state) = (Instant::now(), ThrottleState::default());
    let minute = 60 * SECOND;
    assert_eq!(state.unannounced(20 * SECOND, now), None);
    let own = Pause { time: minute, is_for_all: false };
    assert_eq!((state.unannounced(minute, now), state.unannounced(minute, now + SECOND)), (Some(own), None));
    assert_eq!(state.unannounced(minute, now + minute), Some(own));
    let now = now + minute;
    // A pause of all calls differs from the pause of one, even if both end at about the same time.
    state.paused_until = Some(now + minute + QUICK);
    let all = Pause { time: minute + QUICK, is_for_all: true };
    assert_eq!((state.unannounced(minute, now), state.unannounced(minute, now)), (Some(all), None));
    state.paused_until = Some(now + minute + 2 * QUICK);
    assert_eq!(state.unannounced(Duration::ZERO, now), None);
}

#[tokio::test]
async fn who_gives_up_takes_nothing_from_the_others() {
    let throttle = Arc::new(Throttle::default());
    let limits = Limits { requests_per_minute: Some(600), ..FREE };
    let begin = Instant::now();
    drop(throttle.admit(limits, 1).await);
    {
        let mut abandoned: Vec<_> = (0..50).map(|_| Box::pin(throttle.admit(limits, 1))).collect();
        for abandoned in &mut abandoned {
            assert!(futures::poll!(abandoned).is_pending());
        }
    }
    drop(throttle.admit(limits, 1).await);
    let next = throttle.state.lock().next[1].unwrap();
    assert_eq!(next.duration_since(begin).as_millis() / 100, 2);
}

#[test]
fn starts_keep_the_pace_of_the_settings_and_tokens_are_corrected() {
    let (mut state, now) = (ThrottleState::default(), Instant::now());
    let limits = Limits { requests_per_minute: Some(120), ..FREE };
    assert!(state.begin(limits, 1, now).is_ok());
    assert_eq!(state.begin(limits, 1, now), Err(Some(now + Duration::from_millis(500))));
    assert!(state.begin(limits, 1, now + Duration::from_millis(500)).is_ok());
    assert!(state.begin(FREE, 1, now).is_ok());

    let throttle = Throttle::default();
    let limits = Limits { tokens_per_minute: Some(120), ..FREE };
    assert!(throttle.state.lock().begin(limits, 1, now).is_ok());
    throttle.correct(1, 11, limits);
    throttle.correct(1, 1000, FREE);
    assert_eq!(throttle.state.lock().begin(limits, 1, now), Err(Some(now + Duration::from_millis(5500))));
    throttle.correct(11, 1, limits);
    assert_eq!(throttle.state.lock().begin(limits, 1, now), Err(Some(now + Duration::from_millis(500))));
}

#[tokio::test]
async fn another_number_of_calls_at_once_counts_those_that_run() {
    let throttle = Arc::new(Throttle::default());
    let (two, three) = (Limits { at_once: 2, ..FREE }, Limits { at_once: 3, ..FREE });
    let mut running = vec![throttle.admit(two, 1).await, throttle.admit(two, 1).await];
    running.push(throttle.admit(three, 1).await);
    let mut waiting = Box::pin(throttle.admit(two, 1));
    assert!(futures::poll!(&mut waiting).is_pending());
    running.truncate(1);
    assert!(futures::poll!(&mut waiting).is_ready());
}

#[test]
fn that_nothing_is_answered_is_reported_once_until_something_is() {
    let throttle = Arc::new(Throttle::default());
    let limited = || {
        let mut state = throttle.state.lock();
        let now = Instant::now();
        (state.next, state.paused_until) = ([None; 3], None);
        let number = state.begin(FREE, 1, now).unwrap();
        state.limited(number, Duration::ZERO, 1.0, now);
        state.end(number, now);
        drop(state);
        throttle.state.lock().is_stuck_anew()
    };
    // Ten in a row stop all calls, and then each single try.
    let stuck = |calls: usize| (0..calls).map(|_| limited()).collect::<Vec<_>>();
    assert_eq!(stuck(13).iter().position(|is_stuck| *is_stuck), Some(11));
    let mut state = throttle.state.lock();
    state.paused_until = None;
    let number = state.begin(FREE, 1, Instant::now()).unwrap();
    state.answered(number);
    state.end(number, Instant::now());
    drop(state);
    assert_eq!(stuck(13).iter().position(|is_stuck| *is_stuck), Some(11));
}
#[tokio::test]
async fn a_call_is_alone_if_no_other_waits_or_is_in_flight() {
    let throttle = Arc::new(Throttle::default());
    let one = Limits { at_once: 1, ..FREE };
    let first = throttle.admit(one, 1).await;
    let alone = Limited { stops: 0, is_alone: true, answered: 0 };
    assert_eq!(first.limited(Duration::ZERO), alone);
    drop(first);
    let first = throttle.admit(one, 1).await;
    let mut second = Box::pin(throttle.admit(one, 1));
    assert!(futures::poll!(&mut second).is_pending());
    assert_eq!(first.limited(Duration::ZERO), Limited { is_alone: false, ..alone });
    drop(second);
    drop(first);
    let [first, second] = [throttle.admit(FREE, 1).await, throttle.admit(FREE, 1).await];
    assert_eq!(first.limited(Duration::ZERO), Limited { is_alone: false, ..alone });
    drop((first, second));
    assert_eq!(throttle.admit(FREE, 1).await.limited(Duration::ZERO), alone);
}
