//! The requests of a run that has nothing to do.

use crate::runs::place::{Place, had_nothing_to_do};
use crate::support::proxy::RequestHead;
use crate::support::table::{REJECTS, log};

/// More files than allowed requests.
const FILES: u32 = 40;

fn place() -> Place {
    let place = Place::s3();
    let put = |numbers: std::ops::Range<u32>| {
        let name = |number| format!("{number:02}.parquet");
        numbers.for_each(|number| place.put((&name(number), number * 10 + 1..=number * 10 + 5, "step")));
    };
    put(0..FILES / 2);
    place.run(&[]).ok();
    put(FILES / 2..FILES);
    place.run(&[]).ok();
    place
}

#[test]
fn a_second_start_reads_no_input_and_little_of_the_log() {
    let place = place();
    let versions = log(&place.path("out")).len() + log(&place.path("out").join(REJECTS)).len();
    assert!(versions <= 12, "{versions} commits of two runs");
    place.proxy().calm();
    had_nothing_to_do(&place.run(&[]));
    let of_log = |head: &RequestHead| head.reads_log("out") || head.reads_log(&format!("out/{REJECTS}"));
    let is_object = |head: &RequestHead| head.path.starts_with("/lake/in/");
    let shown: Vec<_> = place.proxy().log().iter().map(|logged| logged.head.target()).collect();
    assert_eq!(place.proxy().count_of(is_object), 0, "an input is read: {shown:#?}");
    assert!(place.proxy().count_of(|head| head.lists("in")) <= 4, "the input is listed too often: {shown:#?}");
    assert!(place.proxy().count_of(of_log) <= 8 + versions, "the log is read too often: {shown:#?}");
    assert!(place.proxy().count_of(|head| head.puts("out")) <= 4, "something is written: {shown:#?}");
    assert!(shown.len() <= 24 + versions, "{shown:#?}");
}
