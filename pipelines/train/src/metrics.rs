//! The metrics of a training: one line of JSON per step, and the same as TensorBoard events.

use prost::Message;
use serde::{Deserialize, Serialize};

use super::store::Folder;
use crate::failure::Failure;

pub(crate) const LINES: &str = "metrics.jsonl";
const EVENTS: &str = "runs/events.out.tfevents.asap";

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Line {
    pub step: u64,
    pub epoch: u64,
    pub loss: f64,
    pub rate: f64,
    pub norm: f64,
    pub tokens: usize,
    pub learned: usize,
    pub time: f64,
    pub seconds: f64,
    /// The least FLOPs of forward and backward pass, as a share of what f32 products reach on these cores in that time.
    /// None for a training by other programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share_of_peak: Option<f64>,
}

#[derive(Debug, Default)]
pub(crate) struct Metrics {
    lines: Vec<Line>,
    written: [usize; 2],
}

impl Metrics {
    pub(crate) async fn until(out: &Folder, step: u64) -> Result<Self, Failure> {
        let text = out.read(LINES).await?.unwrap_or_default();
        let lines = text.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice::<Line>(line).ok());
        Ok(Self { lines: lines.filter(|line| line.step <= step).collect(), written: [0; 2] })
    }

    pub(crate) fn push(&mut self, line: Line) {
        self.lines.push(line);
    }

    /// Writes both files. They grow in place, because TensorBoard keeps reading the file that it opened.
    pub(crate) async fn write(&mut self, out: &Folder) -> Result<(), Failure> {
        let mut text = Vec::new();
        for line in &self.lines {
            serde_json::to_writer(&mut text, line)?;
            text.push(b'\n');
        }
        let files = [(LINES, text), (EVENTS, self.events())];
        for ((name, bytes), written) in files.into_iter().zip(&mut self.written) {
            out.extend(name, &bytes, *written).await?;
            *written = bytes.len();
        }
        Ok(())
    }

    fn events(&self) -> Vec<u8> {
        let begun = self.lines.first().map_or(0.0, |line| line.time);
        std::iter::once(Event::first(begun)).chain(self.lines.iter().map(Event::of)).flat_map(Event::record).collect()
    }
}

/// A line of `metrics.jsonl` as a record of TensorBoard. An empty line gives the record that begins a file.
pub fn tensorboard_record(line: &str) -> serde_json::Result<Vec<u8>> {
    let event = if line.is_empty() { Event::first(0.0) } else { Event::of(&serde_json::from_str(line)?) };
    Ok(event.record())
}

/// TensorBoard's message Event, and below its Summary and Value, with the fields that are used here.
#[derive(prost::Message)]
struct Event {
    #[prost(double, optional, tag = "1")]
    time: Option<f64>,
    #[prost(uint64, tag = "2")]
    step: u64,
    #[prost(string, optional, tag = "3")]
    version: Option<String>,
    #[prost(message, optional, tag = "5")]
    summary: Option<Summary>,
}

#[derive(prost::Message)]
struct Summary {
    #[prost(message, repeated, tag = "1")]
    values: Vec<Scalar>,
}

#[derive(prost::Message)]
struct Scalar {
    #[prost(string, tag = "1")]
    tag: String,
    #[prost(float, optional, tag = "2")]
    value: Option<f32>,
}

impl Event {
    fn first(time: f64) -> Self {
        Self { time: Some(time), version: Some("brain.Event:2".to_string()), ..Self::default() }
    }

    /// The TFRecord of the event: its length, the event, and a checksum of each.
    fn record(self) -> Vec<u8> {
        let masked = |bytes: &[u8]| crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes();
        let event = self.encode_to_vec();
        let length = (event.len() as u64).to_le_bytes();
        [&length[..], &masked(&length), &event, &masked(&event)].concat()
    }

    fn of(line: &Line) -> Self {
        let values = [
            ("loss", line.loss),
            ("learning_rate", line.rate),
            ("gradient_norm", line.norm),
            ("tokens_per_second", line.tokens as f64 / line.seconds.max(1e-9)),
        ];
        let share = line.share_of_peak.map(|share| ("share_of_peak", share));
        let value = |(tag, value): (&str, f64)| Scalar { tag: tag.to_string(), value: Some(value as f32) };
        let values = values.into_iter().chain(share).map(value).collect();
        Self { time: Some(line.time), step: line.step, version: None, summary: Some(Summary { values }) }
    }
}
