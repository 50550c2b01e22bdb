use std::sync::Arc;

use asap_kernels::tags::think;
use asap_lm::Tokenizer;

use super::by_row::RowFunction;
use crate::columns::{Args, Cell, NoValue};
use crate::declaration::{Arg, Argument, Declaration};

pub(crate) struct CotShortestCorrect;

impl RowFunction for CotShortestCorrect {
    const DECLARATION: Declaration = Declaration {
        name: "cot_shortest_correct",
        about: "The number (from 1) of the generation with the fewest tokens among the generations that have a chain of thought and state the expected answer, by the rules of `cot_verify`. If several are equally short, the result is the first. If no generation states the answer, the result is NULL. Training on the shortest correct sample of each question shortens answers without rewriting any text (Sky-T1-Flash; Munkhbat et al. 2025).",
        arguments: &[
            Argument::new(
                "generations",
                Arg::TextList,
                "Several generations for a question, each with the chain in think tags and then the answer.",
            ),
            Argument::new("gold", Arg::Text, "The expected answer, or a solution that states it as a response does."),
        ],
        example: "select cot_shortest_correct(['<think>So 2 + 2 is 4.</think>\\boxed{4}', '<think>4</think>\\boxed{4}', '<think></think>\\boxed{5}'], '4');\n-- 2",
    };
    type Needs = Arc<Tokenizer>;
    type Output<'a> = i64;

    fn row<'a>(tokenizer: &mut Arc<Tokenizer>, row: Args<'a>) -> Cell<i64> {
        let (generations, gold) = (row.texts(0)?, row.text(1)?);
        let mut shortest: Option<(usize, usize)> = None;
        for (place, generation) in generations.into_iter().enumerate() {
            let has_chain = think(generation).is_some_and(|chain| !chain.is_empty());
            if has_chain && asap_verify::verify(gold, generation) {
                let tokens = tokenizer.count(generation)?;
                shortest = shortest.into_iter().chain([(tokens, place)]).min();
            }
        }
        shortest.map(|(_, place)| place as i64 + 1).ok_or(NoValue::Null)
    }
}
