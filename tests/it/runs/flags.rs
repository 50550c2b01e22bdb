//! Rows that are divided by a column. `cases` has the other flags.

use crate::runs::place::{File, PIPELINE, Place, summary};

#[test]
fn rows_are_divided_by_any_text() {
    for place in Place::both() {
        let file: File = ("a.parquet", 1..=9, "a b/ü=%:#?*2F");
        place.put(file.clone());
        place.pipeline(&format!("{PIPELINE} AND id NOT LIKE '%3'"));
        let summary = summary(&place.run(&["--partition-by", "cot", "--set=run.slice_rows=4"]), 0);
        assert_eq!(summary["rows_out"], 6, "{summary}");
        let marks: Vec<String> = [1, 2, 4, 6, 8, 9].map(|id| format!("{} {id}", file.2)).to_vec();
        let (rows, mut read) = (place.rows(), marks.clone());
        read.sort();
        let mut found = rows.texts("cot");
        found.sort();
        assert_eq!(found, read);
        place.execute(&["table", "verify", &place.location("out")]).ok();
        place.execute(&["table", "vacuum", &place.location("out"), "--retain", "0s", "--now"]).ok();
        place.execute(&["table", "optimize", &place.location("out")]).ok();
        place.execute(&["table", "vacuum", &place.location("out"), "--retain", "0s", "--now"]).ok();
        assert_eq!(place.rows(), rows);
    }
}
