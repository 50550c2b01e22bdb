//! The GPU: memory, matrix products and kernel launches.

use std::ops::Range;
use std::sync::Arc;

use cudarc::cublas::{CudaBlas, result::gemm_ex, sys as blas};
use cudarc::driver::sys::{CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, cuMemPoolSetAttribute};
use cudarc::driver::{
    CudaContext, CudaSlice, CudaStream, CudaViewMut, DevicePtr, DevicePtrMut, DeviceRepr, LaunchConfig, PushKernelArg,
};
use half::f16;

use super::kernels::{Kernels, shared_bytes};
use super::tiles::Tile;
use super::types::{GpuLayer, GpuMatrix, Sums};
use super::{CudaModel, failed};
use crate::model::config::ModelConfig;
use crate::ops::Heads;
use crate::{LmError, Result};

/// Threads per block of all kernels: the four warps of attention.cu.
const THREADS: usize = 128;
const WARP: usize = 32;
pub(crate) const SHRUNK: f32 = 16.0;

#[derive(Debug)]
pub(crate) struct Gpu {
    stream: Arc<CudaStream>,
    blas: CudaBlas,
    kernels: Kernels,
    /// Bytes of memory next to the model.
    pub left: usize,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Update {
    Replace,
    /// Adds the product times this factor.
    Add(f32),
}

pub(crate) trait Number: DeviceRepr {
    const TYPE: blas::cudaDataType;
}

impl Number for f32 {
    const TYPE: blas::cudaDataType = blas::cudaDataType::CUDA_R_32F;
}

impl Number for f16 {
    const TYPE: blas::cudaDataType = blas::cudaDataType::CUDA_R_16F;
}

macro_rules! launch {
    ($gpu:expr, $kernel:ident, $config:expr, $($argument:expr),+ $(,)?) => {
        // SAFETY: the arguments match the kernel's parameters, and its threads stay within the checked lengths.
        unsafe { $gpu.stream.launch_builder(&$gpu.kernels.$kernel)$(.arg($argument))+.launch($config) }
            .map(drop)
            .map_err(failed)
    };
}

impl Gpu {
    /// Opens a visible GPU and compiles the kernels for a model of this shape, if its memory suffices.
    pub(crate) fn open(config: &ModelConfig, card: usize) -> Result<Self> {
        let (context, capability, left) = find(config, card)?;
        keep_freed_memory(&context)?;
        let kernels = Kernels::compile(&context, capability, config.head_dim)?;
        let stream = context.default_stream();
        let blas = CudaBlas::new(Arc::clone(&stream)).map_err(failed)?;
        // SAFETY: the handle is alive. Partial sums of a product stay f32.
        unsafe {
            blas::cublasSetMathMode(
                *blas.handle(),
                blas::cublasMath_t::CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION,
            )
        }
        .result()
        .map_err(failed)?;
        Ok(Self { stream, blas, kernels, left })
    }

    pub(crate) fn enter(&self) -> Result<()> {
        self.stream.context().bind_to_thread().map_err(failed)
    }

    pub(crate) fn room<T: DeviceRepr>(&self, values: usize) -> Result<CudaSlice<T>> {
        // SAFETY: the memory is written before it is read. The driver does not allocate 0 bytes.
        unsafe { self.stream.alloc(values.max(1)) }.map_err(failed)
    }

    pub(crate) fn copied<T: DeviceRepr>(&self, values: &[T]) -> Result<CudaSlice<T>> {
        self.stream.clone_htod(values).map_err(failed)
    }

    pub(crate) fn copy<T: DeviceRepr>(&self, values: &[T], to: &mut CudaViewMut<T>) -> Result<()> {
        self.stream.memcpy_htod(values, to).map_err(failed)
    }

    pub(crate) fn read<T: DeviceRepr>(&self, values: &CudaSlice<T>) -> Result<Vec<T>> {
        let values = self.stream.clone_dtoh(values).map_err(failed)?;
        self.stream.synchronize().map_err(failed)?;
        Ok(values)
    }

    fn pointer<T>(&self, values: Option<&CudaSlice<T>>) -> u64 {
        values.map_or(0, |values| values.device_ptr(&self.stream).0)
    }

    /// Multiplies rows by a weight, or by these of its outputs.
    pub(crate) fn product<T: Number>(
        &self,
        x: &CudaSlice<f16>,
        rows: usize,
        weight: &GpuMatrix,
        outputs: Option<Range<usize>>,
        to: &mut CudaSlice<T>,
        write: Update,
    ) -> Result<()> {
        let outputs = outputs.unwrap_or(0..weight.outputs);
        let (inputs, first, outputs) = (weight.inputs, outputs.start, outputs.len());
        if x.len() < rows * inputs || to.len() < rows * outputs {
            return Err(LmError::Gpu(format!("buffers too small for [{rows}, {inputs}] · [{inputs}, {outputs}]")));
        }
        let numbers = weight.numbers.slice(first * inputs..(first + outputs) * inputs);
        let ((weight, _weight), (x, _x)) = (numbers.device_ptr(&self.stream), x.device_ptr(&self.stream));
        let (to, _to) = to.device_ptr_mut(&self.stream);
        let (times, kept) = match write {
            Update::Replace => (1.0_f32, 0.0_f32),
            Update::Add(times) => (times, 1.0),
        };
        let [m, n, k] = [outputs, rows, inputs].map(|size| size as i32);
        // SAFETY: the matrices, column-major for cuBLAS, are inside their slices as checked above.
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
                f16::TYPE,
                k,
                x as *const _,
                f16::TYPE,
                k,
                (&raw const kept).cast(),
                to as *mut _,
                T::TYPE,
                m,
                blas::cublasComputeType_t::CUBLAS_COMPUTE_32F,
                blas::cublasGemmAlgo_t::CUBLAS_GEMM_DEFAULT,
            )
        }
        .map_err(failed)
    }

    pub(crate) fn embed(
        &self,
        table: &CudaSlice<f16>,
        ids: &CudaSlice<u32>,
        x: &mut CudaSlice<f32>,
        tokens: usize,
        width: usize,
    ) -> Result<()> {
        fits("embed", &[(ids.len(), tokens), (x.len(), tokens * width)])?;
        launch!(self, embed, blocks(tokens), table, ids, x, &(width as i32))
    }

    pub(crate) fn add_to_rows(
        &self,
        x: &mut CudaSlice<f32>,
        row: &CudaSlice<f32>,
        rows: usize,
        width: usize,
    ) -> Result<()> {
        fits("add_to_rows", &[(x.len(), rows * width), (row.len(), width)])?;
        launch!(self, add_to_rows, blocks(rows), x, row, &(width as i32))
    }

    /// Applies RMSNorm to the first rows of `x`, or to `rows`; the result is `[count, width]`.
    pub(crate) fn rms_norm(
        &self,
        x: &CudaSlice<f32>,
        weight: &CudaSlice<f32>,
        rows: Option<&CudaSlice<u32>>,
        to: &mut CudaSlice<f16>,
        [count, width]: [usize; 2],
        epsilon: f32,
    ) -> Result<()> {
        // The caller has checked that `rows` are in range.
        let read = rows.map_or((x.len(), count * width), |rows| (rows.len(), count));
        fits("rms_norm", &[read, (weight.len(), width), (to.len(), count * width)])?;
        let (rows, config) = (self.pointer(rows), warps(count));
        launch!(self, rms_norm, config, x, weight, &rows, to, &(count as i32), &(width as i32), &epsilon)
    }

    /// Splits joined heads, and applies bias, norms and RoPE to queries and keys.
    #[expect(clippy::too_many_arguments, reason = "a kernel's arguments")]
    pub(crate) fn split_heads(
        &self,
        joined: &CudaSlice<f32>,
        layer: &GpuLayer,
        [cosines, sines]: [&CudaSlice<f32>; 2],
        positions: &CudaSlice<u32>,
        queries: &mut CudaSlice<f16>,
        [keys, values]: [&mut CudaViewMut<f16>; 2],
        (tokens, heads): (usize, Heads),
        epsilon: f32,
    ) -> Result<()> {
        let all = (heads.query + 2 * heads.key) * heads.width;
        let key_values = tokens * heads.key * heads.width;
        fits(
            "split_heads",
            &[
                (joined.len(), tokens * all),
                (layer.joined_bias.len(), all),
                (layer.query_norm.as_ref().map_or(heads.width, |norm| norm.len()), heads.width),
                (layer.key_norm.as_ref().map_or(heads.width, |norm| norm.len()), heads.width),
                (sines.len(), cosines.len()),
                (positions.len(), tokens),
                (queries.len(), tokens * heads.query * heads.width),
                (keys.len(), key_values),
                (values.len(), key_values),
            ],
        )?;
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

    pub(crate) fn swiglu(
        &self,
        gate_and_up: &CudaSlice<f16>,
        to: &mut CudaSlice<f16>,
        tokens: usize,
        width: usize,
    ) -> Result<()> {
        fits("swiglu", &[(gate_and_up.len(), 2 * tokens * width), (to.len(), tokens * width)])?;
        let eights = width / 8;
        let config = blocks((tokens * eights).div_ceil(THREADS));
        launch!(self, swiglu, config, gate_and_up, to, &(tokens as i32), &(eights as i32))
    }

    /// Begins the sums of each row with the logit of its target.
    pub(crate) fn begin_sums(
        &self,
        rows: &CudaSlice<f16>,
        weight: &GpuMatrix,
        targets: &CudaSlice<u32>,
        sums: &mut CudaSlice<Sums>,
        count: usize,
    ) -> Result<()> {
        // The caller has checked that `targets` are in range.
        fits("begin_sums", &[(rows.len(), count * weight.inputs), (targets.len(), count), (sums.len(), count)])?;
        let (config, width) = (warps(count), weight.inputs as i32);
        launch!(self, begin_sums, config, rows, &weight.numbers, targets, sums, &(count as i32), &width)
    }

    pub(crate) fn sum_exponentials(
        &self,
        logits: &CudaSlice<f32>,
        targets: &CudaSlice<u32>,
        sums: &mut CudaSlice<Sums>,
        count: usize,
        ids: Range<usize>,
    ) -> Result<()> {
        fits("sum_exponentials", &[(logits.len(), count * ids.len()), (targets.len(), count), (sums.len(), count)])?;
        let (first, ids) = (ids.start as i32, ids.len() as i32);
        launch!(self, sum_exponentials, warps(count), logits, targets, sums, &(count as i32), &first, &ids)
    }

    pub(crate) fn attend(
        &self,
        [queries, keys, values]: [&CudaSlice<f16>; 3],
        gathered: &mut CudaSlice<f16>,
        tiles: &CudaSlice<Tile>,
        heads: Heads,
    ) -> Result<()> {
        // Tiles stay within the tokens that they were built for.
        fits("attend", &[(gathered.len(), queries.len()), (values.len(), keys.len())])?;
        let config = LaunchConfig {
            grid_dim: (heads.query as u32, tiles.len() as u32, 1),
            block_dim: (THREADS as u32, 1, 1),
            shared_mem_bytes: shared_bytes(heads.width) as u32,
        };
        let scale = std::f32::consts::LOG2_E / (heads.width as f32).sqrt();
        let [query, key] = [heads.query, heads.key].map(|count| count as i32);
        launch!(self, attend, config, queries, keys, values, gathered, tiles, &query, &key, &scale)
    }
}

/// Rejects a launch whose threads would exceed a slice. `slices` has the present and the needed values of each.
fn fits(kernel: &str, slices: &[(usize, usize)]) -> Result<()> {
    match slices.iter().find(|(held, needed)| held < needed) {
        Some((held, needed)) => Err(LmError::Gpu(format!("{kernel} needs {needed} values, found {held}"))),
        None => Ok(()),
    }
}

fn blocks(count: usize) -> LaunchConfig {
    LaunchConfig { grid_dim: (count as u32, 1, 1), block_dim: (THREADS as u32, 1, 1), shared_mem_bytes: 0 }
}

fn warps(count: usize) -> LaunchConfig {
    blocks((count * WARP).div_ceil(THREADS))
}

/// Keeps freed memory in the process: otherwise the driver would release it at each synchronization and allocate it
/// again.
fn keep_freed_memory(context: &CudaContext) -> Result<()> {
    if !context.has_async_alloc() {
        return Ok(());
    }
    let mut most = u64::MAX;
    // SAFETY: the device is there, and its pool's threshold is a u64.
    unsafe {
        let pool = cudarc::driver::result::device::get_default_mem_pool(context.cu_device()).map_err(failed)?;
        cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, (&raw mut most).cast()).result().map_err(failed)
    }
}

/// See [`card_for`](super::card_for).
pub(super) fn first(config: &ModelConfig) -> Result<Option<usize>> {
    // SAFETY: this only opens NVIDIA's library.
    let has_driver = unsafe { cudarc::driver::sys::is_culib_present() };
    let count = if has_driver { CudaContext::device_count().unwrap_or(0) } else { 0 };
    let mut found = Ok(None);
    for card in 0..usize::try_from(count).unwrap_or(0) {
        match find(config, card) {
            Ok(_) => return Ok(Some(card)),
            Err(error) if found.is_ok() => found = Err(error),
            Err(_) => {}
        }
    }
    found
}

/// Returns a visible GPU, its compute capability, and the bytes of its memory next to a model of this shape.
pub(super) fn find(config: &ModelConfig, card: usize) -> Result<(Arc<CudaContext>, (i32, i32), usize)> {
    let width = config.head_dim;
    let (hidden, wide) = (config.hidden_size, config.intermediate_size);
    if !width.is_multiple_of(16) || width > 128 || !hidden.is_multiple_of(8) || !wide.is_multiple_of(8) {
        let expected = "expected a head_dim of 16, 32 … 128, and a hidden_size and an intermediate_size in steps of 8";
        let found = format!("found {width}, {hidden} and {wide} in config.json");
        return Err(LmError::Gpu(format!("{expected}, {found}")));
    }
    find_libraries()?;
    let context = CudaContext::new(card).map_err(failed)?;
    let capability = context.compute_capability().map_err(failed)?;
    if capability.0 < 8 {
        let message = format!("expected compute capability 8.0 or later, found {}.{}", capability.0, capability.1);
        return Err(LmError::Gpu(message));
    }
    let (free, bytes) = (context.mem_get_info().map_err(failed)?.0, CudaModel::bytes(config));
    let Some(left) = free.checked_sub(bytes) else {
        let [bytes, free] = [bytes, free].map(|bytes| bytes as f64 / 1e9);
        return Err(LmError::Gpu(format!("the model needs {bytes:.1} GB of memory, {free:.1} GB are free")));
    };
    Ok((context, capability, left))
}

fn find_libraries() -> Result<()> {
    // SAFETY: this only opens NVIDIA's libraries.
    let found = unsafe {
        [
            ("libcuda (ships with NVIDIA's driver)", cudarc::driver::sys::is_culib_present()),
            ("libnvrtc (CUDA toolkit or `pip install nvidia-cuda-nvrtc`)", cudarc::nvrtc::sys::is_culib_present()),
            ("libcublas (CUDA toolkit or `pip install nvidia-cublas`)", cudarc::cublas::sys::is_culib_present()),
        ]
    };
    match found.iter().find(|(_, is_present)| !is_present) {
        Some((library, _)) => Err(LmError::Gpu(format!("cannot load {library}: install it, or set LD_LIBRARY_PATH"))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_launch_beyond_a_slice_is_refused() {
        assert!(fits("swiglu", &[(24, 24), (12, 12)]).is_ok());
        let error = fits("swiglu", &[(24, 24), (11, 12)]).unwrap_err().to_string();
        assert_eq!(error, "the GPU failed: swiglu needs 12 values, found 11");
    }
}
