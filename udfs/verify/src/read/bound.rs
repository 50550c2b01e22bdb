//! Names that may differ: arguments of functions, and constants of integration.

use crate::read::token::{Bracket, Relation, Token};

/// Gives the names that are bound in both answers the same name. Other names stay.
pub(crate) fn rename(gold: &mut [Token], answer: &mut [Token]) {
    if let (Some(expected), Some(stated)) = (arguments(gold), arguments(answer))
        && head(gold) == head(answer)
        && expected.len() == stated.len()
    {
        replace(gold, &expected, "#");
        replace(answer, &stated, "#");
    }
    if let (Some((of, expected)), Some((sequence, stated))) = (index(gold), index(answer))
        && of == sequence
    {
        (gold[0], answer[0]) = (Token::Letter(of.clone()), Token::Letter(of));
        replace(gold, &[expected], "#");
        replace(answer, &[stated], "#");
    }
    if let (Some(expected), Some(stated)) = (constant(gold), constant(answer))
        && [&expected, &stated].iter().any(|name| *name == "C")
    {
        replace(gold, &[expected], "#C");
        replace(answer, &[stated], "#C");
    }
}

fn replace(tokens: &mut [Token], names: &[String], prefix: &str) {
    for token in tokens {
        if let Token::Letter(name) = token
            && let Some(place) = names.iter().position(|of| of == name)
        {
            *name = format!("{prefix}{place}");
        }
    }
}

/// Returns the tokens before the arguments of a function: `f`, or `f^{-1}`.
fn head(tokens: &[Token]) -> &[Token] {
    let end = tokens.iter().take(7).position(|token| *token == Token::Open(Bracket::Round));
    &tokens[..end.unwrap_or(0)]
}

/// Returns the distinct arguments of the function that an answer defines: those of `f(x, y) = x - y`.
fn arguments(tokens: &[Token]) -> Option<Vec<String>> {
    let head @ [Token::Letter(of), power @ ..] = head(tokens) else { return None };
    if !power.is_empty() && !matches!(power, [Token::Caret, Token::Open(_), Token::Minus, _, Token::Close(_)]) {
        return None;
    }
    let rest = &tokens[head.len() + 1..];
    let end = rest.iter().take(9).position(|token| *token == Token::Close(Bracket::Round))?;
    if rest.get(end + 1) != Some(&Token::Relation(Relation::Equal)) {
        return None;
    }
    let is_function = of.starts_with(['f', 'g', 'h']);
    let is_bound = |name, token| rest[end..].contains(token) || is_function && "nstuvxyz".contains::<&str>(name);
    let mut names = Vec::new();
    for (place, token) in rest[..end].iter().enumerate() {
        match token {
            // `P(A) = 0.5` is about A, and `f(a) = 5` about a.
            Token::Letter(name) if place % 2 == 0 && !names.contains(name) && is_bound(name, token) => {
                names.push(name.clone());
            }
            Token::Comma if place % 2 == 1 => {}
            _ => return None,
        }
    }
    (end % 2 == 1).then_some(names)
}

/// Returns the sequence that an answer defines, and its index: a and n of `a_n = 2n + 1`.
fn index(tokens: &[Token]) -> Option<(String, String)> {
    let [Token::Letter(name), Token::Relation(Relation::Equal), rest @ ..] = tokens else { return None };
    let (sequence, index) = name.split_once('_')?;
    let is_index = |token: &Token| matches!(token, Token::Letter(name) if name == index);
    (index.len() == 1 && rest.iter().any(is_index)).then(|| (format!("{sequence}_#"), index.to_string()))
}

/// Returns the name of the constant that an answer with other variables ends with: `C` of `x^2 + C`.
fn constant(tokens: &[Token]) -> Option<String> {
    const NAMES: [&str; 8] = ["C", "c", "K", "C_1", "c_1", "C_0", "c_0", "K_1"];
    let [rest @ .., Token::Plus, Token::Letter(name)] = tokens else { return None };
    let is_closed = rest.iter().filter(|token| matches!(token, Token::Open(_))).count()
        == rest.iter().filter(|token| matches!(token, Token::Close(_))).count();
    let names = |token: &&Token| matches!(token, Token::Letter(_));
    let is_one = !rest.iter().any(|token| matches!(token, Token::Letter(of) if of == name));
    let is_sum = !rest.iter().any(|token| matches!(token, Token::Comma | Token::Or | Token::And | Token::Semicolon));
    let has_variable = rest.iter().filter(names).count() > 0;
    (NAMES.contains(&name.as_str()) && is_closed && is_one && is_sum && has_variable).then(|| name.clone())
}
