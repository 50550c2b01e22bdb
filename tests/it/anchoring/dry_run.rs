//! The tokens of scoring that a dry run reports.

use super::corpus;

#[test]
fn a_dry_run_counts_the_tokens_that_scores_take() {
    let workplace = corpus(6);
    let calls = [
        ("without_anchor", "cot_surprisal(question, cot_steps(cot))"),
        ("pir", "cot_attribution(question, cot_steps(cot), answer)"),
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
