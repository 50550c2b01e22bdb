// The emulated device: libcuda and libcublas as far as the host code calls them (libnvrtc is compiler.cpp; all three
// are one library under three names). Every call has done its work when it returns: streams and events order nothing.
//
// A wrong call that a real device would refuse gets the same error code. What a real device might let pass, and a test
// should not (a copy past the end of an allocation, say), ends the process with a message.

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <dlfcn.h>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "emulated.h"

using Guard = std::lock_guard<std::recursive_mutex>;
using Clock = std::chrono::steady_clock;
using Address = uint64_t;

namespace {

/// Codes of libcuda.
enum Result { SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, INVALID_DEVICE = 101, INVALID_IMAGE = 200,
              INVALID_CONTEXT = 201, NOT_FOUND = 500 };

constexpr int SHARED_DEFAULT = 48 * 1024, SHARED_OPT_IN = 227 * 1024, SHARED_MULTIPROCESSOR = 228 * 1024;
constexpr size_t ALIGNMENT = 16;

struct Function {
    std::string name;
    void (*thunk)(void **);
    int most_threads, most_shared;
};
struct Module {
    void *library;
    std::deque<Function> functions;  // a deque: their addresses are handles
};

std::recursive_mutex device;
std::map<Address, size_t> allocations;
size_t allocated;
thread_local void *context;

size_t total_memory() {
    const char *bytes = getenv("EMULATED_MEMORY");
    return bytes ? strtoull(bytes, nullptr, 10) : size_t(16) << 30;
}

/// Fails unless the whole range lies in one allocation.
void expect_allocated(const char *what, const void *address, size_t bytes) {
    auto start = reinterpret_cast<Address>(address);
    auto next = allocations.upper_bound(start);
    if (bytes == 0) return;
    if (next != allocations.begin() && start + bytes <= std::prev(next)->first + std::prev(next)->second) return;
    emulated::fail("%s: %zu bytes at %p, %s", what, bytes, address, emulated::place(address));
}

Result copy(const char *what, void *to, const void *from, size_t bytes, bool to_device, bool from_device) {
    Guard guard(device);
    if (!context) return INVALID_CONTEXT;
    if (to_device) expect_allocated(what, to, bytes);
    if (from_device) expect_allocated(what, from, bytes);
    memmove(to, from, bytes);
    return SUCCESS;
}

void *pointer(Address address) { return reinterpret_cast<void *>(address); }

}  // namespace

const char *emulated::place(const void *address) {
    static char text[128];
    auto at = reinterpret_cast<Address>(address);
    auto next = allocations.upper_bound(at);
    constexpr size_t NEAR = 1 << 20;
    if (next != allocations.begin() && at < std::prev(next)->first + std::prev(next)->second + NEAR) {
        auto [start, bytes] = *std::prev(next);
        snprintf(text, sizeof text, "byte %zu of an allocation of %zu bytes", size_t(at - start), bytes);
    } else if (next != allocations.end() && next->first - at < NEAR) {
        snprintf(text, sizeof text, "%zu bytes before an allocation of %zu", size_t(next->first - at), next->second);
    } else {
        snprintf(text, sizeof text, "far from every allocation");
    }
    return text;
}

extern "C" {

// ---- libcuda: the device and its context ----

Result cuInit(unsigned) { return SUCCESS; }
Result cuDeviceGetCount(int *count) { return *count = 1, SUCCESS; }
Result cuDeviceGet(int *handle, int ordinal) { return *handle = 0, ordinal == 0 ? SUCCESS : INVALID_DEVICE; }
Result cuDriverGetVersion(int *version) { return *version = 12000, SUCCESS; }
Result cuDeviceTotalMem_v2(size_t *bytes, int) { return *bytes = total_memory(), SUCCESS; }
Result cuDevicePrimaryCtxRetain(void **handle, int) { return *handle = &device, SUCCESS; }
Result cuDevicePrimaryCtxRelease_v2(int) { return SUCCESS; }
Result cuCtxGetCurrent(void **handle) { return *handle = context, SUCCESS; }
Result cuCtxSetCurrent(void *handle) { return context = handle, SUCCESS; }
Result cuCtxSynchronize() { return context ? SUCCESS : INVALID_CONTEXT; }

Result cuDeviceGetName(char *name, int bytes, int) {
    snprintf(name, size_t(bytes), "emulated device");
    return SUCCESS;
}

// Those of an H100, by the numbers of CUdevice_attribute.
Result cuDeviceGetAttribute(int *value, int attribute, int) {
    static const std::map<int, int> ATTRIBUTES = {
        {1, 1024}, {2, 1024}, {3, 1024}, {4, 64},              // threads of a block, and along x, y, z
        {5, 0x7FFFFFFF}, {6, 65535}, {7, 65535},               // blocks along x, y, z
        {8, SHARED_DEFAULT}, {97, SHARED_OPT_IN}, {81, SHARED_MULTIPROCESSOR}, {111, 1024},  // shared memory
        {10, 32}, {12, 65536}, {82, 65536},                    // lanes of a warp, registers
        {16, 132}, {39, 2048}, {106, 32}, {38, 50 << 20},      // multiprocessors, their threads and blocks, L2
        {75, 9}, {76, 0},                                      // compute capability
        {31, 1}, {41, 1}, {115, 1},                            // concurrent kernels, one address space, pools
    };
    auto found = ATTRIBUTES.find(attribute);
    if (found == ATTRIBUTES.end()) return INVALID_VALUE;
    return *value = found->second, SUCCESS;
}

Result cuGetErrorName(Result error, const char **text) {
    static const std::map<int, const char *> NAMES = {
        {SUCCESS, "CUDA_SUCCESS"}, {INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE"},
        {OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY"}, {INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE"},
        {INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE"}, {INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT"},
        {NOT_FOUND, "CUDA_ERROR_NOT_FOUND"}};
    auto found = NAMES.find(error);
    return *text = found == NAMES.end() ? "CUDA_ERROR_UNKNOWN" : found->second, SUCCESS;
}
Result cuGetErrorString(Result error, const char **text) { return cuGetErrorName(error, text); }

// ---- libcuda: streams and events ----

Result cuStreamCreate(void **stream, unsigned) { return *stream = new char, SUCCESS; }
Result cuStreamCreateWithPriority(void **stream, unsigned, int) { return *stream = new char, SUCCESS; }
Result cuStreamDestroy_v2(void *stream) { return delete static_cast<char *>(stream), SUCCESS; }
Result cuStreamSynchronize(void *) { return context ? SUCCESS : INVALID_CONTEXT; }
Result cuStreamWaitEvent(void *, void *, unsigned) { return SUCCESS; }
Result cuEventCreate(Clock::time_point **event, unsigned) { return *event = new Clock::time_point, SUCCESS; }
Result cuEventDestroy_v2(Clock::time_point *event) { return delete event, SUCCESS; }
Result cuEventRecord(Clock::time_point *event, void *) { return *event = Clock::now(), SUCCESS; }
Result cuEventQuery(Clock::time_point *) { return SUCCESS; }
Result cuEventSynchronize(Clock::time_point *) { return SUCCESS; }
Result cuEventElapsedTime(float *milliseconds, Clock::time_point *from, Clock::time_point *to) {
    return *milliseconds = std::chrono::duration<float, std::milli>(*to - *from).count(), SUCCESS;
}

// ---- libcuda: memory ----

Result cuMemAlloc_v2(Address *address, size_t bytes) {
    Guard guard(device);
    if (!context) return INVALID_CONTEXT;
    if (bytes == 0) return INVALID_VALUE;
    if (bytes > total_memory() - allocated) return OUT_OF_MEMORY;
    *address = reinterpret_cast<Address>(emulated::guarded_new(bytes, ALIGNMENT));
    allocations[*address] = bytes;
    allocated += bytes;
    return SUCCESS;
}

Result cuMemFree_v2(Address address) {
    Guard guard(device);
    auto found = allocations.find(address);
    if (found == allocations.end()) return INVALID_VALUE;
    emulated::guarded_delete(static_cast<unsigned char *>(pointer(address)), found->second, ALIGNMENT);
    allocated -= found->second;
    allocations.erase(found);
    return SUCCESS;
}

Result cuMemGetInfo_v2(size_t *free, size_t *total) {
    Guard guard(device);
    return *total = total_memory(), *free = *total - allocated, SUCCESS;
}

Result cuMemAllocAsync(Address *address, size_t bytes, void *) { return cuMemAlloc_v2(address, bytes); }
Result cuMemFreeAsync(Address address, void *) { return cuMemFree_v2(address); }
Result cuDeviceGetDefaultMemPool(void **pool, int) { return *pool = nullptr, SUCCESS; }
Result cuMemPoolSetAttribute(void *, int, void *) { return SUCCESS; }
Result cuMemHostAlloc(void **memory, size_t bytes, unsigned) { return *memory = malloc(bytes), SUCCESS; }
Result cuMemFreeHost(void *memory) { return free(memory), SUCCESS; }

Result cuMemsetD8_v2(Address to, unsigned char value, size_t bytes) {
    Guard guard(device);
    if (!context) return INVALID_CONTEXT;
    expect_allocated("memset", pointer(to), bytes);
    return memset(pointer(to), value, bytes), SUCCESS;
}
Result cuMemsetD8Async(Address to, unsigned char value, size_t bytes, void *) {
    return cuMemsetD8_v2(to, value, bytes);
}

Result cuMemcpyHtoD_v2(Address to, const void *from, size_t bytes) {
    return copy("copy to the device", pointer(to), from, bytes, true, false);
}
Result cuMemcpyDtoH_v2(void *to, Address from, size_t bytes) {
    return copy("copy from the device", to, pointer(from), bytes, false, true);
}
Result cuMemcpyDtoD_v2(Address to, Address from, size_t bytes) {
    return copy("copy on the device", pointer(to), pointer(from), bytes, true, true);
}
Result cuMemcpyHtoDAsync_v2(Address to, const void *from, size_t bytes, void *) {
    return cuMemcpyHtoD_v2(to, from, bytes);
}
Result cuMemcpyDtoHAsync_v2(void *to, Address from, size_t bytes, void *) {
    return cuMemcpyDtoH_v2(to, from, bytes);
}
Result cuMemcpyDtoDAsync_v2(Address to, Address from, size_t bytes, void *) {
    return cuMemcpyDtoD_v2(to, from, bytes);
}

// ---- libcuda: modules and kernels ----

Result cuModuleLoadData(Module **module, const char *image) {
    void *library = dlopen(image, RTLD_NOW | RTLD_LOCAL);
    if (library) return *module = new Module{library, {}}, SUCCESS;
    fprintf(stderr, "emulated device: %s\n", dlerror());
    return INVALID_IMAGE;
}

Result cuModuleUnload(Module *module) {
    dlclose(module->library);
    return delete module, SUCCESS;
}

Result cuModuleGetFunction(Function **function, Module *module, const char *name) {
    Guard guard(device);
    for (Function &known : module->functions)
        if (known.name == name) return *function = &known, SUCCESS;
    void *thunk = dlsym(module->library, ("emulated_kernel_" + std::string(name)).c_str());
    void *bounds = dlsym(module->library, ("emulated_bounds_" + std::string(name)).c_str());
    if (!thunk || !bounds) return NOT_FOUND;
    auto call = reinterpret_cast<void (*)(void **)>(thunk);
    module->functions.push_back({name, call, *static_cast<const int *>(bounds), SHARED_DEFAULT});
    return *function = &module->functions.back(), SUCCESS;
}

Result cuFuncGetAttribute(int *value, int attribute, Function *function) {
    if (attribute == 0) return *value = function->most_threads, SUCCESS;
    if (attribute == 8) return *value = function->most_shared, SUCCESS;
    return INVALID_VALUE;
}

Result cuFuncSetAttribute(Function *function, int attribute, int value) {
    if (attribute == 8 && value >= 0 && value <= SHARED_OPT_IN) return function->most_shared = value, SUCCESS;
    return attribute == 9 ? SUCCESS : INVALID_VALUE;  // 9: how to divide the L1 cache, a wish only
}

Result cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, Function *, int threads, size_t shared) {
    if (threads < 1) return INVALID_VALUE;
    return *blocks = int(min(size_t(min(2048 / threads, 32)), SHARED_MULTIPROCESSOR / (shared + 1024))), SUCCESS;
}

Result cuLaunchKernel(Function *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                      unsigned shared, void *, void **parameters, void **) {
    Guard guard(device);
    if (!context) return INVALID_CONTEXT;
    uint64_t threads = uint64_t(bx) * by * bz;
    if (!gx || !gy || !gz || gx > 0x7FFFFFFFu || gy > 65535 || gz > 65535 || !threads || bz > 64 ||
        threads > unsigned(function->most_threads) || shared > unsigned(function->most_shared))
        return INVALID_VALUE;
    emulated::execute({function->name.c_str(), function->thunk, {gx, gy, gz}, {bx, by, bz}, shared, parameters});
    return SUCCESS;
}

}  // extern "C"

// ---- libcublas ----

namespace {

enum Status { DONE = 0, BAD_VALUE = 7, NOT_SUPPORTED = 15 };
constexpr int OP_N = 0, F16 = 2, F32 = 0, COMPUTE_F32 = 68;

/// A matrix argument of a call: `rows` × `columns` in memory, column by column.
struct Matrix {
    const char *what;
    const void *start;
    int type, rows, columns, leading;

    size_t bytes() const {
        size_t elements = columns && rows ? size_t(columns - 1) * size_t(leading) + size_t(rows) : 0;
        return elements * (type == F16 ? 2 : 4);
    }
};

/// Some rows of op(A) at one k, in a vector register.
constexpr int PANEL = 64;
typedef float Lanes __attribute__((vector_size(64)));
struct Column {
    Lanes lanes[PANEL / 16];
};

/// Writes alpha sum + beta c; with beta 0 the old c is not read: it may be NaN.
void store(const Matrix &c, size_t at, float sum, float alpha, float beta) {
    auto *as_float = static_cast<float *>(const_cast<void *>(c.start)) + at;
    auto *as_half = static_cast<uint16_t *>(const_cast<void *>(c.start)) + at;
    sum *= alpha;
    if (beta != 0) sum += beta * (c.type == F16 ? widen(*as_half) : *as_float);
    if (c.type == F16) *as_half = uint16_t(emulated::f16(sum));
    else *as_float = sum;
}

// C = alpha op(A) op(B) + beta C with sums in f32, for each element over k in ascending order.
void multiply(const Matrix &a, bool a_transposed, const Matrix &b, bool b_transposed, const Matrix &c, int inner,
              float alpha, float beta) {
    auto *a_half = static_cast<const uint16_t *>(a.start), *b_half = static_cast<const uint16_t *>(b.start);
    std::vector<Column> panel(size_t(inner), Column{});
    for (int first = 0; first < c.rows; first += PANEL) {
        int rows = min(PANEL, c.rows - first);
        for (int k = 0; k < inner; k++)
            for (int i = 0; i < rows; i++) {
                size_t row = a_transposed ? k : first + i, column = a_transposed ? first + i : k;
                panel[k].lanes[i / 16][i % 16] = widen(a_half[column * a.leading + row]);
            }
        for (int j = 0; j < c.columns; j++) {
            Column sums = {};
            for (int k = 0; k < inner; k++) {
                size_t row = b_transposed ? j : k, column = b_transposed ? k : j;
                float factor = widen(b_half[column * b.leading + row]);
                for (int i = 0; i < PANEL / 16; i++) sums.lanes[i] += panel[k].lanes[i] * factor;
            }
            for (int i = 0; i < rows; i++)
                store(c, size_t(j) * c.leading + first + i, sums.lanes[i / 16][i % 16], alpha, beta);
        }
    }
}

}  // namespace

extern "C" {

Status cublasCreate_v2(void **handle) { return *handle = new char, DONE; }
Status cublasDestroy_v2(void *handle) { return delete static_cast<char *>(handle), DONE; }
Status cublasSetStream_v2(void *, void *) { return DONE; }
Status cublasSetMathMode(void *, int) { return DONE; }
Status cublasSetWorkspace_v2(void *, void *, size_t) { return DONE; }
Status cublasGetPointerMode_v2(void *, int *mode) { return *mode = 0, DONE; }
Status cublasSetPointerMode_v2(void *, int mode) { return mode == 0 ? DONE : NOT_SUPPORTED; }

Status cublasGemmStridedBatchedEx(void *, int op_a, int op_b, int m, int n, int k, const float *alpha,
                                  const void *a, int type_a, int lda, long long stride_a,
                                  const void *b, int type_b, int ldb, long long stride_b, const float *beta,
                                  void *c, int type_c, int ldc, long long stride_c, int batch, int compute, int) {
    if (m < 0 || n < 0 || k < 0 || batch < 0) return BAD_VALUE;
    if (type_a != F16 || type_b != F16 || (type_c != F16 && type_c != F32)) return NOT_SUPPORTED;
    if (compute != COMPUTE_F32) return NOT_SUPPORTED;
    Guard guard(device);
    for (int i = 0; i < batch; i++) {
        auto at = [&](const void *start, long long stride, int type) {
            return static_cast<const char *>(start) + i * stride * (type == F16 ? 2 : 4);
        };
        Matrix matrices[] = {
            {"gemm, A", at(a, stride_a, type_a), type_a, op_a == OP_N ? m : k, op_a == OP_N ? k : m, lda},
            {"gemm, B", at(b, stride_b, type_b), type_b, op_b == OP_N ? k : n, op_b == OP_N ? n : k, ldb},
            {"gemm, C", at(c, stride_c, type_c), type_c, m, n, ldc}};
        for (const Matrix &matrix : matrices) {
            if (matrix.leading < max(1, matrix.rows)) return BAD_VALUE;
            expect_allocated(matrix.what, matrix.start, matrix.bytes());
        }
        multiply(matrices[0], op_a != OP_N, matrices[1], op_b != OP_N, matrices[2], k, *alpha, *beta);
    }
    return DONE;
}

Status cublasGemmEx(void *handle, int op_a, int op_b, int m, int n, int k, const float *alpha,
                    const void *a, int type_a, int lda, const void *b, int type_b, int ldb, const float *beta,
                    void *c, int type_c, int ldc, int compute, int algorithm) {
    return cublasGemmStridedBatchedEx(handle, op_a, op_b, m, n, k, alpha, a, type_a, lda, 0, b, type_b, ldb, 0, beta,
                                      c, type_c, ldc, 0, 1, compute, algorithm);
}

}  // extern "C"
