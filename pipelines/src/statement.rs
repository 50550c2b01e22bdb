//! What a statement of SQL may be: the engine walks an expression by recursion, and a stack has an end. And what it may
//! not mean.

mod advice;

use datafusion::common::{Result, plan_err};
use datafusion::sql::sqlparser::dialect::Dialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

pub use advice::{alias_of_select, surprise};

/// The most levels of an expression, far below what overflows a stack of [`STACK_BYTES`].
pub const MOST_LEVELS: usize = 1_000;
/// The stack of a thread that plans or evaluates expressions: an unoptimized build needs kilobytes for each level.
pub const STACK_BYTES: usize = 64 << 20;
/// How often expressions whose work doubles may be within each other.
const MOST_DOUBLED: usize = 8;
/// The longest text: a parsed text takes hundreds of times its length.
const MOST_BYTES: usize = 8 << 20;

/// Refuses a text whose expressions are too long or too deep to be planned, or that has a form which the engine would ignore
/// or misread.
///
/// Each operator can put what is left of it one level deeper: `1-1-1` is `(1-1)-1`. A comma begins at the level of its
/// bracket again, so lists of any length are flat.
///
/// # Errors
/// If the text is longer than 8 MiB, an expression may have more than [`MOST_LEVELS`] levels, or it has a form of other engines such as
/// TABLESAMPLE.
pub fn check_text(sql: &str, dialect: &dyn Dialect) -> Result<()> {
    if sql.len() > MOST_BYTES {
        return plan_err!(
            "expected SQL of at most {} MiB, found {} MiB: put the values into a file, and JOIN it",
            MOST_BYTES >> 20,
            sql.len().div_ceil(1 << 20)
        );
    }
    // What is no token is an error of the parser.
    let tokens = Tokenizer::new(dialect, sql).tokenize().unwrap_or_default();
    if let Some(advice) = foreign(&tokens, dialect) {
        return plan_err!("{advice}");
    }
    if most_doubled(&tokens) > MOST_DOUBLED {
        return plan_err!(
            "expected CAST, coalesce, BETWEEN and the like within each other at most {MOST_DOUBLED} times, found more: write the \
             inner ones as columns of a subquery"
        );
    }
    if deepest(&tokens) > MOST_LEVELS {
        return plan_err!(
            "expected an expression of at most {MOST_LEVELS} operators, found more: write a list of values as x IN (…), or put \
             the values into a file, and JOIN it"
        );
    }
    Ok(())
}

const SAMPLE: &str = "SQL here takes no sample of a table: write ORDER BY random() LIMIT 5";
const VERSIONS: &str = "SQL here reads the newest version of a table, and no earlier one: leave AS OF out";
const OPTIONS: &str = "COPY takes options after the word OPTIONS, and the format from the ending: COPY (SELECT …) TO 'rows.csv' \
                       OPTIONS ('format.has_header' 'true', 'format.delimiter' ',')";
const FORMAT: &str = "the format of rows is a flag, and no part of SQL: asap sql --format json";
const DATABASES: &str = "SQL here has no databases: a table is a path, FROM 'out/pruned', COPY (SELECT …) TO 'rows.parquet' writes \
                         rows, and asap export a whole output";
const TEMPLATES: &str =
    "SQL here has no templates: write the value in the place of {{ … }}, or read a setting, as cot_budget does";
const BRACKETS: &str = "pruned takes a query in its own parentheses and, as text, the name of the stage that drops steps: write \
                        pruned((SELECT *, … AS kept FROM corpus), 'random')";
const LAMBDA: &str = "x -> … is a lambda only in the dialect of DuckDB: run SET datafusion.sql_parser.dialect = 'duckdb' before \
                      this, as a command of its own; or query the items: SELECT s['tokens'] FROM (SELECT unnest(steps) AS s FROM \
                      'out/pruned')";

/// Words of other engines that follow each other; `0` is a number, `s` a text and `w` a word. The engine ignores or misreads them.
const FORMS: [(&[&str], &str); 20] = [
    (&["TABLESAMPLE"], SAMPLE),
    (&["SAMPLE", "0"], SAMPLE),
    (&["VERSION", "AS", "OF"], VERSIONS),
    (&["TIMESTAMP", "AS", "OF"], VERSIONS),
    (&["SYSTEM_TIME", "AS", "OF"], VERSIONS),
    (&["AS", "OF", "VERSION"], VERSIONS),
    (&["AS", "OF", "TIMESTAMP"], VERSIONS),
    (&["TO", "s", "("], OPTIONS),
    (&["FORMAT", "JSON"], FORMAT),
    (&["FORMAT", "JSONEACHROW"], FORMAT),
    (&["FORMAT", "CSV"], FORMAT),
    (&["FORMAT", "TSV"], FORMAT),
    (&["ATTACH", "s"], DATABASES),
    (&["ATTACH", "DATABASE"], DATABASES),
    (&["EXPORT", "DATABASE"], DATABASES),
    (&["IMPORT", "DATABASE"], DATABASES),
    (&["{", "{"], TEMPLATES),
    (&["PRUNED", "(", "SELECT"], BRACKETS),
    (&["LAMBDA", "w", ":"], LAMBDA),
    (&["w", "->", "w"], LAMBDA),
];

fn foreign(tokens: &[Token], dialect: &dyn Dialect) -> Option<&'static str> {
    let words: Vec<&Token> = tokens.iter().filter(|token| !matches!(token, Token::Whitespace(_))).collect();
    let is = |token: &Token, part: &str| match (token, part) {
        (Token::Number(..), "0") | (Token::SingleQuotedString(_), "s") | (Token::Colon, ":") | (Token::Arrow, "->") => {
            true
        }
        (Token::LParen, "(") | (Token::LBrace, "{") => true,
        (Token::Word(word), "w") => word.quote_style.is_none(),
        (Token::Word(word), part) => word.quote_style.is_none() && word.value.eq_ignore_ascii_case(part),
        _ => false,
    };
    let has = |form: &[&str]| {
        words.windows(form.len()).any(|window| window.iter().zip(form).all(|(token, part)| is(token, part)))
    };
    let known = FORMS.iter().filter(|(_, advice)| *advice != LAMBDA || !dialect.supports_lambda_functions());
    known.into_iter().find(|(form, _)| has(form)).map(|(_, advice)| *advice)
}

/// A bracket or a CASE that is open.
#[derive(Default, Clone, Copy)]
struct Open {
    is_case: bool,
    /// Operators since its last comma: AND and OR, and others after the last of these, which bind closer.
    joined: usize,
    others: usize,
}

impl Open {
    fn levels(self) -> usize {
        self.joined + self.others
    }
}

/// The levels of the deepest expression, up to half too few where AND and OR join deep ones.
fn deepest(tokens: &[Token]) -> usize {
    let mut outer: Vec<Open> = Vec::new();
    let mut inner = Open::default();
    let (mut below, mut deepest) = (0, 0);
    for token in tokens {
        let keyword = if let Token::Word(word) = token { word.keyword } else { Keyword::NoKeyword };
        match token {
            Token::LParen | Token::LBracket | Token::LBrace => {
                below += inner.levels() + 1;
                outer.push(std::mem::take(&mut inner));
            }
            Token::Word(_) if keyword == Keyword::CASE => {
                below += inner.levels() + 1;
                outer.push(std::mem::replace(&mut inner, Open { is_case: true, ..Open::default() }));
            }
            Token::RParen | Token::RBracket | Token::RBrace => close(&mut outer, &mut inner, &mut below),
            Token::Word(_) if keyword == Keyword::END && inner.is_case => close(&mut outer, &mut inner, &mut below),
            Token::Word(_) if inner.is_case && matches!(keyword, Keyword::WHEN | Keyword::THEN | Keyword::ELSE) => {
                (inner.joined, inner.others) = (0, 0);
            }
            Token::Comma => (inner.joined, inner.others) = (0, 0),
            Token::SemiColon => {
                outer.clear();
                (inner, below) = (Open::default(), 0);
            }
            Token::Word(_) if matches!(keyword, Keyword::AND | Keyword::OR) => {
                (inner.joined, inner.others) = (inner.joined + 1, 0);
            }
            Token::Word(_) if OPERATORS.contains(&keyword) => inner.others += 1,
            token if is_operand(token) => {}
            _ => inner.others += 1,
        }
        deepest = deepest.max(below + inner.levels());
    }
    deepest
}

/// A bracket, and how often work doubles in it.
#[derive(Default, Clone, Copy)]
struct Doubled {
    /// What its own word adds.
    own: usize,
    /// In its last operand, and in the worst.
    last: usize,
    most: usize,
    /// BETWEEN without its AND.
    between: usize,
}

/// How often work doubles at most. The parser reads what follows some words twice if it is wrong, and the planner names an
/// argument of some functions twice: each level within another doubles the time.
fn most_doubled(tokens: &[Token]) -> usize {
    let mut outer: Vec<Doubled> = Vec::new();
    let (mut inner, mut below, mut most, mut before) = (Doubled::default(), 0, 0, "");
    for token in tokens.iter().filter(|token| !matches!(token, Token::Whitespace(_))) {
        let word = if let Token::Word(word) = token { word.value.as_str() } else { "" };
        match token {
            Token::LParen | Token::LBracket | Token::LBrace => {
                let own =
                    DOUBLING.iter().find(|(name, _)| name.eq_ignore_ascii_case(before)).map_or(0, |(_, own)| *own);
                below += inner.own;
                outer.push(std::mem::replace(&mut inner, Doubled { own, ..Doubled::default() }));
            }
            Token::RParen | Token::RBracket | Token::RBrace => {
                let within = inner.own + inner.most;
                inner = outer.pop().unwrap_or_default();
                below -= inner.own;
                inner.last = inner.last.max(within);
            }
            Token::Comma | Token::SemiColon => (inner.last, inner.between) = (0, 0),
            Token::Word(_) if word.eq_ignore_ascii_case("between") => {
                (inner.last, inner.between) = (inner.last + 1, inner.between + 1);
            }
            Token::Word(_) if word.eq_ignore_ascii_case("and") && inner.between > 0 => inner.between -= 1,
            Token::Word(_) if ["and", "or"].iter().any(|joins| word.eq_ignore_ascii_case(joins)) => inner.last = 0,
            Token::Word(_) if word.eq_ignore_ascii_case("interval") && before.eq_ignore_ascii_case("interval") => {
                inner.last += 1;
            }
            _ => {}
        }
        inner.most = inner.most.max(inner.last);
        most = most.max(below + inner.own + inner.most);
        before = word;
    }
    most
}

/// Words before a bracket within which work doubles, and how often.
const DOUBLING: [(&str, usize); 14] = [
    ("CAST", 1),
    ("TRY_CAST", 1),
    ("SAFE_CAST", 1),
    ("CONVERT", 1),
    ("TRY_CONVERT", 1),
    ("CEIL", 1),
    ("FLOOR", 1),
    ("SUBSTRING", 1),
    ("OVERLAY", 1),
    ("POSITION", 2),
    ("INTERVAL", 1),
    ("coalesce", 1),
    ("nvl", 1),
    ("ifnull", 1),
];

/// Keywords that are an operator, or join tables or queries.
const OPERATORS: [Keyword; 23] = [
    Keyword::APPLY,
    Keyword::AT,
    Keyword::BETWEEN,
    Keyword::COLLATE,
    Keyword::DIV,
    Keyword::EXCEPT,
    Keyword::ILIKE,
    Keyword::IN,
    Keyword::INTERSECT,
    Keyword::IS,
    Keyword::JOIN,
    Keyword::LIKE,
    Keyword::MATCH,
    Keyword::MEMBER,
    Keyword::MINUS,
    Keyword::NOT,
    Keyword::NOTNULL,
    Keyword::OVERLAPS,
    Keyword::REGEXP,
    Keyword::RLIKE,
    Keyword::SIMILAR,
    Keyword::UNION,
    Keyword::XOR,
];

/// Closes a bracket. What follows it may be an operator on it, such as another subscript: so it counts as a level.
fn close(outer: &mut Vec<Open>, inner: &mut Open, below: &mut usize) {
    if let Some(before) = outer.pop() {
        *below -= before.levels() + 1;
        *inner = Open { others: before.others + 1, ..before };
    }
}

fn is_operand(token: &Token) -> bool {
    use Token::{
        DoubleQuotedString, EOF, EscapedStringLiteral, HexStringLiteral, NationalStringLiteral, Number, Period,
        SingleQuotedString, UnicodeStringLiteral, Whitespace, Word,
    };
    matches!(
        token,
        Word(_)
            | Number(..)
            | Period
            | Whitespace(_)
            | SingleQuotedString(_)
            | DoubleQuotedString(_)
            | NationalStringLiteral(_)
            | EscapedStringLiteral(_)
            | UnicodeStringLiteral(_)
            | HexStringLiteral(_)
            | EOF
    )
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::GenericDialect;

    use super::*;

    fn levels(sql: &str) -> usize {
        deepest(&Tokenizer::new(&GenericDialect {}, sql).tokenize().unwrap())
    }

    #[test]
    fn operators_are_levels_and_lists_are_not() {
        for (sql, expected) in [
            ("a", 0),
            ("1-1-1", 2),
            ("a || b, c || d", 1),
            ("id IN ('a', 'b', 'c', 'd')", 2),
            ("(1, 2), (3, 4 + 5)", 2),
            ("a['b']['c']", 2),
            ("f(a - b, c) - d", 2),
            ("((a))", 2),
            ("CASE WHEN a = 1 THEN 2 WHEN a = 2 THEN 3 ELSE 4 END", 2),
            ("a.end - case.b", 2),
            ("1-1-1; 1-1", 2),
            ("'1-1-1' -- 1-1-1-1", 0),
            ("a IS NULL IS NULL", 2),
            ("id = 'a' OR id = 'b' OR id = 'c'", 3),
            ("a IN (1) AND b - 1 - 1", 3),
            ("1)))) - 1", 1),
        ] {
            assert_eq!(levels(sql), expected, "{sql}");
        }
    }

    #[test]
    fn work_that_doubles_is_counted_within_each_other() {
        for (sql, expected) in [
            ("a BETWEEN 1 AND 2 AND b BETWEEN 1 AND 2 AND c BETWEEN 3 AND 4", 1),
            ("CAST(a AS INT) + CAST(b AS INT), coalesce(CAST(a AS INT), 1)", 2),
            ("((a BETWEEN 1 AND 2) BETWEEN 1 AND 2) BETWEEN 1 AND 2", 3),
            ("coalesce(coalesce(a, b), coalesce(c, nvl(d, e)))", 3),
            ("INTERVAL INTERVAL '1' + INTERVAL '1' + INTERVAL '2'", 1),
            ("f(CAST(g(POSITION('a' IN b)) AS INT))", 3),
            ("coalesce", 0),
        ] {
            let tokens = Tokenizer::new(&GenericDialect {}, sql).tokenize().unwrap();
            assert_eq!(most_doubled(&tokens), expected, "{sql}");
        }
        for (open, close) in [("CAST(", " AS INT)"), ("coalesce(", ", 1)"), ("position(", " IN 'a')"), ("CAST(", "")] {
            let sql = format!("{}1{}", open.repeat(40), close.repeat(40));
            let said = check_text(&sql, &GenericDialect {}).unwrap_err().to_string();
            assert!(said.contains("at most 8 times, found more"), "{said}");
        }
        assert!(check_text(&"INTERVAL ".repeat(5_000), &GenericDialect {}).is_err());
    }

    #[test]
    fn long_lists_pass_and_deep_expressions_do_not() {
        let listed = (0..50_000).map(|n| format!("'x{n}'")).collect::<Vec<_>>().join(", ");
        let arms = (0..5_000).map(|n| format!("WHEN id = 'x{n}' THEN {n}")).collect::<Vec<_>>().join(" ");
        for sql in [format!("id IN ({listed})"), format!("CASE {arms} END"), format!("SELECT {listed}")] {
            check_text(&sql, &GenericDialect {}).unwrap();
        }
        let repeated = |what: &str| what.repeat(8_000);
        for sql in [
            format!("id = 'x'{}", repeated(" OR id = 'x'")),
            format!("id{}", repeated("||id")),
            format!("id{}", repeated("::TEXT")),
            format!("1{}", repeated("-1")),
            format!("a{}", repeated("['b']")),
            format!("a{}", repeated(" IS NULL")),
            format!("SELECT 1{}", repeated(" UNION ALL SELECT 1")),
        ] {
            let said = check_text(&sql, &GenericDialect {}).unwrap_err().to_string();
            assert!(said.contains("at most 1000 operators"), "{said}");
        }
        let long = format!("SELECT '{}'", "x".repeat(MOST_BYTES));
        assert!(check_text(&long, &GenericDialect {}).unwrap_err().to_string().contains("at most 8 MiB, found 9 MiB"));
    }
}
