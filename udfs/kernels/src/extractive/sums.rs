//! Which value of a text comes from which others: `7 × 28, that is 196`.

use std::ops::Range;

/// A value of a text.
#[derive(Debug, Clone)]
pub struct Value {
    /// Its word in the row's lexicon.
    pub word: u32,
    /// What it is worth.
    pub amount: f64,
    /// Where it stands in its text, in bytes.
    pub span: Range<usize>,
}

/// One value that two others make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sum {
    /// The words of the two.
    pub operands: [u32; 2],
    /// The word of the one.
    pub result: u32,
}

/// The sums, differences, products and quotients among any three values of a text that follow each other. The result
/// is the one that stands beside two others joined by an operator; else the only one of the three that is not
/// established yet, else the last one.
pub fn sums<'a>(
    text: &'a str,
    values: &'a [Value],
    is_established: impl Fn(u32) -> bool + 'a,
) -> impl Iterator<Item = Sum> + 'a {
    values.windows(3).filter_map(move |three| {
        let [a, b, c] = three else { return None };
        if !add_up([a.amount, b.amount, c.amount]) {
            return None;
        }
        let new: Vec<&Value> = three.iter().filter(|value| !is_established(value.word)).collect();
        let result = match new.as_slice() {
            _ if are_joined(&text[a.span.end..b.span.start]) => c,
            _ if are_joined(&text[b.span.end..c.span.start]) => a,
            [new] => new,
            _ => c,
        };
        let mut operands = three.iter().filter(|value| value.span != result.span).map(|value| value.word);
        Some(Sum { operands: [operands.next()?, operands.next()?], result: result.word })
    })
}

/// Whether the largest of three amounts is the sum or the product of the others. Nothing is made by adding 0 or by
/// multiplying by 1.
fn add_up(mut amounts: [f64; 3]) -> bool {
    amounts.sort_by(f64::total_cmp);
    let [small, middle, large] = amounts;
    let is_large = |amount: f64| (amount - large).abs() <= 1e-9 * large;
    small > 0.0 && (is_large(small + middle) || small > 1.0 && is_large(small * middle))
}

/// Whether what stands between two values is an operator, perhaps one of LaTeX's.
fn are_joined(between: &str) -> bool {
    const MOST_BYTES: usize = 12;
    between.len() <= MOST_BYTES
        && between.contains(['+', '-', '−', '×', '*', '·', '÷', '/', ':', '^', '\\'])
        && !between.contains(['=', ',', '\n'])
        && !between.contains(". ")
}

#[cfg(test)]
mod tests {
    use super::super::words::{Form, tokens};
    use super::*;

    /// The results, and the operands of the last, in a text where values below 10 are established.
    fn results(text: &str) -> (Vec<u32>, Option<[u32; 2]>) {
        let values: Vec<Value> = tokens(text)
            .filter(|token| token.form == Form::Value)
            .map(|token| {
                let amount: f64 = text[token.span.clone()].parse().unwrap();
                Value { word: amount as u32, amount, span: token.span }
            })
            .collect();
        let found: Vec<Sum> = sums(text, &values, |word| word < 10).collect();
        (found.iter().map(|sum| sum.result).collect(), found.last().map(|sum| sum.operands))
    }

    #[test]
    fn the_result_stands_beside_an_operator() {
        assert_eq!(results("7 × 28, that is 196"), (vec![196], Some([7, 28])));
        assert_eq!(results("It is 14 because 22 - 8 = 14"), (vec![14, 14], Some([22, 8])));
        assert_eq!(results("264 \\div 12 = 22"), (vec![22], Some([264, 12])));
        assert_eq!(results("comes out as 442 (176 + 266)"), (vec![442], Some([176, 266])));
    }

    #[test]
    fn without_an_operator_it_is_what_is_new_or_last() {
        assert_eq!(results("12 boxes of 8 and 96 rolls, and 9").0, [96]);
        assert_eq!(results("we get 40, with 8 for each of 5").0, [40]);
        assert_eq!(results("2 of 3 make 6").0, [6]);
    }

    #[test]
    fn other_values_make_no_sum() {
        for text in ["7 of 28 are 195", "1 × 28 = 28", "0 + 28 = 28", "12 + 8", ""] {
            assert_eq!(results(text).0, [0; 0], "{text}");
        }
    }
}
