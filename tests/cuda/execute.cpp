// How the emulated device runs a kernel: block after block, the threads of a block as fibers on the calling thread. A
// fiber runs until it reaches a collective and then returns to the scheduler. When every lane of a warp waits in the
// same collective, the scheduler does its work for all 32 and resumes them. A warp runs until it waits at the barrier
// of the block before the next warp runs. A missing barrier shows as a difference between the two orders of
// EMULATED_ORDER (ascending, descending), which also set the order of lanes and of blocks.

#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <sys/mman.h>
#include <vector>

#include "emulated.h"

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace emulated {

unsigned char *shared;

namespace {

constexpr size_t PAGE = 4096;
constexpr size_t GUARD = size_t(1) << 20;  // inaccessible addresses on both sides; they use no memory
constexpr size_t STACK = 128 * 1024;
constexpr unsigned WARP = 32;
constexpr size_t SHARED_ALIGNMENT = 128;

/// Where a fiber has stopped.
enum class Meeting { none, returned, barrier, syncwarp, shuffle, load, load_transposed, multiply };
constexpr const char *MEETING[] = {"none", "the end of the kernel", "__syncthreads", "__syncwarp", "shuffle_xor",
                                   "ldmatrix", "ldmatrix_transposed", "mma"};

struct Copy { void *to; const void *from; int bytes; unsigned group; };
struct Shuffle { float value; int mask; };
struct Load { unsigned *r; const unsigned char *row; };
struct Multiply { float *d; const unsigned *a; unsigned b[2]; };

struct Fiber {
    void *stack;
    Meeting meeting;
    void *operand;  // on the stack of the fiber: Shuffle, Load or Multiply
    uint3 index;
    std::vector<Copy> copies;
    unsigned group;  // how many groups of copies it has committed
};

std::deque<Fiber> fibers;  // a deque: their addresses stay
Fiber *current;            // null while the scheduler runs
void *scheduler;
const Launch *launch;
bool descending;

}  // namespace

void fail(const char *format, ...) {
    char message[1024], where[256] = "";
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    if (launch)
        snprintf(where, sizeof where, "kernel %s, block (%u, %u, %u), thread (%u, %u, %u): ", launch->name, blockIdx.x,
                 blockIdx.y, blockIdx.z, threadIdx.x, threadIdx.y, threadIdx.z);
    fprintf(stderr, "emulated device: %s%s\n", where, message);
    abort();
}

static size_t round_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

unsigned char *guarded_new(size_t bytes, size_t alignment) {
    size_t used = round_up(bytes, alignment), room = round_up(used, PAGE);
    void *pages = mmap(nullptr, room + 2 * GUARD, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pages == MAP_FAILED) fail("no memory for %zu bytes", bytes);
    unsigned char *first = static_cast<unsigned char *>(pages) + GUARD;
    if (room && mprotect(first, room, PROT_READ | PROT_WRITE)) fail("no memory for %zu bytes", bytes);
    memset(first, 0xFF, room);
    return first + room - used;
}

void guarded_delete(unsigned char *start, size_t bytes, size_t alignment) {
    size_t used = round_up(bytes, alignment), room = round_up(used, PAGE);
    munmap(start + used - room - GUARD, room + 2 * GUARD);
}

// Saves the registers that a called function has to keep, and the stack, then takes those of the other side.
extern "C" void emulated_switch(void **save, void *load) __attribute__((visibility("hidden")));
asm(R"(
    .text
    .globl emulated_switch
    .hidden emulated_switch
    .type emulated_switch, @function
emulated_switch:
    push %rbp
    push %rbx
    push %r12
    push %r13
    push %r14
    push %r15
    mov %rsp, (%rdi)
    mov %rsi, %rsp
    pop %r15
    pop %r14
    pop %r13
    pop %r12
    pop %rbx
    pop %rbp
    ret
    .size emulated_switch, .-emulated_switch
)");

static void meet(Meeting meeting, void *operand = nullptr) {
    current->meeting = meeting;
    current->operand = operand;
    emulated_switch(&current->stack, scheduler);
}

static void resume(Fiber &fiber) {
    current = &fiber;
    threadIdx = fiber.index;
    emulated_switch(&scheduler, fiber.stack);
    current = nullptr;
}

// A fiber lives on: when its thread has returned, the next resume makes it the same thread of another block.
static void fiber_main() {
    for (;;) {
        launch->thunk(launch->parameters);
        if (!current->copies.empty())
            fail("returns while %zu of its copy_async are not waited for", current->copies.size());
        meet(Meeting::returned);
    }
}

static void new_fiber() {
    void **top = reinterpret_cast<void **>(guarded_new(STACK, 16) + STACK);
    top[-1] = nullptr;  // no caller
    top[-2] = reinterpret_cast<void *>(fiber_main);
    fibers.push_back({top - 8, Meeting::none, nullptr, {}, {}, 0});
}

static float value(unsigned pair, unsigned half) { return widen(uint16_t(half ? pair >> 16 : pair)); }

static void shuffle(Fiber *const *lanes) {
    float values[WARP];
    int mask = static_cast<Shuffle *>(lanes[0]->operand)->mask;
    for (unsigned lane = 0; lane < WARP; lane++) {
        auto *operand = static_cast<Shuffle *>(lanes[lane]->operand);
        if (operand->mask != mask || mask < 0 || mask >= int(WARP))
            fail("shuffle_xor: lane 0 has the mask %d, lane %u has %d", mask, lane, operand->mask);
        values[lane] = operand->value;
    }
    for (unsigned lane = 0; lane < WARP; lane++)
        static_cast<Shuffle *>(lanes[lane]->operand)->value = values[lane ^ unsigned(mask)];
}

// PTX ISA, ldmatrix: lane 8m + i gives the address of row i of matrix m. Register m of a lane holds row lane / 4,
// columns 2 (lane % 4) and the next of matrix m; transposed, column lane / 4, rows 2 (lane % 4) and the next.
static void load_matrices(Fiber *const *lanes, bool transposed) {
    const unsigned char *rows[WARP];
    for (unsigned lane = 0; lane < WARP; lane++) rows[lane] = static_cast<Load *>(lanes[lane]->operand)->row;
    for (unsigned lane = 0; lane < WARP; lane++) {
        unsigned group = lane / 4, pair = 2 * (lane % 4);
        for (unsigned matrix = 0; matrix < 4; matrix++) {
            const unsigned char *const *row = rows + 8 * matrix;
            uint16_t halves[2];
            for (unsigned i = 0; i < 2; i++)
                memcpy(&halves[i], transposed ? row[pair + i] + 2 * group : row[group] + 2 * (pair + i), 2);
            static_cast<Load *>(lanes[lane]->operand)->r[matrix] = halves[0] | unsigned(halves[1]) << 16;
        }
    }
}

// PTX ISA, matrix fragments for mma.m16n8k16 with floating point type; element i of a fragment is half i % 2 of
// register i / 2 (a, b) or register i (d).
static void multiply(Fiber *const *lanes) {
    float a[16][16], b[16][8], d[16][8];
    for (unsigned lane = 0; lane < WARP; lane++) {
        auto *operand = static_cast<Multiply *>(lanes[lane]->operand);
        unsigned group = lane / 4, pair = 2 * (lane % 4);
        for (unsigned i = 0; i < 8; i++)
            a[group + i / 2 % 2 * 8][pair + i % 2 + i / 4 * 8] = value(operand->a[i / 2], i % 2);
        for (unsigned i = 0; i < 4; i++) b[pair + i % 2 + i / 2 * 8][group] = value(operand->b[i / 2], i % 2);
        for (unsigned i = 0; i < 4; i++) d[group + i / 2 * 8][pair + i % 2] = operand->d[i];
    }
    for (unsigned row = 0; row < 16; row++)
        for (unsigned k = 0; k < 16; k++)
            for (unsigned column = 0; column < 8; column++) d[row][column] += a[row][k] * b[k][column];
    for (unsigned lane = 0; lane < WARP; lane++)
        for (unsigned i = 0; i < 4; i++)
            static_cast<Multiply *>(lanes[lane]->operand)->d[i] = d[lane / 4 + i / 2 * 8][2 * (lane % 4) + i % 2];
}

static unsigned in_order(unsigned i, unsigned count) { return descending ? count - 1 - i : i; }

/// The meeting that all of `count` fibers have come to.
static Meeting common_meeting(Fiber *const *some, unsigned count, const char *of) {
    for (unsigned i = 1; i < count; i++) {
        if (some[i]->meeting == some[0]->meeting) continue;
        threadIdx = some[i]->index;
        fail("has come to %s, while thread (%u, %u, %u) of its %s waits in %s", MEETING[int(some[i]->meeting)],
             some[0]->index.x, some[0]->index.y, some[0]->index.z, of, MEETING[int(some[0]->meeting)]);
    }
    return some[0]->meeting;
}

/// Runs a warp until all of it waits at the barrier of the block or has returned.
static void run_warp(Fiber *const *lanes, unsigned count) {
    for (;;) {
        for (unsigned i = 0; i < count; i++) resume(*lanes[in_order(i, count)]);
        Meeting meeting = common_meeting(lanes, count, "warp");
        if (meeting == Meeting::barrier || meeting == Meeting::returned) return;
        threadIdx = lanes[0]->index;
        if (count < WARP) fail("%s in a warp of %u threads", MEETING[int(meeting)], count);
        switch (meeting) {
            case Meeting::shuffle: shuffle(lanes); break;
            case Meeting::load: load_matrices(lanes, false); break;
            case Meeting::load_transposed: load_matrices(lanes, true); break;
            case Meeting::multiply: multiply(lanes); break;
            default: break;  // __syncwarp: meeting is all
        }
    }
}

static void run_block(Fiber *const *threads, unsigned count) {
    memset(shared, 0xFF, launch->shared_bytes);
    for (unsigned i = 0; i < count; i++) threads[i]->group = 0;
    unsigned warps = (count + WARP - 1) / WARP;
    do {
        for (unsigned i = 0; i < warps; i++) {
            unsigned first = WARP * in_order(i, warps);
            run_warp(threads + first, min(WARP, count - first));
        }
    } while (common_meeting(threads, count, "block") == Meeting::barrier);
}

// A fault of a kernel ends the process anyway, so calls that are unsafe in a signal handler do no harm here.
static void on_fault(int signal, siginfo_t *info, void *) {
    auto *address = static_cast<unsigned char *>(info->si_addr);
    if (signal == SIGFPE) fail("divides by zero");
    if (address >= shared - GUARD && address < shared + launch->shared_bytes + GUARD)
        fail("touches byte %td of the shared memory, which has %zu", address - shared, launch->shared_bytes);
    fail("touches %p, %s", static_cast<void *>(address), place(address));
}

static void run_blocks(Fiber *const *threads, unsigned count) {
    uint64_t blocks = uint64_t(gridDim.x) * gridDim.y * gridDim.z;
    for (uint64_t i = 0; i < blocks; i++) {
        uint64_t block = descending ? blocks - 1 - i : i;
        blockIdx = {unsigned(block % gridDim.x), unsigned(block / gridDim.x % gridDim.y),
                    unsigned(block / gridDim.x / gridDim.y)};
        run_block(threads, count);
    }
}

// A separate stack for the handler: the existing one may be just large enough for the process's own handler.
template <class Body> static void run_with_faults_caught(Body body) {
    constexpr int SIGNALS[] = {SIGSEGV, SIGBUS, SIGFPE};
    struct sigaction catching = {}, before[3];
    stack_t own = {}, stack_before;
    std::vector<char> memory(STACK);
    own.ss_sp = memory.data();
    own.ss_size = memory.size();
    sigaltstack(&own, &stack_before);
    catching.sa_sigaction = on_fault;
    catching.sa_flags = SA_SIGINFO | SA_ONSTACK;
    for (int i = 0; i < 3; i++) sigaction(SIGNALS[i], &catching, &before[i]);
    body();
    for (int i = 0; i < 3; i++) sigaction(SIGNALS[i], &before[i], nullptr);
    sigaltstack(&stack_before, nullptr);
}

void execute(const Launch &what) {
    const char *order = getenv("EMULATED_ORDER");
    descending = order && !strcmp(order, "descending");
    gridDim = what.grid;
    blockDim = what.block;
    unsigned count = blockDim.x * blockDim.y * blockDim.z;
    std::vector<Fiber *> threads;
    while (fibers.size() < count) new_fiber();
    for (unsigned i = 0; i < count; i++) {
        fibers[i].index = {i % blockDim.x, i / blockDim.x % blockDim.y, i / blockDim.x / blockDim.y};
        threads.push_back(&fibers[i]);
    }
    shared = guarded_new(what.shared_bytes, SHARED_ALIGNMENT);
    launch = &what;

    run_with_faults_caught([&] { run_blocks(threads.data(), count); });
    launch = nullptr;
    guarded_delete(shared, what.shared_bytes, SHARED_ALIGNMENT);
}

/// Fails unless `bytes` at `address` lie in the block's shared memory and start at a multiple of 16.
static void expect_shared(const char *what, const void *address, size_t bytes) {
    auto offset = static_cast<const unsigned char *>(address) - shared;
    if (offset < 0 || size_t(offset) + bytes > launch->shared_bytes)
        fail("%s: byte %td of the shared memory, which has %zu", what, offset, launch->shared_bytes);
    if (reinterpret_cast<uintptr_t>(address) % 16) fail("%s: byte %td is not a multiple of 16", what, offset);
}

void copy_wait(unsigned groups) {
    std::vector<Copy> late;
    for (const Copy &copy : current->copies) {
        // A copy that is in no committed group yet is not waited for.
        if (copy.group + groups >= current->group) {
            late.push_back(copy);
        } else if (copy.bytes) {
            memcpy(copy.to, copy.from, 16);
        } else {
            memset(copy.to, 0, 16);
        }
    }
    current->copies.swap(late);
}

}  // namespace emulated

using namespace emulated;

void __syncthreads() { meet(Meeting::barrier); }
void __syncwarp() { meet(Meeting::syncwarp); }

float shuffle_xor(float x, int lane_mask) {
    Shuffle operand{x, lane_mask};
    meet(Meeting::shuffle, &operand);
    return operand.value;
}

void ldmatrix(unsigned (&r)[4], const void *shared_row) {
    expect_shared("ldmatrix", shared_row, 16);
    Load operand{r, static_cast<const unsigned char *>(shared_row)};
    meet(Meeting::load, &operand);
}

void ldmatrix_transposed(unsigned (&r)[4], const void *shared_row) {
    expect_shared("ldmatrix_transposed", shared_row, 16);
    Load operand{r, static_cast<const unsigned char *>(shared_row)};
    meet(Meeting::load_transposed, &operand);
}

void mma(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    Multiply operand{d, a, {b0, b1}};
    meet(Meeting::multiply, &operand);
}

void copy_async(void *to, const void *from, int bytes) {
    expect_shared("copy_async", to, 16);
    if (bytes != 0 && bytes != 16) fail("copy_async: %d bytes, not 0 or 16", bytes);
    if (reinterpret_cast<uintptr_t>(from) % 16) fail("copy_async: the source %p is not a multiple of 16", from);
    // The hardware may write from now on. A thread that still reads the old content is in a race, and gets NaN.
    memset(to, 0xFF, 16);
    current->copies.push_back({to, from, bytes, current->group});
}

void copy_commit() { current->group++; }
