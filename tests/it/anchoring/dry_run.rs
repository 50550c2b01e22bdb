//! What a dry run reports: calls, and the tokens of scoring.

use super::{arguments, ask, corpus, model, paid};
use asap_test_support::Server;

#[test]
fn a_dry_run_counts_without_a_server_and_writes_nothing() {
    let workplace = corpus(30);
    let server = Server::start(model);
    ask(&workplace, &server);
    let mut arguments = arguments("asap", "out", &["asap.anchor.price_per_million_input_tokens=1000000"]);
    arguments.push("--dry-run");
    let estimate = workplace.run(&arguments).json();
    assert_eq!((estimate["rows"].as_u64(), paid(&estimate), server.count()), (Some(30), (60, 0), 0));
    let tokens = |name: &str| estimate["anchor"][name].as_u64().unwrap();
    // The prompts around a row have about a hundred tokens.
    assert!(tokens("tokens_in") > 60 * 100 && tokens("tokens_out") > 60, "{estimate}");
    assert_eq!(estimate["anchor"]["cost"].as_f64(), Some(tokens("tokens_in") as f64));
    assert!(!workplace.path("out").exists());

    arguments.extend(["--set", "asap.anchor.provider=extractive"]);
    let by_rules = workplace.run(&arguments).json();
    assert_eq!(paid(&by_rules), (0, 0));
    assert!(by_rules["scored_tokens"].as_u64().is_some_and(|tokens| tokens > 30 * 10), "{by_rules}");
}

#[test]
fn a_dry_run_counts_the_tokens_that_scores_take() {
    let workplace = corpus(6);
    let calls = [
        ("without_anchor", "cot_surprisal(question, cot_steps(cot))"),
        ("attribution", "cot_attribution(question, cot_steps(cot), answer)"),
        ("random", "cot_steps(cot)"),
    ];
    let counted = calls.map(|(pipeline, call)| {
        let dry = workplace.prune(pipeline, "out", &["--dry-run"]).json();
        let explained = format!("EXPLAIN ANALYZE SELECT {call} FROM cot_corpus('in')");
        let explained = workplace.run(["sql", "-c", &explained]).ok().to_string();
        let read = explained.split("tokens_in=").nth(1).map_or(0, |rest| {
            let digits: String = rest.chars().take_while(|digit| digit.is_ascii_digit() || *digit == '.').collect();
            let unit = rest[digits.len()..].trim_start();
            (digits.parse::<f64>().unwrap() * if unit.starts_with('K') { 1e3 } else { 1.0 }) as u64
        });
        (dry["scored_tokens"].as_u64().unwrap(), read)
    });
    for (dry, read) in counted {
        assert!(dry.abs_diff(read) * 100 <= read, "{counted:?}");
    }
    assert!(counted[1].0 > 2 * counted[0].0 && counted[2] == (0, 0), "{counted:?}");
    assert!(!workplace.path("out").exists());
}

#[test]
fn a_dry_run_says_nothing_of_calls_that_are_not_made_and_how_exact_it_is() {
    let workplace = corpus(6);
    let shown = |pipeline: &str| {
        let run = ["run", pipeline, "--from", "in", "--to", "out", "--dry-run", "--set", "asap.refine.max_tokens=20"];
        workplace.run(&run).ok().to_string()
    };
    let names = |shown: &str| -> Vec<String> {
        shown.lines().skip(2).filter_map(|line| line.split(' ').next()).map(str::to_string).collect()
    };
    let spirit = shown("spirit");
    assert_eq!(names(&spirit), ["rows", "calls", "scoring"], "{spirit}");
    assert!(spirit.contains("calls     none") && !spirit.contains("about"), "{spirit}");
    let greedy = shown("spirit_greedy");
    assert!(greedy.contains("scoring   about "), "{greedy}");
    let random = shown("random");
    assert_eq!(names(&random), ["rows", "calls"], "{random}");
}
