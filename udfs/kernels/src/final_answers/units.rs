//! Units behind numbers.

/// Units by all their names, the shortest first.
const UNITS: [&[&str]; 39] = [
    &["mm", "millimeter", "millimetre"],
    &["cm", "centimeter", "centimetre"],
    &["dm", "decimeter", "decimetre"],
    &["m", "meter", "metre"],
    &["km", "kilometer", "kilometre"],
    &["in", "inch", "inches"],
    &["ft", "foot", "feet"],
    &["yd", "yard"],
    &["mi", "mile"],
    &["mg", "milligram"],
    &["g", "gram"],
    &["kg", "kilogram"],
    &["lb", "lbs", "pound"],
    &["oz", "ounce"],
    &["ton"],
    &["ml", "milliliter", "millilitre"],
    &["l", "liter", "litre"],
    &["gal", "gallon"],
    &["s", "sec", "second"],
    &["min", "mins", "minute"],
    &["h", "hr", "hrs", "hour"],
    &["day"],
    &["week"],
    &["month"],
    &["yr", "yrs", "year"],
    &["cent"],
    &["dollar", "usd"],
    &["euro", "eur", "€"],
    &["£"],
    &["¥", "yen"],
    &["mph", "mi/h", "mile/hour"],
    &["km/h", "kmh", "kph"],
    &["m/s"],
    &["rad", "radian"],
    &["hz", "hertz"],
    &["j", "joule"],
    &["w", "watt"],
    &["n", "newton"],
    &["unit"],
];

/// Words behind which a number is not what it was.
const OTHERS: &str = "or and not less more than at least most if for when where mod base over times no none half third \
    quarter quarters to between from about but because since so which is are was as only except with without of either \
    neither both plus minus by squared cubed factorial point choose is an integer integers real number any all then hence \
    therefore wait however given let assuming approximately roughly maybe perhaps remainder st nd rd th";

/// Units of more words are none.
const MAX_WORDS: usize = 6;
const SQUARED: [&str; 3] = ["square", "sq", "squared"];

/// Whether these letters are a unit outside of text.
pub fn is_known(word: &str) -> bool {
    let word = word.to_ascii_lowercase();
    let singular = singular(&word);
    UNITS.iter().any(|names| names.contains(&word.as_str()) || names.contains(&singular))
}

/// What a word multiplies the number by.
pub fn multiplier(word: &str) -> Option<i64> {
    Some(match word.to_ascii_lowercase().as_str() {
        "dozen" => 12,
        "hundred" => 100,
        "thousand" => 1_000,
        "million" => 1_000_000,
        "billion" => 1_000_000_000,
        "trillion" => 1_000_000_000_000,
        _ => return None,
    })
}

/// One name for all ways to write a unit; None if the words are none.
pub fn canonical(words: &str) -> Option<String> {
    let lower = words.to_lowercase().replace('.', "").replace(" per ", "/").replace("^{2}", "^2").replace("^{3}", "^3");
    let is_unit = |c: char| c.is_alphanumeric() || c.is_whitespace() || "/^-€£¥".contains(c);
    if lower.split_whitespace().count() > MAX_WORDS || !lower.chars().all(is_unit) {
        return None;
    }
    let (mut parts, mut power) = (Vec::new(), "");
    for word in lower.split_whitespace() {
        match word {
            word if OTHERS.split_whitespace().any(|other| other == word) || multiplier(word).is_some() => return None,
            word if SQUARED.contains(&word) => power = "^2",
            "cubic" | "cu" => power = "^3",
            word if word.chars().any(|c| c.is_ascii_digit()) && !word.contains('^') => return None,
            word => {
                let sides: Vec<&str> = word.split('/').map(short).collect();
                parts.push(short(&sides.join("/")).to_string() + power);
                power = "";
            }
        }
    }
    let unit = parts.join(" ");
    (!unit.is_empty()).then_some(unit)
}

fn short(word: &str) -> &str {
    let singular = singular(word);
    let names = UNITS.iter().find(|names| names.contains(&word) || names.contains(&singular));
    names.map_or(singular, |names| names[0])
}

fn singular(word: &str) -> &str {
    match word.strip_suffix('s') {
        Some(singular) if singular.len() >= 3 && !singular.ends_with('s') => singular,
        _ => word,
    }
}
