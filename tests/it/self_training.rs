//! The guide on self-training: its commands in order. Each is killed, and resumed by the same command.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Duration;

use asap_lm::generate::Generator;
use asap_test_support::{Call, Reply, Server};
use serde_json::{Value, json};

use crate::common::{Workplace, root};
use crate::eval::{problems, replies_of, said};
use crate::runs::place::{Running, wait_until};

const URL: &str = "http://localhost:8000/v1";
/// Questions in `train.jsonl`, each with this many samples.
const QUESTIONS: usize = 6;
const SAMPLES: usize = 8;
/// The question that the base model never answers.
const LOST: &str = "What is 3 +";

/// The commands of the guide, without line breaks.
fn commands() -> Vec<Vec<String>> {
    let page = std::fs::read_to_string(root().join("docs/self_training.md")).unwrap();
    let block = page.split("```bash\n").nth(1).unwrap().split("```").next().unwrap().replace("\\\n", " ");
    let words = |line: &str| line.split_whitespace().map(str::to_string).collect();
    block.lines().map(words).collect()
}

/// A base model whose chains have one to four steps. Each fifth answer is wrong.
fn base(call: &Call) -> Reply {
    if call.head.starts_with("GET") {
        return Reply::error(404, "no such page");
    }
    let prompt = call.prompt();
    let number: usize = prompt.split("What is ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
    let steps: Vec<_> = (0..=call.number % 4).map(|step| format!("Step {step} of {number} + 25.")).collect();
    let is_right = !prompt.contains(LOST) && !call.number.is_multiple_of(5);
    let answer = if is_right { number + 25 } else { 1 };
    let text = format!("<think>\n{}\n</think>\n\n\\boxed{{{answer}}}", steps.join("\n\n"));
    Reply::After(Duration::from_millis(20), Box::new(as_asked(said(&text, 50), call)))
}

/// A reply of the model that a call names.
fn as_asked(mut reply: Reply, call: &Call) -> Reply {
    if let Reply::Json(body) = &mut reply {
        body["model"] = call.body["model"].clone();
    }
    reply
}

/// Kills a command as soon as something is true, unless it ends before. Then runs it again.
fn killed_and_repeated(workplace: &Workplace, command: &[String], is_time: impl Fn() -> bool) {
    let mut killed = Running::start(workplace.command(command));
    wait_until("the time to kill", || is_time() || killed.is_over());
    killed.kill();
    workplace.run(command).ok();
}

fn posts(server: &Server) -> usize {
    server.calls().iter().filter(|call| call.head.starts_with("POST")).count()
}

/// The user messages that a server was sent.
fn asked(server: &Server) -> BTreeSet<String> {
    let calls = server.calls();
    calls.iter().filter(|call| call.head.starts_with("POST")).map(|call| call.prompt().to_string()).collect()
}

/// The texts of a query with one column.
fn texts(workplace: &Workplace, query: &str) -> BTreeSet<String> {
    let rows: Vec<Value> = workplace.rows(query);
    rows.iter().map(|row| row["text"].as_str().unwrap().to_string()).collect()
}

#[test]
fn each_command_of_the_guide_resumes_after_a_kill() {
    let workplace = Workplace::new();
    problems(&workplace, QUESTIONS);
    workplace.shell("mkdir models && ln -s ../data/model models/base && cp test.jsonl train.jsonl").ok();
    let (mut server, mut served, mut done) = (Server::start(base), Vec::new(), Vec::new());
    // What each evaluation asked.
    let mut prompts = Vec::new();
    for mut command in commands() {
        let words: Vec<&str> = command.iter().map(String::as_str).collect();
        match words.as_slice() {
            ["vllm", "serve", model, "--served-model-name", name, .., "&"] => {
                served = vec![model.to_string(), name.to_string()];
                continue;
            }
            ["kill", "%1;", "wait;", "vllm", "serve", model, "--served-model-name", name, .., "&"] => {
                served = vec![model.to_string(), name.to_string()];
                let generator = Generator::load(&workplace.path(model), &std::sync::Arc::default()).unwrap();
                let generator = Mutex::new(generator);
                server = Server::start(move |call| match call.head.starts_with("GET") {
                    true => base(call),
                    false => as_asked(replies_of(&generator, call), call),
                });
                continue;
            }
            ["asap", "eval", ..] => {
                let place = words.iter().position(|word| *word == URL).unwrap();
                assert!(
                    command.windows(2).any(|pair| pair == ["--model", served[1].as_str()]),
                    "{served:?} {command:?}"
                );
                command[place] = server.base_url();
                if served[1] == "trained" {
                    command.extend(["--budget", "64"].map(str::to_string));
                }
                killed_and_repeated(&workplace, &command[1..], || server.answered() > 3);
                let paid = posts(&server);
                workplace.run(&command[1..]).ok();
                assert_eq!(posts(&server), paid, "no response is paid twice");
                prompts.push(asked(&server));
            }
            // The small model is trained without PyTorch, by few steps.
            ["python", "-m", "asap.sft", ..] => {
                let more = "--epochs 2 --accumulate 2 --checkpoint-every 1".split(' ').map(str::to_string);
                let train: Vec<_> = ["train".to_string()].into_iter().chain(command.drain(3..)).chain(more).collect();
                killed_and_repeated(&workplace, &train, || workplace.path("out/model/checkpoints").exists());
            }
            ["asap", "run", .., to] => {
                let made = workplace.path(to);
                killed_and_repeated(&workplace, &command[1..], || made.exists());
            }
            // An export needs a new folder.
            ["asap", "export", .., to] => {
                let made = workplace.path(to);
                let mut killed = Running::start(workplace.command(&command[1..]));
                wait_until("the folder", || made.exists() || killed.is_over());
                killed.kill();
                std::fs::remove_dir_all(&made).unwrap();
                workplace.run(&command[1..]).ok();
            }
            other => panic!("no test runs this command of the guide: {other:?}"),
        }
        done.push(command[1].clone());
    }
    assert_eq!(done, ["eval", "run", "export", "-m", "eval"]);

    // The model is trained on the text that it was asked, and judged with the same prompt.
    let [sampled, judged] = prompts.try_into().unwrap();
    assert_eq!((sampled.len(), &sampled), (QUESTIONS, &judged));
    assert_eq!(texts(&workplace, "SELECT question AS text FROM 'out/generations'"), sampled);
    let own = texts(&workplace, "SELECT plain_question AS text FROM 'out/generations'");
    assert!(own.iter().all(|own| own.starts_with("What is ")) && own.len() == QUESTIONS, "{own:?}");
    let solved: BTreeSet<String> = sampled.into_iter().filter(|prompt| !prompt.contains(LOST)).collect();
    let exported = "SELECT prompt[1]['content'] AS text FROM 'dataset/train-00000-of-00001.parquet'";
    assert_eq!(texts(&workplace, exported), solved);

    let counted = format!(
        "SELECT count(*) AS rows, sum(CASE WHEN generation = cot_shortest_correct(generations, source_answer) THEN 1 ELSE 0 END) AS \
         shortest, min(cardinality(generations)) AS samples, count(DISTINCT question) AS questions FROM '{}'",
        "out/shortest"
    );
    let rows = QUESTIONS - 1;
    assert_eq!(
        workplace.rows(&counted),
        [json!({"rows": rows, "shortest": rows, "samples": SAMPLES, "questions": rows})]
    );
    let examples = "SELECT count(*) AS rows FROM 'dataset/train-00000-of-00001.parquet'";
    assert_eq!(workplace.rows(examples), [json!({"rows": rows})]);
    let trained: Value =
        serde_json::from_slice(&std::fs::read(workplace.path("out/model/training.json")).unwrap()).unwrap();
    assert_eq!((&trained["traces"], &trained["steps"]), (&json!(rows), &json!(2 * rows.div_ceil(2))));
    assert_eq!(workplace.rows("SELECT count(*) AS rows FROM 'out/eval/trained'"), [json!({"rows": QUESTIONS})]);

    workplace.run(["view", "out/shortest", "--to", "report.json"]).ok();
    let report: Value = serde_json::from_slice(&std::fs::read(workplace.path("report.json")).unwrap()).unwrap();
    assert!(report["sentences"].to_string().contains("1 of 6 questions (16.7 %) have no correct sample"), "{report}");
}
