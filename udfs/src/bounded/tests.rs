use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::{Int64Type, UInt64Type};
use datafusion::prelude::SessionContext;

use super::*;

fn context() -> SessionContext {
    let context = SessionContext::new();
    install(&mut context.state_ref().write()).unwrap();
    context
}

async fn run(sql: &str) -> Result<Vec<datafusion::arrow::array::RecordBatch>> {
    context().sql(sql).await?.collect().await
}

/// Results of more than a GiB are never made, whether their arguments are constants or columns.
#[tokio::test]
async fn long_results_are_refused_before_they_are_made() {
    // The engine makes `repeat(t, 12000)` once for all rows: a constant is too long by itself.
    let long = "(SELECT arrow_cast(repeat('ab', 50000), 'Utf8View') AS t, repeat('ab', 5000000) AS w, \
                arrow_cast(1100000000, 'Int64') AS n FROM range(2))";
    for call in [
        "repeat('ab', 600000000)",
        "repeat(t, 12000)",
        "repeat(t, n)",
        "lpad(t, n)",
        "rpad(t, n, 'xy')",
        "lpad('a', 300000000, '😀')",
        "replace(t, 'a', t)",
        "replace(t, '', t)",
        "regexp_replace(t, 'a', t, 'g')",
        "regexp_replace(t, '', t, 'gi')",
        "regexp_replace(left(t, 1000), '(a)', repeat('\\\\1', 1000000), 'g')",
        "array_repeat(t, 12000)",
        "array_repeat(1, 200000000)",
        "array_resize([1], 200000000, 0)",
        "array_resize(['a'], 12000, t)",
        "array_to_string(range(0, 12000), t)",
        "array_replace_all(array_repeat('a', 12000), 'a', t)",
        &format!("concat({})", ["w"; 120].join(", ")),
        &format!("concat('x', {})", ["w"; 120].join(", ")),
        &format!("concat_ws(w, {})", ["'a'"; 1200].join(", ")),
        &format!("concat_ws(w, {})", ["n"; 120].join(", ")),
    ] {
        let ran = run(&format!("SELECT {call} AS x FROM {long}")).await.map(drop);
        let error = ran.expect_err(call).to_string();
        assert!(error.contains("at most 1 GiB of results for a batch of rows, found "), "{call}: {error}");
        assert!(error.contains(" GiB: make shorter texts, or "), "{call}: {error}");
    }
    // The rows share one text, so that only results need memory.
    for call in ["w || w", "w || 'x' || w"] {
        let error = run(&format!("SELECT {call} AS x FROM {long} AS a CROSS JOIN range(60)")).await.map(drop);
        let error = error.unwrap_err().to_string();
        assert!(error.contains("||: expected at most 1 GiB of results for a batch of rows"), "{call}: {error}");
    }
    for sql in [
        "SELECT string_agg(w, ',') FROM {} AS a, range(60)",
        "SELECT string_agg(w, ',') FROM {} AS a, range(60) GROUP BY n",
        "SELECT string_agg(w, ',' ORDER BY n, w) FROM {} AS a, range(60)",
        "SELECT string_agg(w, ',') OVER (ORDER BY value) FROM {} AS a, range(12)",
    ] {
        let error = run(&sql.replace("{}", long)).await.map(drop).unwrap_err().to_string();
        assert!(error.contains("string_agg: expected at most 1 GiB of results for "), "{sql}: {error}");
    }
}

/// What could be long is counted before it is refused.
#[tokio::test]
async fn short_results_of_long_arguments_are_made() {
    let long = "(SELECT repeat('b', 2000000) AS b, repeat('c', 1000000) AS c FROM range(2))";
    for call in [
        "replace(b, 'a', c)",
        "regexp_replace(b, 'a', c, 'g')",
        "regexp_replace(b, 'A', c, 'gi')",
        "regexp_replace(b, '.', c)",
        "lpad(b, 5, c)",
        "translate(b, 'b', '😀')",
        "b || c || b",
        "array_repeat(b, 3)[1]",
    ] {
        let found = run(&format!("SELECT octet_length({call}) AS n FROM {long}")).await;
        assert_eq!(found.unwrap().iter().map(|batch| batch.num_rows()).sum::<usize>(), 2, "{call}");
    }
}

/// Lists of a batch are measured one by one.
#[tokio::test]
async fn many_lists_are_not_too_long() {
    let lists = "(SELECT [repeat('a', 1000), 'b'] AS l, value AS n FROM range(8000))";
    for call in ["array_to_string(l, ' ')", "array_resize(l, 3, 'c')[1]", "array_replace_all(l, 'b', 'c')[2]"] {
        let found = run(&format!("SELECT count({call}) AS n FROM {lists} WHERE n % 2 < 2")).await.unwrap();
        assert_eq!(found[0].column(0).as_primitive::<Int64Type>().value(0), 8000, "{call}");
    }
}

/// The bounds change no result, name or type.
#[tokio::test]
async fn short_results_are_those_of_the_engine() {
    let texts = "(VALUES ('one two', 'o', 3, 'é😀'), ('', '', -1, 'x'), (NULL, 'a', 2, NULL), ('aaa', 'a', 7, 'ab')) AS t(a, b, n, c)";
    for call in [
        "repeat(a, n)",
        "lpad(a, greatest(n, 0), c)",
        "rpad(a, greatest(n, 0))",
        "replace(a, b, c)",
        "translate(a, b, c)",
        "regexp_replace(a, '(.)o', '[\\1]', 'g')",
        "concat(a, 'x', 'y', NULL, c, n)",
        "concat_ws('-', a, b, 'x', 'y')",
        "a || b || c",
        "a || 'x' || 1",
        "1 || a",
        "a || NULL",
        "[a] || [b]",
        "array_repeat(a, n)",
        "array_resize([a, b], greatest(n, 0), c)",
        "array_to_string([a, b, c], '-', '*')",
        "array_replace_all([a, b, c], 'a', b)",
        "string_agg(a, ',') OVER (PARTITION BY n)",
    ] {
        let sql = format!("SELECT {call}, n FROM {texts} ORDER BY n");
        let plain = SessionContext::new().sql(&sql).await.unwrap().collect().await.unwrap();
        assert_eq!(plain, run(&sql).await.unwrap(), "{call}");
    }
    for call in ["string_agg(a, ',' ORDER BY n)", "string_agg(DISTINCT b, '')", "string_agg(a, '-')"] {
        for group in ["", " GROUP BY b ORDER BY b"] {
            let sql = format!("SELECT {call} FROM {texts}{group}");
            let plain = SessionContext::new().sql(&sql).await.unwrap().collect().await.unwrap();
            assert_eq!(plain, run(&sql).await.unwrap(), "{sql}");
        }
    }
}

/// The measured bytes are those of the results at least, and not many more.
#[tokio::test]
async fn measures_hold() {
    let rows = "(SELECT value AS n, left('añ😀b aab', CAST(value % 9 AS INT)) AS a, substr('ba😀xñ', CAST(value % 5 AS INT)) AS b, value % 7 AS m FROM range(500))";
    for (results, args) in [
        (Results::Repeat, &["a", "m"][..]),
        (Results::Lpad, &["a", "m", "b"]),
        (Results::Rpad, &["a", "m"]),
        (Results::Replace, &["a", "left(b, 1)", "b"]),
        (Results::Translate, &["a", "'ab'", "b"]),
        (Results::RegexpReplace, &["a", "'[ab]'", "'<\\0>'", "'g'"]),
        (Results::RegexpReplace, &["a", "'a'", "'bc'"]),
        (Results::Concat, &["a", "b", "a"]),
        (Results::ConcatWs, &["b", "a", "a", "b"]),
    ] {
        let name = results.name();
        let sql = format!("SELECT sum(octet_length({name}({}))) AS made FROM {rows}", args.join(", "));
        let made = SessionContext::new().sql(&sql).await.unwrap().collect().await.unwrap();
        let made = made[0]
            .column(0)
            .as_primitive_opt::<Int64Type>()
            .map_or_else(|| made[0].column(0).as_primitive::<UInt64Type>().value(0), |made| made.value(0) as u64);
        let columns: Vec<_> = args.iter().enumerate().map(|(place, arg)| format!("{arg} AS c{place}")).collect();
        let sql = format!("SELECT {} FROM {rows}", columns.join(", "));
        let batches = SessionContext::new().sql(&sql).await.unwrap().collect().await.unwrap();
        let measure = |batch: &datafusion::arrow::array::RecordBatch| {
            let args: Vec<_> = batch.columns().iter().map(|column| ColumnarValue::Array(Arc::clone(column))).collect();
            results.bytes(&args, batch.num_rows()).unwrap()
        };
        let measured: u64 = batches.iter().map(measure).sum();
        assert!(measured >= made && measured <= 12 * made + 1000, "{name}: {measured} for {made}");
    }
}
