//! Parts of an answer's tokens, cut outside of brackets.

use super::token::{Bracket, Token};

/// Tokens with the partner of each bracket.
pub struct Tokens<'a> {
    all: &'a [Token],
    partners: Vec<usize>,
}

impl<'a> Tokens<'a> {
    /// None if brackets are not balanced. Round and square ones may be partners: `[2,5)`.
    pub fn new(all: &'a [Token]) -> Option<Self> {
        let like = |bracket| if bracket == Bracket::Square { Bracket::Round } else { bracket };
        let (mut partners, mut open) = (vec![0; all.len()], Vec::new());
        for (place, token) in all.iter().enumerate() {
            match token {
                Token::Open(bracket) => open.push((place, like(*bracket))),
                Token::Close(bracket) => {
                    let (from, opened) = open.pop()?;
                    if opened != like(*bracket) {
                        return None;
                    }
                    partners[from] = place;
                    partners[place] = from;
                }
                _ => {}
            }
        }
        open.is_empty().then_some(Self { all, partners })
    }

    /// All of them.
    pub fn whole(&'a self) -> Span<'a> {
        Span { of: self, from: 0, to: self.all.len() }
    }
}

/// Some tokens in a row, their brackets balanced.
#[derive(Clone, Copy)]
pub struct Span<'a> {
    of: &'a Tokens<'a>,
    from: usize,
    to: usize,
}

impl<'a> Span<'a> {
    /// Its tokens.
    pub fn tokens(&self) -> &'a [Token] {
        &self.of.all[self.from..self.to]
    }

    /// From one of its places to another.
    pub fn slice(&self, from: usize, to: usize) -> Self {
        Self { of: self.of, from: self.from + from, to: self.from + to }
    }

    /// The places of tokens outside of brackets, where `is` says so.
    pub fn find(&self, is: impl Fn(&Token) -> bool) -> Vec<usize> {
        let (mut found, mut place) = (Vec::new(), self.from);
        while place < self.to {
            match &self.of.all[place] {
                Token::Open(_) => place = self.of.partners[place],
                token if is(token) => found.push(place - self.from),
                _ => {}
            }
            place += 1;
        }
        found
    }

    /// Its parts between these places.
    pub fn split(&self, places: &[usize]) -> Vec<Self> {
        let starts = std::iter::once(0).chain(places.iter().map(|place| place + 1));
        let ends = places.iter().copied().chain(std::iter::once(self.to - self.from));
        starts.zip(ends).map(|(from, to)| self.slice(from, to)).collect()
    }

    /// What stands in the bracket that is all of it.
    pub fn within(&self) -> Option<(Bracket, Self, Bracket)> {
        match (self.tokens().first()?, self.tokens().last()?) {
            (Token::Open(opening), Token::Close(closing)) if self.of.partners[self.from] == self.to - 1 => {
                Some((*opening, Self { of: self.of, from: self.from + 1, to: self.to - 1 }, *closing))
            }
            _ => None,
        }
    }

    /// Without braces around all of it.
    pub fn unwrapped(&self) -> Self {
        let mut span = *self;
        while let Some((Bracket::Group, inner, _)) = span.within() {
            span = inner;
        }
        span
    }

    /// The place of the first bracket that opens.
    pub fn find_open(&self) -> Option<usize> {
        self.tokens().iter().position(|token| *token == Token::Open(Bracket::Round))
    }

    /// The place behind the bracket that opens here.
    pub fn behind(&self, place: usize) -> usize {
        self.of.partners[self.from + place] + 1 - self.from
    }
}
