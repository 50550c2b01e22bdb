//! Conditions after an answer: `\frac{\pi}{4} + k\pi, k \in \mathbb{Z}`, `n^2 \text{ for all } n \ge 1`.

use crate::read::token::{Bracket, Relation, Token};

/// The maximum tokens of a condition.
const CONDITION: usize = 24;

/// Names of numbers that the whole answer is about.
const INDICES: [&str; 3] = ["n", "m", "N"];

/// Members, and the parameter that numbers them.
pub(crate) struct Family<'a> {
    pub members: &'a [Token],
    parameter: &'a str,
    pub domain: String,
    /// Whether the condition excludes nothing that the members are defined for.
    pub is_for_all: bool,
}

impl<'a> Family<'a> {
    pub(crate) fn of(tokens: &'a [Token]) -> Option<Self> {
        use Token::{Close, Comma, Domain, Letter, Number, Opaque, Open, Word};
        let says = |token: &Token| match token {
            Comma | Word(_) | Letter(_) | Domain(_) | Open(_) | Close(_) | Number { .. } | Token::Relation(_) => true,
            // `\mathbb{Z}^+`
            Token::Caret | Token::Plus => true,
            Opaque(sign) => ["\\forall", "\\ldots", "\\dots"].contains(&sign.as_str()),
            _ => false,
        };
        let from = tokens.iter().rposition(|token| !says(token)).map_or(0, |last| last + 1);
        let begins = |place: &usize| match &tokens[*place] {
            Comma | Word(_) | Open(Bracket::Round) => true,
            Opaque(sign) => sign == "\\forall",
            _ => false,
        };
        let from = from.max(tokens.len().saturating_sub(CONDITION)).max(1);
        let names_one = |place: &usize| {
            let mut letters = tokens[*place..].iter().filter(|token| matches!(token, Letter(_)));
            letters.next().is_some_and(|first| letters.all(|other| other == first))
        };
        (from..tokens.len()).filter(begins).filter(names_one).find_map(|place| Self::split(tokens, place))
    }

    fn split(tokens: &'a [Token], place: usize) -> Option<Self> {
        let (members, condition) = tokens.split_at(place);
        let parameter = condition.iter().find_map(|token| match token {
            Token::Letter(name) => Some(name.as_str()),
            _ => None,
        })?;
        let is_range = |token: &Token| matches!(token, Token::Relation(relation) if *relation != Relation::Equal);
        let divides = members.iter().any(|token| matches!(token, Token::Fraction | Token::Slash));
        let condition = Condition::of(condition, parameter, divides)?;
        if members.iter().any(is_range) {
            return None;
        }
        let occurs = members.iter().any(|token| matches!(token, Token::Letter(name) if name == parameter));
        let (domain, is_for_all) = condition.meaning(parameter)?;
        occurs.then_some(Self { members, parameter, domain, is_for_all })
    }

    pub(crate) fn renamed(&self) -> Vec<Token> {
        let rename = |token: &Token| match token {
            Token::Letter(name) if name == self.parameter => Token::Letter("#".to_string()),
            other => other.clone(),
        };
        self.members.iter().map(rename).collect()
    }
}

/// What a condition says of its only name.
#[derive(Default)]
struct Condition {
    domain: Option<String>,
    kinds: Vec<String>,
    /// "all", "any", `n \ge 1`.
    has_all: bool,
    has_some: bool,
}

impl Condition {
    /// None for a condition with unknown words. `divides` is set if the members may be undefined somewhere.
    fn of(tokens: &[Token], parameter: &str, divides: bool) -> Option<Self> {
        use Relation::{Equal, Greater, GreaterOrEqual, In, NotEqual};
        let mut condition = Self::default();
        let mut rest = tokens;
        while let [token, after @ ..] = rest {
            rest = after;
            match (token, after) {
                (Token::Domain(of), _) if condition.domain.as_deref().is_none_or(|domain| domain == "constant") => {
                    condition.domain = Some(of.clone());
                    if let [Token::Caret, Token::Plus, after @ ..] = after {
                        condition.kinds.push("positive".to_string());
                        rest = after;
                    }
                }
                (Token::Word(words), _) => {
                    words.to_lowercase().split_whitespace().try_for_each(|word| condition.word(word))?
                }
                (Token::Opaque(sign), _) if sign == "\\forall" => condition.has_all = true,
                (Token::Relation(In), _) | (Token::Comma | Token::Letter(_), _) => {}
                (Token::Open(Bracket::Round | Bracket::Group) | Token::Close(Bracket::Round | Bracket::Group), _) => {}
                (Token::Relation(NotEqual), [number, after @ ..]) if divides && number.whole().is_some() => {
                    (rest, condition.has_all) = (after, true);
                }
                // Numbers of things begin at 0 or 1.
                (Token::Relation(Greater | GreaterOrEqual), [number, after @ ..])
                    if INDICES.contains(&parameter) && matches!(number.whole(), Some("0" | "1")) =>
                {
                    (rest, condition.has_all) = (after, true);
                }
                (Token::Relation(Equal), [one, Token::Comma, two, Token::Comma, after @ ..])
                    if matches!((one.whole(), two.whole()), (Some("0"), Some("1")) | (Some("1"), Some("2"))) =>
                {
                    let ([.., Token::Opaque(_)] | [.., Token::Opaque(_), Token::Close(_)]) = after else { return None };
                    condition.has_all = true;
                    rest = &[];
                }
                _ => return None,
            }
        }
        Some(condition)
    }

    fn word(&mut self, word: &str) -> Option<()> {
        const SAYING_NOTHING: &str = "for where with and is be being a an in of number numbers value values";
        const KINDS: &str = "positive negative nonzero non-zero nonnegative non-negative even odd";
        let is_of = |words: &str, word: &str| words.split_whitespace().any(|of| of == word);
        let domain = match word.trim_matches([',', '(', ')']) {
            "integer" | "integers" => "Z",
            "real" | "reals" => "R",
            "natural" | "naturals" => "N",
            "rational" | "rationals" => "Q",
            "complex" => "C",
            // "Any real constant" is any real number.
            "constant" | "constants" if self.domain.is_some() => return Some(()),
            "constant" | "constants" => "constant",
            "all" | "any" | "every" | "each" | "arbitrary" => {
                self.has_all = true;
                return Some(());
            }
            "some" => {
                self.has_some = true;
                return Some(());
            }
            kind if is_of(KINDS, kind) => {
                self.kinds.push(kind.replace('-', ""));
                return Some(());
            }
            word => return is_of(SAYING_NOTHING, word).then_some(()),
        };
        self.domain.is_none().then(|| self.domain = Some(domain.to_string()))
    }

    /// Returns the set of numbers, and whether it is all that the members are defined for.
    fn meaning(self, parameter: &str) -> Option<(String, bool)> {
        // The k of "2k, k is a natural number" numbers the members.
        let is_of_some = self.domain.as_deref() == Some("N") || !self.kinds.is_empty();
        let has_all = self.has_all || INDICES.contains(&parameter) || !is_of_some;
        let of_constants = self.domain.as_deref().is_some_and(|domain| ["constant", "R"].contains(&domain));
        let counts = self.domain.as_deref().is_some_and(|domain| ["Z", "N"].contains(&domain));
        let is_natural = |kind: &String| counts && ["positive", "nonnegative"].contains(&kind.as_str());
        let is_for_all = has_all
            && (self.has_all || self.domain.is_some())
            && (!self.has_some || of_constants)
            && self.kinds.iter().all(is_natural);
        if self.domain.is_none() && !is_for_all {
            return None;
        }
        let mut domain = vec![self.domain.unwrap_or_default()];
        domain.extend(self.kinds);
        Some((domain.join(" "), is_for_all))
    }
}
