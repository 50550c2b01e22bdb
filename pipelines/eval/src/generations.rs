//! One row for each question with all of its responses: the corpus of `shortest_correct` and `closest_correct`.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use asap_pipelines::{location, whole_table};
use datafusion::arrow::datatypes::{DataType, Field};
use serde::Serialize;
use url::Url;

use crate::bench::Problem;
use crate::failure::Failure;
use crate::row::Graded;

/// The property of such a table: what the responses are of, as in the table of the evaluation.
const PROPERTY: &str = "asap.generations";

#[derive(Default, Serialize)]
struct Question<'a> {
    id: &'a str,
    /// The message to the model, so that it is trained on what it is asked.
    question: &'a str,
    /// The problem without the words of the prompt.
    plain_question: &'a str,
    answer: &'a str,
    generations: Vec<&'a str>,
    correctness: Vec<bool>,
}

/// Where the rows are written.
pub(crate) struct Generations {
    url: Url,
    identity: String,
    questions: HashMap<String, String>,
}

impl Generations {
    /// Checks the location before a response is paid.
    ///
    /// # Errors
    /// If another table is there, or the store refuses.
    pub(crate) async fn at(location: &str, identity: &str, problems: &[Problem]) -> Result<Self, Failure> {
        let url = location::folder(location)?;
        whole_table::check_identity(&url, PROPERTY, identity).await?;
        whole_table::check_writable(&url).await?;
        let questions = problems.iter().map(|problem| (problem.id.clone(), problem.question.clone())).collect();
        Ok(Self { url, identity: identity.to_string(), questions })
    }

    /// Writes the responses to the largest budget in one commit. A call that failed has no response.
    ///
    /// # Errors
    /// If the store fails.
    pub(crate) async fn write(&self, rows: &[Graded]) -> Result<(), Failure> {
        let largest = rows.iter().map(|row| row.budget).max();
        let mut found: BTreeMap<&str, Question> = BTreeMap::new();
        for row in rows.iter().filter(|row| Some(row.budget) == largest) {
            let plain_question = self.questions.get(&row.id).map_or("", String::as_str);
            let (id, question) = (row.id.as_str(), row.prompt.as_str());
            let answer = row.gold.as_deref().unwrap_or_default();
            let new = || Question { id, question, plain_question, answer, ..Question::default() };
            let of = found.entry(id).or_insert_with(new);
            if let (Some(response), Some(correct)) = (&row.response, row.correct) {
                of.generations.push(response);
                of.correctness.push(correct);
            }
        }
        let list = |item: DataType| DataType::List(Arc::new(Field::new("element", item, true)));
        let columns = [
            (DataType::Utf8, "id question plain_question answer"),
            (list(DataType::Utf8), "generations"),
            (list(DataType::Boolean), "correctness"),
        ];
        let batch = whole_table::batch(&columns, &found.into_values().collect::<Vec<_>>())?;
        let properties = HashMap::from([(PROPERTY.to_string(), Some(self.identity.clone()))]);
        Ok(whole_table::replace(&self.url, &batch, properties).await?)
    }
}
