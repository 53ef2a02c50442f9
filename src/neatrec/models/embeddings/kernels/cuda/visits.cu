// Around a visit: its order (a number for each unit to sort by, lines shuffled within baskets), and a look at the tables.

typedef unsigned long long u64;
typedef long long i64;

__device__ __forceinline__ u64 mixed(u64 x) {
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
    return x ^ (x >> 31);
}

extern "C" __global__ void sort_keys(u64* out, i64 count, u64 seed) {
    i64 n = blockIdx.x * (i64)blockDim.x + threadIdx.x;
    if (n < count) out[n] = mixed(mixed(seed) + (u64)n * 0x9E3779B97F4A7C15ull);
}

// Fisher and Yates, the same as `arrange._shuffle`: one thread a basket.
extern "C" __global__ void shuffle_lines(const int* items, int* out, const i64* offsets, const i64* number, i64 count,
                                         u64 seed) {
    i64 basket = blockIdx.x * (i64)blockDim.x + threadIdx.x;
    if (basket >= count) return;
    u64 key = mixed(seed + (u64)number[basket] * 0xD1B54A32D192ED03ull);
    i64 start = offsets[basket], size = offsets[basket + 1] - start;
    for (i64 n = 0; n < size; n++) out[start + n] = items[start + n];
    for (i64 n = size - 1; n > 0; n--) {
        u64 bits = mixed(key + (u64)n * 0x9E3779B97F4A7C15ull);
        i64 m = (i64)(((bits >> 32) * (u64)(n + 1)) >> 32);
        int kept = out[start + n];
        out[start + n] = out[start + m];
        out[start + m] = kept;
    }
}

// The largest absolute number of a table's vectors, as bits: those of NaN are above all others. A warp takes a row at a time.
extern "C" __global__ void largest(const float* table, i64 rows, int row_floats, int dim, unsigned int* out) {
    const int lane = threadIdx.x & 31;
    const i64 warps = (i64)gridDim.x * blockDim.x >> 5;
    unsigned int most = 0;
    for (i64 row = (blockIdx.x * (i64)blockDim.x + threadIdx.x) >> 5; row < rows; row += warps)
        for (int n = lane; n < dim; n += 32) most = max(most, __float_as_uint(fabsf(table[row * row_floats + n])));
    for (int o = 16; o; o >>= 1) most = max(most, __shfl_xor_sync(0xffffffffu, most, o));
    if (lane == 0) atomicMax(out, most);
}
