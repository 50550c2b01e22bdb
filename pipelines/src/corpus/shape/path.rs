//! Paths to values in a row: a column, a field of its structs, or the first item of its lists.

use std::fmt;

use asap_kernels::steps::SEPARATOR;
use asap_udfs::{messages, reading};
use datafusion::arrow::datatypes::{DataType, FieldRef, Fields, Schema};
use datafusion::common::Result;
use datafusion::functions::core::expr_fn::{coalesce, get_field};
use datafusion::functions_nested::expr_fn::{array_element, array_to_string};
use datafusion::logical_expr::{Expr, lit};

use crate::corpus::rules::TURN_FIELDS;
use crate::corpus::shape::expressions::{self, column, text};

/// A column, and the fields that lead to a value in it: `responses.0.content`. In a list, the path means the first
/// item. If the value is not filled in a row, the first filled value of `or` is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Path {
    column: String,
    fields: Vec<String>,
    or: Vec<Path>,
}

impl Path {
    pub(crate) fn column(name: impl Into<String>) -> Self {
        Self { column: name.into(), fields: vec![], or: vec![] }
    }

    pub(crate) fn or(mut self, others: impl Iterator<Item = Path>) -> Self {
        self.or.extend(others.flat_map(|mut other| {
            let below = std::mem::take(&mut other.or);
            std::iter::once(other).chain(below)
        }));
        self
    }

    pub(crate) fn without(mut self, other: &Path) -> Self {
        self.or.retain(|path| path != other);
        self
    }

    /// The paths in the order in which a row is searched for a filled value.
    pub(crate) fn each(&self) -> impl Iterator<Item = &Path> {
        std::iter::once(self).chain(&self.or)
    }

    pub(crate) fn is_instruction(&self) -> bool {
        self.is_column() && self.column.eq_ignore_ascii_case("instruction")
    }

    /// All paths, for descriptions.
    pub(crate) fn described(&self) -> String {
        self.each().map(Path::to_string).collect::<Vec<_>>().join(", else ")
    }

    /// The column called `written`, else a column whose name is its prefix, followed by field names with dots.
    pub(crate) fn resolve(schema: &Schema, written: &str) -> Option<Self> {
        if schema.field_with_name(written).is_ok() {
            return Some(Self::column(written));
        }
        schema.fields().iter().find_map(|field| {
            let fields = descend(field.data_type(), after(written, field.name())?)?;
            Some(Self { column: field.name().clone(), fields, or: vec![] })
        })
    }

    pub(crate) fn texts(schema: &Schema) -> Vec<Self> {
        let mut found = Vec::new();
        for field in schema.fields() {
            collect(&Self::column(field.name()), field.data_type(), &mut found);
        }
        let (columns, within): (Vec<_>, Vec<_>) = found.into_iter().partition(|path| path.is_text_column(schema));
        [columns, within].concat()
    }

    pub(crate) fn is_column(&self) -> bool {
        self.fields.is_empty()
    }

    pub(crate) fn is_text_column(&self, schema: &Schema) -> bool {
        self.is_column() && schema.field_with_name(&self.column).is_ok_and(|field| is_text(field.data_type()))
    }

    pub(crate) fn name(&self) -> &str {
        &self.column
    }

    pub(crate) fn data_type<'a>(&self, schema: &'a Schema) -> Option<&'a DataType> {
        let mut found = first_item(schema.field_with_name(&self.column).ok()?.data_type());
        for name in &self.fields {
            found = first_item(field_of(found, name)?.data_type());
        }
        Some(found)
    }

    /// The value as one text: a list of texts is a chain of steps, joined by blank lines, and parts are one text.
    pub(crate) fn chain(&self, schema: &Schema) -> Expr {
        match self.whole_type(schema).filter(|_| self.is_column()) {
            Some(found) if item(found).is_some_and(is_text) => array_to_string(column(&self.column), lit(SEPARATOR)),
            Some(found) if messages::is_parts(found) => reading::text_of_parts().call(vec![column(&self.column)]),
            _ => self.expr(schema),
        }
    }

    /// The type of the value as it is.
    pub(crate) fn whole_type<'a>(&self, schema: &'a Schema) -> Option<&'a DataType> {
        let field = schema.field_with_name(&self.column).ok()?;
        let inner = |found: &'a DataType, name: &String| Some(field_of(first_item(found), name)?.data_type());
        self.fields.iter().try_fold(field.data_type(), inner)
    }

    /// The value as it is: also a list of values.
    pub(crate) fn whole(&self, schema: &Schema) -> Expr {
        let Some((last, before)) = self.fields.split_last() else { return column(&self.column) };
        let holder = Self { column: self.column.clone(), fields: before.to_vec(), or: vec![] };
        get_field(holder.expr(schema), last.as_str())
    }

    pub(crate) fn expr(&self, schema: &Schema) -> Expr {
        match schema.field_with_name(&self.column) {
            Ok(field) => follow(column(&self.column), field.data_type(), &self.fields),
            Err(_) => column(&self.column),
        }
    }

    /// Like [`Self::expr`], but takes the first list item for whose value `fits` is not NULL. Falls back to the first
    /// item.
    pub(crate) fn first_that(&self, schema: &Schema, fits: impl Fn(Expr) -> Expr) -> Result<Expr> {
        let Some(item) = items_of(schema, &self.column) else { return Ok(self.expr(schema)) };
        let is_fit = |held: Expr| fits(text(follow(held, item, &self.fields))).is_not_null();
        let found = expressions::first_that(column(&self.column), item.clone(), is_fit)?;
        Ok(coalesce(vec![follow(found, item, &self.fields), self.expr(schema)]))
    }

    pub(crate) fn field(mut self, name: impl Into<String>) -> Self {
        self.fields.push(name.into());
        self
    }
}

fn follow(value: Expr, found: &DataType, fields: &[String]) -> Expr {
    let (mut expr, mut found, mut fields) = (value, Some(found), fields.iter());
    loop {
        if let Some(item) = found.and_then(item) {
            expr = array_element(expr, lit(1));
            found = Some(item);
        } else if let Some(name) = fields.next() {
            expr = get_field(expr, name.as_str());
            found = found.and_then(|found| Some(field_of(found, name)?.data_type()));
        } else {
            return expr;
        }
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.column)?;
        self.fields.iter().try_for_each(|name| write!(f, ".{name}"))
    }
}

pub(crate) fn is_text(found: &DataType) -> bool {
    match found {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Null => true,
        DataType::Dictionary(_, value) => is_text(value),
        _ => false,
    }
}

pub(crate) fn item(found: &DataType) -> Option<&DataType> {
    match found {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => Some(item.data_type()),
        _ => None,
    }
}

/// The type of the items of a list column.
pub(crate) fn items_of<'a>(schema: &'a Schema, column: &str) -> Option<&'a DataType> {
    item(schema.field_with_name(column).ok()?.data_type())
}

/// The fields of the structs of a list column.
pub(crate) fn item_fields<'a>(schema: &'a Schema, column: &str) -> Option<&'a Fields> {
    match items_of(schema, column)? {
        DataType::Struct(fields) => Some(fields),
        _ => None,
    }
}

/// The type of a field of each message of a conversation: a list of structs, a struct of lists, or one message.
pub(crate) fn turn_field<'a>(conversation: &'a DataType, name: &str) -> Option<&'a DataType> {
    let field = |fields: &'a Fields| {
        let extras = messages::EXTRAS.iter().filter_map(|extra| field_of(fields.find(extra)?.1.data_type(), name));
        Some(fields.find(name).map(|(_, field)| field).into_iter().chain(extras).next()?.data_type())
    };
    match (conversation, item(conversation)) {
        (DataType::Struct(fields), _) => field(fields).map(|found| match item(found) {
            Some(item) if !messages::is_parts(found) => item,
            _ => found,
        }),
        (_, Some(DataType::Struct(fields))) => field(fields),
        _ => None,
    }
}

/// Whether the messages of a conversation have their content in parts.
pub(crate) fn has_parts(conversation: &DataType) -> bool {
    TURN_FIELDS.iter().filter_map(|name| turn_field(conversation, name)).any(|found| !is_text(found))
}

/// The paths of conversations within structs, such as `response.output` or `choices.message`.
pub(crate) fn conversations_within(schema: &Schema, are_turns: fn(&DataType) -> bool) -> Vec<Path> {
    fn search(path: &Path, found: &DataType, are_turns: fn(&DataType) -> bool, paths: &mut Vec<Path>) {
        let DataType::Struct(fields) = first_item(found) else { return };
        for field in fields {
            let path = path.clone().field(field.name());
            match field.data_type() {
                found if are_turns(found) && !found.is_null() && !item(found).is_some_and(DataType::is_null) => {
                    paths.push(path)
                }
                found => search(&path, found, are_turns, paths),
            }
        }
    }
    let mut paths = Vec::new();
    for field in schema.fields().iter().filter(|field| !are_turns(field.data_type())) {
        search(&Path::column(field.name()), field.data_type(), are_turns, &mut paths);
    }
    paths
}

fn first_item(found: &DataType) -> &DataType {
    item(found).map_or(found, first_item)
}

fn field_of<'a>(found: &'a DataType, name: &str) -> Option<&'a FieldRef> {
    match found {
        DataType::Struct(fields) => fields.find(name).map(|(_, field)| field),
        _ => None,
    }
}

fn after<'a>(written: &'a str, name: &str) -> Option<&'a str> {
    written.strip_prefix(name)?.strip_prefix('.')
}

/// The fields that `rest` names. Field names may contain dots.
fn descend(found: &DataType, rest: &str) -> Option<Vec<String>> {
    let DataType::Struct(fields) = first_item(found) else { return None };
    fields.iter().find_map(|field| {
        let below = match after(rest, field.name()) {
            _ if rest == field.name() => vec![],
            Some(rest) => descend(field.data_type(), rest)?,
            None => return None,
        };
        Some([vec![field.name().clone()], below].concat())
    })
}

fn collect(path: &Path, found: &DataType, texts: &mut Vec<Path>) {
    match first_item(found) {
        DataType::Struct(fields) => {
            for field in fields {
                collect(&path.clone().field(field.name()), field.data_type(), texts);
            }
        }
        found if is_text(found) && !found.is_null() => texts.push(path.clone()),
        _ => {}
    }
}
