//! Converts text to tokens. Layout markup is dropped, and equivalent notations become one token.

use super::characters::plain;
use super::token::{Bracket, Relation, Token};
use super::{numerals, span, units, words};

pub(crate) const MAX_BYTES: usize = 20_000;
const MAX_DIGITS: usize = 2_500;
/// The longest run of letters outside of text that is read as a word or a product.
const MAX_LETTERS: usize = 40;

const PHRASE: usize = 60;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Commas {
    Thousands,
    Separate,
}

/// Returns the tokens of an answer. None if it is too long or changes the text direction.
pub(crate) fn tokens(text: &str, commas: Commas) -> Option<Vec<Token>> {
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
    Lexer::new(&text, commas).all().map(span::turned)
}

struct Arguments {
    depth: usize,
    left: u8,
}

struct Lexer<'a> {
    text: &'a str,
    place: usize,
    commas: Commas,
    found: Vec<Token>,
    depth: usize,
    arguments: Vec<Arguments>,
}

impl<'a> Lexer<'a> {
    fn new(text: &'a str, commas: Commas) -> Self {
        Self { text, place: 0, commas, found: Vec::new(), depth: 0, arguments: Vec::new() }
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
            '{' => return self.open(Bracket::Group),
            '}' => return self.close(Bracket::Group),
            '"' if self.counts() && !self.text[..self.place - 1].contains('"') => Token::Word("in".to_string()),
            '$' if self.place == 1 && !self.rest().contains('$') => Token::Dollar,
            '$' | '~' | '"' | '`' => return,
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
            false => self.found.push(Token::Caret),
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
                if !after.trim_start_matches(|c: char| c.is_whitespace() || "$}*".contains(c)).is_empty() {
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
        if (1..=3).contains(&digits.len()) && !matches!(self.found.last(), Some(Token::Caret)) {
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
        if let Some((exponent, length)) = numerals::exponent(self.rest(), pointed) {
            self.place += length;
            self.found.push(Token::Exponent(exponent));
        }
    }

    fn separator(&self, digits: &str) -> Option<usize> {
        let reads_commas = self.commas == Commas::Thousands
            && self.depth == 0
            && !self.text.starts_with(']')
            && !digits.starts_with('0');
        numerals::separator(self.rest(), reads_commas)
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

    fn command(&mut self) {
        let rest = &self.rest()[1..];
        let length = rest.bytes().take_while(u8::is_ascii_alphabetic).count();
        if length == 0 {
            let character = rest.chars().next();
            self.place += 1 + character.map_or(0, char::len_utf8);
            match character {
                Some('{') => self.open(Bracket::Curly),
                Some('}') => self.close(Bracket::Curly),
                Some('%') => self.found.push(Token::Percent),
                // `-\$5` is `\$-5`.
                Some('$') if self.found == [Token::Minus] => self.found.insert(0, Token::Dollar),
                Some('$') => self.found.push(Token::Dollar),
                Some('\\') => self.found.push(Token::Row),
                Some('|') => self.found.push(Token::Bar),
                Some('(' | ')' | '[' | ']' | ',' | ';' | ':' | '!' | '>' | ' ' | '\n' | '/') => {}
                other => self.found.push(Token::Opaque(format!("\\{}", other.unwrap_or(' ')))),
            }
            return;
        }
        let name = &rest[..length];
        self.place += 1 + length;
        self.named(name);
    }

    fn named(&mut self, name: &str) {
        let name = match name {
            "mathbf" if self.found.last() == Some(&Token::Relation(Relation::In)) => "mathbb",
            "mathbf" | "boldsymbol" | "bm" if words::is_vector(self.rest(), &self.found) => "vec",
            "underline" if self.found.iter().rev().take(2).any(|token| *token == Token::Caret) => "falling",
            name => name,
        };
        match name {
            "middle" => {}
            "left" | "right" | "bigl" | "bigr" | "Bigl" | "Bigr" | "big" | "Big" | "bigg" | "Bigg" => self.sized(name),
            "text" | "textbf" | "textit" | "textrm" | "textsf" | "texttt" | "mbox" | "textnormal" | "mathrm" | "rm"
            | "operatorname" | "emph" | "textup" | "mathsf" | "mathtt" => {
                let content = self.raw().unwrap_or("{");
                self.is_argument();
                self.text_command(&words::innermost(content));
            }
            "phantom" | "hphantom" | "vphantom" | "hspace" | "vspace" | "label" | "tag" | "color" | "textcolor" => {
                self.raw();
            }
            "mathbb" | "Bbb" => {
                let content = self.raw().unwrap_or("{").trim();
                self.found.push(match content {
                    "Z" | "N" | "Q" | "R" | "C" => Token::Domain(content.to_string()),
                    _ => Token::Opaque(format!("\\mathbb{{{content}}}")),
                });
            }
            "begin" | "end" => self.environment(name == "begin"),
            "frac" | "dfrac" | "tfrac" | "cfrac" => self.with_arguments(Token::Fraction, 2),
            "binom" | "dbinom" | "tbinom" => self.with_arguments(Token::Binomial, 2),
            "sqrt" => self.root(),
            "mathcal" | "overline" | "bar" | "hat" | "widehat" | "vec" | "overrightarrow" | "overleftrightarrow" => {
                self.accented(name);
            }
            _ => match words::command(name) {
                Some(Some(token)) => self.symbol(token),
                Some(None) => {}
                None => self.found.push(Token::Opaque(format!("\\{name}"))),
            },
        }
    }

    /// Reads the bracket after `\left`, `\right` or a command of its size.
    fn sized(&mut self, name: &str) {
        self.skip_space();
        if self.skips(".") || !self.skips("|") {
            return;
        }
        match name.ends_with(['t', 'l']) && name != "right" {
            // In `\left|x\right.` the bar has no partner.
            _ if ["\\left.", "\\right."].iter().any(|none| self.text.contains(none)) => self.found.push(Token::Bar),
            true => self.open(Bracket::Bars),
            false => self.close(Bracket::Bars),
        }
    }

    fn accented(&mut self, name: &str) {
        let content = self.raw().unwrap_or("{").trim();
        self.is_argument();
        if ["hat", "vec", "mathcal"].contains(&name)
            && matches!(content.as_bytes(), [letter] if letter.is_ascii_alphabetic())
        {
            return self.letter(&format!("\\{name} {content}").replace("\\mathcal ", ""));
        }
        let letters = content.bytes().all(|byte| byte.is_ascii_uppercase()) && !content.is_empty();
        self.found.push(match letters {
            true => Token::Word(content.to_string()),
            false => Token::Opaque(format!("\\{name}{{{content}}}")),
        });
    }

    fn symbol(&mut self, token: Token) {
        match token {
            Token::Open(bracket) => return self.open(bracket),
            Token::Close(bracket) => return self.close(bracket),
            _ => self.is_argument(),
        };
        match token {
            Token::Letter(letter) => self.letter(&letter),
            token => self.found.push(token),
        }
    }

    fn with_arguments(&mut self, token: Token, count: u8) {
        self.is_argument();
        self.found.push(token);
        self.arguments.push(Arguments { depth: self.depth, left: count });
    }

    fn root(&mut self) {
        self.skip_space();
        let mut degree = Ok(2);
        if self.rest().starts_with('[') {
            let end = self.rest().find(']').unwrap_or(0);
            let written = self.rest()[1..end.max(1)].trim_matches(|c: char| c.is_whitespace() || "{}".contains(c));
            degree = written.parse().ok().filter(|degree| (2..=1_000).contains(degree)).ok_or(written);
            self.place += end + 1;
        }
        match degree {
            Ok(degree) => self.with_arguments(Token::Root(degree), 1),
            Err(written) => self.found.push(Token::Opaque(format!("\\sqrt[{written}]"))),
        }
    }

    fn environment(&mut self, begins: bool) {
        let name = self.raw().unwrap_or("{").trim();
        let Some(bracket) = words::environment(name) else {
            return self.found.push(Token::Opaque(format!("{{{name}}}")));
        };
        if !begins {
            return self.close(bracket);
        }
        // A line between columns has a meaning.
        if name == "array" && self.raw().is_some_and(|columns| columns.contains('|')) {
            self.found.push(Token::Opaque("{array}".to_string()));
        }
        self.open(bracket);
    }

    fn text_command(&mut self, content: &str) {
        let start = content
            .find(|c| !units::is_amount(c) && (c.is_ascii_alphabetic() || !c.is_ascii()))
            .unwrap_or(content.len());
        if content.len() == 1 && self.counts() && units::is_known(content) {
            return self.found.push(words::word(content));
        }
        if let Some(token) = words::in_text(content) {
            return self.found.push(token);
        }
        let (signs, words) = content.split_at(start);
        match tokens_within(signs) {
            Some(inner) if start > 0 => {
                self.found.extend(inner);
                if !words.is_empty() {
                    self.found.push(words::in_text(words).unwrap_or_else(|| words::word(words)));
                }
            }
            _ if !content.is_empty() => self.found.push(words::word(content)),
            _ => {}
        }
    }
}

/// Returns the tokens of digits and signs inside a command. None for other content, so that nested commands do not nest
/// calls.
fn tokens_within(text: &str) -> Option<Vec<Token>> {
    if !text.chars().all(units::is_amount) || text.trim_end().ends_with(['(', '/']) {
        return None;
    }
    Lexer::new(text, Commas::Thousands).all()
}
