//! Parses tokens into an expression. Unfinished parts are on an explicit stack, so nested brackets do not nest calls.

use num_bigint::BigInt;

use crate::numbers::expression::{Expression, Function, MAX_NAMES, Op};
use crate::numbers::rational::Rational;
use crate::numbers::work::Work;
use crate::read::notation;
use crate::read::token::{Bracket, Token};

mod precedence {
    pub(crate) const INFIX_COMMAND: u8 = 0;
    pub(crate) const SUM: u8 = 1;
    pub(crate) const SIGN: u8 = 2;
    pub(crate) const PRODUCT: u8 = 3;
    pub(crate) const FUNCTION: u8 = 4;
    pub(crate) const JUXTAPOSED: u8 = 5;
    pub(crate) const SIGNED_FACTOR: u8 = 6;
}

#[derive(Debug, Clone)]
enum Pending {
    Open(Bracket),
    Operator(Op, u8),
    Function(Op, Option<i64>),
    Bracketed(Op, Option<i64>),
    TwoArguments(Op, u8),
    Root(u32),
    Exponent,
    LogBase,
}

/// Parses an expression. None if the tokens are not an expression or are ambiguous.
pub(crate) fn expression(tokens: &[Token], work: &mut Work) -> Option<Expression> {
    if notation::is_special(tokens) {
        return None;
    }
    let mut parser = Parser { tokens, place: 0, stack: Vec::new(), expression: Expression::default(), work };
    parser.operand()?;
    while parser.place < tokens.len() {
        parser.operator()?;
    }
    parser.reduce(0);
    parser.stack.is_empty().then_some(parser.expression)
}

struct Parser<'a, 'w> {
    tokens: &'a [Token],
    place: usize,
    stack: Vec<Pending>,
    expression: Expression,
    work: &'w mut Work,
}

impl Parser<'_, '_> {
    fn peek(&self, ahead: usize) -> Option<&Token> {
        self.tokens.get(self.place + ahead)
    }

    fn emit(&mut self, op: Op) {
        self.expression.ops.push(op);
    }

    fn is_argument(&self) -> bool {
        use Pending::{Exponent, LogBase, Root, TwoArguments};
        matches!(self.stack.last(), Some(Exponent | LogBase | Root(_) | TwoArguments(..)))
    }

    fn operand(&mut self) -> Option<()> {
        loop {
            self.work.spend(5)?;
            let token = self.peek(0)?.clone();
            self.place += 1;
            match token {
                Token::Number { digits, whole, repeated } => self.number(&digits, whole, repeated)?,
                Token::Letter(name) => {
                    let place = self.expression.place_of(&name);
                    if place >= MAX_NAMES {
                        return None;
                    }
                    self.emit(Op::Variable(place));
                }
                Token::Pi => self.emit(Op::Pi),
                Token::E => self.emit(Op::E),
                Token::I => self.emit(Op::I),
                Token::Minus if matches!(self.stack.last(), Some(Pending::Exponent)) => self.negative_exponent()?,
                token => {
                    self.prefix(token)?;
                    continue;
                }
            }
            if self.complete()? {
                return Some(());
            }
        }
    }

    fn negative_exponent(&mut self) -> Option<()> {
        let Some(Token::Number { digits, whole, repeated: None }) = self.peek(0).cloned() else { return None };
        self.place += 1;
        self.number(&digits, whole, None)?;
        self.emit(Op::Negate);
        Some(())
    }

    fn prefix(&mut self, token: Token) -> Option<()> {
        match token {
            Token::Open(bracket) => self.open(bracket)?,
            Token::Bar => self.stack.push(Pending::Open(Bracket::Bars)),
            Token::Fraction => self.stack.push(Pending::TwoArguments(Op::Divide, 0)),
            Token::Binomial => self.stack.push(Pending::TwoArguments(Op::Binomial, 0)),
            Token::Root(degree) => self.stack.push(Pending::Root(degree)),
            _ if self.is_argument() => return None,
            Token::Function(function) => self.function(Op::Apply(function))?,
            Token::Log => self.logarithm()?,
            Token::Plus if self.takes_sign() => {}
            Token::Minus if self.takes_sign() => {
                let firm = match self.stack.last() {
                    Some(Pending::Operator(_, precedence::PRODUCT)) => precedence::SIGNED_FACTOR,
                    _ => precedence::SIGN,
                };
                self.stack.push(Pending::Operator(Op::Negate, firm));
            }
            _ => return None,
        }
        Some(())
    }

    fn takes_sign(&self) -> bool {
        !matches!(self.stack.last(), Some(Pending::Function(..) | Pending::Bracketed(..)))
    }

    fn open(&mut self, bracket: Bracket) -> Option<()> {
        match (bracket, self.stack.last()) {
            (Bracket::Curly | Bracket::Angle | Bracket::Matrix | Bracket::Determinant, _) => return None,
            (Bracket::Round | Bracket::Square, Some(Pending::TwoArguments(..))) => return None,
            _ => {}
        }
        if let Some(Pending::Function(op, power)) = self.stack.last().cloned() {
            self.stack.pop();
            self.stack.push(Pending::Bracketed(op, power));
        }
        self.stack.push(Pending::Open(bracket));
        Some(())
    }

    fn number(&mut self, digits: &str, whole: usize, repeated: Option<usize>) -> Option<()> {
        let mut number = Rational::decimal(digits, whole, repeated, self.work)?;
        if let Some(Token::Exponent(exponent)) = self.peek(0).cloned() {
            self.place += 1;
            number = number.times(&Rational::integer(10).power(exponent, self.work)?, self.work)?;
        }
        if !self.is_argument() && whole == digits.len() {
            number = self.mixed(number)?;
        }
        self.emit(Op::Push(number));
        Some(())
    }

    /// `2\frac{3}{4}` and `2 3/4`. A fraction of one or more after a number is ambiguous.
    fn mixed(&mut self, whole: Rational) -> Option<Rational> {
        let (above, below, length) = match (self.peek(0), self.peek(1), self.peek(2)) {
            (Some(Token::Fraction), ..) => {
                let first = whole_argument(self.tokens, self.place + 1);
                let second = first.and_then(|(_, length)| whole_argument(self.tokens, self.place + 1 + length));
                let (Some((above, first)), Some((below, second))) = (first, second) else { return Some(whole) };
                (above, below, 1 + first + second)
            }
            (Some(above), Some(Token::Slash), Some(below)) if above.whole().is_some() => {
                (above.whole()?, below.whole()?, 3)
            }
            _ => return Some(whole),
        };
        let (above, below): (BigInt, BigInt) = (above.parse().ok()?, below.parse().ok()?);
        if above >= below {
            return self.work.doubt();
        }
        self.place += length;
        let span = Rational::quotient(above, below, self.work)?;
        whole.plus(&span, self.work)
    }

    fn function(&mut self, op: Op) -> Option<()> {
        let mut power = None;
        let mut op = op;
        if self.peek(0) == Some(&Token::Caret) {
            self.place += 1;
            let (exponent, length) = small_exponent(&self.tokens[self.place..])?;
            self.place += length;
            match exponent {
                -1 => op = Op::Apply(inverse(&op)?),
                1.. => power = Some(exponent),
                _ => return None,
            }
        }
        self.stack.push(Pending::Function(op, power));
        Some(())
    }

    fn logarithm(&mut self) -> Option<()> {
        if self.peek(0) != Some(&Token::Under) {
            return self.function(Op::Apply(Function::Log));
        }
        self.place += 1;
        self.stack.push(Pending::LogBase);
        Some(())
    }

    /// Finishes the pending parts that end with this operand. Returns true if an operator follows, false for an
    /// operand.
    fn complete(&mut self) -> Option<bool> {
        loop {
            match self.stack.last().cloned() {
                Some(Pending::Root(degree)) => self.emit(Op::Root(degree)),
                Some(Pending::TwoArguments(op, 0)) => {
                    self.stack.pop();
                    self.stack.push(Pending::TwoArguments(op, 1));
                    return Some(false);
                }
                Some(Pending::TwoArguments(op, _)) => self.emit(op),
                Some(Pending::LogBase) => {
                    self.stack.pop();
                    self.function(Op::LogOfBase)?;
                    return Some(false);
                }
                Some(Pending::Exponent) => match self.peek(0) {
                    // `2^3^2` is right-associative; `2^3!` is ambiguous.
                    Some(Token::Caret) => return Some(true),
                    Some(Token::Bang) => return self.work.doubt(),
                    _ => self.emit(Op::Power),
                },
                Some(Pending::Bracketed(op, power)) => self.applied(op, power),
                _ => return Some(true),
            }
            self.stack.pop();
        }
    }

    fn applied(&mut self, op: Op, power: Option<i64>) {
        self.emit(op);
        if let Some(power) = power {
            self.emit(Op::Push(Rational::integer(power)));
            self.emit(Op::Power);
        }
    }

    fn operator(&mut self) -> Option<()> {
        self.work.spend(5)?;
        let token = self.peek(0)?.clone();
        self.place += 1;
        match token {
            Token::Plus => self.infix(Op::Add, precedence::SUM),
            Token::Minus => self.infix(Op::Subtract, precedence::SUM),
            Token::Times => self.infix(Op::Multiply, precedence::PRODUCT),
            Token::Slash => {
                self.reduce(precedence::JUXTAPOSED);
                // `\sin x/2` is ambiguous.
                if matches!(self.stack.last(), Some(Pending::Function(..))) {
                    return self.work.doubt();
                }
                self.infix(Op::Divide, precedence::PRODUCT)
            }
            Token::Choose => self.infix(Op::Binomial, precedence::INFIX_COMMAND),
            Token::Over => self.infix(Op::Divide, precedence::INFIX_COMMAND),
            Token::Caret => {
                self.stack.push(Pending::Exponent);
                self.operand()
            }
            Token::Bang if self.peek(0) != Some(&Token::Bang) => {
                self.emit(Op::Factorial);
                Some(())
            }
            Token::Degree => {
                self.emit(Op::Degrees);
                Some(())
            }
            Token::Close(bracket) => self.close(bracket),
            Token::Bar if self.innermost() == Some(Bracket::Bars) => self.close(Bracket::Bars),
            // A number after an operand is ambiguous, except in `3!7!`.
            Token::Number { .. } if !self.is_between_factorials() => self.work.doubt(),
            _ => {
                self.place -= 1;
                self.juxtaposed(&token)
            }
        }
    }

    fn is_between_factorials(&self) -> bool {
        let before = self.place.checked_sub(2).and_then(|place| self.tokens.get(place));
        before == Some(&Token::Bang) && self.peek(0) == Some(&Token::Bang)
    }

    fn innermost(&self) -> Option<Bracket> {
        self.stack.iter().rev().find_map(|pending| match pending {
            Pending::Open(bracket) => Some(*bracket),
            _ => None,
        })
    }

    fn infix(&mut self, op: Op, firm: u8) -> Option<()> {
        self.reduce(firm);
        self.stack.push(Pending::Operator(op, firm));
        self.operand()
    }

    fn juxtaposed(&mut self, next: &Token) -> Option<()> {
        let ends_argument = !matches!(next, Token::Letter(_) | Token::Pi | Token::E | Token::I);
        let firm = if ends_argument { precedence::FUNCTION } else { precedence::JUXTAPOSED };
        self.reduce(firm);
        // `1/2x` is ambiguous.
        if matches!(self.stack.last(), Some(Pending::Operator(Op::Divide, precedence::PRODUCT))) {
            return self.work.doubt();
        }
        self.stack.push(Pending::Operator(Op::Multiply, precedence::JUXTAPOSED));
        self.operand()
    }

    fn reduce(&mut self, firm: u8) {
        while let Some(pending) = self.stack.pop() {
            match pending {
                Pending::Operator(op, of) if of >= firm => self.emit(op),
                Pending::Function(op, power) if precedence::FUNCTION >= firm => self.applied(op, power),
                other => return self.stack.push(other),
            }
        }
    }

    fn close(&mut self, bracket: Bracket) -> Option<()> {
        self.reduce(0);
        let Some(Pending::Open(opened)) = self.stack.pop() else { return None };
        if opened != bracket {
            return None;
        }
        let in_braces = bracket == Bracket::Group && matches!(self.stack.last(), Some(Pending::Bracketed(..)));
        // `\sin{x}^2` is ambiguous.
        if in_braces && self.peek(0) == Some(&Token::Caret) {
            return self.work.doubt();
        }
        match bracket {
            Bracket::Bars => self.emit(Op::Absolute),
            Bracket::Floor => self.emit(Op::Floor),
            Bracket::Ceiling => self.emit(Op::Ceiling),
            _ => {}
        }
        if self.complete()? { Some(()) } else { self.operand() }
    }
}

fn whole_argument(tokens: &[Token], at: usize) -> Option<(&str, usize)> {
    match tokens.get(at)? {
        Token::Open(Bracket::Group) => {
            let number = tokens.get(at + 1)?.whole()?;
            (tokens.get(at + 2)? == &Token::Close(Bracket::Group)).then_some((number, 3))
        }
        token => Some((token.whole()?, 1)),
    }
}

fn small_exponent(tokens: &[Token]) -> Option<(i64, usize)> {
    let (exponent, length) = match tokens {
        [Token::Open(Bracket::Group), Token::Minus, number, Token::Close(Bracket::Group), ..] => {
            (-number.whole()?.parse::<i64>().ok()?, 4)
        }
        [Token::Open(Bracket::Group), number, Token::Close(Bracket::Group), ..] => (number.whole()?.parse().ok()?, 3),
        [number, ..] => (number.whole()?.parse().ok()?, 1),
        [] => return None,
    };
    (-1..=100).contains(&exponent).then_some((exponent, length))
}

fn inverse(op: &Op) -> Option<Function> {
    match op {
        Op::Apply(Function::Sin) => Some(Function::Arcsin),
        Op::Apply(Function::Cos) => Some(Function::Arccos),
        Op::Apply(Function::Tan) => Some(Function::Arctan),
        Op::Apply(Function::Cot) => Some(Function::Arccot),
        _ => None,
    }
}
