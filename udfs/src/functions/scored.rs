//! What the functions that ask the scoring model share.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, ListArray, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Float32Type};
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs};
use rayon::prelude::*;

use crate::args::{self, Arg, Lists};
use crate::cores;
use crate::lm::{Models, QuestionAndSteps, Scored, Scores, Wanted};
use crate::plan::{CallArgs, Meter};
use crate::settings::{OnError, Settings};

/// Rows that wait for the model at once: enough to fill its runs.
pub const ROWS_IN_FLIGHT: usize = 64;

/// The arguments of these functions.
pub const ARGUMENTS: [(&str, Arg); 2] = [("question", Arg::Text), ("steps", Arg::TextList)];

/// The type of a score for each step.
pub fn scores_type() -> DataType {
    DataType::List(Arc::new(Field::new_list_field(DataType::Float32, true)))
}

/// A score for each step of each row; NULL where an argument is NULL, the chain is longer than the model's window, or the
/// model's numbers are none.
///
/// # Errors
/// If the model cannot be loaded or fails, and for a chain that has no scores if `asap.on_error` is `fail`.
pub async fn scores(
    function: &str,
    models: &Models,
    args: &CallArgs,
    meter: &Meter,
    wanted: Wanted,
    pick: impl Fn(&Scores) -> Vec<Option<f32>>,
) -> Result<ArrayRef> {
    let scorer = models.scorer(args.config())?;
    let (tokenising, arrays, count) = (Arc::clone(&scorer), args.arrays.clone(), args.rows);
    let (is_chain, prepared) = cores::run(move || {
        let rows = rows(&arrays, count);
        let chains: Vec<QuestionAndSteps> = rows.iter().flatten().cloned().collect();
        let is_chain: Vec<bool> = rows.iter().map(Option::is_some).collect();
        Ok((is_chain, tokenising.prepare(&chains, wanted)?))
    })
    .await?;
    meter.add_calls(prepared.calls());
    meter.add_cache_hits(prepared.remembered());
    meter.add_tokens(prepared.tokens(), 0);
    let mut scored = scorer.score(prepared).await?.into_iter();
    let fail = Settings::of(args.config())?.on_error == OnError::Fail;
    let lists = is_chain.into_iter().map(|is_chain| match is_chain.then(|| scored.next()).flatten() {
        Some(Scored::Steps(scores)) => Ok(Some(pick(&scores))),
        Some(Scored::TooLong(why)) if fail => exec_err!("{function} was given a chain of {why}"),
        Some(Scored::NotFinite) if fail => {
            exec_err!("{function}: the model computed numbers for a chain that are none (beyond what its type holds)")
        }
        Some(Scored::NoPrompt(why)) if fail => exec_err!("{function}: the model's chat template: {why}"),
        Some(Scored::TooLong(_) | Scored::NotFinite | Scored::NoPrompt(_)) | None => Ok(None),
    });
    let lists = lists.collect::<Result<Vec<_>>>()?;
    Ok(Arc::new(ListArray::from_iter_primitive::<Float32Type, _, _>(lists)))
}

/// Why each row's chain is longer than the model's window; NULL where it fits or an argument is NULL.
pub fn too_long(models: &Models, args: &ScalarFunctionArgs) -> Result<ColumnarValue> {
    let arrays = args::arrays(args)?;
    let scorer = models.scorer(&args.config_options)?;
    let messages = rows(&arrays, args.number_rows).into_par_iter().map(|row| match row {
        Some(chain) => Ok(scorer.too_long(&chain)?),
        None => Ok(None),
    });
    Ok(ColumnarValue::Array(Arc::new(StringArray::from(messages.collect::<Result<Vec<_>>>()?))))
}

fn rows(arrays: &[ArrayRef], count: usize) -> Vec<Option<QuestionAndSteps<'_>>> {
    let (questions, lists) = (args::texts(&arrays[0]), Lists::new(&arrays[1]));
    let row = |row| Some(QuestionAndSteps { question: args::text_at(questions, row)?, steps: lists.texts(row)? });
    (0..count).map(row).collect()
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::AsArray;
    use datafusion::execution::SessionStateBuilder;
    use datafusion::prelude::{SessionConfig, SessionContext};

    use super::*;
    use crate::llm::Llm;
    use crate::lm::testing::{chains, golden};
    use crate::{plan, register_all};

    /// A session on a golden model and its functions' models.
    fn session(partitions: usize) -> (SessionContext, Models) {
        let settings = Settings {
            scorer_model: golden("qwen2").display().to_string(),
            scorer_prompt: Some("{question}".to_string()),
            ..Settings::default()
        };
        let config =
            SessionConfig::new().with_option_extension(settings).with_target_partitions(partitions).with_batch_size(7);
        let models = Models::default();
        let builder = SessionStateBuilder::new().with_config(config).with_default_features();
        let llm = Llm::default();
        let mut state = plan::install(builder, &models, &llm).build();
        register_all(&mut state, &models, &llm).unwrap();
        (SessionContext::new_with_state(state), models)
    }

    /// A golden model whose chat template fails on a question with a mark.
    fn choosy() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for entry in std::fs::read_dir(golden("qwen2")).unwrap().map(|entry| entry.unwrap()) {
            std::fs::copy(entry.path(), folder.path().join(entry.file_name())).unwrap();
        }
        let path = folder.path().join("tokenizer_config.json");
        let mut config: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let template = "{% if '!' in messages[0]['content'] %}{{ raise_exception('no shouting') }}{% endif %}\
                        {{ messages[0]['content'] }}";
        config["chat_template"] = template.into();
        std::fs::write(path, config.to_string()).unwrap();
        folder
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_template_that_fails_on_a_question_fails_its_row_only() {
        let folder = choosy();
        let (context, _) = session(1);
        let set = |key: &str, value: &str| format!("SET asap.{key} = '{value}'");
        for setting in [set("scorer.model", &folder.path().display().to_string()), set("scorer.prompt", "chat")] {
            context.sql(&setting).await.unwrap().collect().await.unwrap();
        }
        let sql = "SELECT q, cot_surprisal(q, ['a', 'b']) IS NULL AS failed, cot_too_long(q, ['a', 'b']) AS too_long \
                   FROM (VALUES ('one'), ('two!'), ('three')) AS t(q) ORDER BY q";
        let found = context.sql(sql).await.unwrap().collect().await.unwrap();
        let shown = datafusion::arrow::util::pretty::pretty_format_batches(&found).unwrap().to_string();
        for row in ["| one   | false  |          |", "| three | false  |          |", "| two!  | true   |          |"] {
            assert!(shown.contains(row), "{shown}");
        }
        context.sql(&set("on_error", "fail")).await.unwrap().collect().await.unwrap();
        let error = context.sql(sql).await.unwrap().collect().await.unwrap_err().to_string();
        assert!(error.contains("no shouting"), "{error}");
    }

    /// A table of the golden chains.
    async fn chains_as_table(context: &SessionContext) {
        let text = |text: &str| format!("'{}'", text.replace('\'', "''"));
        let rows = chains("qwen2").into_iter().map(|chain| {
            let steps = chain.steps.iter().map(|step| text(step)).collect::<Vec<_>>().join(", ");
            format!("({}, [{steps}])", text(&chain.question))
        });
        let rows = rows.collect::<Vec<_>>().join(", ");
        context.sql(&format!("CREATE TABLE chains AS VALUES {rows}")).await.unwrap().collect().await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_row_is_computed_once_however_often_a_query_names_its_scores() {
        for partitions in [1, 4] {
            let (context, models) = session(partitions);
            chains_as_table(&context).await;
            let sql = "WITH scored AS (SELECT *, cot_surprisal(column1, column2) AS s FROM chains) \
                SELECT s, s[1] + 1, cot_surprisal(column1, column2), cot_entropy(column1, column2)[1] AS e \
                FROM scored WHERE s[1] > 0 AND cot_too_long(column1, column2) IS NULL \
                AND cot_entropy(column1, column2)[1] > 0 ORDER BY cot_surprisal(column1, column2)[1], s[2]";
            let found = context.sql(sql).await.unwrap().collect().await.unwrap();
            let rows: usize = found.iter().map(|batch| batch.num_rows()).sum();
            let expected = chains("qwen2");
            assert_eq!(rows, expected.iter().filter(|chain| chain.surprisal[0].is_some()).count());

            let scorer = models.scorer(context.copied_config().options()).unwrap();
            assert_eq!(scorer.prefills(), expected.len() as u64, "{partitions} partitions");
            let scored_steps = expected.iter().flat_map(|chain| &chain.surprisal).flatten().count();
            assert_eq!(scorer.output_rows(), scored_steps as u64);
        }
    }

    #[tokio::test]
    async fn scores_are_those_of_the_goldens() {
        // One partition: rows come in the order of the table.
        let (context, _) = session(1);
        chains_as_table(&context).await;
        let sql = "SELECT cot_surprisal(column1, column2), cot_entropy(column1, column2), \
            cot_perplexity(column1, column2) FROM chains";
        let found = context.sql(sql).await.unwrap().collect().await.unwrap();
        let mut expected = chains("qwen2").into_iter();
        for batch in &found {
            for row in 0..batch.num_rows() {
                let chain = expected.next().unwrap();
                let columns = [(chain.surprisal, 1e-4, 0.0), (chain.entropy, 1e-4, 0.0), (chain.perplexity, 0.0, 1e-4)];
                for (column, (expected, absolute, relative)) in columns.into_iter().enumerate() {
                    let list = batch.column(column).as_list::<i32>().value(row);
                    let scores = list.as_primitive::<Float32Type>();
                    assert_eq!(scores.len(), expected.len());
                    for (found, expected) in scores.iter().zip(expected) {
                        let tolerance = absolute + relative * expected.unwrap_or_default();
                        let close = found.zip(expected).map(|(a, b)| (f64::from(a) - b).abs() < tolerance);
                        assert!(close.unwrap_or(found.is_none() && expected.is_none()), "{found:?} {expected:?}");
                    }
                }
            }
        }
        assert_eq!(expected.next().map(|chain| chain.question), None);
    }
}
