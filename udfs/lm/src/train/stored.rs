//! Tensors in safetensors files, written and read one at a time, so that memory holds only one besides the model.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use candle_core::{DType, Tensor};
use half::{bf16, f16};
use safetensors::tensor::{Dtype, Metadata, TensorInfo, View};
use serde_json::{Value, json};

use crate::model::weights::{Files, Weights, header, read_parts};
use crate::ops::read;
use crate::{LmError, Result};

/// Bytes per shard, as readers expect; a larger tensor has its own shard.
const SHARD_BYTES: usize = 5_000_000_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precision {
    F32,
    /// 2 bytes, 11 significant bits.
    F16,
    /// 2 bytes, 8 significant bits.
    Bf16,
}

impl Precision {
    /// Returns the precision in a model's config ([`Precision::of`]), or that of its token embedding.
    pub fn of_model(folder: &Path, config: &Value) -> Result<Self> {
        if config.get("dtype").or_else(|| config.get("torch_dtype")).is_none_or(Value::is_null) {
            return Ok(match Files::open(folder)?.dtype("model.embed_tokens.weight") {
                DType::BF16 => Self::Bf16,
                DType::F16 => Self::F16,
                _ => Self::F32,
            });
        }
        Self::of(config).map_err(|found| LmError::unsupported(&folder.join("config.json"), found))
    }

    /// Returns the precision that `dtype` (or `torch_dtype` in older files) of a config.json names; f32 if absent.
    pub fn of(config: &Value) -> std::result::Result<Self, String> {
        match config.get("dtype").or_else(|| config.get("torch_dtype")).and_then(Value::as_str) {
            None | Some("float32") => Ok(Self::F32),
            Some("float16") => Ok(Self::F16),
            Some("bfloat16") => Ok(Self::Bf16),
            Some(other) => Err(format!("dtype '{other}' is not supported: expected float32, float16 or bfloat16")),
        }
    }

    fn dtype(self) -> Dtype {
        match self {
            Self::F32 => Dtype::F32,
            Self::F16 => Dtype::F16,
            Self::Bf16 => Dtype::BF16,
        }
    }

    fn bytes(self, values: &[f32]) -> Vec<u8> {
        match self {
            Self::F32 => values.iter().flat_map(|x| x.to_le_bytes()).collect(),
            Self::F16 => values.iter().flat_map(|x| f16::from_f32(*x).to_le_bytes()).collect(),
            Self::Bf16 => values.iter().flat_map(|x| bf16::from_f32(*x).to_le_bytes()).collect(),
        }
    }
}

pub(super) struct TensorData<'a> {
    name: String,
    shape: Vec<usize>,
    precision: Precision,
    values: Values<'a>,
}

enum Values<'a> {
    Tensor(&'a Tensor),
    Numbers(&'a [f32]),
}

impl<'a> TensorData<'a> {
    pub(crate) fn of_tensor(name: &str, tensor: &'a Tensor, precision: Precision) -> Self {
        Self { name: name.to_string(), shape: tensor.dims().to_vec(), precision, values: Values::Tensor(tensor) }
    }

    pub(crate) fn of_numbers(name: &str, numbers: &'a [f32]) -> Self {
        let shape = vec![numbers.len()];
        Self { name: name.to_string(), shape, precision: Precision::F32, values: Values::Numbers(numbers) }
    }
}

impl View for &TensorData<'_> {
    fn dtype(&self) -> Dtype {
        self.precision.dtype()
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        let bytes = match self.values {
            Values::Numbers(numbers) => self.precision.bytes(numbers),
            // An unreadable tensor yields no bytes; safetensors then rejects the length, which does not fit the shape.
            Values::Tensor(tensor) => read([tensor], |[values]| self.precision.bytes(values)).unwrap_or_default(),
        };
        Cow::Owned(bytes)
    }

    fn data_len(&self) -> usize {
        self.shape.iter().product::<usize>() * self.precision.dtype().bitsize() / 8
    }
}

pub(super) fn write<'a>(parts: impl IntoIterator<Item = &'a TensorData<'a>>, path: &Path) -> Result<()> {
    let parts = parts.into_iter().map(|part| (part.name.as_str(), part));
    // Python readers reject a file without this entry.
    let metadata = HashMap::from([("format".to_string(), "pt".to_string())]);
    safetensors::serialize_to_file(parts, Some(metadata), path).map_err(|error| {
        let source = match error {
            safetensors::SafeTensorError::IoError(source) => source,
            other => std::io::Error::other(other.to_string()),
        };
        LmError::writing(path)(source)
    })
}

/// Writes a model's weights to a folder: `model.safetensors`, or shards of 5 GB and their index.
pub fn write_weights(weights: &Weights, precision: Precision, folder: &Path) -> Result<()> {
    write_shards(weights, precision, folder, SHARD_BYTES)
}

fn write_shards(weights: &Weights, precision: Precision, folder: &Path, most: usize) -> Result<()> {
    let named = weights.named();
    let parts: Vec<TensorData> =
        named.iter().map(|(name, tensor)| TensorData::of_tensor(name, tensor, precision)).collect();
    let mut shards: Vec<(usize, Vec<&TensorData>)> = vec![(0, vec![])];
    for part in &parts {
        let bytes = (&part).data_len();
        match shards.last_mut() {
            Some((held, shard)) if shard.is_empty() || *held + bytes <= most => {
                *held += bytes;
                shard.push(part);
            }
            _ => shards.push((bytes, vec![part])),
        }
    }
    if let [(_, shard)] = shards.as_slice() {
        return write(shard.iter().copied(), &folder.join("model.safetensors"));
    }
    let mut places = BTreeMap::new();
    for (number, (_, shard)) in shards.iter().enumerate() {
        let name = format!("model-{:05}-of-{:05}.safetensors", number + 1, shards.len());
        write(shard.iter().copied(), &folder.join(&name))?;
        places.extend(shard.iter().map(|part| (part.name.clone(), name.clone())));
    }
    let total: usize = shards.iter().map(|(bytes, _)| bytes).sum();
    let index = json!({ "metadata": { "total_size": total }, "weight_map": places });
    let path = folder.join("model.safetensors.index.json");
    std::fs::write(&path, format!("{index:#}\n")).map_err(LmError::writing(&path))
}

pub(super) struct Numbers {
    path: PathBuf,
    metadata: Metadata,
    first: u64,
}

impl Numbers {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let (metadata, first) = header(path)?;
        Ok(Self { path: path.to_path_buf(), metadata, first })
    }

    pub(crate) fn read(&self, name: &str, values: &mut [f32]) -> Result<()> {
        let found = self.metadata.info(name);
        let Some(TensorInfo { dtype: Dtype::F32, data_offsets: (from, to), .. }) = found else {
            let found = format!("found no f32 tensor '{name}': the file belongs to another model");
            return Err(LmError::unsupported(&self.path, found));
        };
        if to - from != size_of_val(values) {
            let (found, expected) = ((to - from) / 4, values.len());
            let found = format!("'{name}': expected {expected} numbers, found {found}: another model's file");
            return Err(LmError::unsupported(&self.path, found));
        }
        let mut values = values.iter_mut();
        read_parts(&self.path, self.first + *from as u64, to - from, |bytes| {
            bytes.as_chunks().0.iter().zip(&mut values).for_each(|(bytes, value)| *value = f32::from_le_bytes(*bytes));
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::config::ModelConfig;
    use crate::testing::golden;
    use tempfile::TempDir;

    #[test]
    fn what_is_written_is_read_again() {
        let config = ModelConfig::load(&golden("qwen2")).unwrap();
        let weights = Weights::load(&golden("qwen2"), &config).unwrap();
        let rounded = [(Precision::F32, DType::F32), (Precision::F16, DType::F16), (Precision::Bf16, DType::BF16)];
        for (precision, dtype) in rounded {
            for most in [usize::MAX, 20_000] {
                let folder = TempDir::new().unwrap();
                write_shards(&weights, precision, folder.path(), most).unwrap();
                assert_eq!(folder.path().join("model.safetensors").exists(), most == usize::MAX);
                let found = Weights::load(folder.path(), &config).unwrap();
                for ((name, written), (_, found)) in weights.named().into_iter().zip(found.named()) {
                    let expected = written.to_dtype(dtype).unwrap().to_dtype(DType::F32).unwrap();
                    let numbers = |tensor: &Tensor| tensor.flatten_all().unwrap().to_vec1::<f32>().unwrap();
                    assert_eq!(numbers(found), numbers(&expected), "{name} {precision:?}");
                }
            }
        }
    }
}
