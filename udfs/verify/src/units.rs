//! Units after numbers.

use std::collections::HashMap;
use std::sync::LazyLock;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unit {
    pub name: String,
    /// Whether the unit may be left out: it is a known unit or a plural of things.
    pub optional: bool,
    /// Whether it is a word of another script, which may be left out if the expected answer has no unit.
    pub is_foreign: bool,
}

/// Words of other scripts that change a number or doubt it: `5 万`, `5 или`. These are parts of words.
const CHANGING: &str = "十 百 千 万 萬 亿 億 兆 半 倍 割 折 双 雙 对 對 不 非 无 無 没 沒 错 錯 以 左右 多 余 餘 约 約 近 超 未 满 満 \
    或 又 和 与 と か 之 次方 的 负 負 点 點 ない ません より くらい ぐらい ほど ダース パーセント または もしくは 違 间 間 \
    前後 前后 上下 强 弱 几 幾 数 一 二 三 四 五 六 七 八 九 〇 남짓 가량 다스 안팎 \
    십 백 천 만 억 조 반 배 쌍 아닙 이상 이하 미만 초과 아니 또는 퍼센트 정도 тысяч тыс млн милли млрд сотн сотен сотня десят дюжин \
    процент полов треть четверть более менее больш меньш минус плюс неверн неправ примерно степен квадрат \
    мільйон мільярд милион милиард милијард тисяч хиляд хиљад сотень відсот приблизно крат вдвое втрое почти около выше ниже \
    ألف آلاف ضعف أكثر أقل هزار ہزار لاکھ کروڑ میلیون میلیارد ملین درصد فیصد نیم برابر نیست نہیں مليون مليار مئة مائة نصف ربع ثلث بالمئة ليس خطأ تقريب مليو हज़ार हजार लाख करोड़ करोड सौ दर्जन प्रतिशत नहीं आधा मिलियन अरब गुना से कम अधिक लगभग \
    হাজার লক্ষ লাখ কোটি শত মিলিয়ন ডজন অর্ধেক গুণ নয় ਹਜ਼ਾਰ ਲੱਖ ਕਰੋੜ હજાર લાખ કરોડ ஆயிரம் லட்சம் கோடி వేల లక్ష కోటి \
    ಸಾವಿರ ಲಕ್ಷ ആയിരം ലക്ഷം ათას მილიონ հազար միլիոն ພັນ ລ້ານ ពាន់ លាន ထောင် သောင်း \
    พัน หมื่น แสน ล้าน ร้อย โหล ครึ่ง ไม่ กว่า สิบ เท่า เปอร์เซ็นต์ ประมาณ אלף אלפים מיליון מאה חצי לא אחוז מיליארד מאות תריסר יותר פחות בערך";
/// Units with such parts.
const NOT_CHANGING: [&str; 4] = ["千米", "千克", "千卡", "千瓦"];
/// The same as whole words.
const CHANGING_WHOLE: &str = "平方 立方 ні або чи 厘 成 打 分 не нет или либо и раз пара пары пар أو या או";

/// Whether a character is a currency sign (Unicode category Sc).
pub(crate) fn is_currency(c: char) -> bool {
    matches!(c, '¢'..='¥' | '֏' | '؋' | '߾' | '߿' | '৲' | '৳' | '৻' | '૱' | '௹' | '฿' | '៛' | '₠'..='\u{20cf}'
        | '\u{a838}' | '\u{fdfc}' | '\u{11fdd}'..='\u{11fe0}' | '\u{1e2ff}' | '\u{1ecb0}')
}

/// Whether a character is of a script other than Latin and Greek.
pub(crate) fn is_foreign(c: char) -> bool {
    c >= '\u{400}' && !matches!(c, '\u{1e00}'..='\u{2bff}' | '\u{ff00}'..='\u{ff65}') && !is_currency(c)
}

fn foreign(word: &str) -> Option<Unit> {
    if word.is_empty() || !word.chars().all(is_foreign) {
        return None;
    }
    let parts = NOT_CHANGING.iter().fold(word.to_string(), |parts, unit| parts.replace(unit, ""));
    let changes = CHANGING.split_whitespace().any(|part| parts.contains(part))
        || CHANGING_WHOLE.split_whitespace().any(|whole| word.to_lowercase() == whole);
    Some(Unit { name: word.to_string(), optional: false, is_foreign: !changes })
}

/// The names of each unit, its own first. Those of one or two letters are case-sensitive: MW is not mW.
const UNITS: &str = "nm nanometer nanometre, Å angstrom, mm millimeter millimetre, cm centimeter centimetre, \
    dm decimeter decimetre, m meter metre, km kilometer kilometre, in inch inches, ft foot feet, yd yard, \
    mi mile, mg milligram, g gram, kg kilogram, lb lbs pound, oz ounce, ton, ml mL milliliter millilitre, \
    l L liter litre, gal gallon, ms millisecond, s sec second, min mins minute, h hr hrs hour, day, week, \
    month, yr yrs year, cent ¢, dollar usd, euro eur €, £, ¥ yen, mph mi/h, kmh kph, rad radian, Hz hertz, \
    J joule, kJ kilojoule, W watt, kW kilowatt, MW megawatt, mW milliwatt, N newton, Pa pascal, V volt, \
    eV electronvolt, keV, MeV, GeV, ampere amp, ohm, mol mole, bit, byte, celsius, fahrenheit, K kelvin, \
    atm atmosphere, kcal kilocalorie, acre, cal calorie, unit";

const OTHERS: &str = "or and not less more than at least most if for when where mod base over times no none half third \
    quarter quarters to between from about but because since so which is are was as only except with without of either \
    neither both plus minus by squared cubed factorial point choose is an integer integers real number any all then hence \
    therefore wait fails however given let assuming approximately roughly maybe perhaps remainder st nd rd th below above zero \
    negative fewer too basis";

const PLURALS: &str = "people men women children teeth geese mice fish sheep deer dice";
const NO_THINGS: &str = "halves thirds pairs couples scores tens gross folds percents odds sqrt factorials";
const ORDINALS: &str =
    "fourth fifth sixth seventh eighth ninth tenth eleventh twelfth teenth tieth hundredth thousandth illionth";

const MAX_WORDS: usize = 6;
const SQUARED: [&str; 3] = ["square", "sq", "squared"];

/// Units that may also be products of letters. Outside of text they are units only after a blank; `nm` never is.
const PRODUCTS: [&str; 7] = ["eV", "keV", "MeV", "GeV", "atm", "kcal", "cal"];
const NANOMETER: &str = "nm";
/// Kelvin or thousands, so it may not be left out.
const THOUSANDS: &str = "K";

pub(crate) fn is_known(word: &str) -> bool {
    known(word).is_some()
}

/// Whether these letters are a unit outside of text. `spaced` is set after a blank.
pub(crate) fn is_known_outside(word: &str, spaced: bool) -> bool {
    is_known(word) && word != NANOMETER && (spaced || !PRODUCTS.contains(&word))
}

/// Whether words outside of text include a unit, counted things or a multiplier, and are not a sequence of names.
pub(crate) fn is_phrase(words: &str) -> bool {
    words.split_whitespace().any(|word| is_known_outside(word, true) || is_counted(word) || multiplier(word).is_some())
}

pub(crate) fn multiplier(word: &str) -> Option<i64> {
    let lower = word.to_ascii_lowercase();
    Some(match lower.strip_suffix('s').unwrap_or(&lower) {
        "dozen" => 12,
        "hundred" => 100,
        "thousand" => 1_000,
        "lakh" => 100_000,
        "million" => 1_000_000,
        "crore" => 10_000_000,
        "billion" => 1_000_000_000,
        "trillion" => 1_000_000_000_000,
        "quadrillion" => 1_000_000_000_000_000,
        _ => return None,
    })
}

/// Returns the unit that words after a number name. None if they may change the number.
pub(crate) fn canonical(words: &str) -> Option<Unit> {
    let plain = words.replace('.', "").replace(" per ", "/").replace("^ ", "^").replace(['{', '}'], "");
    let is_unit = |c: char| c.is_alphanumeric() || c.is_whitespace() || "/^-".contains(c) || is_currency(c);
    if let Some(sign) = plain.chars().next().filter(|sign| is_currency(*sign) && plain.len() == sign.len_utf8()) {
        let name = known(&plain).map_or(sign.to_string(), str::to_string);
        return Some(Unit { name, optional: true, is_foreign: false });
    }
    if let Some(unit) = foreign(&plain) {
        return Some(unit);
    }
    if plain.split_whitespace().count() > MAX_WORDS || !plain.chars().all(is_unit) {
        return None;
    }
    let (mut parts, mut power, mut optional, mut is_part) = (Vec::new(), "", false, false);
    for word in plain.split_whitespace() {
        let lower = word.to_lowercase();
        match lower.as_str() {
            lower if OTHERS.split_whitespace().any(|other| other == lower) => return None,
            lower if multiplier(lower).is_some() => return None,
            lower if SQUARED.contains(&lower) => power = "^2",
            "cubic" | "cu" => power = "^3",
            "degree" | "degrees" => {}
            lower if lower.chars().any(|c| c.is_ascii_digit()) && !lower.contains('^') => return None,
            _ => {
                let sides = word.split('/').map(|side| {
                    let (base, raised) = side.split_at(side.find('^').unwrap_or(side.len()));
                    optional |= (known(base).is_some() && base != THOUSANDS) || is_counted(base);
                    is_part |= known(base).is_none() && (base.len() <= 2 || is_share(base));
                    short(base) + raised
                });
                let sides = sides.collect::<Vec<_>>().join("/");
                optional |= known(word).is_some() && word != THOUSANDS;
                parts.push(known(word).map_or(sides, str::to_string) + power);
                power = "";
            }
        }
    }
    let name = parts.join(" ");
    // In `cm square` the power has no unit after it.
    (!name.is_empty() && power.is_empty()).then_some(Unit { name, optional: optional && !is_part, is_foreign: false })
}

fn known(word: &str) -> Option<&'static str> {
    static OWN: LazyLock<HashMap<&str, &str>> = LazyLock::new(|| {
        let names = UNITS.split(", ").flat_map(|names| names.split(' ').map(move |name| (name, names)));
        names.map(|(name, names)| (name, names.split(' ').next().unwrap_or(name))).collect()
    });
    let of = |word: &str| OWN.get(word).copied();
    let long = || {
        let lower = word.to_lowercase();
        (word.len() >= 3).then(|| of(&lower).or_else(|| of(singular(&lower)))).flatten()
    };
    of(word).or_else(long)
}

/// Whether a word is the plural of things, judging by its ending.
fn is_counted(word: &str) -> bool {
    let lower = word.to_lowercase();
    let lists = |words: &str| words.split_whitespace().any(|other| other == lower);
    let is_plural = lower.len() >= 4
        && singular(&lower) != lower
        && !lower.ends_with("us")
        && !lower.ends_with("is")
        && lower.bytes().all(|byte| byte.is_ascii_alphabetic());
    lists(PLURALS) || (is_plural && !is_share(word) && !lists(OTHERS))
}

fn is_share(word: &str) -> bool {
    let lower = word.to_lowercase();
    ORDINALS.split_whitespace().any(|end| singular(&lower).ends_with(end))
        || NO_THINGS.split_whitespace().any(|other| other == lower)
}

fn short(word: &str) -> String {
    match known(word) {
        Some(name) => name.to_string(),
        // Up to three letters may be an abbreviation, which is case-sensitive.
        None if word.len() <= 3 => word.to_string(),
        None => singular(&word.to_lowercase()).to_string(),
    }
}

fn singular(word: &str) -> &str {
    match word.strip_suffix('s') {
        Some(singular) if singular.len() >= 3 && !singular.ends_with('s') => singular,
        _ => word,
    }
}
