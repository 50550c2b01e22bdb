//! Parts of an answer's tokens, split outside of brackets.

use crate::read::token::{Bracket, Relation, Token};

/// Writes the intervals `[2,5[`, `]2,5]` and `]2,5[` with brackets that are partners.
pub(crate) fn turned(mut tokens: Vec<Token>) -> Vec<Token> {
    let is_square = |token: &Token| matches!(token, Token::Open(Bracket::Square) | Token::Close(Bracket::Square));
    let begins = |token: &Token| matches!(token, Token::Relation(Relation::In | Relation::Equal));
    let element = tokens.iter().position(begins).map_or(0, |place| place + 1);
    for range in tokens[element..].split_mut(|token| *token == Token::Union) {
        if let [low, inner @ .., high] = range
            && is_square(low)
            && is_square(high)
            && !inner.iter().any(is_square)
            && inner.iter().filter(|token| matches!(token, Token::Comma | Token::Semicolon)).count() == 1
        {
            let bracket = |is_closed: bool| if is_closed { Bracket::Square } else { Bracket::Round };
            *low = Token::Open(bracket(*low == Token::Open(Bracket::Square)));
            *high = Token::Close(bracket(*high == Token::Close(Bracket::Square)));
        }
    }
    tokens
}

pub(crate) struct Tokens<'a> {
    all: &'a [Token],
    partners: Vec<usize>,
}

impl<'a> Tokens<'a> {
    /// None if brackets are not balanced. Round and square ones may be partners: `[2,5)`.
    pub(crate) fn new(all: &'a [Token]) -> Option<Self> {
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

    pub(crate) fn whole(&'a self) -> Span<'a> {
        Span { of: self, from: 0, to: self.all.len() }
    }
}

#[derive(Clone, Copy)]
pub(crate) struct Span<'a> {
    of: &'a Tokens<'a>,
    from: usize,
    to: usize,
}

impl<'a> Span<'a> {
    pub(crate) fn tokens(&self) -> &'a [Token] {
        &self.of.all[self.from..self.to]
    }

    pub(crate) fn slice(&self, from: usize, to: usize) -> Self {
        Self { of: self.of, from: self.from + from, to: self.from + to }
    }

    pub(crate) fn find(&self, is: impl Fn(&Token) -> bool) -> Vec<usize> {
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

    pub(crate) fn split(&self, places: &[usize]) -> Vec<Self> {
        let starts = std::iter::once(0).chain(places.iter().map(|place| place + 1));
        let ends = places.iter().copied().chain(std::iter::once(self.to - self.from));
        starts.zip(ends).map(|(from, to)| self.slice(from, to)).collect()
    }

    pub(crate) fn within(&self) -> Option<(Bracket, Self, Bracket)> {
        match (self.tokens().first()?, self.tokens().last()?) {
            (Token::Open(opening), Token::Close(closing)) if self.of.partners[self.from] == self.to - 1 => {
                Some((*opening, Self { of: self.of, from: self.from + 1, to: self.to - 1 }, *closing))
            }
            _ => None,
        }
    }

    pub(crate) fn unwrapped(&self) -> Self {
        let mut span = *self;
        while let Some((Bracket::Group, inner, _)) = span.within() {
            span = inner;
        }
        span
    }

    pub(crate) fn after_closing(&self, place: usize) -> usize {
        self.of.partners[self.from + place] + 1 - self.from
    }
}
