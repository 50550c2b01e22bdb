//! `asap train` from the user's view.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::common::{Finished, Workplace, json_lines};
use crate::runs::place::{Running, wait_until};
use crate::runs::seeded::Dice;
use crate::support::s3::{point, serve};

fn config() -> Value {
    json!({
        "architectures": ["Qwen2ForCausalLM"], "dtype": "bfloat16", "hidden_act": "silu", "hidden_size": 32,
        "intermediate_size": 48, "max_position_embeddings": 4096, "model_type": "qwen2", "num_attention_heads": 2,
        "num_hidden_layers": 2, "num_key_value_heads": 1, "rms_norm_eps": 1e-6, "rope_theta": 1e4,
        "tie_word_embeddings": true, "vocab_size": 512,
    })
}

fn prepared() -> Workplace {
    let workplace = Workplace::new();
    workplace.write("config.json", config().to_string());
    workplace.traces(9, 24, "traces");
    workplace
}

const TRAIN: &str = "train --init config.json --data traces --epochs 1 --accumulate 2 ";

/// Arguments of a command line without spaces in them.
fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

fn text(workplace: &Workplace, name: &str) -> String {
    fs::read_to_string(workplace.path(name)).unwrap()
}

/// Checks that a model can score.
#[track_caller]
fn check_scores(workplace: &Workplace, model: &str) {
    let sql = "SELECT cot_surprisal('What is 2 + 2?', ['It is 4.', 'Yes, 4.'])[2] > 0 AS is_scored";
    assert_eq!(workplace.csv(&[&format!("SET asap.scorer.model = '{model}'"), sql]), "is_scored\ntrue\n");
}

#[test]
fn a_config_and_traces_become_a_model_that_scores() {
    let workplace = prepared();
    let train = |threads: &str, out: &str| {
        let more = "--max-length 600 --long cut --clip 1 --learning-rate 1e-2 --held-out 0.25 --format json --out ";
        let mut command = workplace.command(words(&format!("{TRAIN}{more}{out}")));
        Finished::of(command.env("RAYON_NUM_THREADS", threads))
    };
    let finished = train("1", "one").ends(
        0,
        &[
            "--keep all",
            "disk",
            "rate       1e-2 after a warm-up of 0.03 of all steps",
            "seed 42",
            "--long cut",
            "device     cpu",
        ],
    );
    let summary = finished.json();
    let (learned, held) = (summary["traces"].as_u64().unwrap(), summary["held_out"]["traces"].as_u64().unwrap());
    assert!(
        learned + held == 24 && (2..12).contains(&held) && summary["traces_cut"].as_u64().unwrap() > 0,
        "{summary}"
    );
    assert_eq!(summary["steps"], learned.div_ceil(2));
    let held_out = |key: &str| summary["held_out"][key].as_f64().unwrap();
    assert!(held_out("surprisal") < 6.0, "without training it is ln 512 = 6.2: {summary}");
    assert!(held_out("before") > 6.0, "{summary}");
    let before = format!("held out   {:.3} nats per token before training", held_out("before"));
    finished.ends(0, &[&before]);
    assert!(held_out("unigram_entropy") < 6.0, "{summary}");

    train("3", "three").ok();
    for file in ["model.safetensors", "tokenizer.json", "config.json"] {
        let read = |model: &str| fs::read(workplace.path(model).join(file)).unwrap();
        assert_eq!(read("one"), read("three"), "{file} depends on the number of cores");
    }
    check_scores(&workplace, "one");
}

fn weights(workplace: &Workplace, model: &str) -> Vec<u8> {
    fs::read(workplace.path(model).join("model.safetensors")).unwrap()
}

#[test]
fn the_same_command_goes_on_to_the_same_weights() {
    let workplace = prepared();
    let base = "train --init config.json --data traces --accumulate 2 --epochs 3 --max-length 700 --long cut \
                --learning-rate 1e-2 --checkpoint-every 4 --format json --out ";
    let train = |out: &str| workplace.command(words(&format!("{base}{out}")));
    let whole = Finished::of(&mut train("whole")).json();
    assert_eq!(text(&workplace, "whole/metrics.jsonl").lines().count(), 36);
    assert!(!workplace.path("whole/checkpoints").exists());

    // Killed as soon as a checkpoint exists, and sent SIGTERM the next time.
    for is_killed in [true, false] {
        let mut training = Running::start(train("again"));
        let checkpoints = || fs::read_dir(workplace.path("again/checkpoints")).map_or(0, |found| found.count());
        let metrics =
            || fs::read_to_string(workplace.path("again/metrics.jsonl")).map_or(0, |text| text.lines().count());
        let (before, mut is_over) = (metrics(), false);
        wait_until("a checkpoint", || {
            is_over = training.is_over();
            is_over || checkpoints() > 0 && metrics() > before
        });
        match is_killed && !is_over {
            true => training.kill(),
            false => {
                if !is_over {
                    training.terminate();
                }
                training.finish().ends_in(&[0, 75], &[]);
            }
        }
    }
    let again = Finished::of(&mut train("again")).json();
    assert_eq!(weights(&workplace, "again"), weights(&workplace, "whole"));
    for key in ["steps", "tokens", "loss", "traces"] {
        assert_eq!(again[key], whole[key], "{key}");
    }
    let metrics = json_lines(&text(&workplace, "again/metrics.jsonl"));
    let steps: Vec<u64> = metrics.iter().map(|line| line["step"].as_u64().unwrap()).collect();
    assert_eq!(steps, (1..=36).collect::<Vec<_>>());

    Finished::of(&mut train("again")).ends(0, &["nothing to do"]);
    workplace.run(words(&format!("{base}again --seed 7"))).ends(2, &["seed was 42, and is now 7"]);
}

#[test]
fn a_training_resumes_with_smaller_passes_and_moved_data() {
    let workplace = prepared();
    let train = |data: &str, pass_tokens: &str| {
        workplace.command(words(&format!(
            "train --init config.json --data {data} --out model --epochs 2 --accumulate 2 --checkpoint-every 2 \
             --pass-tokens {pass_tokens} --held-out 0.3 --format json"
        )))
    };
    start_until(&workplace, train("traces", "4096"), "model/checkpoints/step-2/manifest.json").kill();
    workplace.shell("mkdir elsewhere && mv traces elsewhere/").ok();
    let again = Finished::of(&mut train("elsewhere/../elsewhere/./traces", "512"));
    let said = ["--pass-tokens was 4096, and is now 512", "resumes after step", "nats per token after epoch 1"];
    let again = again.ends(0, &said);
    let held = &again.json()["held_out"];
    assert!(held["before"].as_f64().unwrap() > held["surprisal"].as_f64().unwrap(), "{held}");
    assert_eq!(held["after_epochs"].as_array().unwrap().len(), 1, "{held}");
}

#[test]
fn a_model_is_trained_further_and_keeps_what_it_is() {
    let workplace = prepared();
    let line = "train --model data/model --data traces --out tuned --epochs 1 --accumulate 4 --max-length 700 --long cut \
                --learning-rate 1e-3 --held-out 0.3 --keep inputs --format json";
    let summary = workplace.run(words(line)).json();
    // A new model of these 2,432 tokens begins with ln 2432 = 7.8.
    assert!(["before", "surprisal"].iter().all(|key| summary["held_out"][key].as_f64().unwrap() < 2.5), "{summary}");
    for file in ["tokenizer.json", "tokenizer_config.json", "config.json"] {
        let read = |model: &str| text(&workplace, &format!("{model}/{file}"));
        assert_eq!(read("tuned"), read("data/model"), "{file}");
    }
    let card = text(&workplace, "tuned/README.md");
    assert!(card.starts_with("---\nbase_model: \"data/model\"\n") && card.contains("asap train"), "{card}");
    assert!(card.contains("| `learning_rate` | 0.001 |") && card.contains("| `long` | cut |"), "{card}");
    // The report of one training is not an input of another.
    let further = words("train --model tuned --data traces --out further --epochs 1");
    workplace.run(&further).ok();
    workplace.run(&further).ends(0, &["nothing to do"]);
    let steps = text(&workplace, "further/metrics.jsonl");
    assert_eq!(steps.lines().count(), 2, "{steps}");
    let events = fs::read(workplace.path("tuned/runs/events.out.tfevents.asap")).unwrap();
    assert!(events.windows(13).any(|bytes| bytes == b"brain.Event:2"));
    check_scores(&workplace, "tuned");

    let mut wide = config();
    wide["hidden_size"] = json!(65_536);
    wide["intermediate_size"] = json!(262_144);
    workplace.write("wide.json", wide.to_string());
    let huge = "train --init wide.json --data traces --out huge --max-length 4000 --pass-tokens 100000000 --keep all";
    workplace.run(words(huge)).ends(1, &["not enough memory"]);
}

/// Trains on a table that a run fills in the meantime. Two trainings, on files and in an object store, are killed
/// `KILLS` times; one is not.
#[test]
fn killed_at_random_moments_it_ends_with_the_same_weights() {
    let kills: u32 = std::env::var("KILLS").map_or(3, |kills| kills.parse().unwrap());
    let workplace = prepared();
    fs::create_dir_all(workplace.path("s3/lake")).unwrap();
    let s3 = serve(&workplace.path("s3"));
    let run = |part: &str| {
        let base =
            "run truncate --from traces --to out --set asap.run.slice_rows=3 --set asap.run.commit_seconds=0.05 --part";
        workplace.run(words(base).into_iter().chain([part])).ok();
    };
    run("1/2");
    let train = |out: &str| {
        let base = "train --init config.json --data out --follow --epochs 3 --accumulate 2 --max-length 600 --long cut \
                    --checkpoint-every 3 --warmup-steps 2 --learning-rate 1e-2 --out";
        let mut command = workplace.command(words(base).into_iter().chain([out]));
        point(&mut command, s3);
        Running::start(command)
    };
    // All begin with the same version, before the remaining rows are added.
    let outs = ["whole", "again", "s3://lake/again"];
    let started = |out: &str| workplace.path(&format!("{}/settings.json", out.replace("s3://", "s3/")));
    let begun = Instant::now();
    let mut trainings = outs.map(train);
    wait_until("the start of all", || {
        assert!(!trainings.iter_mut().any(Running::is_over), "one ended early");
        outs.iter().all(|out| started(out).exists())
    });
    // The second half takes about as long as the first one.
    let long = 2 * begun.elapsed();
    run("2/2");
    let [mut whole, again, on_s3] = trainings;
    again.kill();
    on_s3.kill();

    let killed_again_and_again = |out: &str, seed: u64| {
        let mut dice = Dice::new(seed, 0);
        for _ in 0..kills {
            let training = train(out);
            std::thread::sleep(Duration::from_micros(dice.below(long.as_micros() as u64)));
            training.kill();
        }
        train(out).finish().ok();
    };
    std::thread::scope(|scope| {
        scope.spawn(|| killed_again_and_again("again", 7));
        scope.spawn(|| killed_again_and_again("s3://lake/again", 8));
    });
    whole.finish().ok();
    for out in ["again", "s3/lake/again"] {
        assert!(weights(&workplace, out) == weights(&workplace, "whole"), "the weights of {out} differ");
    }
}

/// Starts a training and waits until it made a file.
fn start_until(workplace: &Workplace, command: Command, made: &str) -> Running {
    let mut training = Running::start(command);
    training.wait_until(made, || workplace.path(made).exists());
    training
}

/// The work after the last step may fail without losing the training. No other training may use the folder in the
/// meantime.
#[test]
fn a_model_that_cannot_be_written_is_written_by_the_same_command_later() {
    let workplace = prepared();
    let line = format!("{TRAIN}--out model");
    let train = words(&line);
    let mut training = start_until(&workplace, workplace.command(&train), "model/settings.json");
    fs::create_dir_all(workplace.path("model/model.safetensors/in_the_way")).unwrap();
    workplace.run(&train).ends(1, &["another asap train uses it"]);
    training.finish().ends(1, &["model.safetensors cannot be written"]);
    fs::remove_dir_all(workplace.path("model/model.safetensors")).unwrap();

    // The error names a damaged checkpoint.
    let kept = workplace.path("model/checkpoints/step-12/weights.safetensors");
    let whole = fs::read(&kept).unwrap();
    fs::write(&kept, &whole[1..]).unwrap();
    workplace.run(&train).ends(1, &["remove the checkpoint"]);
    fs::write(&kept, &whole).unwrap();
    workplace.run(&train).ends(0, &["resumes after step 12"]);
    workplace.run(words(&format!("{TRAIN}--out whole"))).ok();
    assert_eq!(weights(&workplace, "model"), weights(&workplace, "whole"));
}

#[test]
fn rows_that_are_no_longer_there_are_named_and_the_last_checkpoint_stays() {
    let workplace = prepared();
    workplace.run(["run", "truncate", "--from", "traces", "--to", "out", "--set=run.slice_rows=8"]).ok();
    let train = words(
        "train --init config.json --data out --out model --epochs 20 --max-length 300 --long cut --checkpoint-every 1",
    );
    let mut training = start_until(&workplace, workplace.command(&train), "model/checkpoints");
    fs::rename(workplace.path("out"), workplace.path("elsewhere")).unwrap();
    let finished = training.finish().ends(1, &[]);
    assert!(finished.stderr.contains(".parquet") && !finished.stderr.contains("panicked"), "{}", finished.stderr);
    // The same command reports the missing file, and resumes once it is back.
    workplace.run(&train).ends_in(&[1, 2, 75], &["out"]);
    fs::rename(workplace.path("elsewhere"), workplace.path("out")).unwrap();
    workplace.run(&train).ends(0, &["resumes after step"]);
}
