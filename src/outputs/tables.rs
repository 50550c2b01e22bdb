//! Tables about an output, for people.

use asap_pipelines::outputs::export::Exported;
use asap_pipelines::outputs::history::Commit;
use asap_pipelines::outputs::optimize::Optimized;
use asap_pipelines::outputs::status::Status;
use asap_pipelines::outputs::vacuum::Vacuumed;
use asap_pipelines::outputs::verify::Verified;

use crate::output::{count, several, table, time, time_or_dash};

pub(super) fn status(found: &Status) -> String {
    let rejects: Vec<_> = found.rejects.iter().map(|(status, rows)| format!("{status} {}", count(*rows))).collect();
    let rejects = if rejects.is_empty() { "none".to_string() } else { rejects.join(", ") };
    let at = found.finished_at.and_then(time).map_or(String::new(), |at| format!(" at {at} UTC"));
    let beyond = count(found.rows_beyond_limit);
    let finished = match found.rows_beyond_limit {
        _ if !found.finished => "no: the last run left rows unprocessed, or did not end".to_string(),
        0 => format!("yes{at}: every row of the input is done"),
        _ => format!("yes{at}, up to --limit: {beyond} rows of the input are beyond it"),
    };
    let (rows_done, files_done) = (several(found.rows_done, "row"), several(found.files_done, "file"));
    let partly = count(found.files_in_part.len() as u64);
    let mut lines = vec![
        format!("{} (table version {}, table generation {})", found.output, found.table_version, found.generation),
        String::new(),
        format!("rows      {} in {}, {} bytes", count(found.rows), several(found.shards, "shard"), count(found.bytes)),
        format!("rejects   {rejects}"),
        format!("input     {rows_done} done, {files_done} done, {partly} partly done"),
    ];
    let in_part = found.files_in_part.iter();
    lines.extend(in_part.map(|part| format!("  {}: {} of {} rows", part.file, count(part.done), count(part.rows))));
    lines.push(format!("finished  {finished}"));
    let answers = &found.answers;
    lines.push(format!("answers   {} paid and kept, {} bytes", count(answers.answers), count(answers.bytes)));
    if !found.endpoint_defaults.is_empty() {
        lines.push(format!("sampling  the endpoint's default {}", found.endpoint_defaults.join(" and ")));
    }
    if let Some(made_by) = &found.made_by {
        lines.push(String::new());
        lines.extend(made_by.lines().iter().map(|(what, who)| format!("{what:<12}{who}")));
        lines.extend(made_by.warning().map(|warning| format!("note: {warning}")));
    }
    lines.push(String::new());
    lines.push("settings that must stay the same for this output (else --new-generation):".to_string());
    lines.extend(found.pipeline.iter().map(|(part, value)| format!("  {part} = {value}")));
    lines.join("\n")
}

pub(super) fn history(commits: &[Commit]) -> String {
    let row = |commit: &Commit| {
        [
            commit.version.to_string(),
            time_or_dash(commit.time),
            commit.operation.clone(),
            commit.run.clone().unwrap_or("-".to_string()),
            count(commit.slices),
            commit.rows_in.map_or("-".to_string(), count),
            commit.rows_rejected.map_or("-".to_string(), count),
            count(commit.rows_added),
            format!("+{} -{}", commit.shards_added, commit.shards_removed),
            count(commit.bytes_added),
        ]
    };
    let header =
        ["version", "time (UTC)", "operation", "run", "slices", "rows in", "rejected", "rows", "shards", "bytes"];
    table(header, commits.iter().map(row))
}

pub(super) fn verified(found: &Verified) -> String {
    let mut lines = vec![
        format!("version   {}", found.table_version),
        format!("shards    {}", count(found.shards)),
        format!("rows      {} in the output, {} rejected", count(found.rows), count(found.rejects)),
        format!(
            "filtered  {} rows of finished slices are neither in the output nor in the rejects",
            count(found.filtered)
        ),
        format!("lost      {} rows", count(found.lost)),
        format!("doubled   {} rows", count(found.doubled)),
        format!("strange   {} rows belong to no finished slice", count(found.strange)),
        format!("faults    {}", count(found.faults.len() as u64)),
    ];
    if found.files_not_compared > 0 {
        let files = several(found.files_not_compared, "file");
        lines.push(format!(
            "note: the log no longer has the commits of {files}, so the counts of their rows were not compared"
        ));
    }
    lines.join("\n")
}

pub(super) fn vacuumed(done: &Vacuumed) -> String {
    let verb = if done.dry_run { "would be removed" } else { "removed" };
    let mut lines: Vec<_> = done.removed.iter().map(|path| format!("  {path}")).collect();
    lines.insert(0, format!("{}, {} bytes {verb}", several(done.objects, "object"), count(done.bytes)));
    if !done.dry_run {
        lines.push(format!("{} removed", several(done.log_entries, "old log file")));
    }
    lines.join("\n")
}

pub(crate) fn optimized(done: &Optimized) -> String {
    if done.shards_before == 0 {
        return format!("nothing to merge in version {}", done.table_version);
    }
    let lines = [
        format!("version   {}", done.table_version),
        format!("shards    {} -> {}", count(done.shards_before), count(done.shards_after)),
        format!("bytes     {} -> {}", count(done.bytes_before), count(done.bytes_after)),
    ];
    lines.join("\n")
}

pub(super) fn exported(done: &Exported) -> String {
    let (files, rows, bytes) = (several(done.files, "file"), several(done.rows, "row"), count(done.bytes));
    format!("{}: {rows} of table version {} in {files}, {bytes} bytes", done.to, done.table_version)
}
