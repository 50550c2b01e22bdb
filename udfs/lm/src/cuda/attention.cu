// Causal attention, softmax(Q · Kᵀ / √HEAD_DIM) · V, for chains of any lengths in one batch. A block has the scores of
// 128 queries and 64 keys of one head, never tokens × tokens. The online softmax and the loop order are
// FlashAttention-2's (Dao 2023).

constexpr int QUERIES = 128, KEYS = 64, WARPS = 4;
// Rows of shared memory are swizzled in pieces of eight numbers, so that eight rows of one column are in distinct banks
// (for heads of 64 and 128 numbers; for others two of them may share one).
constexpr int PIECES = HEAD_DIM / 8;
constexpr int EXCHANGED = PIECES % 8 == 0 ? 7 : PIECES % 4 == 0 ? 3 : 1;

// Consecutive queries of one chain, for one block.
struct Tile {
    // Row of the first query in `queries`, and the number of queries.
    unsigned query, queries;
    // Row of the chain's first key in `keys`, and the number of the chain's keys before the first query's own.
    unsigned key, position;
};

__device__ __forceinline__ f16 *piece(f16 *rows, int row, int column) {
    return rows + row * HEAD_DIM + (column ^ (row & EXCHANGED)) * 8;
}

// Starts copying ROWS rows to shared memory; rows from `count` on become zeros.
template <int ROWS> __device__ __forceinline__ void copy_rows(f16 *to, const f16 *from, long long stride, int count) {
    // Not unrolled: scores take most registers when the next rows are requested.
#pragma unroll 1
    for (int i = threadIdx.x; i < ROWS * PIECES; i += 32 * WARPS) {
        int row = i / PIECES, column = i % PIECES;
        bool is_there = row < count;
        copy_async(piece(to, row, column), from + (is_there ? row * stride : 0) + column * 8, is_there ? 16 : 0);
    }
}

// State of a warp for half of its 32 queries, a band of 16: lane l has rows l / 4 and l / 4 + 8 of the band, and two
// columns of each eight, in the layout of mma.
struct Band {
    float gathered[HEAD_DIM / 8][4];
    // Per row: the largest score so far, and this lane's part of Σ exp(score − max).
    float max[2], sum[2];
};

// Masks later keys: row r sees those up to `seen` + r, counted from this block's first.
__device__ __forceinline__ void hide_later_keys(float (&scores)[KEYS / 8][4], int seen) {
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int n = 0; n < KEYS / 8; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            if (8 * n + 2 * (lane % 4) + i % 2 > seen + lane / 4 + 8 * (i / 2)) scores[n][i] = LEAST;
        }
    }
}

// Turns scores of a band into exp(score − max), and rescales the accumulated output to the new maximum.
__device__ __forceinline__ void softmax(Band &band, float (&scores)[KEYS / 8][4], float scale) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        float max = band.max[half];
#pragma unroll
        for (int n = 0; n < KEYS / 8; ++n) max = fmaxf(max, fmaxf(scores[n][2 * half], scores[n][2 * half + 1]));
        max = fmaxf(max, shuffle_xor(max, 1));
        max = fmaxf(max, shuffle_xor(max, 2));
        float shrink = exp2f((band.max[half] - max) * scale), sum = 0;
#pragma unroll
        for (int n = 0; n < KEYS / 8; ++n) {
#pragma unroll
            for (int i = 2 * half; i < 2 * half + 2; ++i) {
                scores[n][i] = exp2f(scores[n][i] * scale - max * scale);
                sum += scores[n][i];
            }
        }
        band.max[half] = max;
        band.sum[half] = band.sum[half] * shrink + sum;
#pragma unroll
        for (int n = 0; n < HEAD_DIM / 8; ++n) {
            band.gathered[n][2 * half] *= shrink;
            band.gathered[n][2 * half + 1] *= shrink;
        }
    }
}

// Computes the scores of a warp's 32 queries and 64 keys. The first query sees the keys up to `seen`.
__device__ __forceinline__ void score_keys(float (&scores)[2][KEYS / 8][4], f16 *queries, f16 *keys, int seen) {
    int lane = threadIdx.x % 32, first = threadIdx.x / 32 * 32;
#pragma unroll
    for (int k = 0; k < HEAD_DIM / 16; ++k) {
        unsigned a[2][4];
#pragma unroll
        for (int band = 0; band < 2; ++band) {
            ldmatrix(a[band], piece(queries, first + 16 * band + lane % 16, 2 * k + lane / 16));
        }
#pragma unroll
        for (int n = 0; n < KEYS / 16; ++n) {
            unsigned b[4];
            ldmatrix(b, piece(keys, 16 * n + lane % 8 + lane / 16 * 8, 2 * k + lane / 8 % 2));
#pragma unroll
            for (int band = 0; band < 2; ++band) {
                mma(scores[band][2 * n], a[band], b[0], b[1]);
                mma(scores[band][2 * n + 1], a[band], b[2], b[3]);
            }
        }
    }
#pragma unroll
    for (int band = 0; band < 2; ++band) {
        if (seen + 16 * band < KEYS - 1) hide_later_keys(scores[band], seen + 16 * band);
    }
}

// Accumulates 64 values, weighted by their scores.
__device__ __forceinline__ void gather_values(Band (&bands)[2], float (&scores)[2][KEYS / 8][4], f16 *values, float scale) {
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int band = 0; band < 2; ++band) softmax(bands[band], scores[band], scale);
#pragma unroll
    for (int k = 0; k < KEYS / 16; ++k) {
        unsigned a[2][4];
#pragma unroll
        for (int band = 0; band < 2; ++band) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const float(&pair)[4] = scores[band][2 * k + i / 2];
                a[band][i] = i % 2 == 0 ? pack_f16(pair[0], pair[1]) : pack_f16(pair[2], pair[3]);
            }
        }
#pragma unroll
        for (int n = 0; n < HEAD_DIM / 16; ++n) {
            unsigned b[4];
            ldmatrix_transposed(b, piece(values, 16 * k + lane % 16, 2 * n + lane / 16));
#pragma unroll
            for (int band = 0; band < 2; ++band) {
                mma(bands[band].gathered[2 * n], a[band], b[0], b[1]);
                mma(bands[band].gathered[2 * n + 1], a[band], b[2], b[3]);
            }
        }
    }
}

__device__ __forceinline__ void write_bands(Band (&bands)[2], f16 *to, long long stride, int count) {
    int lane = threadIdx.x % 32, first = threadIdx.x / 32 * 32;
#pragma unroll
    for (int band = 0; band < 2; ++band) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            float sum = bands[band].sum[half];
            sum += shuffle_xor(sum, 1);
            sum += shuffle_xor(sum, 2);
            int row = first + 16 * band + lane / 4 + 8 * half;
            if (row >= count) continue;
            unsigned *pairs = reinterpret_cast<unsigned *>(to + row * stride);
#pragma unroll
            for (int n = 0; n < HEAD_DIM / 8; ++n) {
                const float(&numbers)[4] = bands[band].gathered[n];
                pairs[4 * n + lane % 4] = pack_f16(numbers[2 * half] / sum, numbers[2 * half + 1] / sum);
            }
        }
    }
}

// `queries` and `gathered` are [tokens, query heads × HEAD_DIM]. `keys` and `values` are [tokens, key heads ×
// HEAD_DIM], with the earlier tokens of a chain before its own. `scale` is log₂ e / √HEAD_DIM. One block per head and
// tile. Shared memory holds its queries and 64 keys and values: values are copied while keys are read, and the next
// keys while values are read.
extern "C" __global__ void __launch_bounds__(32 * WARPS)
    attend(const f16 *queries, const f16 *keys, const f16 *values, f16 *gathered, const Tile *tiles, int query_heads,
           int key_heads, float scale) {
    DYNAMIC_SHARED(shared);
    f16 *own_queries = reinterpret_cast<f16 *>(shared);
    f16 *own_keys = own_queries + QUERIES * HEAD_DIM, *own_values = own_keys + KEYS * HEAD_DIM;
    Tile tile = tiles[blockIdx.y];
    long long head = blockIdx.x, key_head = head / (query_heads / key_heads);
    long long query_stride = query_heads * HEAD_DIM, key_stride = key_heads * HEAD_DIM;
    int count = tile.queries, length = tile.position + tile.queries;
    queries += tile.query * query_stride + head * HEAD_DIM;
    gathered += tile.query * query_stride + head * HEAD_DIM;
    keys += tile.key * key_stride + key_head * HEAD_DIM;
    values += tile.key * key_stride + key_head * HEAD_DIM;
    auto copy_block = [&](f16 *to, const f16 *from, int block) {
        copy_rows<KEYS>(to, from + block * KEYS * key_stride, key_stride, length - block * KEYS);
        copy_commit();
    };
    copy_rows<QUERIES>(own_queries, queries, query_stride, count);
    copy_block(own_keys, keys, 0);
    Band bands[2] = {};
#pragma unroll
    for (Band &band : bands) band.max[0] = band.max[1] = LEAST;
    int first = threadIdx.x / 32 * 32, blocks = (length + KEYS - 1) / KEYS;
    for (int block = 0; block < blocks; ++block) {
        int seen = tile.position + first - block * KEYS;
        bool has_keys = first < count && seen + 31 >= 0;
        // The keys have arrived, and all warps are done with the previous values.
        copy_wait<0>();
        __syncthreads();
        copy_block(own_values, values, block);
        float scores[2][KEYS / 8][4] = {};
        if (has_keys) score_keys(scores, own_queries, own_keys, seen);
        // The values have arrived, and all warps are done with the keys.
        copy_wait<0>();
        __syncthreads();
        if (block + 1 < blocks) copy_block(own_keys, keys, block + 1);
        if (has_keys) gather_values(bands, scores, own_values, scale);
    }
    if (first < count) write_bands(bands, gathered, query_stride, count);
}
