use std::collections::BTreeSet;

use datafusion::arrow::array::Array;
use datafusion::execution::FunctionRegistry;

use crate::tests::functions::session::{registered, session, shown};

fn is_ours(name: &String) -> bool {
    name.starts_with("cot_") || name == "ai_complete"
}

#[test]
fn every_function_is_documented() {
    let session = session("qwen2");
    let ours: Vec<String> = session.udfs().into_iter().filter(is_ours).collect();
    assert_eq!(BTreeSet::from_iter(ours.clone()), registered());
    for name in ours {
        let function = session.udf(&name).unwrap();
        let documentation = function.documentation().unwrap_or_else(|| panic!("{name} has no documentation"));
        assert!(documentation.description.len() > 40, "{name}");
        assert!(documentation.syntax_example.starts_with(&format!("{name}(")), "{name}");
        assert!(documentation.sql_example.as_ref().is_some_and(|example| example.contains(&name)), "{name}");
        let inside = documentation.syntax_example.trim_start_matches(&name).trim_matches(['(', ')']);
        let named: Vec<&str> = inside.split(['[', ']', ',', ' ']).filter(|word| !word.is_empty()).collect();
        let arguments = documentation.arguments.clone().unwrap_or_default();
        assert_eq!(arguments.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), named, "{name}");
        assert!(arguments.iter().all(|(_, description)| description.len() > 8), "{name}");
    }
}

/// Functions whose examples show no result, since it depends on a model or a table.
const WITHOUT_RESULT: &str = "ai_complete cot_attribution cot_entropy cot_first_token cot_llmlingua2 \
    cot_mean_step_entropy cot_perplexity cot_rank_surprisal cot_selective_context cot_self_information \
    cot_shortest_surviving cot_step_entropy cot_step_rank_surprisal cot_surprisal cot_survives cot_token_entropies";

#[tokio::test]
async fn every_example_gives_what_it_says() {
    let session = session("qwen2");
    for name in session.udfs().into_iter().filter(is_ours) {
        let function = session.udf(&name).unwrap();
        let example = function.documentation().unwrap().sql_example.clone().unwrap();
        let Some((sql, expected)) = example.split_once(";\n-- ") else {
            assert!(WITHOUT_RESULT.split(' ').any(|without| without == name), "{name}");
            continue;
        };
        let batches = session.sql(sql).await.unwrap_or_else(|error| panic!("{name}: {error}")).collect().await.unwrap();
        let one_line = |text: &str| text.replace("\n-- ", "\\n").replace('\n', "\\n");
        let found = batches[0].column(0);
        let found = if found.is_null(0) { "NULL".to_string() } else { shown(found).remove(0) };
        assert_eq!(one_line(&found), one_line(expected), "{name}");
    }
}
