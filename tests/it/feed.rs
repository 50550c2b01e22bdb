//! `asap feed`: training steps on standard output, as a trainer reads them.

use std::collections::BTreeSet;
use std::process::Stdio;

use datafusion::arrow::array::{Array, AsArray};
use datafusion::arrow::datatypes::Int32Type;
use datafusion::arrow::ipc::reader::StreamReader;

use crate::common::{Workplace, json_lines};

/// An example's tokens, its labels and the position after it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Line {
    ids: Vec<i32>,
    labels: Vec<i32>,
    position: String,
}

fn steps(stream: impl std::io::Read) -> Vec<Vec<Line>> {
    let reader = StreamReader::try_new(stream, None).unwrap();
    let step = |batch: datafusion::arrow::array::RecordBatch| {
        let list = |name: &str, row: usize| -> Vec<i32> {
            let lists = batch.column_by_name(name).unwrap().as_list::<i32>().value(row);
            lists.as_primitive::<Int32Type>().values().to_vec()
        };
        let positions = batch.column_by_name("position").unwrap().as_string::<i32>();
        let row = |row: usize| Line {
            ids: list("input_ids", row),
            labels: list("labels", row),
            position: positions.value(row).to_string(),
        };
        (0..positions.len()).map(row).collect()
    };
    reader.map(|batch| step(batch.unwrap())).collect()
}

/// A workplace with rows at `traces` and their pruned rows at `out`.
fn pruned(rows: usize) -> Workplace {
    let workplace = Workplace::new();
    workplace.traces(9, rows, "traces");
    workplace.run("run truncate --from traces --to out --set asap.run.slice_rows=10".split(' ')).ok();
    workplace
}

fn feed(workplace: &Workplace, more: &[&str]) -> Vec<Vec<Line>> {
    let output = workplace.command([&["feed", "--model", "data/model", "--data"], more].concat()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    steps(output.stdout.as_slice())
}

#[test]
fn steps_come_again_after_a_position_and_ranks_share_them() {
    let workplace = pruned(40);
    let all = feed(&workplace, &["out", "--epochs", "2", "--step", "6"]);
    assert_eq!(all.iter().map(Vec::len).collect::<Vec<_>>(), [[6; 6].as_slice(), &[4]].concat().repeat(2));
    for row in all.iter().flatten() {
        let prompt = row.labels.iter().take_while(|label| **label == -100).count();
        assert!(prompt > 0 && row.labels[prompt..] == row.ids[prompt..] && !row.labels[prompt..].contains(&-100));
    }
    let position = all[2].last().unwrap().position.clone();
    assert_eq!(feed(&workplace, &["out", "--epochs", "2", "--step", "6", "--resume", &position]), all[3..]);

    let parts =
        ["0", "1"].map(|rank| feed(&workplace, &["out", "--rank", rank, "--world", "2", "--step", "8"]).concat());
    assert_eq!((parts[0].len(), parts[1].len()), (20, 20));
    let ids = |rows: Vec<Line>| rows.into_iter().map(|row| row.ids).collect::<BTreeSet<_>>();
    assert_eq!(ids(parts.concat()), ids(all[..7].concat()));

    // The order is that of the pruned rows, independent of shard names and positions in shards.
    workplace.run(["run", "truncate", "--from", "traces", "--to", "again", "--set=run.slice_rows=10"]).ok();
    workplace.run(["table", "optimize", "again"]).ok();
    let ids = |steps: &[Vec<Line>]| steps.iter().flatten().map(|row| row.ids.clone()).collect::<Vec<_>>();
    assert_eq!(ids(&feed(&workplace, &["again", "--epochs", "2", "--step", "6"])), ids(&all));
}

#[test]
fn a_feed_resumes_after_other_commands_changed_its_table() {
    let workplace = pruned(40);
    let all = feed(&workplace, &["out", "--step", "6"]);
    let position = all[2].last().unwrap().position.clone();
    let rest = || feed(&workplace, &["out", "--step", "6", "--resume", &position]);
    workplace.run(["table", "optimize", "out"]).ok();
    assert_eq!(rest(), all[3..]);
    workplace.run("run truncate --from traces --to out --set asap.run.slice_rows=7 --new-generation".split(' ')).ok();
    assert_eq!(rest(), all[3..], "the rows of the position's version");
    // The version's shards are gone.
    workplace.run(["table", "vacuum", "out", "--retain", "0s", "--now"]).ok();
    let resumed = ["feed", "--model", "data/model", "--data", "out", "--resume", &position];
    workplace.run(resumed).ends(1, &["vacuumed before all of its rows were read"]);
}

#[test]
fn a_table_is_followed_while_a_run_fills_it() {
    let workplace = Workplace::new();
    workplace.traces(9, 40, "traces");
    let run: Vec<&str> =
        "run truncate --from traces --to out --set=run.slice_rows=5 --set=run.commit_seconds=0.1".split(' ').collect();
    workplace.run([&run[..], &["--part", "1/2"]].concat()).ok();
    let follow = ["feed", "--model", "data/model", "--data", "out", "--follow", "--epochs", "2", "--step", "7"];
    let follower = workplace.command(&follow).stdout(Stdio::piped()).spawn().unwrap();
    workplace.run([&run[..], &["--part", "2/2"]].concat()).ok();
    let output = follower.wait_with_output().unwrap();
    assert!(output.status.success());
    let all = steps(output.stdout.as_slice());
    let epochs = ["0", "1"].map(|epoch| {
        let of = |row: &&Line| row.position.split(':').nth(1) == Some(epoch);
        all.iter().flatten().filter(of).map(|row| row.ids.clone()).collect::<BTreeSet<_>>()
    });
    assert_eq!((epochs[0].len(), &epochs[0]), (40, &epochs[1]));
    // Rows committed after a position's version come in commit order, even when all are present.
    let position = all[1].last().unwrap().position.clone();
    let rest = ["out", "--follow", "--epochs", "2", "--step", "7", "--resume", &position];
    assert_eq!(feed(&workplace, &rest), all[2..]);
}

#[test]
fn a_feed_that_waits_for_rows_ends_after_its_reader() {
    let workplace = Workplace::new();
    workplace.traces(9, 40, "traces");
    workplace.run("run truncate --from traces --to out --set asap.run.slice_rows=5 --part 1/2".split(' ')).ok();
    let follow = ["feed", "--model", "data/model", "--data", "out", "--follow", "--step", "7"];
    let mut follower = workplace.command(&follow).stdout(Stdio::piped()).spawn().unwrap();
    drop(follower.stdout.take());
    assert!(follower.wait().unwrap().success());
}

#[test]
fn a_count_has_the_steps_that_all_trainers_get() {
    let workplace = pruned(40);
    for (size, world) in [(["--step", "3"], "1"), (["--step", "3"], "4"), (["--step-tokens", "900"], "3")] {
        let options = [&["out", "--epochs", "2", "--world", world][..], &size].concat();
        let base = ["feed", "--model", "data/model", "--count", "--data"];
        let count = workplace.run(base.iter().chain(&options)).json();
        let ranks = |rank: &str| feed(&workplace, &[&options[..], &["--rank", rank]].concat());
        for rank in 0..world.parse().unwrap() {
            let steps = ranks(&u8::to_string(&rank));
            assert_eq!(count["steps"], steps.len(), "rank {rank} of {world}, {size:?}");
        }
        let first: Vec<usize> = feed(&workplace, &["out"]).concat().iter().map(|row| row.ids.len()).collect();
        assert_eq!(count["examples"], first.len());
        assert_eq!(count["tokens"], first.iter().sum::<usize>());
        assert_eq!(count["longest"], *first.iter().max().unwrap());
        let position = count["position"].as_str().unwrap();
        let from_there = feed(&workplace, &[&options[..], &["--resume", position]].concat());
        assert_eq!(from_there, ranks("0"));
        let last = from_there.last().and_then(|step| step.last()).unwrap().position.clone();
        let again = workplace.run(base.iter().chain(&options).chain(&["--resume", &last])).json();
        assert_eq!(again, count, "the count after a position is that of its version");
    }
}

#[test]
fn a_position_is_refused_where_other_rows_would_come_after_it() {
    let workplace = pruned(12);
    workplace.run(["run", "truncate", "--from", "traces", "--to", "other"]).ok();
    let written = ["out", "--rank", "1", "--world", "2", "--epochs", "2", "--step", "2"];
    let all = feed(&workplace, &written);
    let position = all[1][1].position.clone();
    // Settings that only change the number of rows and the batch size may differ.
    let more = ["out", "--rank", "1", "--world", "2", "--epochs", "3", "--step", "4", "--resume", &position];
    let ids = |steps: Vec<Vec<Line>>| steps.concat().into_iter().map(|row| row.ids).collect::<Vec<_>>();
    assert_eq!(ids(feed(&workplace, &more))[..8], ids(all.clone())[4..]);
    // A position is the same for all trainers, whatever their number.
    let whole = ids(feed(&workplace, &["out", "--epochs", "2"]));
    assert_eq!(ids(feed(&workplace, &["out", "--epochs", "2", "--resume", &position])), whole[8..]);
    let refused = |data: &str, changed: &[&str], expected: &str| {
        let base = ["feed", "--model", "data/model", "--data", data, "--epochs", "2", "--resume", &position];
        let finished = workplace.run([&base[..], changed].concat()).ends(2, &[expected]);
        assert!(finished.stdout.is_empty(), "{}", finished.stdout);
    };
    let part = ["--rank", "1", "--world", "2"];
    let with = |more: [&'static str; 2]| [&part[..], &more].concat();
    refused("out", &with(["--seed", "43"]), "written with seed 42, but this feed has seed 43");
    refused("out", &with(["--max-length", "4000"]), "this feed has max-length 4000");
    refused("out", &with(["--long", "cut"]), "written with long drop");
    refused("out", &[&part[..], &["--follow"]].concat(), "written with follow false");
    refused("out", &with(["--columns", "question=question,cot=cot,answer=answer"]), "other --columns");
    refused("other", &part, "written for other data");
    // A different chat template.
    workplace.shell("cp -r data/model model && sed -i 's/assistant/helper/' model/tokenizer_config.json").ok();
    let model = ["feed", "--model", "model", "--data", "out", "--epochs", "2", "--resume", &position];
    workplace.run([&model[..], &part].concat()).ends(2, &["another tokenizer"]);
}

/// The tokens and labels of an output's chains before pruning, whose kept steps are learned, by SQL.
fn masked(workplace: &Workplace, output: &str, steps: &str) -> BTreeSet<(Vec<i32>, Vec<i32>)> {
    let sql = format!(
        "SELECT e['input_ids'] AS ids, e['labels'] AS labels FROM (SELECT \
         cot_example(cot_prompt(question, system), original_cot, answer, NULL, cot_kept(steps)) AS e FROM '{output}')"
    );
    let found = workplace.sql("nd-json", &[&format!("SET asap.chain.steps = '{steps}'"), &sql]);
    let numbers = |row: &serde_json::Value, name: &str| serde_json::from_value(row[name].clone()).unwrap();
    json_lines(&found).iter().map(|row| (numbers(row, "ids"), numbers(row, "labels"))).collect()
}

#[test]
fn of_chains_before_pruning_only_the_kept_steps_are_learned() {
    let workplace = Workplace::new();
    workplace.traces(9, 24, "traces");
    for (output, steps) in [("out", "blank-line"), ("lines", "line")] {
        let run = format!("run random --from traces --to {output} --ratio 0.4 --set asap.chain.steps={steps}");
        workplace.run(run.split(' ')).ok();
        let rows = feed(&workplace, &[output, "--loss", "kept", "--max-length", "4096"]).concat();
        let found: BTreeSet<_> = rows.iter().map(|row| (row.ids.clone(), row.labels.clone())).collect();
        assert_eq!(found, masked(&workplace, output, steps));
        let is_learned = |row: &&Line| row.labels.iter().zip(&row.ids).filter(|(label, id)| label == id).count();
        let learned: usize = rows.iter().map(|row| is_learned(&row)).sum();
        let tokens: usize = rows.iter().map(|row| row.ids.len()).sum();
        assert!(2 * learned < tokens && rows.iter().all(|row| is_learned(&row) > 0), "{learned} of {tokens}");
        let count = format!("feed --data {output} --model data/model --loss kept --count --max-length 4096");
        let count = workplace.run(count.split(' ')).json();
        assert_eq!((&count["learned"], &count["tokens"]), (&learned.into(), &tokens.into()));
        let inspect = format!("inspect {output} --model data/model --max-length 4096 --format json");
        let inspected = workplace.run(inspect.split(' ')).json();
        let masked = serde_json::json!({ "rows": rows.len(), "tokens": tokens, "learned": learned, "left_out": 0 });
        assert_eq!(inspected["lessons"]["loss_kept"], masked);
    }

    // Positions resume only what they were written for.
    let kept = ["out", "--step", "6", "--loss", "kept"];
    let all = feed(&workplace, &kept);
    let position = all[1].last().unwrap().position.clone();
    assert_eq!(feed(&workplace, &[&kept[..], &["--resume", &position]].concat()), all[2..]);
    let refused = |data: &str, more: &[&str], expected: &str| {
        let base = ["feed", "--model", "data/model", "--data", data];
        workplace.run([&base[..], more].concat()).ends(2, &[expected]);
    };
    refused("out", &["--resume", &position], "written with loss kept, but this feed has loss all");
    let former = position.replace(",loss=kept", "");
    assert_ne!(former, position);
    for loss in ["all", "kept"] {
        refused("out", &["--loss", loss, "--resume", &former], "does not record --loss");
    }

    // Rows without steps of chains before pruning.
    workplace.write("text.sql", "SELECT * FROM pruned((SELECT *, substr(cot, 1, 40) AS compressed FROM corpus))");
    workplace.run(["run", "text.sql", "--from", "traces", "--to", "text"]).ok();
    refused("text", &["--loss", "kept"], "no column steps of an asap output");
    refused("traces", &["--loss", "kept"], "no column original_cot of an asap output");
    // Steps of another chain are no steps of this one.
    let other = "SELECT question, answer, cot, concat(original_cot, E'\\n\\nMore.') AS original_cot, steps FROM 'out'";
    workplace.copy(other, "other.parquet");
    let lost = ["feed", "--model", "data/model", "--data", "other.parquet", "--loss", "kept"];
    workplace.run(lost).ends(1, &["24 rejected (24 rows: the columns steps and original_cot have different numbers"]);
}

#[test]
fn training_learns_the_kept_steps_and_resumes_as_nothing_else() {
    let workplace = pruned(12);
    let train = |more: &str| {
        let line = format!("train --model data/model --data out --out model --epochs 1 --format json{more}");
        workplace.run(line.split(' '))
    };
    let count = workplace.run("feed --model data/model --data out --loss kept --count".split(' ')).json();
    let finished = train(" --loss kept");
    assert_eq!(finished.json()["epoch_learned"], count["learned"]);
    train("").ends(2, &["loss was \"kept\", and is now \"all\""]);
}

/// Conversations with a call and two exchanges, and rows of one exchange, at `in`; a model whose template drops the thoughts of
/// earlier exchanges; and the pruned rows at `out`.
fn conversations(rows: usize) -> Workplace {
    let workplace = Workplace::new();
    let line = |row: usize| {
        let said = |role: &str, content: &str| serde_json::json!({ "role": role, "content": content });
        let thinks = |thought: &str, content: &str| serde_json::json!({ "role": "assistant", "content": content, "reasoning_content": thought });
        let mut call = thinks(&format!("A sum.\n\nThe tool adds {row}."), "");
        call["tool_calls"] = serde_json::json!([{ "id": "c1", "type": "function",
            "function": { "name": "add", "arguments": format!(r#"{{"b": {row}, "a": 5}}"#) } }]);
        let mut result = said("tool", "13");
        result["tool_call_id"] = "c1".into();
        let talk = [
            vec![said("user", &format!("{row} + 5?")), call, result, thinks("So 13.", "It is 13.")],
            vec![said("user", "And 2?"), thinks("13 and 2.\n\nSo 15.", "15")],
        ];
        let messages = if row % 3 == 2 { talk[1].clone() } else { talk.concat() };
        let tools = [serde_json::json!({ "type": "function", "function": { "name": "add", "parameters": {} } })];
        serde_json::json!({ "id": row.to_string(), "messages": messages, "tools": tools }).to_string() + "\n"
    };
    workplace.write("in/rows.jsonl", (0..rows).map(line).collect::<String>());
    let template = "{% set ns = namespace(last=-1) %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.last = loop.index0 %}\
        {% endif %}{% endfor %}{{ tools | tojson if tools }}{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' }}{% if m.role == \
        'assistant' and m.reasoning_content and loop.index0 > ns.last %}{{ '<think>\\n' + m.reasoning_content + '\\n</think>\\n\\n' }}{% endif \
        %}{{ m.content }}{% for c in m.tool_calls %}{{ c.function.name }}{{ c.function.arguments | tojson }}{% endfor %}{{ \
        '<|im_end|>\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";
    workplace.shell("cp -r data/model model").ok();
    workplace.write("model/chat_template.jinja", template);
    workplace.run("run random --from in --to out --ratio 0.6 --set asap.run.slice_rows=7".split(' ')).ok();
    workplace
}

#[test]
fn the_examples_of_a_conversation_are_fed_together() {
    let workplace = conversations(30);
    let feed = |more: &[&str]| {
        let output = workplace.command([&["feed", "--model", "model", "--data"], more].concat()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        steps(output.stdout.as_slice())
    };
    // Twenty conversations of two examples, and ten rows of one. A step counts rows.
    assert_eq!(feed(&["in"]).concat().len(), 50);
    // Of one conversation, no thought of the first exchange is left that the template could drop.
    let all = feed(&["out", "--step", "4"]);
    assert_eq!((all.len(), all.concat().len()), (8, 49));
    let positions = |step: &Vec<Line>| step.iter().map(|line| line.position.clone()).collect::<BTreeSet<_>>();
    assert_eq!(all.iter().map(|step| positions(step).len()).sum::<usize>(), 30);
    for step in &all[..7] {
        let resumed = feed(&["out", "--step", "4", "--resume", &step.last().unwrap().position]);
        assert!(all.ends_with(&resumed), "{step:?}");
    }
    for size in [["--step", "2"], ["--step-tokens", "9"]] {
        let ranks = ["0", "1"].map(|rank| feed(&[&["out", "--rank", rank, "--world", "2"], &size[..]].concat()));
        for step in ranks.iter().flatten().filter(|step| size[0] == "--step-tokens" && step.len() > 1) {
            assert_eq!(positions(step).len(), 1, "{step:?}");
        }
        let ids = |steps: &[Vec<Line>]| steps.concat().into_iter().map(|line| line.ids).collect::<Vec<_>>();
        let (mut shared, mut alone) = (ids(&ranks.concat()), ids(&all));
        shared.sort_unstable();
        alone.sort_unstable();
        assert_eq!(shared, alone, "{size:?}");
    }
    let count = workplace.run("feed --data out --model model --count --step 4".split(' ')).json();
    let tokens: usize = all.concat().iter().map(|line| line.ids.len()).sum();
    assert_eq!((&count["examples"], &count["steps"], &count["tokens"]), (&30.into(), &8.into(), &tokens.into()));
    let count = workplace.run("feed --data out --model model --count --max-length 90".split(' ')).json();
    assert_eq!((&count["examples"], &count["too_long"]), (&10.into(), &20.into()));

    let inspect = "inspect out --model model --format json".split(' ');
    let lessons = workplace.run(inspect).json()["lessons"].clone();
    assert_eq!((&lessons["total"]["tokens"], &lessons["total"]["nothing"]), (&tokens.into(), &0.into()));
    let kept = feed(&["out", "--loss", "kept"]).concat();
    let learned = |line: &Line| line.labels.iter().filter(|label| **label != -100).count();
    assert_eq!(lessons["loss_kept"]["learned"], kept.iter().map(learned).sum::<usize>());
    assert_eq!(lessons["loss_kept"]["rows"], 30);
    // Kept steps are read and learned in the whole thoughts, whose other steps are only read.
    let whole = feed(&["in"]).concat();
    let ids = |lines: &[Line]| lines.iter().map(|line| line.ids.clone()).collect::<BTreeSet<_>>();
    assert_eq!(ids(&kept), ids(&whole));
    assert!(kept.iter().map(learned).sum::<usize>() < whole.iter().map(learned).sum::<usize>());

    let train = "train --model model --data out --out trained --epochs 1 --held-out 0.4 --format json";
    let trained = workplace.run(train.split(' ')).json();
    let [learned, held_out] = [&trained["traces"], &trained["held_out"]["traces"]].map(|rows| rows.as_u64().unwrap());
    assert_eq!(learned + held_out, 30);
    assert!(learned > 10 && held_out > 0, "{held_out}");
    // A template without calls of tools, or none, learns only the rows of one exchange.
    let small = workplace.run("feed --data out --model data/model --count".split(' ')).json();
    assert_eq!((&small["examples"], &small["rejected"]), (&10.into(), &20.into()));
    let reasons = small["reasons"].to_string();
    assert!(reasons.contains("the chat template loses the calls of turn 2 (assistant)"), "{reasons}");
}
