//! The bytes that results will have: at least those of the texts, at most a few times as many.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, StringViewArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::functions::regex::regexpcount::regexp_count_func;
use datafusion::logical_expr::ColumnarValue;

use super::MOST_BYTES;

/// How long the results of a function are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Results {
    Repeat,
    Lpad,
    Rpad,
    Replace,
    Translate,
    RegexpReplace,
    Concat,
    ConcatWs,
    ArrayRepeat,
    ArrayResize,
    ArrayToString,
    ArrayReplaceN,
    ArrayReplaceAll,
}

impl Results {
    pub(super) const ALL: [Self; 13] = [
        Self::Repeat,
        Self::Lpad,
        Self::Rpad,
        Self::Replace,
        Self::Translate,
        Self::RegexpReplace,
        Self::Concat,
        Self::ConcatWs,
        Self::ArrayRepeat,
        Self::ArrayResize,
        Self::ArrayToString,
        Self::ArrayReplaceN,
        Self::ArrayReplaceAll,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Repeat => "repeat",
            Self::Lpad => "lpad",
            Self::Rpad => "rpad",
            Self::Replace => "replace",
            Self::Translate => "translate",
            Self::RegexpReplace => "regexp_replace",
            Self::Concat => "concat",
            Self::ConcatWs => "concat_ws",
            Self::ArrayRepeat => "array_repeat",
            Self::ArrayResize => "array_resize",
            Self::ArrayToString => "array_to_string",
            Self::ArrayReplaceN => "array_replace_n",
            Self::ArrayReplaceAll => "array_replace_all",
        }
    }

    /// The bytes of the results of a batch. Only if they may be too many, the matches of each row are counted.
    pub(super) fn bytes(self, args: &[ColumnarValue], rows: usize) -> Result<u64> {
        let sum = |of: &dyn Fn(usize) -> u64| (0..rows).map(of).fold(0, u64::saturating_add);
        match (self, args) {
            (Self::Repeat, [text, times]) => {
                let (text, times) = (sizes(text), numbers(times));
                Ok(sum(&|row| text(row).saturating_mul(times(row))))
            }
            (Self::Lpad | Self::Rpad, [text, characters, fill @ ..]) => {
                let (text, characters) = (sizes(text), numbers(characters));
                let widest = fill.first().map_or(1, |fill| widest(fill, rows));
                // A text that is too long is cut.
                Ok(sum(&|row| match characters(row) {
                    0 => 0,
                    characters => text(row).min(characters.saturating_mul(4)) + characters.saturating_mul(widest),
                }))
            }
            (Self::Replace, [text, from, to]) => {
                let (text, from, to) = (texts(text), texts(from), sizes(to));
                let bytes = |row: usize, matches: &dyn Fn(&str, &str) -> usize| match (text(row), from(row)) {
                    (Some(text), Some(from)) => {
                        let more = to(row).saturating_sub(from.len() as u64);
                        text.len() as u64 + (matches(text, from) as u64).saturating_mul(more)
                    }
                    _ => 0,
                };
                let at_most = |text: &str, from: &str| text.len() / from.len().max(1) + 1;
                match sum(&|row| bytes(row, &at_most)) {
                    most if most <= MOST_BYTES => Ok(most),
                    _ => Ok(sum(&|row| bytes(row, &|text, from| text.matches(from).count()))),
                }
            }
            (Self::Translate, [text, _, to]) => {
                let (text, widest) = (texts(text), widest(to, rows));
                let bytes = |text: &str| text.len() as u64 + text.chars().count() as u64 * (widest - 1);
                Ok(sum(&|row| text(row).map_or(0, bytes)))
            }
            (Self::RegexpReplace, [text, pattern, by, flags @ ..]) => regexp_replaced((text, pattern, by), flags, rows),
            (Self::ConcatWs, [separator, texts @ ..]) => {
                let separators = texts.len().saturating_sub(1) as u64;
                let (separator, texts) = (sizes(separator), texts.iter().map(sizes).collect::<Vec<_>>());
                Ok(sum(&|row| separator(row) * separators + texts.iter().map(|text| text(row)).sum::<u64>()))
            }
            (Self::Concat, texts) => {
                let texts: Vec<_> = texts.iter().map(sizes).collect();
                Ok(sum(&|row| texts.iter().map(|text| text(row)).sum::<u64>()))
            }
            (Self::ArrayRepeat, [value, times]) => {
                let (value, times) = (sizes(value), numbers(times));
                Ok(sum(&|row| value(row).max(1).saturating_mul(times(row))))
            }
            (Self::ArrayResize, [list, values, value @ ..]) => {
                let (list, values) = (sizes(list), numbers(values));
                let value = value.first().map(sizes);
                let size = |row| value.as_ref().map_or(8, |value| value(row).max(1));
                Ok(sum(&|row| list(row).saturating_add(values(row).saturating_mul(size(row)))))
            }
            // The separator, and the text for NULL, may come with each element.
            (Self::ArrayToString, [list, texts @ ..]) => {
                let most = most_of_lists(list, texts, rows);
                if most <= MOST_BYTES {
                    return Ok(most);
                }
                let (list, elements, texts) =
                    (sizes(list), elements(list), texts.iter().map(sizes).collect::<Vec<_>>());
                let texts = |row| texts.iter().map(|text| text(row)).sum::<u64>();
                Ok(sum(&|row| list(row).saturating_add(elements(row).saturating_mul(texts(row)))))
            }
            (Self::ArrayReplaceN | Self::ArrayReplaceAll, [list, _, to, ..]) => {
                let (list, elements, to) = (sizes(list), elements(list), sizes(to));
                Ok(sum(&|row| list(row).saturating_add(elements(row).saturating_mul(to(row)))))
            }
            // The function reports a wrong number of arguments.
            _ => Ok(0),
        }
    }
}

/// Each match becomes the replacement, in which a reference stands for a part of the match.
fn regexp_replaced(
    (text, pattern, by): (&ColumnarValue, &ColumnarValue, &ColumnarValue),
    flags: &[ColumnarValue],
    rows: usize,
) -> Result<u64> {
    let (texts_of, by_of, flags_of) = (sizes(text), texts(by), flags.first().map(texts));
    let is_global = |row| flags_of.as_ref().is_some_and(|flags| flags(row).is_some_and(|flags| flags.contains('g')));
    let sum = |matches: &dyn Fn(usize) -> u64| {
        let bytes = |row| {
            let by = by_of(row).unwrap_or_default();
            let references = by.matches(['\\', '$']).count() as u64;
            let own = matches(row).saturating_mul(by.len() as u64);
            own.saturating_add(texts_of(row).saturating_mul(1 + references))
        };
        (0..rows).map(bytes).fold(0, u64::saturating_add)
    };
    let most = sum(&|row| if is_global(row) { texts_of(row) + 1 } else { 1 });
    if most <= MOST_BYTES {
        return Ok(most);
    }
    let Some(ColumnarValue::Scalar(flags)) = flags.first() else { return Ok(most) };
    let flags = flags.try_as_str().flatten().unwrap_or_default().replace('g', "");
    let flags = if flags.is_empty() { flags } else { format!("(?{flags})") };
    let patterns = texts(pattern);
    let patterns: StringViewArray = (0..rows).map(|row| patterns(row).map(|one| format!("{flags}{one}"))).collect();
    let counted = regexp_count_func(&[cast(&text.to_array(rows)?, &DataType::Utf8View)?, Arc::new(patterns)]);
    // A wrong pattern is an error of the function itself, but too long a text is one before.
    let Ok(counted) = counted.map(ColumnarValue::Array) else { return Ok(most) };
    let counted = numbers(&counted);
    Ok(sum(&|row| if is_global(row) { counted(row) } else { 1 }))
}

type Of<'a, T> = Box<dyn Fn(usize) -> T + 'a>;

/// The texts of an argument by row; None for NULL and for what is no text.
fn texts(value: &ColumnarValue) -> Of<'_, Option<&str>> {
    match value {
        ColumnarValue::Scalar(value) => {
            let text = value.try_as_str().flatten();
            Box::new(move |_| text)
        }
        ColumnarValue::Array(array) => match array.data_type() {
            DataType::Utf8 => {
                let array = array.as_string::<i32>();
                Box::new(|row| array.is_valid(row).then(|| array.value(row)))
            }
            DataType::LargeUtf8 => {
                let array = array.as_string::<i64>();
                Box::new(|row| array.is_valid(row).then(|| array.value(row)))
            }
            DataType::Utf8View => {
                let array = array.as_string_view();
                Box::new(|row| array.is_valid(row).then(|| array.value(row)))
            }
            _ => Box::new(|_| None),
        },
    }
}

/// The bytes of an argument by row.
fn sizes(value: &ColumnarValue) -> Of<'_, u64> {
    let is_text = match value.data_type() {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => true,
        kind => {
            if let Some(width) = kind.primitive_width() {
                return Box::new(move |_| width as u64);
            }
            false
        }
    };
    if is_text {
        let texts = texts(value);
        return Box::new(move |row| texts(row).map_or(0, |text| text.len() as u64));
    }
    match value {
        ColumnarValue::Scalar(value) => {
            let bytes = value.to_array().map_or(u64::MAX, |array| size(&array, 0));
            Box::new(move |_| bytes)
        }
        ColumnarValue::Array(array) => Box::new(move |row| size(array, row)),
    }
}

/// The elements of a list by row; 0 for what is no list.
fn elements(value: &ColumnarValue) -> Of<'_, u64> {
    let of = |array: &ArrayRef, row| list(array, row).map_or(0, |values| values.len() as u64);
    match value {
        ColumnarValue::Scalar(value) => {
            let elements = value.to_array().map_or(0, |array| of(&array, 0));
            Box::new(move |_| elements)
        }
        ColumnarValue::Array(array) => Box::new(move |row| of(array, row)),
    }
}

/// At least the bytes of all lists with these texts for each element, without a look at each list.
fn most_of_lists(list: &ColumnarValue, texts: &[ColumnarValue], rows: usize) -> u64 {
    let longest = |text: &ColumnarValue| {
        let rows = if matches!(text, ColumnarValue::Scalar(_)) { rows.min(1) } else { rows };
        (0..rows).map(sizes(text)).max().unwrap_or(0)
    };
    let ColumnarValue::Array(array) = list else { return u64::MAX };
    let values = match array.data_type() {
        DataType::List(_) => array.as_list::<i32>().values().len(),
        DataType::LargeList(_) => array.as_list::<i64>().values().len(),
        _ => return u64::MAX,
    };
    let all = array.get_array_memory_size() as u64;
    all.saturating_add((values as u64).saturating_mul(texts.iter().map(longest).sum()))
}

/// The values of a list in a row; None if the array holds no lists.
fn list(array: &ArrayRef, row: usize) -> Option<ArrayRef> {
    Some(match array.data_type() {
        DataType::List(_) => array.as_list::<i32>().value(row),
        DataType::LargeList(_) => array.as_list::<i64>().value(row),
        DataType::FixedSizeList(..) => array.as_fixed_size_list().value(row),
        _ => return None,
    })
}

/// The bytes of the value in a row. The size that arrow knows of a slice of lists is that of all lists.
fn size(array: &ArrayRef, row: usize) -> u64 {
    match list(array, row) {
        Some(values) if values.data_type().is_string() => {
            let rows = values.len();
            let values = ColumnarValue::Array(values);
            let bytes = sizes(&values);
            (0..rows).map(bytes).sum()
        }
        Some(values) => match values.data_type().primitive_width() {
            Some(width) => (values.len() * width) as u64,
            None => (0..values.len()).map(|row| size(&values, row)).sum(),
        },
        None => array.slice(row, 1).to_data().get_slice_memory_size().unwrap_or(usize::MAX) as u64,
    }
}

/// The numbers of an argument by row; 0 for NULL and below.
fn numbers(value: &ColumnarValue) -> Of<'_, u64> {
    let is_above = |number: i64| u64::try_from(number).unwrap_or(0);
    match value {
        ColumnarValue::Scalar(value) => {
            let number = match value.cast_to(&DataType::Int64) {
                Ok(ScalarValue::Int64(Some(number))) => is_above(number),
                _ => 0,
            };
            Box::new(move |_| number)
        }
        ColumnarValue::Array(array) => match cast(array, &DataType::Int64) {
            Ok(array) => Box::new(move |row| {
                let array = array.as_primitive::<Int64Type>();
                if array.is_valid(row) { is_above(array.value(row)) } else { 0 }
            }),
            Err(_) => Box::new(|_| 0),
        },
    }
}

/// The bytes of the widest character in the texts of an argument.
fn widest(value: &ColumnarValue, rows: usize) -> u64 {
    let texts = texts(value);
    let rows = if matches!(value, ColumnarValue::Scalar(_)) { 1 } else { rows };
    let characters = (0..rows).filter_map(texts).flat_map(str::chars);
    characters.map(char::len_utf8).max().unwrap_or(1) as u64
}
