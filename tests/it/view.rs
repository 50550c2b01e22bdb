//! `asap view` and `asap inspect --chain`: what pruning did, from queries that anyone can repeat.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::common::Workplace;
use crate::runs::place::wait_until;
use crate::support::viewer::Viewer;

/// An output of the whole method in `out`, and one of random steps in `random`.
fn pruned(rows: usize) -> (Workplace, Value) {
    let workplace = Workplace::new();
    workplace.traces(1, rows, "in");
    let budget = ["--set", "asap.refine.max_tokens=200"];
    let summary = workplace.prune("asap", "out", &budget).json();
    workplace.prune("random", "random", &budget).ok();
    (workplace, summary)
}

/// Lines of JSON to prune by a rule that needs no model.
fn truncated(lines: &[Value], budget: u32) -> Workplace {
    let workplace = Workplace::empty();
    let lines: String = lines.iter().map(|line| format!("{line}\n")).collect();
    workplace.write("in/hostile.jsonl", lines);
    let budget = format!("asap.refine.max_tokens={budget}");
    workplace.prune("truncate", "out", &["--set", &budget, "--max-rejects", "1"]);
    workplace
}

fn report(workplace: &Workplace, name: &str, more: &[&str]) -> String {
    workplace.run(["view", "out", "--to", name].iter().chain(more)).ok();
    std::fs::read_to_string(workplace.path(name)).unwrap()
}

/// The cells of a table of a page.
fn cells(page: &str, table: &str) -> Vec<String> {
    let begin = page.find(&format!("<table id=\"numbers-{table}\">")).unwrap();
    let table = &page[begin..begin + page[begin..].find("</table>").unwrap()];
    let cells = table.split("<td").skip(1).map(|cell| cell.split_once('>').unwrap().1);
    cells.map(|cell| cell[..cell.find("</td>").unwrap()].replace("&lt;", "<")).collect()
}

fn shown(column: &str, value: &Value) -> String {
    match value {
        Value::Null => "–".to_string(),
        Value::String(text) => text.clone(),
        number if column == "seconds" => format!("{:.1} s", number.as_f64().unwrap()),
        number if number.is_u64() => asap::output::count(number.as_u64().unwrap()),
        number => {
            let text = format!("{:.4}", number.as_f64().unwrap());
            text.trim_end_matches('0').trim_end_matches('.').to_string()
        }
    }
}

#[test]
fn each_number_comes_from_the_query_below_it() {
    let (workplace, summary) = pruned(40);
    let exam = "SELECT * FROM (VALUES ('original', 1.0, 0, true), ('asap', 0.25, 0, true), ('random_steps', 0.25, 0, false)) \
                AS t(pipeline, share, place, survives)";
    workplace.copy(exam, "exam.parquet");
    let more = ["--against", "random", "--exam", "exam.parquet"];
    let found: Value = serde_json::from_str(&report(&workplace, "r.json", &more)).unwrap();
    let page = report(&workplace, "r.html", &more);
    let pictures = found["pictures"].as_array().unwrap();
    assert_eq!(pictures.len(), 11, "no picture of limits that no chain exceeds");
    for picture in pictures {
        let (name, rows) = (picture["name"].as_str().unwrap(), picture["rows"].as_array().unwrap());
        assert!(!rows.is_empty(), "{name}");
        let format = ["sql", "-q", "--format", "json", "-c", picture["sql"].as_str().unwrap()];
        let again: Vec<Value> = serde_json::from_str(workplace.run(format).ok()).unwrap();
        assert_eq!(&again, rows, "{name}");
        let columns = picture["columns"].as_array().unwrap();
        let expected = rows
            .iter()
            .flat_map(|row| columns.iter().filter_map(Value::as_str).map(|column| shown(column, &row[column])));
        assert_eq!(cells(&page, name), expected.collect::<Vec<_>>(), "{name}");
    }
    let rows = |name: &str| pictures.iter().find(|picture| picture["name"] == name).unwrap()["rows"].clone();
    let tokens = &rows("tokens")[0];
    let tokens = [&tokens["original"], &tokens["after_stage_1"], &tokens["pruned"]];
    assert_eq!(tokens, [&summary["tokens_in"], &summary["tokens_coarse"], &summary["tokens_out"]]);
    assert_eq!((&rows("fates")[0]["rows"], &rows("runs")[0]["rows_in"]), (&summary["rows_out"], &summary["rows_in"]));
    let said = found["sentences"].to_string();
    assert!(
        said.contains("survives asap at 25 % of the tokens in 100 ± 0 % of 1 question (random steps 0 ± 0 %)"),
        "{said}"
    );
    assert_eq!(report(&workplace, "again.html", &more), page, "the same version gives the same bytes");
    let card = workplace.run(["export", "out", "--to", "exported"]);
    card.ok();
    let card = std::fs::read_to_string(workplace.path("exported/README.md")).unwrap();
    assert!(card.contains("## What pruning did") && card.contains("| anchor |"), "{card}");
}

#[test]
fn a_comparison_is_about_the_chains_that_both_have_and_a_filter_is_named() {
    let lines: Vec<Value> = (0..6)
        .map(|row| json!({"id": format!("r{row}"), "question": "q", "cot": format!("One {row}.\n\nTwo {row}."), "answer": "2"}))
        .collect();
    let workplace = truncated(&lines, 5);
    workplace.prune("random", "random", &["--set", "asap.refine.max_tokens=5", "--limit", "4"]).ok();
    let more = ["--against", "random", "--where", "id > 'r3'"];
    let found: Value = serde_json::from_str(&report(&workplace, "r.json", &more)).unwrap();
    let said = found["sentences"].to_string();
    assert!(said.contains("Both outputs have 4 of the 6 chains of this run."), "{said}");
    assert!(said.contains("about all rows; --where selects 2 chains: id > 'r3'"), "{said}");
    let sum = |sql: &str| workplace.rows(&format!("SELECT sum(original_tokens) AS tokens {sql}"))[0]["tokens"].clone();
    let tokens = found["pictures"][0]["rows"].as_array().unwrap();
    assert_eq!(tokens[0]["original"], sum("FROM 'out' WHERE source IN (SELECT source FROM 'random')"));
    assert_eq!(tokens[1]["original"], sum("FROM 'random'"));
    let page = report(&workplace, "r.html", &[]);
    // Of two steps, each covers five tenths, and the second one is dropped.
    let found: Value = serde_json::from_str(&report(&workplace, "r.json", &[])).unwrap();
    let tenths = found["pictures"].as_array().unwrap().iter().find(|picture| picture["name"] == "tenths").unwrap();
    let tenths = tenths["rows"].as_array().unwrap().iter();
    let tenths: Vec<_> = tenths.map(|row| (row["tokens"].as_f64() > Some(0.0), row["kept"] == row["tokens"])).collect();
    assert_eq!(tenths, [[(true, true); 5], [(true, false); 5]].concat());
    assert!(!page.contains("after stage 1") && !page.contains("dropped by stage"), "there are no stages 1 and 2");
    assert!(!page.contains("Lengths of chains: ") && page.contains("<ul class=\"legend\">"));
    let page = report(&workplace, "r.html", &more);
    let titles = ["Lengths of chains: out<", "What happened to the rows: out<", "Original and kept tokens<"];
    titles.iter().for_each(|title| assert!(page.contains(&format!("<h2>{title}")), "{title}"));
    let none = report(&workplace, "none.html", &["--where", "id > 'r9'"]);
    assert!(none.contains("No chain matches --where: id &gt; 'r9'.") && !none.contains("Chains of this report"));
}

#[test]
fn findings_and_exams_count_what_their_sentences_say() {
    let chains = ["A 1.\n\nB 1.\n\nA 1.\n\nB 1.", "A 1.\n\nB 1.\n\nA 1.\n\nC 1.\n\nA 1.", "So.\n\n$x$.\n\nx."];
    let lines: Vec<Value> =
        chains.iter().map(|cot| json!({"id": "i", "question": "q", "cot": cot, "answer": "2"})).collect();
    let workplace = truncated(&lines, 100);
    let found: Value = serde_json::from_str(&report(&workplace, "r.json", &[])).unwrap();
    let example = "hostile.jsonl:1";
    let thing =
        |name: &str, chains: u64| json!({"thing": name, "chains": chains, "example": (chains > 0).then_some(example)});
    let expected = [thing("repetitive", 1), thing("hollow", 0), thing("no answer", 0), thing("one step", 0)];
    assert_eq!(found["pictures"][1]["rows"], json!(expected));
    let page = report(&workplace, "r.html", &[]);
    assert!(page.contains("1 chain in which a kept step occurs three times or more, such as "), "{page}");
    assert!(page.contains("asap inspect out --chain hostile.jsonl:1<") && !page.contains("WHERE true"));
    let link = page.split("such as <a href=\"").nth(1).unwrap();
    let (link, rest) = link.split_once("\">").unwrap();
    assert!(rest.starts_with(example) && page.contains(&format!("<article id=\"{}\">", &link[1..])), "{link}");
    assert_eq!(
        workplace.rows("SELECT count(*) AS chains FROM 'out' WHERE cot_hollow('$x$', 'x')"),
        [json!({"chains": 3})]
    );

    let exam = "SELECT * FROM (VALUES ('original', 1.0, 0, true), ('original', 1.0, 1, false), ('original', 1.0, 2, NULL), \
                ('original', 1.0, 3, true), ('truncate', 0.5, 0, true), ('truncate', 0.5, 1, true), ('truncate', 0.5, 2, NULL), \
                ('truncate', 0.5, 3, NULL)) AS t(pipeline, share, place, survives)";
    workplace.copy(exam, "exam.parquet");
    workplace.copy("SELECT * FROM 'exam.parquet' WHERE place IN (1, 2)", "none.parquet");
    let said = |exam: &str| report(&workplace, "r.md", &["--exam", exam]).lines().nth(2).unwrap().to_string();
    let others = "Not counted: 1 question that the model does not answer after the whole chain, {} without an answer that can be compared.";
    let (some, none) = (said("exam.parquet"), said("none.parquet"));
    assert!(
        some.contains("in 100 ± 0 % of 1 question ") && some.contains(&others.replace("{}", "2 questions")),
        "{some}"
    );
    assert!(none.contains("no question counts") && none.contains(&others.replace("{}", "1 question")), "{none}");
}

#[test]
fn no_bin_of_lengths_is_on_both_sides_of_the_budget() {
    let (workplace, _) = pruned(20);
    let found: Value = serde_json::from_str(&report(&workplace, "r.json", &[])).unwrap();
    let lengths = found["pictures"].as_array().unwrap().iter().find(|picture| picture["name"] == "lengths").unwrap();
    let beyond = |series: &str| -> u64 {
        let rows = lengths["rows"].as_array().unwrap().iter();
        let rows = rows.filter(|row| row["series"] == series && row["at_most"].as_f64().unwrap() > 200.0);
        rows.map(|row| row["chains"].as_u64().unwrap()).sum()
    };
    let sql = "SELECT count(*) AS original FROM 'out' WHERE original_tokens > 200";
    assert_eq!((beyond("pruned"), json!({"original": beyond("original")})), (0, workplace.rows(sql)[0].clone()));
}

/// Rows whose questions hardly compress.
#[cfg(target_os = "linux")]
fn long_questions() -> Vec<Value> {
    let mut state = 1u64;
    let mut digits = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        format!("{state:016x}")
    };
    let mut question = || (0..256).map(|_| digits()).collect::<String>();
    (0..1500).map(|_| json!({"question": question(), "cot": "One.\n\nTwo.", "answer": "2"})).collect()
}

/// The index of pages leads to the pages of one row.
#[test]
#[cfg(target_os = "linux")]
fn a_chain_is_read_without_the_rest_of_its_shard() {
    let lines = long_questions();
    let workplace = truncated(&lines, 100);
    let script = "asap inspect out --chain hostile.jsonl:700 > shown && cat /proc/$$/io && find out -name '*.parquet' -size +1M -printf 'size: %s\n'";
    let counted = workplace.shell(script).ok().to_string();
    let number = |name: &str| -> u64 {
        let line = counted.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_else(|| panic!("{counted}")).trim().parse().unwrap()
    };
    let (read, size) = (number("rchar:"), number("size:"));
    assert!(
        std::fs::read_to_string(workplace.path("shown")).unwrap().contains(lines[700]["question"].as_str().unwrap())
    );
    assert!(size > 6_000_000 && read < size / 2, "{read} bytes read of {size}");
}

#[test]
#[cfg(target_os = "linux")]
fn a_search_reads_the_texts_once() {
    let lines = long_questions();
    let workplace = truncated(&lines, 100);
    let size = "find out -name '*.parquet' -size +1M -printf '%s'";
    let size: u64 = workplace.shell(size).ok().parse().unwrap();
    let viewer = Viewer::of(&workplace);
    let read = || {
        let counted = std::fs::read_to_string(format!("/proc/{}/io", viewer.child.id())).unwrap();
        counted.lines().find_map(|line| line.strip_prefix("rchar: ")).unwrap().parse::<u64>().unwrap()
    };
    let before = read();
    assert!(viewer.page("chains?where=nowhere").1.contains("No question, chain or answer contains these words"));
    let read = read() - before;
    // The questions are a third of the shard: prompts and messages repeat them.
    assert!(read > size / 4 && read < size / 2, "{read} bytes read of {size}");
}

#[test]
fn hostile_text_is_shown_as_text() {
    let hostile = "<script>alert(1)</script></script><img src=x onerror=alert(1)>\u{202e}\0\u{1b}[31m";
    let steps: String = (0..1733).map(|step| format!("Step {step} & \"so\".\n\n")).collect();
    let workplace = truncated(
        &[
            json!({"id": hostile, "question": hostile, "cot": format!("{hostile}\n\nThen."), "answer": hostile}),
            json!({"id": "line", "question": "q", "cot": "x".repeat(150_000), "answer": "a"}),
            json!({"id": "many", "question": "q", "cot": steps, "answer": "a"}),
        ],
        400_000,
    );
    let page = report(&workplace, "r.html", &[]);
    assert_eq!(
        (page.matches("<script").count(), page.matches("</script").count(), page.matches("<img").count()),
        (1, 1, 0)
    );
    assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;") && page.contains("⟨U+202E⟩␀␛[31m"));
    assert!(!page.contains(['\0', '\u{202e}', '\u{1b}']));
    assert!(page.contains("… 146,000 more characters"));
    assert!(!page.contains("http:") && !page.contains("https:"), "the page names an address");
    for name in ["r.md", "r.json"] {
        assert!(!report(&workplace, name, &[]).contains(['\0', '\u{202e}', '\u{1b}']) || name == "r.json");
    }
    let many = report(&workplace, "many.html", &["--where", "id = 'many'"]);
    assert!(many.contains("Step 1732 &amp; ") && many.len() < 1_000_000, "{} bytes", many.len());
}

#[test]
fn rejects_show_their_text_and_the_place_of_the_fault() {
    let workplace = Workplace::empty();
    let lines = [
        json!({"question": "What is 1?", "generation": "<think>One.\n\nTwo.</think>1"}),
        json!({"question": "What is 2?", "generation": "<think>It goes <b>on</b>"}),
        json!({"question": "What is 3?", "generation": "Sure! <think>Three.</think>3"}),
        json!({"question": "What is 4?", "generation": "<think>Four.</think>4 <think>Five.</think>5"}),
    ];
    workplace.write("in/a.jsonl", lines.map(|line| format!("{line}\n")).concat());
    workplace.prune("truncate", "out", &["--set", "asap.refine.max_tokens=9", "--max-rejects", "3"]);
    let viewer = Viewer::of(&workplace);
    let page = |row: u64| viewer.page(&format!("reject?file=a.jsonl&row={row}")).1;
    let marked = |row: u64| page(row).split("<mark>").nth(1).unwrap().split("</mark>").next().unwrap().to_string();
    assert!(page(1).contains("&lt;think&gt;It goes &lt;b&gt;on&lt;/b&gt;<mark>"), "{}", page(1));
    assert_eq!(marked(1), "✗ the text ends here, without a closing think tag");
    assert_eq!((marked(2).as_str(), marked(3).as_str()), ("Sure!", "&lt;think&gt;"));
    assert!(page(2).contains("rel=\"prev\"") && page(2).contains("rel=\"next\"") && page(2).contains("What is 3?"));
}

#[test]
fn two_outputs_are_listed_by_their_difference() {
    let (workplace, _) = pruned(12);
    let viewer = Viewer::by(workplace.command(["view", "out", "--against", "random"]));
    let (status, page) = viewer.page("chains");
    assert!(status == 200 && page.contains("aria-sort=\"descending\""), "{page}");
    let shown = page.split("data-head=\"difference\">").skip(1);
    let shown: Vec<i64> = shown.map(|cell| cell.split('<').next().unwrap().parse().unwrap()).collect();
    let sql = "SELECT a.pruned_tokens - b.pruned_tokens AS difference FROM 'out' AS a JOIN 'random' AS b ON a.source = b.source \
               ORDER BY abs(a.pruned_tokens - b.pruned_tokens) DESC, a.source['file'], a.source['row']";
    let expected: Vec<i64> = workplace.rows(sql).iter().map(|row| row["difference"].as_i64().unwrap()).collect();
    assert_eq!(shown, expected);
    let (_, chain) = viewer.page("chain?at=0");
    assert!(
        chain.contains("The other output, random: ") && chain.contains("<li class=\"o\">dropped by random"),
        "{chain}"
    );
    for sort in ["chain", "-chain", "before", "-after", "kept", "-other", "difference", "steps", "-question"] {
        assert_eq!(viewer.page(&format!("chains?sort={sort}")).0, 200, "{sort}");
    }
    let sql = page.split("<pre class=\"sql\" tabindex=\"0\"><code>").nth(1).unwrap().split("</code>").next().unwrap();
    assert_eq!(workplace.rows(&sql.replace("&lt;", "<").replace("&gt;", ">")).len(), expected.len(), "{sql}");
}

#[test]
fn a_chain_on_the_terminal() {
    let (workplace, _) = pruned(4);
    let place = "openr1-math.parquet:1";
    let chain = workplace.run(["inspect", "out", "--chain", place]);
    let id = chain.ok().lines().nth(1).unwrap().strip_prefix("id ").unwrap().to_string();
    assert!(chain.stdout.starts_with(place) && chain.stdout.contains("\n+   ") && chain.stdout.contains("\n-   "));
    assert_eq!(workplace.run(["inspect", "out", "--chain", &id]).ok(), chain.stdout);
    let chain = workplace.run(["inspect", "out", "--chain", &id, "--format", "json"]).json();
    let steps = chain["steps"].as_array().unwrap();
    let kept: u64 = steps.iter().filter(|step| step["dropped"].is_null()).count() as u64;
    let sql = format!("SELECT cardinality(cot_steps(cot)) AS kept FROM 'out' WHERE id = '{id}'");
    assert_eq!(workplace.rows(&sql), [json!({"kept": kept})]);
    workplace.run(["inspect", "out", "--chain", "nowhere:7"]).ends(2, &["out has no chain 'nowhere:7'", "FILE:ROW"]);
    let beyond = format!("{place}00");
    workplace.run(["inspect", "out", "--chain", &beyond]).ends(2, &["its rows of openr1-math.parquet go from 0 to "]);
}

#[test]
fn a_port_that_is_taken_is_named() {
    let workplace = truncated(&[json!({"id": "a", "question": "q", "cot": "One.\n\nTwo.", "answer": "2"})], 100);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let refused = workplace.run(["view", "out", "--port", &port]);
    let refused = refused.ends(1, &["cannot listen on 127.0.0.1", "another --port"]);
    assert_eq!((refused.stdout.as_str(), refused.stderr.lines().count()), ("", 1), "{}", refused.stderr);
}

/// The plan of a filter runs, and its text is never a part of another query.
#[test]
fn a_filter_means_what_sql_says() {
    let ids = ["a''b", "a'b", "a\\'b", "a\\b", "it", "x -- y"];
    let line = |id: &&str| json!({"id": id, "question": "q", "cot": format!("One {id}.\n\nTwo."), "answer": "2"});
    let workplace = truncated(&ids.iter().map(line).collect::<Vec<_>>(), 100);
    workplace.write("secret.jsonl", "{\"content\": \"TOPSECRET\"}\n");
    let injected = "id = '\\'' THEN 1 ELSE 0 END) AS chains FROM \"out\" WHERE \
                    CAST((SELECT content FROM \"secret.jsonl\" LIMIT 1) AS INT) = 1 --'";
    let filters = ["id = 'a''''b'", "id = 'a''b'", "id = 'a\\''b'", "id = 'a\\b'", "id IN ('it', 'x -- y')", injected];
    for filter in filters.into_iter().chain(["id LIKE '%''%' -- quotes", "id = 'it' /* ' */"]) {
        let sql = format!("SELECT id FROM 'out' WHERE {filter}\nORDER BY id");
        let expected: Vec<Value> =
            serde_json::from_str(workplace.run(["sql", "-q", "--format", "json", "-c", &sql]).ok()).unwrap();
        let found: Value = serde_json::from_str(&report(&workplace, "r.json", &["--where", filter])).unwrap();
        let mut ids: Vec<_> = found["chains"].as_array().unwrap().iter().map(|chain| chain["id"].clone()).collect();
        ids.sort_by_key(Value::to_string);
        let mut expected: Vec<_> = expected.iter().map(|row| row["id"].clone()).collect();
        expected.sort_by_key(Value::to_string);
        assert_eq!(ids, expected, "{filter}");
        assert!(!found.to_string().contains("TOPSECRET") && found.to_string().contains("--where selects"));
    }
    for (filter, said) in [("id = 'it' /* '", "--where: "), ("id = '", "--where: ")] {
        workplace.run(["view", "out", "--to", "r.json", "--where", filter]).ends(2, &[said]);
    }
}

#[test]
fn idle_connections_and_long_requests_do_not_end_the_server() {
    let workplace = truncated(&[json!({"id": "a", "question": "q", "cot": "One.\n\nTwo.", "answer": "2"})], 100);
    // Each connection is a file of the process, which may open 64.
    let viewer = Viewer::by(workplace.shell_command("ulimit -n 64 && exec asap view out"));
    let mut idle: Vec<TcpStream> = (0..120).map(|_| TcpStream::connect(&viewer.host).unwrap()).collect();
    for stream in &mut idle {
        write!(stream, "GET / HTTP/1.1\r\nHost:").unwrap();
    }
    let begun = Instant::now();
    let (status, _) = viewer.page("chains");
    assert!(status == 200 && begun.elapsed() < Duration::from_secs(90), "{status} after {:?}", begun.elapsed());
    // It may close the connection before all of the head is sent.
    let mut long = TcpStream::connect(&viewer.host).unwrap();
    drop(write!(long, "GET /{} HTTP/1.1\r\nHost: {}\r\n", "x".repeat(200_000), viewer.host));
    let mut response = String::new();
    drop(long.read_to_string(&mut response));
    assert!(response.is_empty() || response.starts_with("HTTP/1.1 431"), "{response}");
    for more in ["-1", "||id", "::TEXT", "+OR+id=%27%27"] {
        let (status, said) = viewer.page(&format!("chains?where=id{}", more.repeat(4_000)));
        assert!(status == 400 && said.contains("at most 1000 operators"), "{more}: {said}");
    }
    assert_eq!(viewer.page("chains").0, 200);
}

/// Other users can read the arguments of a process.
#[test]
#[cfg(target_os = "linux")]
fn a_browser_gets_the_address_from_a_file_of_this_user() {
    let workplace = truncated(&[json!({"id": "a", "question": "q", "cot": "One.\n\nTwo.", "answer": "2"})], 100);
    workplace.write("xdg-open", "#!/bin/sh\necho \"$@\" > opened.new && mv opened.new opened\n");
    let script = "chmod +x xdg-open && PATH=\"$PWD:$PATH\" exec asap view out --open";
    let viewer = Viewer::by(workplace.shell_command(script));
    wait_until("the browser", || workplace.path("opened").exists());
    let file = PathBuf::from(std::fs::read_to_string(workplace.path("opened")).unwrap().trim());
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&file), mode(file.parent().unwrap())), (0o600, 0o700), "{}", file.display());
    let page = std::fs::read_to_string(&file).unwrap();
    assert!(page.contains(&format!("url=http://{}/{}/\"", viewer.host, viewer.token)), "{page}");
    let pid = nix::unistd::Pid::from_raw(viewer.child.id().cast_signed());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).unwrap();
    wait_until("the end of the file", || !file.parent().unwrap().exists());
}

#[test]
fn commands_to_copy_run_nothing_of_a_name() {
    let workplace = Workplace::empty();
    workplace.write(
        "d$(touch mark)/it's;touch mark.jsonl",
        "{\"id\": \"a\", \"question\": \"q\", \"cot\": \"One.\\n\\nTwo.\", \"answer\": \"2\"}\n".repeat(2),
    );
    let out = "o$(touch mark)'s";
    workplace.run(["run", "truncate", "--from", "d$(touch mark)", "--to", out]).ok();
    workplace.run(["view", out, "--to", "r.json"]).ok();
    workplace.run(["view", out, "--to", "r.html"]).ok();
    let found: Value = serde_json::from_slice(&std::fs::read(workplace.path("r.json")).unwrap()).unwrap();
    let measure = found["to_measure"].as_str().unwrap();
    let missing = workplace.run(["inspect", out, "--chain", "nowhere:7"]).ends(2, &["lists them"]);
    let (_, listing) = missing.stderr.split_once("asap sql").unwrap();
    let (listing, _) = listing.split_once(" lists them").unwrap();
    workplace.shell(&format!("asap sql{listing}")).ok();
    workplace.shell(&format!("set -- {measure}; printf '%s\\n' \"$4\" > from")).ok();
    let from = std::fs::read_to_string(workplace.path("from")).unwrap();
    assert!(from.trim_end().ends_with("d$(touch mark)"), "{from}");
    assert!(!workplace.path("mark").exists());
}

#[test]
fn the_server_answers_only_what_it_should() {
    let chain = |row: u64| json!({"id": format!("r{row}"), "question": "q", "cot": format!("One {row}.\n\nTwo."), "answer": "2"});
    let mut lines: Vec<Value> = (0..60).map(chain).collect();
    lines.push(json!({"id": "empty", "question": "q", "cot": "", "answer": "2"}));
    let workplace = truncated(&lines, 100);
    let rejected = "row 60 of hostile.jsonl was rejected (";
    workplace.run(["inspect", "out", "--chain", "hostile.jsonl:60"]).ends(1, &[rejected]);
    let viewer = Viewer::of(&workplace);
    let mut wrong = vec![];
    for line in include_str!("view_pages.txt").lines() {
        let [status, page, text] = line.split('\t').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let (found, body) = viewer.page(page);
        let is_said = text.strip_prefix("lacks ").map_or(body.contains(text), |text| !body.contains(text));
        if found.to_string() != status || !is_said || (status == "400" && !body.contains("<form")) {
            let shown = body.split_once("<main").map_or(body.as_str(), |(_, main)| main);
            wrong.push(format!("{line}\nfound {found}: {}\n", shown.chars().take(1500).collect::<String>()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let (_, listed) = viewer.page("chains?where=id+%3D+%27r7%27");
    assert!(listed.contains("1 chain<") && listed.contains("hostile.jsonl:7"), "{listed}");
    let link = "reject?file=hostile.jsonl&amp;row=60";
    let (status, reject) = viewer.page(&link.replace("&amp;", "&"));
    assert!(viewer.page("chain?file=hostile.jsonl&row=60").1.contains(rejected));
    // Whichever link led to a chain, the next one is there.
    let (_, chain) = viewer.page("chain?file=hostile.jsonl&row=7");
    assert!(chain.contains("rel=\"prev\"") && chain.contains("href=\"chain?at=8&amp;sort=chain\""), "{chain}");
    let (_, last) = viewer.page("chain?file=hostile.jsonl&row=59&where=tokens");
    assert!(!last.contains("rel=\"prev\"") && last.contains("One 59."), "the filter excludes it");
    assert!(viewer.page("rejects").1.contains(link) && status == 200 && reject.contains(rejected), "{reject}");
    let (_, chain) = viewer.page("chain?at=59");
    assert!(chain.contains("rel=\"prev\"") && !chain.contains("rel=\"next\"") && chain.contains("One 59."));

    let own = format!("/{}/", viewer.token);
    assert_eq!(viewer.request("GET", "evil.example", &own).0, 421);
    assert_eq!(viewer.request("POST", &viewer.host, &own).0, 405);
    for path in ["/", "/chains", &format!("/{}", viewer.token.replace(char::is_numeric, "x"))] {
        assert_eq!(viewer.request("GET", &viewer.host, path).0, 403, "{path}");
    }
    let (status, moved) = viewer.request("GET", &viewer.host, own.trim_end_matches('/'));
    assert!(status == 308 && moved.contains(&format!("location: {own}")), "{moved}");
}
