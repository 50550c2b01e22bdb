// The operations between the matrix products of a decoder, on rows of [tokens, width]. Inputs of products and attention
// are f16; sums, norms and the residual stream are f32. A number beyond f16 becomes infinite, and sums with it become
// NaN, up to the scores.

using f16 = unsigned short;

// Below every score; exp of the distance to it is 0.
constexpr float LEAST = -3e38f;
constexpr float LOG2_E = 1.4426950408889634f;
// Divisor of the SwiGLU output, so that it fits f16 in models where single tokens have very large values.
constexpr float SHRUNK = 16;

__device__ __forceinline__ float warp_sum(float x) {
    for (int mask = 16; mask > 0; mask /= 2) x += shuffle_xor(x, mask);
    return x;
}

__device__ __forceinline__ float warp_max(float x) {
    for (int mask = 16; mask > 0; mask /= 2) x = fmaxf(x, shuffle_xor(x, mask));
    return x;
}

__device__ __forceinline__ int warp_of_grid() { return (blockIdx.x * blockDim.x + threadIdx.x) / 32; }

// x[i] = table[ids[i]]. One block per token.
extern "C" __global__ void embed(const f16 *table, const unsigned *ids, float *x, int width) {
    const f16 *from = table + static_cast<long long>(ids[blockIdx.x]) * width;
    float *to = x + static_cast<long long>(blockIdx.x) * width;
    for (int i = threadIdx.x; i < width; i += blockDim.x) to[i] = widen(from[i]);
}

// Adds `row` to each row of x. One block per row.
extern "C" __global__ void add_to_rows(float *x, const float *row, int width) {
    float *to = x + static_cast<long long>(blockIdx.x) * width;
    for (int i = threadIdx.x; i < width; i += blockDim.x) to[i] += row[i];
}

// to[i] = x[rows[i]] / √(mean of its squares + epsilon) · weight; of all rows without `rows`. One warp per row.
extern "C" __global__ void rms_norm(const float *x, const float *weight, const unsigned *rows, f16 *to, int count,
                                    int width, float epsilon) {
    int row = warp_of_grid(), lane = threadIdx.x % 32;
    if (row >= count) return;
    const float2 *from = reinterpret_cast<const float2 *>(x + static_cast<long long>(rows ? rows[row] : row) * width);
    float squares = 0;
    for (int i = lane; i < width / 2; i += 32) squares += from[i].x * from[i].x + from[i].y * from[i].y;
    float scale = rsqrtf(warp_sum(squares) / width + epsilon);
    unsigned *pairs = reinterpret_cast<unsigned *>(to + static_cast<long long>(row) * width);
    for (int i = lane; i < width / 2; i += 32) {
        pairs[i] = pack_f16(from[i].x * scale * weight[2 * i], from[i].y * scale * weight[2 * i + 1]);
    }
}

// Splits [tokens, query heads + key heads + value heads]: adds the bias, applies RMSNorm to queries and keys if they
// have a weight for it, and RoPE by position. `cosines` and `sines` are [positions, HEAD_DIM / 2]. One warp per head
// and token.
extern "C" __global__ void split_heads(const float *joined, const float *bias, const float *query_norm,
                                       const float *key_norm, const float *cosines, const float *sines,
                                       const unsigned *positions, f16 *queries, f16 *keys, f16 *values, int tokens,
                                       int query_heads, int key_heads, float epsilon) {
    constexpr int HALF = HEAD_DIM / 2, PARTS = (HALF + 31) / 32;
    int heads = query_heads + 2 * key_heads, lane = threadIdx.x % 32;
    int token = warp_of_grid() / heads, head = warp_of_grid() % heads;
    if (token >= tokens) return;
    const float *from = joined + (static_cast<long long>(token) * heads + head) * HEAD_DIM;
    float first[PARTS] = {}, second[PARTS] = {}, squares = 0;
    for (int part = 0; part < PARTS; ++part) {
        int i = lane + 32 * part;
        if (i >= HALF) continue;
        first[part] = from[i] + bias[head * HEAD_DIM + i];
        second[part] = from[i + HALF] + bias[head * HEAD_DIM + i + HALF];
        squares += first[part] * first[part] + second[part] * second[part];
    }
    bool is_query = head < query_heads, is_value = head >= query_heads + key_heads;
    const float *norm = is_query ? query_norm : is_value ? nullptr : key_norm;
    float scale = norm ? rsqrtf(warp_sum(squares) / HEAD_DIM + epsilon) : 1;
    int place = head - (is_query ? 0 : is_value ? query_heads + key_heads : query_heads);
    f16 *to = is_query ? queries : is_value ? values : keys;
    to += (static_cast<long long>(token) * (is_query ? query_heads : key_heads) + place) * HEAD_DIM;
    for (int part = 0; part < PARTS; ++part) {
        int i = lane + 32 * part;
        if (i >= HALF) continue;
        float a = first[part], b = second[part];
        if (norm) {
            a *= scale * norm[i];
            b *= scale * norm[i + HALF];
        }
        if (!is_value) {
            long long angle = static_cast<long long>(positions[token]) * HALF + i;
            float rotated = a * cosines[angle] - b * sines[angle];
            b = b * cosines[angle] + a * sines[angle];
            a = rotated;
        }
        unsigned pair = pack_f16(a, b);
        to[i] = static_cast<f16>(pair);
        to[i + HALF] = static_cast<f16>(pair >> 16);
    }
}

__device__ __forceinline__ float silu_times(float gate, float up) { return gate / (1 + exp2f(-gate * LOG2_E)) * (up / SHRUNK); }

struct alignas(16) Eight {
    f16 numbers[8];
};

// to = silu(gate) · up / SHRUNK, for rows with gate and up side by side. One thread per eight numbers.
extern "C" __global__ void swiglu(const Eight *gate_and_up, Eight *to, int tokens, int eights) {
    long long place = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x, token = place / eights;
    if (token >= tokens) return;
    Eight gate = gate_and_up[place + token * eights], up = gate_and_up[place + (token + 1) * eights], product;
    for (int i = 0; i < 8; i += 2) {
        unsigned pair = pack_f16(silu_times(widen(gate.numbers[i]), widen(up.numbers[i])),
                                 silu_times(widen(gate.numbers[i + 1]), widen(up.numbers[i + 1])));
        product.numbers[i] = static_cast<f16>(pair);
        product.numbers[i + 1] = static_cast<f16>(pair >> 16);
    }
    to[place] = product;
}

// Σ exp(logit − max) and Σ exp(logit − max) · (logit − max) over a row's logits so far, the logit of its target, the same
// logit as found before all others, and how many of the others are above it.
struct Sums {
    float max, sum, weighted, own, aim;
    unsigned above;
};

// Begins the sums of each row: finds the logit of its target. One warp per row.
extern "C" __global__ void begin_sums(const f16 *rows, const f16 *weight, const unsigned *targets, Sums *sums, int count,
                                      int width) {
    int row = warp_of_grid(), lane = threadIdx.x % 32;
    if (row >= count) return;
    const f16 *x = rows + static_cast<long long>(row) * width, *y = weight + static_cast<long long>(targets[row]) * width;
    float dot = 0;
    for (int i = lane; i < width; i += 32) dot += widen(x[i]) * widen(y[i]);
    dot = warp_sum(dot);
    if (lane == 0) sums[row] = {LEAST, 0, 0, 0, dot, 0};
}

// Adds the logits of tokens `first` to `first` + `ids` to each row's sums, from token 0 on. One warp per row.
extern "C" __global__ void sum_exponentials(const float *logits, const unsigned *targets, Sums *sums, int count,
                                            int first, int ids) {
    int row = warp_of_grid(), lane = threadIdx.x % 32;
    if (row >= count) return;
    const float *own = logits + static_cast<long long>(row) * ids;
    Sums before = sums[row];
    unsigned target = targets[row] - first;
    float max = before.max, sum = 0, weighted = 0, above = 0;
    for (int i = lane; i < ids; i += 32) max = fmaxf(max, own[i]);
    max = warp_max(max);
    for (int i = lane; i < ids; i += 32) {
        float below = own[i] - max, e = exp2f(below * LOG2_E);
        sum += e;
        weighted += e * below;
        // The target's own logit, added up in another order, may be above itself.
        above += own[i] > before.aim && static_cast<unsigned>(i) != target;
    }
    sum = warp_sum(sum);
    weighted = warp_sum(weighted);
    above = warp_sum(above);
    if (first > 0) {
        float below = before.max - max, e = exp2f(below * LOG2_E);
        sum += e * before.sum;
        weighted += e * (before.weighted + below * before.sum);
    }
    float logit = target < static_cast<unsigned>(ids) ? own[target] : before.own;
    if (lane == 0) sums[row] = {max, sum, weighted, logit, before.aim, before.above + static_cast<unsigned>(above)};
}
