//! The commands of LaTeX.

use super::{Arguments, Lexer, Reading};
use crate::read::token::{Bracket, Relation, Token};
use crate::read::{units, words};

impl Lexer<'_> {
    pub(super) fn command(&mut self) {
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
            "phantom" | "hphantom" | "vphantom" | "hspace" | "vspace" | "label" | "tag" | "color" | "textcolor"
            | "colorbox" => {
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
            "frac" | "dfrac" | "tfrac" | "cfrac" | "nicefrac" | "sfrac" | "xfrac" | "flatfrac" => {
                self.with_arguments(Token::Fraction, 2)
            }
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
        if ["align", "gather", "split", "equation"].iter().any(|of| name.starts_with(of)) {
            self.aligned = if begins { self.aligned + 1 } else { self.aligned.saturating_sub(1) };
            return if begins { self.open(Bracket::Group) } else { self.close(Bracket::Group) };
        }
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
    Lexer::new(text, Reading::Usual).all()
}
