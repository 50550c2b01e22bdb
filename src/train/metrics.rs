//! The metrics of a training: one line of JSON per step, and the same as TensorBoard events.

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
    #[serde(default)]
    pub share_of_peak: f64,
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
            serde_json::to_writer(&mut text, line).map_err(|error| Failure::Failed(error.to_string()))?;
            text.push(b'\n');
        }
        let files = [(LINES, text), (EVENTS, self.events())];
        for ((name, bytes), written) in files.into_iter().zip(&mut self.written) {
            out.extend(name, &bytes, *written).await?;
            *written = bytes.len();
        }
        Ok(())
    }

    /// The steps as TensorBoard events: TFRecord records, each a protobuf message `Event`.
    fn events(&self) -> Vec<u8> {
        let begun = self.lines.first().map_or(0.0, |line| line.time);
        let mut events = Vec::new();
        let mut version = double(1, begun);
        version.extend(bytes(3, b"brain.Event:2"));
        record(&mut events, &version);
        for line in &self.lines {
            let tokens_per_second = line.tokens as f64 / line.seconds.max(1e-9);
            let values = [
                ("loss", line.loss),
                ("learning_rate", line.rate),
                ("gradient_norm", line.norm),
                ("tokens_per_second", tokens_per_second),
                ("share_of_peak", line.share_of_peak),
            ];
            let values = values.map(|(tag, value)| {
                let mut scalar = bytes(1, tag.as_bytes());
                scalar.extend(float(2, value as f32));
                bytes(1, &scalar)
            });
            let mut event = double(1, line.time);
            event.extend(key(2, 0));
            event.extend(varint(line.step));
            event.extend(bytes(5, &values.concat()));
            record(&mut events, &event);
        }
        events
    }
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

fn key(field: u64, kind: u64) -> Vec<u8> {
    varint(field << 3 | kind)
}

fn double(field: u64, value: f64) -> Vec<u8> {
    [key(field, 1), value.to_le_bytes().to_vec()].concat()
}

fn float(field: u64, value: f32) -> Vec<u8> {
    [key(field, 5), value.to_le_bytes().to_vec()].concat()
}

fn bytes(field: u64, value: &[u8]) -> Vec<u8> {
    [key(field, 2), varint(value.len() as u64), value.to_vec()].concat()
}

fn record(to: &mut Vec<u8>, bytes: &[u8]) {
    let length = (bytes.len() as u64).to_le_bytes();
    let masked = |bytes: &[u8]| crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes();
    to.extend(length);
    to.extend(masked(&length));
    to.extend(bytes);
    to.extend(masked(bytes));
}
