//! Compares two answers.

use crate::numbers::expression::{Expression, Op};
use crate::numbers::number::Number;
use crate::numbers::rational::Rational;
use crate::numbers::work::Work;
use crate::read::shape::{Interval, Quantity, Shape};

pub(crate) fn equals(gold: &Shape, answer: &Shape, work: &mut Work) -> bool {
    if gold == answer {
        return true;
    }
    if work.spend(20).is_none() {
        return false;
    }
    match (gold, answer) {
        (Shape::Labelled { letter, content }, other) | (other, Shape::Labelled { letter, content }) => {
            labelled(letter, content, other, work)
        }
        (Shape::Definition { .. }, _) | (_, Shape::Definition { .. }) => defined(gold, answer, work),
        (Shape::Value(gold), Shape::Value(answer)) => values(gold, answer, work),
        (Shape::Word(gold), Shape::Word(answer)) => words(gold, answer),
        (Shape::List(gold) | Shape::Set(gold), Shape::List(answer) | Shape::Set(answer)) => lists(gold, answer, work),
        // `x < -2, x > 3` may mean both or one of them.
        (Shape::Union(_), Shape::List(parts)) | (Shape::List(parts), Shape::Union(_))
            if parts.iter().all(|part| matches!(part, Shape::Interval(_))) =>
        {
            work.doubt::<()>().is_some()
        }
        (Shape::Union(gold), Shape::Union(answer)) => any_order(gold, answer, work),
        (Shape::Set(one), other) => matches!(one.as_slice(), [element] if equals(element, other, work)),
        (other, Shape::Set(one)) => matches!(one.as_slice(), [element] if equals(other, element, work)),
        (Shape::Tuple(gold), Shape::Tuple(answer)) => in_order(gold, answer, work),
        (Shape::Tuple(tuple), Shape::List(list)) | (Shape::List(list), Shape::Tuple(tuple)) => {
            in_order_of_names(tuple, list, work)
        }
        (Shape::Tuple(tuple), Shape::Matrix(rows)) | (Shape::Matrix(rows), Shape::Tuple(tuple)) => {
            let column: Option<Vec<Shape>> =
                rows.iter().map(|row| <[_; 1]>::try_from(row.clone()).ok().map(|[cell]| cell)).collect();
            column.is_some_and(|column| in_order(tuple, &column, work))
        }
        (Shape::Tuple(ends), Shape::Interval(interval)) | (Shape::Interval(interval), Shape::Tuple(ends)) => {
            Interval::open(ends).is_some_and(|open| intervals(&open, interval, work))
        }
        (Shape::Tuple(_) | Shape::Interval(_), Shape::Union(one))
        | (Shape::Union(one), Shape::Tuple(_) | Shape::Interval(_))
            if one.len() == 1 =>
        {
            equals(&one[0], if matches!(gold, Shape::Union(_)) { answer } else { gold }, work)
        }
        (Shape::Interval(gold), Shape::Interval(answer)) => intervals(gold, answer, work),
        (Shape::Matrix(gold), Shape::Matrix(answer)) => {
            pairwise(gold, answer, |gold, answer| in_order(gold, answer, work))
        }
        (Shape::Equation(gold), Shape::Equation(answer)) => gold.is_multiple_of(answer, false, work),
        (
            Shape::Inequality { difference: gold, strict },
            Shape::Inequality { difference: answer, strict: answer_strict },
        ) => strict == answer_strict && gold.is_multiple_of(answer, true, work),
        (
            Shape::Congruence { name, value, modulus },
            Shape::Congruence { name: answer_name, value: answer, modulus: answer_modulus },
        ) => {
            let alike = name.is_none() || answer_name.is_none() || name == answer_name;
            alike && modulus.equals(answer_modulus, work) && is_whole(value, answer, modulus, work)
        }
        (Shape::Ratio(gold), Shape::Ratio(answer)) => ratios(gold, answer, work),
        (Shape::Ratio(parts), other) | (other, Shape::Ratio(parts)) => match (parts.as_slice(), other.as_plain()) {
            ([above, below], Some(other)) => above.joined(below, Op::Divide).equals(other, work),
            _ => false,
        },
        _ => false,
    }
}

fn labelled(letter: &str, content: &Shape, other: &Shape, work: &mut Work) -> bool {
    let is_letter = |shape: &Shape| {
        shape.as_plain().is_some_and(|of| of.ops == [Op::Variable(0)] && of.names == [letter.to_string()])
    };
    match other {
        Shape::Labelled { letter: other, content: of } => letter == other && equals(content, of, work),
        other => is_letter(other) || equals(content, other, work),
    }
}

fn defined(gold: &Shape, answer: &Shape, work: &mut Work) -> bool {
    let difference = |of: &Shape| match of {
        Shape::Definition { difference, .. } => difference.clone(),
        Shape::Equation(difference) => Some(difference.clone()),
        _ => None,
    };
    match (gold, answer) {
        (Shape::Definition { name, value, .. }, Shape::Definition { name: other, value: answer, .. })
            if name == other =>
        {
            equals(value, answer, work)
        }
        (Shape::Definition { .. } | Shape::Equation(_), Shape::Definition { .. } | Shape::Equation(_)) => {
            let differences = difference(gold).zip(difference(answer));
            differences.is_some_and(|(gold, answer)| gold.is_multiple_of(&answer, false, work))
        }
        (Shape::Definition { value, .. }, _) => equals(value, answer, work),
        (_, Shape::Definition { value, .. }) => equals(gold, value, work),
        _ => false,
    }
}

fn values(gold: &Quantity, answer: &Quantity, work: &mut Work) -> bool {
    let has_sign = |of: &Quantity| of.degrees || of.percent;
    let degrees = (gold.degrees, answer.degrees);
    let same_unit = match (&gold.unit, &answer.unit) {
        (Some(gold), Some(answer)) => gold.name == answer.name,
        (Some(unit), None) => unit.optional,
        (None, Some(unit)) => unit.optional || unit.is_foreign,
        (None, None) => true,
    };
    if !same_unit
        || (has_sign(gold) && answer.unit.is_some())
        || (has_sign(answer) && gold.unit.is_some())
        || (gold.percent && answer.degrees)
        || (gold.degrees && answer.percent)
    {
        return false;
    }
    let (expected, found) = (&gold.expression, &answer.expression);
    let hundredth = |of: &Expression| of.joined(&Expression::constant(Rational::integer(100)), Op::Divide);
    let in_radians = |of: &Expression| {
        let mut of = of.clone();
        of.ops.push(Op::Degrees);
        of
    };
    match (gold.percent, answer.percent) {
        (true, false) if hundredth(expected).equals(found, work) => true,
        (false, true) if expected.equals(&hundredth(found), work) => true,
        (true, false) | (false, true) => is_ten_or_more(expected, work) && expected.equals(found, work),
        // An angle in terms of π is in radians.
        _ if (degrees.0 == degrees.1 || !expected.ops.contains(&Op::Pi)) && expected.equals(found, work) => true,
        _ => match degrees {
            (true, false) => in_radians(expected).equals(found, work),
            (false, true) => expected.equals(&in_radians(found), work),
            _ => false,
        },
    }
}

/// The percent sign may be left out where the number is too large to be a fraction or a multiple.
fn is_ten_or_more(expression: &Expression, work: &mut Work) -> bool {
    let below = |work: &mut Work| {
        let size = expression.constant_value(work)?.absolute(work)?;
        Some(size.minus(&Number::integer(10), work)?.real()?.is_negative() == Some(true))
    };
    expression.is_constant() && below(work) == Some(false)
}

fn words(gold: &str, answer: &str) -> bool {
    const SHORT: [&str; 6] = ["yes", "no", "odd", "one", "two", "all"];
    let lower = (gold.to_lowercase(), answer.to_lowercase());
    // Three capitals may be names of points, which are different points in lower case.
    let is_named = [gold, answer].iter().any(|word| word.len() < 3 || word.bytes().all(|b| b.is_ascii_uppercase()));
    gold == answer || lower.0 == lower.1 && (gold.len() > 3 || !is_named || SHORT.contains(&lower.0.as_str()))
}

fn in_order(gold: &[Shape], answer: &[Shape], work: &mut Work) -> bool {
    pairwise(gold, answer, |gold, answer| equals(gold, answer, work))
}

fn pairwise<T>(gold: &[T], answer: &[T], mut are_equal: impl FnMut(&T, &T) -> bool) -> bool {
    gold.len() == answer.len() && gold.iter().zip(answer).all(|(gold, answer)| are_equal(gold, answer))
}

/// Compares lists in any order. If the labels of `gold` (names or units) differ from each other, a part matches only a part
/// with the same label. If the two lists do not have the same labels, and one of them has different labels, the order
/// counts: `x = 1, y = 2` equals `1, 2` and not `2, 1`.
fn lists(gold: &[Shape], answer: &[Shape], work: &mut Work) -> bool {
    let labels = |of: &[Shape]| {
        let mut labels: Vec<Option<String>> = of.iter().map(|shape| shape.label().map(str::to_string)).collect();
        labels.sort_unstable();
        labels
    };
    let (labels, of_answer) = (labels(gold), labels(answer));
    let several = |labels: &[Option<String>]| labels.windows(2).any(|pair| pair[0] != pair[1]);
    if labels != of_answer && (several(&labels) || several(&of_answer)) {
        return in_order(gold, answer, work);
    }
    any_order(gold, answer, work)
}

fn any_order(gold: &[Shape], answer: &[Shape], work: &mut Work) -> bool {
    let is_set = |shape: &Shape| matches!(shape, Shape::Set(_));
    let labelled = gold.iter().any(|shape| shape.label() != gold[0].label());
    let mut left: Vec<&Shape> = answer.iter().collect();
    gold.len() == answer.len()
        && gold.iter().all(|gold| {
            // A set of one element equals the element only outside of a list.
            let found = left.iter().position(|answer| {
                is_set(gold) == is_set(answer)
                    && (!labelled || gold.label() == answer.label())
                    && equals(gold, answer, work)
            });
            found.is_some_and(|place| {
                left.swap_remove(place);
                true
            })
        })
}

/// `x = 3, y = -1` is `(3, -1)`: coordinates in alphabetical order, other names in the order of the list.
fn in_order_of_names(tuple: &[Shape], list: &[Shape], work: &mut Work) -> bool {
    let named: Option<Vec<(&str, &Shape)>> = list
        .iter()
        .map(|shape| match shape {
            Shape::Definition { name, value, .. } => Some((name.as_str(), &**value)),
            _ => None,
        })
        .collect();
    let Some(mut named) = named else { return false };
    if named.iter().all(|(name, _)| ["x", "y", "z"].contains(name)) {
        named.sort_by_key(|(name, _)| *name);
    }
    tuple.len() == named.len() && tuple.iter().zip(named).all(|(gold, (_, found))| equals(gold, found, work))
}

fn intervals(gold: &Interval, answer: &Interval, work: &mut Work) -> bool {
    let alike = gold.name.is_none() || answer.name.is_none() || gold.name == answer.name;
    let mut ends = |gold: &Option<Expression>, answer: &Option<Expression>| match (gold, answer) {
        (None, None) => true,
        (Some(gold), Some(answer)) => gold.equals(answer, work),
        _ => false,
    };
    alike
        && (gold.low_closed, gold.high_closed) == (answer.low_closed, answer.high_closed)
        && ends(&gold.low, &answer.low)
        && ends(&gold.high, &answer.high)
}

fn is_whole(gold: &Expression, answer: &Expression, modulus: &Expression, work: &mut Work) -> bool {
    let quotient = gold.joined(answer, Op::Subtract).joined(modulus, Op::Divide);
    quotient.constant_value(work).and_then(|value| value.exact().map(Rational::is_integer)).unwrap_or(false)
}

fn ratios(gold: &[Expression], answer: &[Expression], work: &mut Work) -> bool {
    let ([first, gold @ ..], [answer_first, answer @ ..]) = (gold, answer) else { return false };
    pairwise(gold, answer, |gold, answer| {
        gold.joined(first, Op::Divide).equals(&answer.joined(answer_first, Op::Divide), work)
    })
}
