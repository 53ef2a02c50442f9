// The order of a visit: a number for each unit to sort by, and lines shuffled within baskets.

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

// Fisher and Yates in place, the same as `draws.shuffle_lines`: one thread per basket.
extern "C" __global__ void shuffle_lines(int* items, const i64* offsets, i64 count, u64 seed) {
    i64 basket = blockIdx.x * (i64)blockDim.x + threadIdx.x;
    if (basket >= count) return;
    u64 key = mixed(seed + (u64)basket * 0xD1B54A32D192ED03ull);
    int* lines = items + offsets[basket];
    for (i64 n = offsets[basket + 1] - offsets[basket] - 1; n > 0; n--) {
        u64 bits = mixed(key + (u64)n * 0x9E3779B97F4A7C15ull);
        i64 m = (i64)(((bits >> 32) * (u64)(n + 1)) >> 32);
        int kept = lines[n];
        lines[n] = lines[m];
        lines[m] = kept;
    }
}
