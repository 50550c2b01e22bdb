"""Compiles the kernels by the real NVRTC, down to the machine code of GPUs of compute capability 8.0 to 12.0.

    LD_LIBRARY_PATH=…/nvidia/cu13/lib python3 tests/cuda/compile.py
"""

import ctypes
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "udfs/lm/src/cuda"
SOURCE = "".join((FOLDER / name).read_text() for name in ["machine.cuh", "kernels.cu", "attention.cu"])
NVRTC = ctypes.CDLL("libnvrtc.so.13")


def compile(architecture, width):
    """Ends the script with the compiler's log if it has one."""
    program = ctypes.c_void_p()
    NVRTC.nvrtcCreateProgram(ctypes.byref(program), SOURCE.encode(), b"asap.cu", 0, None, None)
    options = [f"--gpu-architecture=sm_{architecture}", f"-DHEAD_DIM={width}", "--std=c++17", "--use_fast_math"]
    options = (ctypes.c_char_p * len(options))(*map(str.encode, options))
    failed = NVRTC.nvrtcCompileProgram(program, len(options), options)
    size = ctypes.c_size_t()
    NVRTC.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    NVRTC.nvrtcGetProgramLog(program, log)
    if failed or log.value:
        sys.exit(f"sm_{architecture}, heads of {width}:\n{log.value.decode()}")
    NVRTC.nvrtcGetCUBINSize(program, ctypes.byref(size))
    print(f"sm_{architecture}, heads of {width}: {size.value} bytes of machine code")
    NVRTC.nvrtcDestroyProgram(ctypes.byref(program))


for architecture in [80, 86, 89, 90, 100, 120]:
    for width in [16, 64, 96, 128]:
        compile(architecture, width)
