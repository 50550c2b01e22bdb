//! The GPU: its memory, matrix products and kernels.

use std::fmt::Display;
use std::ops::Range;
use std::sync::Arc;

use cudarc::cublas::{CudaBlas, result::gemm_ex, sys as blas};
use cudarc::driver::sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
use cudarc::driver::{
    CudaContext, CudaFunction, CudaSlice, CudaStream, CudaViewMut, DevicePtr, DevicePtrMut, DeviceRepr, LaunchConfig,
    PushKernelArg,
};
use cudarc::nvrtc::{CompileError, CompileOptions, compile_ptx_with_opts};
use half::f16;

use super::CudaModel;
use super::output::Sums;
use super::tiles::{KEYS, QUERIES, Tile};
use super::weights::{GpuLayer, Matrix};
use crate::lm::config::ModelConfig;
use crate::lm::{LmError, Result};

const SOURCE: &str = concat!(include_str!("machine.cuh"), include_str!("kernels.cu"), include_str!("attention.cu"));
/// Threads of a block of all kernels: the four warps of attention.cu.
const THREADS: usize = 128;
const WARP: usize = 32;
/// What swiglu in kernels.cu divides by.
pub const SHRUNK: f32 = 16.0;

/// A GPU and what runs on it.
#[derive(Debug)]
pub struct Gpu {
    stream: Arc<CudaStream>,
    blas: CudaBlas,
    kernels: Kernels,
}

#[derive(Debug)]
struct Kernels {
    embed: CudaFunction,
    add_to_rows: CudaFunction,
    rms_norm: CudaFunction,
    split_heads: CudaFunction,
    swiglu: CudaFunction,
    sum_exponentials: CudaFunction,
    attend: CudaFunction,
}

/// Numbers of heads. Query head h reads key head h / (query / key).
#[derive(Debug, Clone, Copy)]
pub struct HeadsOf {
    pub query: usize,
    pub key: usize,
}

/// What a product does to what was there.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Write {
    Replace,
    /// Adds so many times the product.
    Add(f32),
}

/// Launches a kernel with these arguments.
macro_rules! launch {
    ($gpu:expr, $kernel:ident, $config:expr, $($argument:expr),+ $(,)?) => {
        // SAFETY: the arguments are those that the kernel takes, and its threads stay within the lengths among them.
        unsafe { $gpu.stream.launch_builder(&$gpu.kernels.$kernel)$(.arg($argument))+.launch($config) }
            .map(drop)
            .map_err(failed)
    };
}

impl Gpu {
    /// The first visible GPU, with the kernels for a model of this shape, if it has memory for it.
    pub fn open(config: &ModelConfig) -> Result<Self> {
        let width = config.head_dim;
        if !width.is_multiple_of(16) || width > 128 || !config.intermediate_size.is_multiple_of(4) {
            let found = format!("head_dim {width} and intermediate_size {}", config.intermediate_size);
            let expected = "expected a head_dim of 16 to 128 in steps of 16 and an intermediate_size in steps of 4";
            return Err(LmError::Gpu(format!("{expected}, found {found} in config.json")));
        }
        find_libraries()?;
        let context = CudaContext::new(0).map_err(failed)?;
        let (major, minor) = context.compute_capability().map_err(failed)?;
        if major < 8 {
            let message = format!("expected compute capability 8.0 or later, found {major}.{minor}");
            return Err(LmError::Gpu(message));
        }
        let (free, bytes) = (context.mem_get_info().map_err(failed)?.0, CudaModel::bytes(config));
        if bytes > free {
            let [bytes, free] = [bytes, free].map(|bytes| bytes as f64 / 1e9);
            return Err(LmError::Gpu(format!("the model takes {bytes:.1} GB of its memory, {free:.1} GB are free")));
        }
        let kernels = Kernels::compile(&context, format!("compute_{major}{minor}"), width)?;
        let stream = context.default_stream();
        let blas = CudaBlas::new(Arc::clone(&stream)).map_err(failed)?;
        // SAFETY: the handle is alive. Sums of parts of a product stay f32.
        unsafe {
            blas::cublasSetMathMode(
                *blas.handle(),
                blas::cublasMath_t::CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION,
            )
        }
        .result()
        .map_err(failed)?;
        Ok(Self { stream, blas, kernels })
    }

    /// Makes the GPU that of the calling thread.
    pub fn enter(&self) -> Result<()> {
        self.stream.context().bind_to_thread().map_err(failed)
    }

    /// Memory for this many values, which nobody has written.
    pub fn room<T: DeviceRepr>(&self, values: usize) -> Result<CudaSlice<T>> {
        // SAFETY: it is written before it is read. The driver gives no empty memory.
        unsafe { self.stream.alloc(values.max(1)) }.map_err(failed)
    }

    /// Copies values to the GPU.
    pub fn copied<T: DeviceRepr>(&self, values: &[T]) -> Result<CudaSlice<T>> {
        self.stream.clone_htod(values).map_err(failed)
    }

    /// Copies values to the begin of `to`.
    pub fn copy<T: DeviceRepr>(&self, values: &[T], to: &mut CudaViewMut<T>) -> Result<()> {
        self.stream.memcpy_htod(values, to).map_err(failed)
    }

    /// Copies values from the GPU when all that was launched is done.
    pub fn read<T: DeviceRepr>(&self, values: &CudaSlice<T>) -> Result<Vec<T>> {
        let values = self.stream.clone_dtoh(values).map_err(failed)?;
        self.stream.synchronize().map_err(failed)?;
        Ok(values)
    }

    /// The address of values that may be none: 0 where they are.
    fn pointer<T>(&self, values: Option<&CudaSlice<T>>) -> u64 {
        values.map_or(0, |values| values.device_ptr(&self.stream).0)
    }

    /// x · Wᵀ of the first `rows` rows of x.
    pub fn product(
        &self,
        x: &CudaSlice<f16>,
        rows: usize,
        weight: &Matrix,
        to: &mut CudaSlice<f32>,
        write: Write,
    ) -> Result<()> {
        self.product_with(x, rows, weight, 0..weight.outputs, to, write)
    }

    /// [`Gpu::product`] with some outputs of W.
    pub fn product_with(
        &self,
        x: &CudaSlice<f16>,
        rows: usize,
        weight: &Matrix,
        outputs: Range<usize>,
        to: &mut CudaSlice<f32>,
        write: Write,
    ) -> Result<()> {
        let (inputs, first, outputs) = (weight.inputs, outputs.start, outputs.len());
        if x.len() < rows * inputs || to.len() < rows * outputs {
            return Err(LmError::Gpu(format!("no room for a product of [{rows}, {inputs}] and [{inputs}, {outputs}]")));
        }
        let numbers = weight.numbers.slice(first * inputs..(first + outputs) * inputs);
        let ((weight, _weight), (x, _x)) = (numbers.device_ptr(&self.stream), x.device_ptr(&self.stream));
        let (to, _to) = to.device_ptr_mut(&self.stream);
        let (times, kept) = match write {
            Write::Replace => (1.0_f32, 0.0_f32),
            Write::Add(times) => (times, 1.0),
        };
        let [m, n, k] = [outputs, rows, inputs].map(|size| size as i32);
        // SAFETY: the matrices, column by column in the eyes of cuBLAS, lie within their slices as was checked.
        unsafe {
            gemm_ex(
                *self.blas.handle(),
                blas::cublasOperation_t::CUBLAS_OP_T,
                blas::cublasOperation_t::CUBLAS_OP_N,
                m,
                n,
                k,
                (&raw const times).cast(),
                weight as *const _,
                blas::cudaDataType::CUDA_R_16F,
                k,
                x as *const _,
                blas::cudaDataType::CUDA_R_16F,
                k,
                (&raw const kept).cast(),
                to as *mut _,
                blas::cudaDataType::CUDA_R_32F,
                m,
                blas::cublasComputeType_t::CUBLAS_COMPUTE_32F,
                blas::cublasGemmAlgo_t::CUBLAS_GEMM_DEFAULT,
            )
        }
        .map_err(failed)
    }

    /// Rows of an embedding.
    pub fn embed(
        &self,
        table: &CudaSlice<f16>,
        ids: &CudaSlice<u32>,
        x: &mut CudaSlice<f32>,
        tokens: usize,
        width: usize,
    ) -> Result<()> {
        launch!(self, embed, blocks(tokens), table, ids, x, &(width as i32))
    }

    /// Adds a row to each row of x.
    pub fn add_to_rows(&self, x: &mut CudaSlice<f32>, row: &CudaSlice<f32>, rows: usize, width: usize) -> Result<()> {
        launch!(self, add_to_rows, blocks(rows), x, row, &(width as i32))
    }

    /// Normalises rows of x, the first ones or those that are named, to `[count, width]`.
    pub fn rms_norm(
        &self,
        x: &CudaSlice<f32>,
        weight: &CudaSlice<f32>,
        rows: Option<&CudaSlice<u32>>,
        to: &mut CudaSlice<f16>,
        [count, width]: [usize; 2],
        epsilon: f32,
    ) -> Result<()> {
        let (rows, config) = (self.pointer(rows), warps(count));
        launch!(self, rms_norm, config, x, weight, &rows, to, &(count as i32), &(width as i32), &epsilon)
    }

    /// Takes joined heads apart: bias, norms and rotation of queries and keys, `(tokens, heads)` of them.
    #[expect(clippy::too_many_arguments, reason = "a kernel's arguments")]
    pub fn split_heads(
        &self,
        joined: &CudaSlice<f32>,
        layer: &GpuLayer,
        [cosines, sines]: [&CudaSlice<f32>; 2],
        positions: &CudaSlice<u32>,
        queries: &mut CudaSlice<f16>,
        [keys, values]: [&mut CudaViewMut<f16>; 2],
        (tokens, heads): (usize, HeadsOf),
        epsilon: f32,
    ) -> Result<()> {
        let [query_norm, key_norm] = [&layer.query_norm, &layer.key_norm].map(|norm| self.pointer(norm.as_ref()));
        let config = warps(tokens * (heads.query + 2 * heads.key));
        let [tokens, query, key] = [tokens, heads.query, heads.key].map(|count| count as i32);
        launch!(
            self,
            split_heads,
            config,
            joined,
            &layer.joined_bias,
            &query_norm,
            &key_norm,
            cosines,
            sines,
            positions,
            queries,
            keys,
            values,
            &tokens,
            &query,
            &key,
            &epsilon
        )
    }

    /// silu(gate) · up / [`SHRUNK`] of rows that hold both, `width` numbers each.
    pub fn swiglu(
        &self,
        gate_and_up: &CudaSlice<f32>,
        to: &mut CudaSlice<f16>,
        tokens: usize,
        width: usize,
    ) -> Result<()> {
        let fours = width / 4;
        let config = blocks((tokens * fours).div_ceil(THREADS));
        launch!(self, swiglu, config, gate_and_up, to, &(tokens as i32), &(fours as i32))
    }

    /// Adds logits, `[count, ids.len()]`, to the sums of their rows.
    pub fn sum_exponentials(
        &self,
        logits: &CudaSlice<f32>,
        targets: &CudaSlice<u32>,
        sums: &mut CudaSlice<Sums>,
        count: usize,
        ids: Range<usize>,
    ) -> Result<()> {
        let (first, ids) = (ids.start as i32, ids.len() as i32);
        launch!(self, sum_exponentials, warps(count), logits, targets, sums, &(count as i32), &first, &ids)
    }

    /// Causal attention of all tiles, `width` numbers a head.
    pub fn attend(
        &self,
        [queries, keys, values]: [&CudaSlice<f16>; 3],
        gathered: &mut CudaSlice<f16>,
        tiles: &CudaSlice<Tile>,
        heads: HeadsOf,
        width: usize,
    ) -> Result<()> {
        let config = LaunchConfig {
            grid_dim: (heads.query as u32, tiles.len() as u32, 1),
            block_dim: (THREADS as u32, 1, 1),
            shared_mem_bytes: shared_bytes(width) as u32,
        };
        let scale = std::f32::consts::LOG2_E / (width as f32).sqrt();
        let [query, key] = [heads.query, heads.key].map(|count| count as i32);
        launch!(self, attend, config, queries, keys, values, gathered, tiles, &query, &key, &scale)
    }
}

impl Kernels {
    fn compile(context: &Arc<CudaContext>, architecture: String, width: usize) -> Result<Self> {
        let options = vec![
            format!("--gpu-architecture={architecture}"),
            format!("-DHEAD_DIM={width}"),
            "--std=c++17".to_string(),
            "--use_fast_math".to_string(),
        ];
        let options = CompileOptions { options, name: Some("asap.cu".to_string()), ..CompileOptions::default() };
        let image = compile_ptx_with_opts(SOURCE, options).map_err(|error| match error {
            CompileError::CompileError { log, .. } => LmError::Gpu(format!("NVRTC: {}", log.to_string_lossy())),
            other => failed(other),
        })?;
        let module = context.load_module(image).map_err(failed)?;
        let kernel = |name| module.load_function(name).map_err(failed);
        let attend = kernel("attend")?;
        attend
            .set_attribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, shared_bytes(width) as i32)
            .map_err(failed)?;
        Ok(Self {
            embed: kernel("embed")?,
            add_to_rows: kernel("add_to_rows")?,
            rms_norm: kernel("rms_norm")?,
            split_heads: kernel("split_heads")?,
            swiglu: kernel("swiglu")?,
            sum_exponentials: kernel("sum_exponentials")?,
            attend,
        })
    }
}

/// Shared memory of a block of attention: its queries, and twice keys and values.
fn shared_bytes(width: usize) -> usize {
    (QUERIES + 4 * KEYS) * width * size_of::<f16>()
}

fn blocks(count: usize) -> LaunchConfig {
    LaunchConfig { grid_dim: (count as u32, 1, 1), block_dim: (THREADS as u32, 1, 1), shared_mem_bytes: 0 }
}

/// Blocks with at least this many warps.
fn warps(count: usize) -> LaunchConfig {
    blocks((count * WARP).div_ceil(THREADS))
}

/// Without this the first call would panic where a library is missing.
fn find_libraries() -> Result<()> {
    // SAFETY: the libraries of NVIDIA are only opened.
    let found = unsafe {
        [
            ("libcuda (it comes with NVIDIA's driver)", cudarc::driver::sys::is_culib_present()),
            ("libnvrtc (CUDA toolkit or `pip install nvidia-cuda-nvrtc`)", cudarc::nvrtc::sys::is_culib_present()),
            ("libcublas (CUDA toolkit or `pip install nvidia-cublas`)", cudarc::cublas::sys::is_culib_present()),
        ]
    };
    match found.iter().find(|(_, is_present)| !is_present) {
        Some((library, _)) => Err(LmError::Gpu(format!("cannot load {library}: is it in LD_LIBRARY_PATH?"))),
        None => Ok(()),
    }
}

fn failed(error: impl Display) -> LmError {
    LmError::Gpu(error.to_string())
}
