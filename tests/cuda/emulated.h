// The header of kernels for the emulated device: the CUDA C++ that our kernels use, and the collectives of a warp,
// which are PTX on a real device. execute.cpp (fibers, collectives), device.cpp and compiler.cpp (the libraries) share
// the second half.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#define EMULATED 1
#define __global__
#define __device__
#define __host__
#define __constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __launch_bounds__(...)  // read from the source text, see nvrtcCompileProgram
#define DYNAMIC_SHARED(name) unsigned char *name = emulated::shared

struct uint3 { unsigned x, y, z; };
using dim3 = uint3;
struct alignas(8) float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };
struct alignas(8) int2 { int x, y; };
struct alignas(16) int4 { int x, y, z, w; };
struct alignas(8) uint2 { unsigned x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline int2 make_int2(int x, int y) { return {x, y}; }
inline int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;

// Macros, because a C library may declare functions of the same names.
#define rsqrtf(x) (1.0f / sqrtf(x))
#define __expf(x) expf(x)
#define __logf(x) logf(x)
#define __fdividef(x, y) ((x) / (y))
#define __ldg(pointer) (*(pointer))
template <class A, class B> constexpr std::common_type_t<A, B> min(A a, B b) { return b < a ? b : a; }
template <class A, class B> constexpr std::common_type_t<A, B> max(A a, B b) { return a < b ? b : a; }

template <class To, class From> To emulated_bits(From from) {
    static_assert(sizeof(To) == sizeof(From));
    To to;
    memcpy(&to, &from, sizeof to);
    return to;
}
inline unsigned __float_as_uint(float x) { return emulated_bits<unsigned>(x); }
inline float __uint_as_float(unsigned x) { return emulated_bits<float>(x); }
inline int __float_as_int(float x) { return emulated_bits<int>(x); }
inline float __int_as_float(int x) { return emulated_bits<float>(x); }

namespace emulated {
/// The float16 nearest to `x`, ties to even, infinite beyond the largest; every NaN becomes 0x7FFF
/// (`cvt.rn.f16x2.f32`).
inline unsigned f16(float x) { return x != x ? 0x7FFFu : emulated_bits<uint16_t>(static_cast<_Float16>(x)); }
}  // namespace emulated

// The collectives. Every lane of a warp has to come to the same one.
void __syncthreads();
void __syncwarp();
float shuffle_xor(float x, int lane_mask);
void ldmatrix(unsigned (&r)[4], const void *shared_row);
void ldmatrix_transposed(unsigned (&r)[4], const void *shared_row);
void mma(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1);

// Copies of one thread, which land as late as the hardware may let them: in `copy_wait`.
void copy_async(void *shared, const void *global, int bytes);
void copy_commit();
namespace emulated { void copy_wait(unsigned groups); }
template <int N> void copy_wait() { emulated::copy_wait(N); }

inline unsigned pack_f16(float low, float high) { return emulated::f16(high) << 16 | emulated::f16(low); }
inline float widen(uint16_t x) { return emulated_bits<_Float16>(x); }

namespace emulated {

/// The dynamic shared memory of the block that runs.
extern unsigned char *shared;

/// Calls `kernel` with arguments of its own types, read from the `parameters` of cuLaunchKernel.
template <class... A> void call(void (*kernel)(A...), void **parameters) {
    [&]<size_t... I>(std::index_sequence<I...>) {
        kernel(*static_cast<std::remove_cvref_t<A> *>(parameters[I])...);
    }(std::index_sequence_for<A...>{});
}

// From here on: what the sources of the device share.

struct Launch {
    const char *name;
    void (*thunk)(void **);
    dim3 grid, block;
    size_t shared_bytes;
    void **parameters;
};

/// Runs every thread of every block of one launch; the caller sees to it that there is one launch at a time.
void execute(const Launch &launch);

/// Ends the process with a message that names the kernel, the block and the thread, where one runs.
[[noreturn]] void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/// Returns memory filled with NaN. Inaccessible addresses follow its end.
unsigned char *guarded_new(size_t bytes, size_t alignment);
void guarded_delete(unsigned char *start, size_t bytes, size_t alignment);

/// Describes the position of an address among the allocations of the device.
const char *place(const void *address);

}  // namespace emulated
