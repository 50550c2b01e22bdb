//! Reads an answer: text, tokens, expressions, and the kind of answer that they are.

pub(crate) mod bound;
pub(crate) mod characters;
pub(crate) mod family;
pub(crate) mod lexer;
pub(crate) mod lists;
pub(crate) mod notation;
pub(crate) mod numerals;
pub(crate) mod parser;
pub(crate) mod reader;
pub(crate) mod relations;
pub(crate) mod shape;
pub(crate) mod span;
pub(crate) mod token;
pub(crate) mod units;
pub(crate) mod values;
pub(crate) mod words;
