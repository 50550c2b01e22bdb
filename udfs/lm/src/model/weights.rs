//! A model's weights: the tensors that a config needs, and their reading from safetensors.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use candle_core::{DType, Device, Tensor, WithDType};
use half::{bf16, f16};
use safetensors::Dtype;
use safetensors::tensor::{Metadata, TensorInfo};

use crate::model::config::{Family, ModelConfig};
use crate::ops::{Linear, Weight};
use crate::{LmError, Result};

/// The weights of a model, with Hugging Face's names. Projections are `M`: `Tensor` in f32, `Bf16Matrix` or
/// `StoredMatrix`. Embedding and output layer have the same data type; norms and biases are f32. The gradient has the
/// same fields, all of them slices.
#[derive(Debug, Clone)]
pub struct Weights<M = Tensor, V = Tensor> {
    /// `model.embed_tokens.weight`, [vocabulary, hidden].
    pub embed: V,
    pub layers: Vec<LayerWeights<M, V>>,
    /// `model.norm.weight`, `[hidden]`.
    pub norm: V,
    /// `lm_head.weight`, [vocabulary, hidden]; None if the output layer shares the embedding.
    pub lm_head: Option<V>,
}

#[derive(Debug, Clone)]
pub struct LayerWeights<M = Tensor, V = Tensor> {
    pub input_norm: V,
    pub q: Linear<M, V>,
    pub k: Linear<M, V>,
    pub v: Linear<M, V>,
    pub o: Linear<M, V>,
    pub q_norm: Option<V>,
    pub k_norm: Option<V>,
    pub post_norm: V,
    pub gate: M,
    pub up: M,
    pub down: M,
}

const EMBED: &str = "model.embed_tokens.weight";
const LM_HEAD: &str = "lm_head.weight";
/// The end of the names of tables in some files, which the config implies.
pub(crate) const ANGLES: &str = ".rotary_emb.inv_freq";

impl<M, V> Weights<M, V> {
    /// [`Weights::build`], with `matrix` for the weights of projections.
    pub(crate) fn build_with(
        config: &ModelConfig,
        mut make: impl FnMut(&str, &[usize]) -> Result<V>,
        matrix: impl Fn(V) -> Result<M>,
    ) -> Result<Self> {
        let (hidden, vocabulary) = (config.hidden_size, config.vocab_size);
        let embed = make(EMBED, &[vocabulary, hidden])?;
        let layers = (0..config.num_hidden_layers)
            .map(|layer| LayerWeights::build(config, &format!("model.layers.{layer}"), &mut make, &matrix))
            .collect::<Result<_>>()?;
        let norm = make("model.norm.weight", &[hidden])?;
        let lm_head = (!config.tie_word_embeddings).then(|| make(LM_HEAD, &[vocabulary, hidden])).transpose()?;
        Ok(Self { embed, layers, norm, lm_head })
    }
}

impl<M: Weight> Weights<M> {
    /// Calls `make` for each tensor of a model with its name and shape: to read, draw or allocate it. Matrices are of
    /// type `M::dtype`, the rest is f32.
    pub fn build(config: &ModelConfig, make: impl FnMut(&str, &[usize]) -> Result<Tensor>) -> Result<Self> {
        Self::build_with(config, make, |weight| Ok(M::new(weight)?))
    }

    /// Reads `model.safetensors`, or the shards in `model.safetensors.index.json`, in f32, f16 or bf16. Tensors are
    /// read one at a time, so memory holds little more than the weights in the computed type.
    ///
    /// # Errors
    /// If a file is missing or cut short, or a tensor is missing, of another shape or type, or not part of the model.
    pub fn load(folder: &Path, config: &ModelConfig) -> Result<Self> {
        let files = Files::open(folder)?;
        let weights = Self::build(config, |name, shape| match shape.len() {
            2 => files.read(name, shape, M::dtype(files.dtype(name))),
            _ => files.read(name, shape, DType::F32),
        })?;
        // Some files repeat the embedding as the output layer.
        if let Some((_, path)) = files.unread().into_iter().find(|(name, _)| *name == LM_HEAD) {
            let repeated = files.read(LM_HEAD, &[config.vocab_size, config.hidden_size], weights.embed.dtype())?;
            if repeated.eq(&weights.embed)?.min_all()?.to_scalar::<u8>()? != 1 {
                let found = format!("{LM_HEAD} differs from {EMBED}, but config.json sets tie_word_embeddings");
                return Err(LmError::unsupported(path, found));
            }
        }
        files.refuse_unread(&[ANGLES], &format!("{:?} model", config.family))?;
        Ok(weights)
    }

    /// The output layer, [vocabulary, hidden].
    pub fn output(&self) -> &Tensor {
        self.lm_head.as_ref().unwrap_or(&self.embed)
    }
}

impl Weights {
    /// All tensors with their names, in the order of [`Weights::build`].
    pub fn named(&self) -> Vec<(String, &Tensor)> {
        let mut all = vec![(EMBED.to_string(), &self.embed)];
        for (index, layer) in self.layers.iter().enumerate() {
            all.extend(layer.named().map(|(name, tensor)| (format!("model.layers.{index}.{name}"), tensor)));
        }
        all.push(("model.norm.weight".to_string(), &self.norm));
        all.extend(self.lm_head.iter().map(|tensor| (LM_HEAD.to_string(), tensor)));
        all
    }
}

impl<M, V> LayerWeights<M, V> {
    fn build(
        config: &ModelConfig,
        at: &str,
        make: &mut impl FnMut(&str, &[usize]) -> Result<V>,
        matrix: &impl Fn(V) -> Result<M>,
    ) -> Result<Self> {
        let (hidden, intermediate, width) = (config.hidden_size, config.intermediate_size, config.head_dim);
        let (queries, keys) = (config.heads().query_width(), config.heads().key_width());
        let mut one = |name: &str, shape: &[usize]| make(&format!("{at}.{name}"), shape);
        let input_norm = one("input_layernorm.weight", &[hidden])?;
        let mut linear = |name: &str, output: usize, input: usize, bias: bool| -> Result<Linear<M, V>> {
            let weight = matrix(one(&format!("self_attn.{name}.weight"), &[output, input])?)?;
            let bias = bias.then(|| one(&format!("self_attn.{name}.bias"), &[output])).transpose()?;
            Ok(Linear { weight, bias })
        };
        let q = linear("q_proj", queries, hidden, config.qkv_bias)?;
        let k = linear("k_proj", keys, hidden, config.qkv_bias)?;
        let v = linear("v_proj", keys, hidden, config.qkv_bias)?;
        let o = linear("o_proj", hidden, queries, config.output_bias)?;
        let norms = config.family == Family::Qwen3;
        Ok(Self {
            input_norm,
            q,
            k,
            v,
            o,
            q_norm: norms.then(|| one("self_attn.q_norm.weight", &[width])).transpose()?,
            k_norm: norms.then(|| one("self_attn.k_norm.weight", &[width])).transpose()?,
            post_norm: one("post_attention_layernorm.weight", &[hidden])?,
            gate: matrix(one("mlp.gate_proj.weight", &[intermediate, hidden])?)?,
            up: matrix(one("mlp.up_proj.weight", &[intermediate, hidden])?)?,
            down: matrix(one("mlp.down_proj.weight", &[hidden, intermediate])?)?,
        })
    }
}

impl LayerWeights {
    pub(crate) fn named(&self) -> impl Iterator<Item = (&'static str, &Tensor)> {
        let all = [
            ("input_layernorm.weight", Some(&self.input_norm)),
            ("self_attn.q_proj.weight", Some(&self.q.weight)),
            ("self_attn.q_proj.bias", self.q.bias.as_ref()),
            ("self_attn.k_proj.weight", Some(&self.k.weight)),
            ("self_attn.k_proj.bias", self.k.bias.as_ref()),
            ("self_attn.v_proj.weight", Some(&self.v.weight)),
            ("self_attn.v_proj.bias", self.v.bias.as_ref()),
            ("self_attn.o_proj.weight", Some(&self.o.weight)),
            ("self_attn.o_proj.bias", self.o.bias.as_ref()),
            ("self_attn.q_norm.weight", self.q_norm.as_ref()),
            ("self_attn.k_norm.weight", self.k_norm.as_ref()),
            ("post_attention_layernorm.weight", Some(&self.post_norm)),
            ("mlp.gate_proj.weight", Some(&self.gate)),
            ("mlp.up_proj.weight", Some(&self.up)),
            ("mlp.down_proj.weight", Some(&self.down)),
        ];
        all.into_iter().filter_map(|(name, tensor)| Some((name, tensor?)))
    }
}

pub(crate) struct Files {
    list: PathBuf,
    tensors: BTreeMap<String, (PathBuf, InFile)>,
    read: RefCell<BTreeSet<String>>,
}

struct InFile {
    info: TensorInfo,
    data: u64,
}

impl Files {
    /// Reads the headers of `model.safetensors`, or of the shards in `model.safetensors.index.json`.
    pub(crate) fn open(folder: &Path) -> Result<Self> {
        let single = folder.join("model.safetensors");
        let index = folder.join("model.safetensors.index.json");
        let (list, shards) = match index.exists() && !single.exists() {
            true => (index.clone(), shards(&index)?),
            false => (single, BTreeSet::from(["model.safetensors".to_string()])),
        };
        let mut tensors = BTreeMap::new();
        for shard in shards {
            let path = folder.join(shard);
            let (metadata, data) = header(&path)?;
            for (name, info) in metadata.tensors() {
                let place = InFile { info: info.clone(), data };
                if tensors.insert(name.clone(), (path.clone(), place)).is_some() {
                    return Err(LmError::unsupported(&path, format!("tensor '{name}' is in two files")));
                }
            }
        }
        Ok(Self { list, tensors, read: RefCell::default() })
    }

    pub(crate) fn dtype(&self, name: &str) -> DType {
        match self.tensors.get(name).map(|(_, place)| place.info.dtype) {
            Some(Dtype::BF16) => DType::BF16,
            Some(Dtype::F16) => DType::F16,
            _ => DType::F32,
        }
    }

    /// The tensors not read so far, each with its file.
    pub(crate) fn unread(&self) -> Vec<(&str, &Path)> {
        let read = self.read.borrow();
        let unread = self.tensors.iter().filter(|(name, _)| !read.contains(*name));
        unread.map(|(name, (path, _))| (name.as_str(), path.as_path())).collect()
    }

    /// Refuses unread tensors except those with such an end: one could be a layer that the config does not describe.
    pub(crate) fn refuse_unread(&self, except: &[&str], model: &str) -> Result<()> {
        let is_other = |name: &str| !except.iter().any(|end| name.ends_with(end));
        let Some((name, path)) = self.unread().into_iter().find(|(name, _)| is_other(name)) else { return Ok(()) };
        let found = format!("tensor '{name}' is not part of the {model} that config.json describes");
        Err(LmError::unsupported(path, found))
    }

    pub(crate) fn read(&self, name: &str, shape: &[usize], dtype: DType) -> Result<Tensor> {
        self.read.borrow_mut().insert(name.to_string());
        match dtype {
            DType::BF16 => self.read_as(name, shape, bf16::from_f32),
            DType::F16 => self.read_as(name, shape, f16::from_f32),
            _ => self.read_as(name, shape, |x: f32| x),
        }
    }

    fn read_as<T: WithDType>(&self, name: &str, shape: &[usize], number: fn(f32) -> T) -> Result<Tensor> {
        let Some((path, InFile { info, data })) = self.tensors.get(name) else {
            let found = format!("there is no tensor '{name}' of shape {shape:?}, which config.json requires");
            return Err(LmError::unsupported(&self.list, found));
        };
        let unsupported = |found: String| LmError::unsupported(path, found);
        if info.shape != shape {
            let found = format!("tensor '{name}' has shape {:?}, config.json requires {shape:?}", info.shape);
            return Err(unsupported(found));
        }
        let decode: fn(&[u8], &mut Vec<f32>) = match info.dtype {
            Dtype::F32 => |bytes, to| to.extend(bytes.as_chunks().0.iter().map(|x| f32::from_le_bytes(*x))),
            Dtype::F16 => |bytes, to| to.extend(bytes.as_chunks().0.iter().map(|x| f16::from_le_bytes(*x).to_f32())),
            Dtype::BF16 => |bytes, to| to.extend(bytes.as_chunks().0.iter().map(|x| bf16::from_le_bytes(*x).to_f32())),
            other => return Err(unsupported(format!("tensor '{name}' is {other:?}: expected F32, F16 or BF16"))),
        };
        let (from, to) = info.data_offsets;
        let mut values = Vec::with_capacity(shape.iter().product());
        let mut decoded = Vec::new();
        read_parts(path, data + from as u64, to - from, |bytes| {
            decoded.clear();
            decode(bytes, &mut decoded);
            values.extend(decoded.iter().map(|x| number(*x)));
        })?;
        Ok(Tensor::from_vec(values, shape, &Device::Cpu)?)
    }
}

fn shards(index: &Path) -> Result<BTreeSet<String>> {
    #[derive(serde::Deserialize)]
    struct Index {
        weight_map: BTreeMap<String, String>,
    }
    let text = std::fs::read(index).map_err(LmError::reading(index))?;
    let no_index = |error| LmError::unsupported(index, format!("not an index: {error}"));
    let index: Index = serde_json::from_slice(&text).map_err(no_index)?;
    Ok(index.weight_map.into_values().collect())
}

/// Passes the bytes of a file from an offset on to `each`, at most a mebibyte at a time.
pub(crate) fn read_parts(path: &Path, first: u64, length: usize, mut each: impl FnMut(&[u8])) -> Result<()> {
    let mut read = || -> std::io::Result<()> {
        let mut file = File::open(path)?;
        file.seek(SeekFrom::Start(first))?;
        let mut buffer = vec![0; length.min(1 << 20)];
        let mut left = length;
        while left > 0 {
            let part = left.min(buffer.len());
            file.read_exact(&mut buffer[..part])?;
            each(&buffer[..part]);
            left -= part;
        }
        Ok(())
    };
    read().map_err(LmError::reading(path))
}

/// Reads the header of a file and the offset of its data, and checks that the file is complete.
pub(crate) fn header(path: &Path) -> Result<(Metadata, u64)> {
    let failed = LmError::reading(path);
    let unsupported = |found: String| LmError::unsupported(path, found);
    let mut file = File::open(path).map_err(failed)?;
    let length = file.metadata().map_err(failed)?.len();
    let mut size = [0; 8];
    file.read_exact(&mut size).map_err(failed)?;
    let data = u64::from_le_bytes(size).saturating_add(8);
    if data > length {
        return Err(unsupported(format!("not a safetensors file, or cut short: it has {length} bytes")));
    }
    let mut text = Vec::new();
    file.take(data - 8).read_to_end(&mut text).map_err(failed)?;
    let metadata: Metadata =
        serde_json::from_slice(&text).map_err(|error| unsupported(format!("not a safetensors file: {error}")))?;
    let expected = data + metadata.data_len() as u64;
    if expected != length {
        return Err(unsupported(format!("the file is cut short: expected {expected} bytes, found {length}")));
    }
    Ok((metadata, data))
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::testing::golden;
    use candle_core::safetensors::save;
    use tempfile::TempDir;

    fn model() -> (ModelConfig, HashMap<String, Tensor>) {
        let config = ModelConfig::load(&golden("qwen2")).unwrap();
        let weights: Weights = Weights::load(&golden("qwen2"), &config).unwrap();
        let named = weights.named().into_iter().map(|(name, tensor)| (name, tensor.clone())).collect();
        (config, named)
    }

    fn saved(tensors: &HashMap<String, Tensor>, config: &ModelConfig) -> Result<Weights> {
        let folder = TempDir::new().unwrap();
        save(tensors, folder.path().join("model.safetensors")).unwrap();
        Weights::load(folder.path(), config)
    }

    #[test]
    fn tensors_that_do_not_fit_the_config_are_named() {
        let (config, tensors) = model();
        let narrower = ModelConfig { intermediate_size: 96, ..config.clone() };
        let deeper = ModelConfig { num_hidden_layers: 3, ..config.clone() };
        let shallower = ModelConfig { num_hidden_layers: 1, ..config.clone() };
        let with = |name: &str, tensor| tensors.clone().into_iter().chain([(name.to_string(), tensor)]).collect();
        let other: HashMap<String, Tensor> = with(LM_HEAD, (&tensors[EMBED] * 2.0).unwrap());
        let integers = with("model.norm.weight", Tensor::zeros(64, DType::U32, &Device::Cpu).unwrap());
        for (config, tensors, why) in [
            (&narrower, &tensors, "'model.layers.0.mlp.gate_proj.weight' has shape [160, 64]"),
            (&narrower, &tensors, "[96, 64]"),
            (&deeper, &tensors, "no tensor 'model.layers.2.input_layernorm.weight'"),
            (&shallower, &tensors, "'model.layers.1."),
            (&config, &other, "lm_head.weight differs"),
            (&config, &integers, "is U32"),
        ] {
            let found = saved(tensors, config).unwrap_err().to_string();
            assert!(found.contains(why), "{found}");
        }
    }

    #[test]
    fn repeated_and_implied_tensors_are_tolerated() {
        let (config, mut tensors) = model();
        tensors.insert("lm_head.weight".to_string(), tensors[EMBED].clone());
        let implied = Tensor::zeros(8, DType::F32, &Device::Cpu).unwrap();
        tensors.insert("model.layers.0.self_attn.rotary_emb.inv_freq".to_string(), implied);
        assert!(saved(&tensors, &config).unwrap().lm_head.is_none());
    }

    #[test]
    fn missing_and_broken_files_are_named() {
        let (config, tensors) = model();
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("model.safetensors");
        let found = Weights::<Tensor>::load(folder.path(), &config).unwrap_err().to_string();
        assert!(found.contains("cannot read") && found.contains("model.safetensors"), "{found}");

        save(&tensors, &path).unwrap();
        let whole = std::fs::read(&path).unwrap();
        for length in [4, 100, whole.len() - 1] {
            std::fs::write(&path, &whole[..length]).unwrap();
            let found = Weights::<Tensor>::load(folder.path(), &config).unwrap_err().to_string();
            assert!(found.contains("model.safetensors"), "{length}: {found}");
        }
    }
}
