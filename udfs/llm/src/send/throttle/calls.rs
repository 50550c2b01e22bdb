//! The last calls in the order of their starts, and their outcomes.

use std::collections::VecDeque;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallState {
    InFlight,
    Accepted,
    Limited,
    Failed,
}

/// The history holds `TIMES` times the calls that can be in flight, plus `MORE`, up to `MOST`. asap does
/// not wait for a call that is slower than this many later calls: one that hangs must not hide the outcomes of all others.
const TIMES: u64 = 4;
const MORE: u64 = 64;
const MOST: u64 = 1 << 18;

#[derive(Debug, Default)]
pub(super) struct Calls {
    known: VecDeque<CallState>,
    started: u64,
    given: u64,
}

impl Calls {
    pub(super) fn next(&self) -> u64 {
        self.started
    }

    pub(super) fn start(&mut self, at_once: u32) -> u64 {
        self.known.push_back(CallState::InFlight);
        let remembered = (TIMES * u64::from(at_once) + MORE).min(MOST) as usize;
        let superfluous = self.known.len().saturating_sub(remembered);
        self.known.drain(..superfluous);
        self.started += 1;
        self.started - 1
    }

    pub(super) fn end(&mut self, number: u64, known: CallState) {
        let at = self.place(number);
        if let Some(slot) = at.and_then(|at| self.known.get_mut(at)).filter(|slot| **slot == CallState::InFlight) {
            *slot = known;
        }
    }

    /// Returns how many calls in a row around this one the endpoint limited or failed, and how many of these failed. A
    /// call in flight ends the row: it may still be answered.
    pub(crate) fn in_vain(&self, number: u64) -> (usize, usize) {
        let Some(at) = self.place(number) else { return (0, 0) };
        let is_vain = |known: &&CallState| matches!(known, CallState::Limited | CallState::Failed);
        let row = self.known.iter().take(at).rev().take_while(is_vain);
        let row = row.chain(self.known.iter().skip(at).take_while(is_vain));
        row.fold((0, 0), |(all, failed), known| (all + 1, failed + usize::from(*known == CallState::Failed)))
    }

    pub(crate) fn forget_rows(&mut self) {
        for known in self.known.iter_mut().filter(|known| **known != CallState::InFlight) {
            *known = CallState::Accepted;
        }
    }

    /// Returns the next call in the order of starts, if its outcome is known. Answers take longer than limits, so the
    /// order of outcomes would be a biased sample. A call that is in flight much longer than others counts as accepted.
    pub(crate) fn next_known(&mut self, at_once: u32) -> Option<(u64, CallState)> {
        if self.given == self.started {
            return None;
        }
        let known = self.place(self.given).map_or(CallState::Accepted, |at| self.known[at]);
        let known = match known {
            CallState::InFlight if self.started - self.given > TIMES * u64::from(at_once) => CallState::Accepted,
            CallState::InFlight => return None,
            known => known,
        };
        self.given += 1;
        Some((self.given - 1, known))
    }

    fn place(&self, number: u64) -> Option<usize> {
        let first = self.started - self.known.len() as u64;
        number.checked_sub(first).map(|at| at as usize).filter(|at| *at < self.known.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(calls: &mut Calls, number: usize) {
        for _ in 0..number {
            calls.start(4);
        }
    }

    #[test]
    fn a_row_is_in_the_order_of_starts_and_ends_at_what_is_taken_or_in_flight() {
        let mut calls = Calls::default();
        start(&mut calls, 6);
        for (number, known) in
            [(4, CallState::Limited), (1, CallState::Failed), (3, CallState::Failed), (0, CallState::Accepted)]
        {
            calls.end(number, known);
        }
        assert_eq!([0, 1, 3, 4].map(|number| calls.in_vain(number)), [(0, 0), (1, 1), (2, 1), (2, 1)]);
        calls.end(2, CallState::Failed);
        assert_eq!(calls.in_vain(3), (4, 3));
        calls.end(3, CallState::Accepted);
        calls.forget_rows();
        calls.end(5, CallState::Failed);
        assert_eq!(calls.in_vain(5), (1, 1));
    }

    #[test]
    fn calls_are_given_in_the_order_of_starts() {
        let mut calls = Calls::default();
        start(&mut calls, 3);
        calls.end(1, CallState::Limited);
        assert_eq!(calls.next_known(4), None);
        calls.end(0, CallState::Accepted);
        let given = [(); 3].map(|()| calls.next_known(4));
        assert_eq!(given, [Some((0, CallState::Accepted)), Some((1, CallState::Limited)), None]);
        start(&mut calls, 15);
        assert_eq!(calls.next_known(4), None);
        start(&mut calls, 1);
        assert_eq!((calls.next_known(4), calls.next_known(4)), (Some((2, CallState::Accepted)), None));
    }
}
