//! The kernels, compiled for the present GPU.

use std::ffi::{CStr, CString, c_char};
use std::sync::Arc;

use cudarc::driver::sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
use cudarc::driver::{CudaContext, CudaFunction};
use cudarc::nvrtc::result::{compile_program, create_program, destroy_program, get_program_log};
use cudarc::nvrtc::{Ptx, sys};
use half::f16;

use super::failed;
use super::tiles::{KEYS, QUERIES};
use crate::{LmError, Result};

const SOURCE: &str = concat!(include_str!("machine.cuh"), include_str!("kernels.cu"), include_str!("attention.cu"));

#[derive(Debug)]
pub(crate) struct Kernels {
    pub embed: CudaFunction,
    pub add_to_rows: CudaFunction,
    pub rms_norm: CudaFunction,
    pub split_heads: CudaFunction,
    pub swiglu: CudaFunction,
    pub begin_sums: CudaFunction,
    pub sum_exponentials: CudaFunction,
    pub attend: CudaFunction,
}

impl Kernels {
    pub(crate) fn compile(context: &Arc<CudaContext>, (major, minor): (i32, i32), width: usize) -> Result<Self> {
        let options = [
            format!("--gpu-architecture=sm_{major}{minor}"),
            format!("-DHEAD_DIM={width}"),
            "--std=c++17".to_string(),
            "--use_fast_math".to_string(),
        ];
        // Despite its name, the type holds machine code here: an older driver rejects the PTX of a newer NVRTC.
        let module = context.load_module(Ptx::from_binary(machine_code(&options)?)).map_err(failed)?;
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
            begin_sums: kernel("begin_sums")?,
            sum_exponentials: kernel("sum_exponentials")?,
            attend,
        })
    }
}

pub(crate) fn shared_bytes(width: usize) -> usize {
    (QUERIES + 2 * KEYS) * width * size_of::<f16>()
}

fn machine_code(options: &[String]) -> Result<Vec<u8>> {
    let source = CString::new(SOURCE).map_err(failed)?;
    let program = create_program(&source, Some(c"asap.cu")).map_err(failed)?;
    let code = compiled(program, options);
    // SAFETY: the program is valid and not used again.
    unsafe { destroy_program(program) }.map_err(failed)?;
    code
}

fn compiled(program: sys::nvrtcProgram, options: &[String]) -> Result<Vec<u8>> {
    // SAFETY: the program is valid; the buffers have the lengths that NVRTC reports.
    unsafe {
        if let Err(error) = compile_program(program, options) {
            let log: Vec<u8> = get_program_log(program).map_err(failed)?.iter().map(|byte| *byte as u8).collect();
            let log = CStr::from_bytes_until_nul(&log).map(CStr::to_string_lossy).unwrap_or_default();
            return Err(LmError::Gpu(format!("NVRTC cannot compile the kernels: {error} {log}")));
        }
        let mut bytes = 0;
        sys::nvrtcGetCUBINSize(program, &raw mut bytes).result().map_err(failed)?;
        let mut code = vec![0_u8; bytes];
        sys::nvrtcGetCUBIN(program, code.as_mut_ptr().cast::<c_char>()).result().map_err(failed)?;
        Ok(code)
    }
}
