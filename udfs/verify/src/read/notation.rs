//! Notation that looks like a product but is not: `P(2)`, `\frac{dy}{dx}`, `f\circ g`, `\vec{a}\times\vec{b}`,
//! `A^{-1}BA`.

use std::collections::HashSet;

use crate::read::token::{Bracket, Token};

/// The maximum tokens of a numerator, an exponent or a bracket that are examined.
const NEAR: usize = 24;

/// Whether some of these tokens are not a product. Such an answer is equal only to identical tokens.
pub(crate) fn is_special(tokens: &[Token]) -> bool {
    let mut orders = HashSet::new();
    (0..tokens.len()).any(|place| {
        let (before, rest) = tokens.split_at(place);
        is_call(rest)
            || is_derivative(rest)
            || is_composed(before.last(), rest)
            || is_inverse_next_to(before.last(), rest)
            || is_order_of_both(rest, &mut orders)
    })
}

fn is_function(name: &str) -> bool {
    name.starts_with(['f', 'g', 'h'])
}

fn is_capital(name: &str) -> bool {
    name.trim_start_matches('\\').starts_with(|c: char| c.is_ascii_uppercase())
}

fn is_call(tokens: &[Token]) -> bool {
    use Token::{Caret, Close, Letter, Number, Open};
    match tokens {
        [Letter(_), Open(Bracket::Round), Number { .. }, Close(Bracket::Round), ..] => true,
        [Letter(name), Open(Bracket::Round | Bracket::Square), inner @ ..] => {
            is_function(name) || is_capital(name) && !is_sum(inner)
        }
        [Letter(name), Caret, Open(Bracket::Group), Open(Bracket::Round), ..] => is_function(name),
        [Letter(name), Caret, Open(Bracket::Group), rest @ ..] if is_function(name) => {
            let end = rest.iter().take(NEAR).position(|token| *token == Close(Bracket::Group));
            end.is_some_and(|end| rest.get(end + 1) == Some(&Open(Bracket::Round)))
        }
        [Letter(name), Caret, Number { .. }, Open(Bracket::Round), ..] => is_function(name),
        _ => false,
    }
}

fn is_sum(inner: &[Token]) -> bool {
    let end = inner.iter().take(NEAR).position(|token| matches!(token, Token::Close(Bracket::Round | Bracket::Square)));
    let inner = &inner[..end.unwrap_or(inner.len().min(NEAR))];
    inner.iter().any(|token| matches!(token, Token::Plus | Token::Minus | Token::Fraction))
}

fn is_derivative(tokens: &[Token]) -> bool {
    use Token::{Close, Fraction, Letter, Open};
    let differs = |token: &Token| matches!(token, Letter(name) if name == "d" || name == "\\Delta");
    let [Fraction, Open(Bracket::Group), above, rest @ ..] = tokens else { return false };
    let rest = &rest[..rest.len().min(NEAR)];
    differs(above)
        && rest.windows(4).any(|below| match below {
            [Close(Bracket::Group), Open(Bracket::Group), below, Letter(_)] => differs(below),
            _ => false,
        })
}

fn is_composed(before: Option<&Token>, tokens: &[Token]) -> bool {
    use Token::{Degree, Letter, Times};
    let (Some(Letter(left)), [sign, Letter(right), ..]) = (before, tokens) else { return false };
    let are = |is: fn(&str) -> bool| is(left) && is(right);
    match sign {
        Degree => true,
        Times => are(|name| name.starts_with("\\vec") || name.starts_with("\\hat")) || are(is_function),
        _ => false,
    }
}

fn is_inverse_next_to(before: Option<&Token>, tokens: &[Token]) -> bool {
    use Token::{Caret, Close, Letter, Minus, Open};
    let [Letter(name), Caret, exponent @ ..] = tokens else { return false };
    let end = match exponent {
        [Minus, _, ..] => 2,
        [Open(Bracket::Group), Minus, _, Close(Bracket::Group), ..] => 4,
        _ => return false,
    };
    let is_other = |token: Option<&Token>| matches!(token, Some(Letter(other)) if is_capital(other) && other != name);
    is_capital(name) && (is_other(before) || is_other(exponent.get(end)))
}

fn is_order_of_both<'a>(tokens: &'a [Token], orders: &mut HashSet<(&'a str, &'a str)>) -> bool {
    let [Token::Letter(left), Token::Letter(right), ..] = tokens else { return false };
    if !is_capital(left) || !is_capital(right) || left == right {
        return false;
    }
    orders.insert((left, right));
    orders.contains(&(right.as_str(), left.as_str()))
}
