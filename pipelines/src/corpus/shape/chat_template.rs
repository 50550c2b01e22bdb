//! Prompts that are a conversation rendered by a chat template: the user's turn is the question.

use datafusion::common::Result;
use datafusion::functions::core::expr_fn::coalesce;
use datafusion::functions::regex::expr_fn::{regexp_count, regexp_match};
use datafusion::functions::string::expr_fn::{btrim, concat, starts_with};
use datafusion::functions_nested::expr_fn::array_element;
use datafusion::logical_expr::utils::disjunction;
use datafusion::logical_expr::{Expr, lit, when};

use crate::corpus::shape::expressions::text;

pub(crate) const RENDERED: &str = "prompt";

/// The start and end of the user's turn: ChatML, Llama 3, DeepSeek, Gemma, Mistral.
const TURNS: [(&str, &str); 5] = [
    (r"<\|im_start\|>user\n", r"<\|im_end\|>"),
    (r"<\|start_header_id\|>user<\|end_header_id\|>\n", r"<\|eot_id\|>"),
    ("<｜User｜>", "<｜Assistant｜>"),
    (r"<start_of_turn>user\n", "<end_of_turn>"),
    (r"\[INST\](?:\s*<<SYS>>.*?<</SYS>>)?", r"\[/INST\]"),
];
const SYSTEMS: [(&str, &str); 4] = [
    (r"<\|im_start\|>system\n", r"<\|im_end\|>"),
    (r"<\|start_header_id\|>system<\|end_header_id\|>\n", r"<\|eot_id\|>"),
    ("<｜begin▁of▁sentence｜>", "<｜User｜>"),
    ("<<SYS>>", "<</SYS>>"),
];
const BEGINNINGS: &str = "<|im_start|> <|begin_of_text|> <|start_header_id|> <｜begin▁of▁sentence｜> <｜User｜> <bos> <start_of_turn> <s> [INST]";

/// The user's turn of a rendered prompt; any other prompt stays unchanged.
pub(crate) fn question(prompt: Expr) -> Result<Expr> {
    let user = first_of(&TURNS, &prompt);
    when(is_rendered(&prompt), coalesce(vec![user, prompt.clone()])).otherwise(prompt)
}

pub(crate) fn system(prompt: Expr) -> Result<Expr> {
    when(is_rendered(&prompt), first_of(&SYSTEMS, &prompt)).end()
}

fn first_of(pairs: &[(&str, &str)], prompt: &Expr) -> Expr {
    let turns: Vec<String> = pairs.iter().map(|(opening, end)| format!("{opening}(.*?){end}")).collect();
    let groups = regexp_match(prompt.clone(), lit(format!("(?s){}", turns.join("|"))), None);
    // In one match, only one group is not NULL.
    let said = (1..=pairs.len() as i64).map(|group| array_element(groups.clone(), lit(group)));
    btrim(vec![coalesce(said.collect()), lit(" \n\r\t")])
}

pub(crate) fn more_than_one_question(prompt: &Expr) -> Result<Expr> {
    let opening = format!("(?:{})", TURNS.map(|(opening, _)| opening).join("|"));
    let count = regexp_count(prompt.clone(), lit(opening), None, None);
    let found = concat(vec![text(count.clone()), lit(" turns of the user in the rendered prompt, expected one")]);
    when(is_rendered(prompt).and(count.gt(lit(1_i64))), found).end()
}

fn is_rendered(prompt: &Expr) -> Expr {
    let begins = |beginning| starts_with(prompt.clone(), lit(beginning));
    let is_one = disjunction(BEGINNINGS.split(' ').map(begins)).unwrap_or_else(|| lit(false));
    // If no prompt of a batch begins like this, the engine skips the other tests.
    begins("<").or(begins("[")).and(is_one)
}
