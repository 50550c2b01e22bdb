//! `asap exam`: pipelines next to random controls, a kill, and bad input.

use std::time::Duration;

use crate::common::Workplace;
use crate::runs::place::Running;
use crate::runs::seeded::Dice;

const EXAM: [&str; 9] = ["exam", "--from", "data/sample", "--questions", "6", "--max-tokens", "600", "--to", "out"];

#[test]
fn pipelines_are_compared_with_random_controls_of_equal_length() {
    let workplace = Workplace::new();
    let asked = [&EXAM[..], &["--pipelines", "longest,spirit", "--shares", "0.5", "--format", "json"]].concat();
    let mut dice = Dice::new(7, 0);
    for kill in 0..20 {
        let exam = Running::start(workplace.command(&asked));
        std::thread::sleep(Duration::from_millis(dice.below(100 * (kill + 1))));
        exam.kill();
    }

    let summary = workplace.run(&asked).json();
    assert_eq!(summary["questions"], 6);
    let lines = summary["lines"].as_array().unwrap();
    assert_eq!(lines.len(), 8, "two pipelines and two controls, with and without restated answers");
    for line in lines {
        let kept = line["kept"].as_f64().unwrap();
        let is_control = line["verdict"] == "control";
        assert!(kept <= 0.5 + 1e-9 && (!is_control || kept > 0.47), "{line}");
        assert_eq!(line["over_random"].is_null(), is_control, "{line}");
    }
    let rows = workplace.rows("SELECT pipeline, share, count(*) AS n, count(DISTINCT place) AS questions FROM 'out' GROUP BY pipeline, share ORDER BY pipeline");
    let found: Vec<_> =
        rows.iter().map(|row| (row["pipeline"].as_str().unwrap(), row["n"].as_u64().unwrap())).collect();
    assert_eq!(found, [("block", 18), ("longest", 6), ("original", 6), ("random_steps", 18), ("spirit", 6)]);

    // The figures are means of the rows.
    let of = |pipeline: &str| {
        let sql = format!("SELECT avg(log_probability) AS mean FROM 'out' WHERE pipeline = '{pipeline}'");
        workplace.rows(&sql)[0]["mean"].as_f64().unwrap()
    };
    let line = lines.iter().find(|line| line["pipeline"] == "spirit" && line["unstated"] == false).unwrap();
    assert!((line["over_block"]["value"].as_f64().unwrap() - (of("spirit") - of("block"))).abs() < 1e-6, "{line}");

    // The same command has nothing left to do and prints the same figures.
    assert_eq!(workplace.run(&asked).json(), summary);

    // A kill after the table of questions was created, and before it had rows.
    let exams = std::fs::read_dir(workplace.path("out/.asap/exam")).unwrap();
    let folder = exams.map(|exam| exam.unwrap().path()).find(|exam| exam.join("questions").exists()).unwrap();
    for entry in std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()) {
        if !entry.ends_with("questions") {
            std::fs::remove_dir_all(entry).unwrap();
        }
    }
    std::fs::remove_file(folder.join("questions/_delta_log/00000000000000000001.json")).unwrap();
    assert_eq!(workplace.run(&asked).json()["questions"], 6);

    // Other questions need another folder.
    workplace.run([&asked[..], &["--seed", "7"]].concat()).ends(2, &["choose another folder"]);
}
