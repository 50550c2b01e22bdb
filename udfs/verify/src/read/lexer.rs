//! Converts text to tokens. Layout markup is dropped, and equivalent notations become one token.

use crate::read::characters::plain;
use crate::read::token::{Bracket, Relation, Token};
use crate::read::{numerals, span, units, words};

mod commands;

pub(crate) const MAX_BYTES: usize = 20_000;
const MAX_DIGITS: usize = 2_500;
/// The longest run of letters outside of text that is read as a word or a product.
const MAX_LETTERS: usize = 40;

const PHRASE: usize = 60;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reading {
    Usual,
    /// Commas between digits separate numbers, and not thousands.
    Commas,
    /// The `e` of `2e-1` is ten.
    Powers,
}

/// Returns the tokens of an answer. None if it is too long or changes the text direction.
pub(crate) fn tokens(text: &str, reading: Reading) -> Option<Vec<Token>> {
    if text.len() > MAX_BYTES {
        return None;
    }
    let text = words::with_signs(plain(text)?);
    if numerals::is_date(&text) {
        return Some(vec![Token::Opaque(text)]);
    }
    if let Some(words) = words::only_words(&text) {
        return Some(vec![words]);
    }
    Lexer::new(&text, reading).all().map(span::turned)
}

struct Arguments {
    depth: usize,
    left: u8,
}

struct Lexer<'a> {
    text: &'a str,
    place: usize,
    reading: Reading,
    found: Vec<Token>,
    depth: usize,
    /// The open environments in which `&` is no cell.
    aligned: usize,
    arguments: Vec<Arguments>,
}

impl<'a> Lexer<'a> {
    fn new(text: &'a str, reading: Reading) -> Self {
        Self { text, place: 0, reading, found: Vec::new(), depth: 0, aligned: 0, arguments: Vec::new() }
    }

    /// Returns all tokens. None if one consumes no character, so that the loop always ends.
    fn all(mut self) -> Option<Vec<Token>> {
        while self.place < self.text.len() {
            let before = self.place;
            self.next();
            if self.place == before {
                return None;
            }
        }
        Some(self.found)
    }

    fn rest(&self) -> &'a str {
        &self.text[self.place..]
    }

    fn skips(&mut self, prefix: &str) -> bool {
        let skips = self.rest().starts_with(prefix);
        if skips {
            self.place += prefix.len();
        }
        skips
    }

    fn skip_space(&mut self) {
        self.place += self.rest().len() - self.rest().trim_start().len();
    }

    fn is_argument(&mut self) -> bool {
        match self.arguments.last_mut() {
            Some(of) if of.depth == self.depth && of.left > 0 => {
                of.left -= 1;
                if of.left == 0 {
                    self.arguments.pop();
                }
                true
            }
            _ => false,
        }
    }

    fn next(&mut self) {
        let Some(character) = self.rest().chars().next() else { return };
        if let Some((word, length)) = units::foreign_word(self.rest()).filter(|_| self.counts()) {
            self.place += length;
            return self.found.push(words::in_text(word).unwrap_or_else(|| Token::Word(word.to_string())));
        }
        match character {
            '\\' => self.command(),
            '0'..='9' | '.' => self.number(),
            'a'..='z' | 'A'..='Z' => self.letters(),
            _ => {
                self.place += character.len_utf8();
                self.sign(character);
            }
        }
    }

    fn open(&mut self, bracket: Bracket) {
        self.is_argument();
        self.depth += 1;
        self.found.push(Token::Open(bracket));
    }

    fn close(&mut self, bracket: Bracket) {
        while self.arguments.last().is_some_and(|of| of.depth >= self.depth) {
            self.arguments.pop();
        }
        self.depth = self.depth.saturating_sub(1);
        self.found.push(Token::Close(bracket));
    }

    fn sign(&mut self, character: char) {
        let token = match character {
            '(' => return self.open(Bracket::Round),
            ')' => return self.close(Bracket::Round),
            '[' => return self.open(Bracket::Square),
            ']' => return self.close(Bracket::Square),
            // `11{:}30` and `3{/}4` have no spaces around the sign.
            '{' if self.skips(":}") => Token::Colon,
            '{' if self.skips("/}") => Token::Slash,
            '{' => return self.open(Bracket::Group),
            '}' => return self.close(Bracket::Group),
            '"' if self.counts() && !self.text[..self.place - 1].contains('"') => Token::Word("in".to_string()),
            '$' if self.place == 1 && !self.rest().contains('$') => Token::Dollar,
            '$' | '~' | '"' | '`' => return,
            '&' if self.aligned > 0 => return,
            ',' | ';' if self.ends() => return,
            character if character.is_whitespace() => return,
            '^' => return self.caret(),
            '\'' => return self.prime(),
            '*' if self.skips("*") => Token::Caret,
            '*' => Token::Times,
            '!' if self.skips("=") => Token::Relation(Relation::NotEqual),
            '!' => Token::Bang,
            '=' => {
                self.skips("=");
                Token::Relation(Relation::Equal)
            }
            '<' if self.skips("=") => Token::Relation(Relation::LessOrEqual),
            '<' => Token::Relation(Relation::Less),
            '>' if self.skips("=") => Token::Relation(Relation::GreaterOrEqual),
            '>' => Token::Relation(Relation::Greater),
            // `-€5` is `€-5`.
            sign if units::is_currency(sign) => {
                let at = if self.found == [Token::Minus] { 0 } else { self.found.len() };
                return self.found.insert(at, Token::Word(sign.to_string()));
            }
            '+' => Token::Plus,
            '-' => Token::Minus,
            '/' => Token::Slash,
            '_' => Token::Under,
            ',' => Token::Comma,
            ';' => Token::Semicolon,
            ':' => Token::Colon,
            '|' => Token::Bar,
            '%' => Token::Percent,
            '＄' => Token::Dollar,
            '°' => Token::Degree,
            '&' => Token::Cell,
            'Å' => Token::Word("Å".to_string()),
            other => Token::Opaque(other.to_string()),
        };
        self.found.push(token);
    }

    fn caret(&mut self) {
        self.skip_space();
        for degree in ["\\circ", "{\\circ}", "\\degree", "{\\degree}", "{\\circ }", "{ \\circ}"] {
            if self.skips(degree) {
                return self.found.push(Token::Degree);
            }
        }
        match ["\\prime", "{\\prime}"].iter().any(|prime| self.skips(prime)) {
            true => self.prime(),
            false if self.slanted() => {}
            false => self.found.push(Token::Caret),
        }
    }

    /// Reads the rest of a fraction of raised and lowered digits: `^{3}\!/_4`.
    fn slanted(&mut self) -> bool {
        let digits = |text: &'a str| {
            let inner = text.strip_prefix('{').unwrap_or(text);
            let length = inner.bytes().take_while(u8::is_ascii_digit).count();
            let after = &inner[length..];
            let after = if inner.len() < text.len() { after.strip_prefix('}')? } else { after };
            (length > 0).then_some((&inner[..length], after))
        };
        let fraction = || {
            let (above, after) = digits(self.rest())?;
            let after =
                after.trim_start_matches("\\!").strip_prefix('/')?.trim_start_matches("\\!").strip_prefix('_')?;
            let (below, after) = digits(after)?;
            Some((above, below, after.len()))
        };
        let Some((above, below, left)) = fraction() else { return false };
        let number = |digits: &str| Token::Number { digits: digits.to_string(), whole: digits.len(), repeated: None };
        // `{}^3/_4` begins with an empty group.
        if let [.., Token::Open(Bracket::Group), Token::Close(Bracket::Group)] = self.found.as_slice() {
            self.found.truncate(self.found.len() - 2);
        }
        let (open, close) = (Token::Open(Bracket::Group), Token::Close(Bracket::Group));
        let above = [Token::Fraction, open.clone(), number(above), close.clone()];
        self.found.extend(above.into_iter().chain([open, number(below), close]));
        self.place = self.text.len() - left;
        true
    }

    /// Whether only layout follows.
    fn ends(&self) -> bool {
        const LAYOUT: [&str; 9] = ["\\)", "\\]", "\\,", "\\;", "\\:", "\\!", "\\ ", "\\quad", "\\text{.}"];
        let mut rest = self.rest();
        loop {
            rest = rest.trim_start_matches(|c: char| c.is_whitespace() || "$}*~.".contains(c));
            match LAYOUT.iter().find_map(|layout| rest.strip_prefix(layout)) {
                Some(after) => rest = after,
                None => return rest.is_empty(),
            }
        }
    }

    fn prime(&mut self) {
        match self.found.last_mut() {
            Some(Token::Letter(name)) => name.push('\''),
            _ => self.found.push(Token::Opaque("'".to_string())),
        }
    }

    fn digits(&mut self) -> &'a str {
        let rest = self.rest();
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        self.place += end;
        &rest[..end]
    }

    fn number(&mut self) {
        let is_decimal = |after: &str| {
            after.starts_with(|c: char| c.is_ascii_digit()) || numerals::recurring_digits(after).is_some()
        };
        if self.rest().starts_with('.') {
            let after = &self.rest()[1..];
            if !is_decimal(after) {
                self.place += 1;
                // A full stop ends an answer. Other meanings of a point are unknown.
                if after.starts_with("..") || !self.ends() {
                    self.found.push(Token::Opaque(".".to_string()));
                }
                return;
            }
        } else if self.is_argument() {
            let digit = self.rest()[..1].to_string();
            self.place += 1;
            return self.found.push(Token::Number { digits: digit, whole: 1, repeated: None });
        }
        let mut digits = self.digits().to_string();
        let pointed = numerals::pointed_thousands(self.rest()).filter(|_| (1..=3).contains(&digits.len()));
        if let Some(length) = pointed.filter(|_| !digits.starts_with('0')) {
            digits.extend(self.rest()[..length].chars().filter(char::is_ascii_digit));
            self.place += length;
        } else if (1..=3).contains(&digits.len()) && !matches!(self.found.last(), Some(Token::Caret)) {
            while let Some(length) = self.separator(&digits) {
                self.place += length;
                digits.push_str(self.digits());
            }
        }
        let whole = digits.len();
        let mut repeated = None;
        if self.rest().starts_with('.') && is_decimal(&self.rest()[1..]) {
            self.place += 1;
            digits.push_str(self.digits());
            if let Some((period, length)) = numerals::recurring_digits(self.rest()) {
                repeated = Some(digits.len());
                digits.push_str(period);
                self.place += length;
            }
        }
        if digits.len() > MAX_DIGITS {
            return self.found.push(Token::Opaque(digits));
        }
        let pointed = whole < digits.len();
        self.found.push(Token::Number { digits, whole, repeated });
        if let Some((exponent, length)) = numerals::exponent(self.rest(), pointed, self.reading != Reading::Powers) {
            self.place += length;
            self.found.push(Token::Exponent(exponent));
        }
    }

    fn separator(&self, digits: &str) -> Option<usize> {
        let is_outer = self.depth == 0 && !self.text.starts_with(']') && !digits.starts_with('0');
        numerals::separator(self.rest(), is_outer, self.reading != Reading::Commas)
    }

    fn raw(&mut self) -> Option<&'a str> {
        self.skip_space();
        let rest = self.rest();
        if !rest.starts_with('{') {
            let length = rest.chars().next()?.len_utf8();
            self.place += length;
            return Some(&rest[..length]);
        }
        let content = words::group(rest, false);
        self.place += content.map_or(rest.len(), |content| content.len() + 2);
        content
    }

    fn letters(&mut self) {
        let rest = self.rest();
        let length = rest.bytes().take_while(u8::is_ascii_alphabetic).count();
        if length > MAX_LETTERS {
            self.place += length;
            return self.found.push(Token::Opaque(rest[..length].to_string()));
        }
        if let [.., Token::Colon, Token::Number { .. }] = self.found.as_slice()
            && let Some((half, length)) = words::half_of_day(rest)
        {
            self.place += length;
            return self.found.push(half);
        }
        let (run, spaced) = (&rest[..length], self.text[..self.place].ends_with([' ', '~', ',']));
        if !self.is_argument()
            && let Some(token) = words::known(run, spaced && self.in_phrase(), self.counts())
        {
            self.place += length;
            return self.found.push(token);
        }
        self.place += 1;
        self.letter(&run[..1]);
    }

    fn counts(&self) -> bool {
        matches!(self.found.last(), Some(Token::Number { .. } | Token::Word(_) | Token::Close(_) | Token::Pi))
    }

    fn in_phrase(&self) -> bool {
        let rest = self.rest();
        let near = &rest[..rest.floor_char_boundary(PHRASE)];
        let end = near.find(|c: char| !c.is_ascii_alphabetic() && c != ' ').unwrap_or(near.len());
        self.counts() && (matches!(self.found.last(), Some(Token::Word(_))) || units::is_phrase(&near[..end]))
    }

    fn letter(&mut self, name: &str) {
        let mut name = name.to_string();
        if self.rest().trim_start().starts_with('_') {
            self.skip_space();
            self.place += 1;
            name.push('_');
            let below = self.raw().unwrap_or("{");
            name.extend(below.chars().filter(|c| !c.is_whitespace()));
        }
        self.found.push(match name.as_str() {
            "e" => Token::E,
            "i" => Token::I,
            _ => Token::Letter(name),
        });
    }
}
