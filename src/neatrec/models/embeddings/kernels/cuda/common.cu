// What all kernels share: rows, draws, sums over a warp, row-wise Adagrad.
//
// A warp works on one unit (a basket) at a time. A lane holds the float4s lane, lane + 32, ... of a vector, so that
// vectors in shared memory are each lane's own; numbers about pairs and negatives are spread over the lanes instead.
// DIM, WINDOW, NEGATIVES, GROUPS, WARPS, BLOCKS, UNITS_PER_FETCH, RANKING and WORKSPACE_BYTES come from the compiler's command line
// (`gpu.py`).

typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

constexpr u32 ALL = 0xffffffffu;
constexpr int VECTORS = (DIM + 3) / 4;                  // float4s of a vector
constexpr int PARTS = (VECTORS + 31) / 32;              // float4s that one lane holds
constexpr int TAIL = (DIM + 7) / 8 * 8;                 // floats before a row's tail
constexpr int ROW = (TAIL + 8 + 15) / 16 * 16;          // floats of a row
constexpr int ZEROS = 4 * VECTORS < TAIL ? 4 * VECTORS : TAIL + 4;  // where a row has four floats that stay zero

constexpr int SLOTS = 2 * WINDOW + 1;                   // lines kept: a query and its partners on both sides
constexpr int STRIDE = VECTORS + 1;                     // float4s of a vector in shared memory, the last one zero
constexpr int TOGETHER = 32 / NEGATIVES;                // groups whose negatives are drawn at the same time
constexpr int DRAWN = TOGETHER * NEGATIVES;
constexpr int TRIES = 16;
constexpr float TINY = 1e-10f;

struct Call {  // in the order of `CALL` in gpu.py
    float* table[3];
    const int* items;
    const i64* offsets;
    const int* users;
    const int* category;
    const int* basket;
    const i64* start;
    const i64* stop;
    const u64* alias;
    const u64* observed;
    const u64* bought;
    u64* next;    // the next unit that nobody has taken
    u64* pairs;   // pairs and active hinges seen
    double* loss;
    u64 seed;
    i64 first, last, alias_size, observed_size, bought_size, user_rows, logistic;
    float rate, last_rate, variance_rate, margin, low, high;
};

struct Vector {
    float4 part[PARTS];
};

// Lanes past the end of a vector read zeros, so that no load needs a condition.
struct Lane {
    int id;
    int column;  // of its last part, in floats of a row
    int shared;   // of its last part, in float4s of a vector in shared memory
    bool full;   // whether its last part is one of the vector

    __device__ __forceinline__ explicit Lane(int thread) : id(thread & 31) {
        const int last = (PARTS - 1) * 32 + id;
        full = last < VECTORS;
        column = full ? 4 * last : ZEROS;
        shared = full ? last : VECTORS;
    }
    __device__ __forceinline__ int in_row(int part) const { return part + 1 < PARTS ? (part * 32 + id) * 4 : column; }
    __device__ __forceinline__ int in_shared(int part) const { return part + 1 < PARTS ? part * 32 + id : shared; }
    __device__ __forceinline__ bool has(int part) const { return part + 1 < PARTS || full; }
};

// ---- vectors, a lane's part of them

__device__ __forceinline__ float4 operator-(float4 a, float4 b) {
    return make_float4(a.x - b.x, a.y - b.y, a.z - b.z, a.w - b.w);
}
__device__ __forceinline__ float4 operator*(float s, float4 a) {
    return make_float4(s * a.x, s * a.y, s * a.z, s * a.w);
}
__device__ __forceinline__ float dot(float4 a, float4 b, float sum) {
    return fmaf(a.x, b.x, fmaf(a.y, b.y, fmaf(a.z, b.z, fmaf(a.w, b.w, sum))));
}
__device__ __forceinline__ float4 add(float4 y, float s, float4 a) {
    return make_float4(fmaf(s, a.x, y.x), fmaf(s, a.y, y.y), fmaf(s, a.z, y.z), fmaf(s, a.w, y.w));
}

__device__ __forceinline__ Vector zeros() {
    Vector v;
#pragma unroll
    for (int n = 0; n < PARTS; n++) v.part[n] = make_float4(0, 0, 0, 0);
    return v;
}
__device__ __forceinline__ float dot(const Vector& a, const Vector& b) {
    float sum = 0;
#pragma unroll
    for (int n = 0; n < PARTS; n++) sum = dot(a.part[n], b.part[n], sum);
    return sum;
}
__device__ __forceinline__ float distance(const Vector& a, const Vector& b) {
    float sum = 0;
#pragma unroll
    for (int n = 0; n < PARTS; n++) {
        float4 z = a.part[n] - b.part[n];
        sum = dot(z, z, sum);
    }
    return sum;
}
__device__ __forceinline__ void add(Vector& y, float s, const Vector& a) {
#pragma unroll
    for (int n = 0; n < PARTS; n++) y.part[n] = add(y.part[n], s, a.part[n]);
}
__device__ __forceinline__ void add_difference(Vector& y, float s, const Vector& a, const Vector& b) {
#pragma unroll
    for (int n = 0; n < PARTS; n++) y.part[n] = add(y.part[n], s, a.part[n] - b.part[n]);
}

// ---- vectors in shared memory, STRIDE float4s each

__device__ __forceinline__ Vector kept(const float4* shared, int slot, const Lane& lane) {
    Vector v;
#pragma unroll
    for (int n = 0; n < PARTS; n++) v.part[n] = shared[slot * STRIDE + lane.in_shared(n)];
    return v;
}
__device__ __forceinline__ void keep(float4* shared, int slot, const Lane& lane, const Vector& v) {
#pragma unroll
    for (int n = 0; n < PARTS; n++) shared[slot * STRIDE + lane.in_shared(n)] = v.part[n];
}

// ---- rows of a table; reads go past the first cache, where other warps' sums would not be seen

__device__ __forceinline__ Vector row_of(const float* table, int row, const Lane& lane) {
    Vector v;
#pragma unroll
    for (int n = 0; n < PARTS; n++) v.part[n] = __ldcg((const float4*)(table + lane.in_row(n) + (i64)row * ROW));
    return v;
}
__device__ __forceinline__ float4 tail_of(const float* table, int row) {
    return __ldcg((const float4*)(table + (i64)row * ROW + TAIL));
}
// A register whose value nobody reads is given away while its load is under way, and who gets it must wait for the load.
__device__ __forceinline__ void hold(float4 v) { asm volatile("" ::"f"(v.w)); }
__device__ __forceinline__ void raise(float* to, float4 v) {
#if __CUDA_ARCH__ >= 900
    asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w)
                 : "memory");
#else
    atomicAdd(to, v.x);
    atomicAdd(to + 1, v.y);
    atomicAdd(to + 2, v.z);
    atomicAdd(to + 3, v.w);
#endif
}
__device__ __forceinline__ void raise_row(float* table, int row, const Lane& lane, float s, const Vector& v) {
#pragma unroll
    for (int n = 0; n < PARTS; n++)
        if (lane.has(n)) raise(table + lane.in_row(n) + (i64)row * ROW, s * v.part[n]);
}
__device__ __forceinline__ void raise_tail(float* table, int row, float log_variance, float squares, float spread) {
    raise(table + (i64)row * ROW + TAIL, make_float4(log_variance, squares, spread, 0));
}

// ---- sums over the lanes

__device__ __forceinline__ float total(float v) {
#pragma unroll
    for (int o = 16; o; o >>= 1) v += __shfl_xor_sync(ALL, v, o);
    return v;
}

// The sums of eight numbers at once; lane 4 n holds that of number n. Each step halves the numbers a lane still carries.
__device__ __forceinline__ float totals_of_8(const float* v, int lane) {
    bool upper = lane & 16;
    float a[4], b[2];
#pragma unroll
    for (int n = 0; n < 4; n++) a[n] = (upper ? v[n + 4] : v[n]) + __shfl_xor_sync(ALL, upper ? v[n] : v[n + 4], 16);
    upper = lane & 8;
#pragma unroll
    for (int n = 0; n < 2; n++) b[n] = (upper ? a[n + 2] : a[n]) + __shfl_xor_sync(ALL, upper ? a[n] : a[n + 2], 8);
    upper = lane & 4;
    float c = (upper ? b[1] : b[0]) + __shfl_xor_sync(ALL, upper ? b[0] : b[1], 4);
    c += __shfl_xor_sync(ALL, c, 2);
    return c + __shfl_xor_sync(ALL, c, 1);
}

// The sums of N <= 32 numbers; lane n holds that of number n.
template <int N>
__device__ __forceinline__ float totals(const float (&v)[N], int lane) {
    float out = 0;
#pragma unroll
    for (int first = 0; first < N; first += 8) {
        float eight[8];
#pragma unroll
        for (int n = 0; n < 8; n++) eight[n] = first + n < N ? v[first + n < N ? first + n : 0] : 0.0f;
        float found = __shfl_sync(ALL, totals_of_8(eight, lane), (lane & 7) * 4);
        if (lane >> 3 == first >> 3) out = found;
    }
    return out;
}

// ---- draws: `reference.groups` says which

__device__ __forceinline__ u64 mixed(u64 x) {
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
    return x ^ (x >> 31);
}
__device__ __forceinline__ u64 counted(u64 key, u64 number) { return mixed(key + number * 0x9E3779B97F4A7C15ull); }

__device__ __forceinline__ int picked(u64 bits, const Call& call) {
    u64 slot = ((bits >> 32) * (u64)call.alias_size) >> 32;
    u64 entry = __ldg(call.alias + slot);
    return (u32)bits < (u32)(entry >> 32) ? (int)slot : (int)(u32)entry;
}
__device__ __forceinline__ bool holds(const u64* words, i64 size, int a, int b) {
    u64 bits = mixed(((u64)(u32)a << 32) + (u32)b);
    u64 mask = 1ull << (bits & 63) | 1ull << ((bits >> 6) & 63) | 1ull << ((bits >> 12) & 63);
    return (__ldg(words + (((bits >> 32) * (u64)size) >> 32)) & mask) == mask;
}

// The lines of a unit: those of its queries and up to a window beyond them.
struct Unit {
    i64 low;               // first line loaded
    int count, start, stop;  // lines loaded; queries among them
    int user;
    int held;              // this lane's item among the first 32 lines, -1 beyond
    u64 key;               // its draws are counted under this
    i64 group;             // number of the first query's first group
};

__device__ __forceinline__ Unit unit_of(const Call& call, i64 number, int lane) {
    Unit unit;
    int basket = __ldg(call.basket + number);
    i64 begin = __ldg(call.offsets + basket), end = __ldg(call.offsets + basket + 1);
    i64 start = __ldg(call.start + number), stop = __ldg(call.stop + number);
    unit.low = start - WINDOW > begin ? start - WINDOW : begin;
    i64 high = stop + WINDOW < end ? stop + WINDOW : end;
    unit.count = (int)(high - unit.low);
    unit.start = (int)(start - unit.low);
    unit.stop = (int)(stop - unit.low);
    unit.user = call.users ? __ldg(call.users + basket) : -1;
    unit.held = lane < unit.count ? __ldg(call.items + unit.low + lane) : -1;
    unit.key = mixed(call.seed + (u64)basket * 0xD1B54A32D192ED03ull);
    unit.group = (start - begin) * GROUPS;
    return unit;
}

__device__ __forceinline__ bool inside(const Call& call, const Unit& unit, int item) {
    bool found = false;
    int few = unit.count < 32 ? unit.count : 32;
    for (int n = 0; n < few; n++) found |= __shfl_sync(ALL, unit.held, n) == item;
    for (int n = 32; n < unit.count; n++) found |= __ldg(call.items + unit.low + n) == item;
    return found;
}

// The negatives of TOGETHER groups from number `block * TOGETHER` of the unit on; -1 where none is to be had.
__device__ __forceinline__ void draw_items(const Call& call, const Unit& unit, u64 key, int block, int* out, int lane) {
    int group = block * TOGETHER + lane / NEGATIVES, line = unit.start + group / GROUPS;
    bool wanted = lane < DRAWN && line < unit.stop;
    u64 bits = counted(key, (u64)((unit.group + (i64)block * TOGETHER) * NEGATIVES + lane));
    int query = wanted && call.observed ? __ldg(call.items + unit.low + line) : 0;
    int item = -1;
    for (int t = 0; t < TRIES && __any_sync(ALL, wanted); t++) {
        int candidate = wanted ? picked(bits, call) : -2;
        bool refused = inside(call, unit, candidate);
        if (wanted && !refused && call.observed) refused = holds(call.observed, call.observed_size, query, candidate);
        if (wanted && !refused && call.bought) refused = holds(call.bought, call.bought_size, unit.user, candidate);
        if (wanted && !refused) {
            item = candidate;
            wanted = false;
        }
        bits = mixed(bits + 1);
    }
    __syncwarp();
    if (lane < DRAWN) out[lane] = item;
    __syncwarp();
}

__device__ __forceinline__ void draw_users(const Call& call, const Unit& unit, u64 key, int block, int* out, int lane) {
    u64 bits = counted(key, (u64)((unit.group + (i64)block * TOGETHER) * NEGATIVES + lane));
    int other = -1;
    for (int t = 0; t < TRIES && other < 0; t++) {
        int row = (int)(((bits >> 32) * (u64)call.user_rows) >> 32);
        if (row != unit.user) other = row;
        bits = mixed(bits + 1);
    }
    __syncwarp();
    if (lane < DRAWN) out[lane] = other;
    __syncwarp();
}

// ---- numbers

__device__ __forceinline__ float between(float x, float low, float high) { return fminf(fmaxf(x, low), high); }
__device__ __forceinline__ float sigmoid(float x) { return __fdividef(1.0f, 1.0f + __expf(-x)); }
// log(1 + e^x) without overflow
__device__ __forceinline__ float softplus(float x) { return fmaxf(x, 0.0f) + __logf(1.0f + __expf(-fabsf(x))); }
__device__ __forceinline__ bool is_pair(int item, int category, int other, int other_category) {
    return item != other && !(category >= 0 && category == other_category);
}

// The step of row-wise Adagrad for a row whose sum of squares was `before`, by an update of length^2 `squared`.
__device__ __forceinline__ float step_of(float rate, float before, float squared) {
    return rate * rsqrtf(before + squared * (1.0f / DIM) + TINY);
}

__device__ __forceinline__ float rate_at(const Call& call, i64 unit) {
    const double share = (double)(unit - call.first) / (double)(call.last - call.first);
    return call.rate + (call.last_rate - call.rate) * (float)share;
}

// What a warp has seen; every lane has its own loss and active hinges, all have the same pairs.
struct Seen {
    double loss;
    u64 pairs, active;
};

__device__ __forceinline__ void tell(const Call& call, const Seen& seen, int lane) {
    double loss = seen.loss;
    u64 active = seen.active;
#pragma unroll
    for (int o = 16; o; o >>= 1) {
        loss += __shfl_xor_sync(ALL, loss, o);
        active += __shfl_xor_sync(ALL, active, o);
    }
    if (lane == 0) {
        atomicAdd(call.pairs, seen.pairs);
        atomicAdd(call.pairs + 1, active);
        atomicAdd(call.loss, loss);
    }
}

// The next unit for this warp, or -1. Units are taken a few at a time: one counter serves all warps.
struct Queue {
    i64 at, end;
};
__device__ __forceinline__ i64 take(const Call& call, Queue& queue, int lane) {
    if (queue.at == queue.end) {
        u64 found = 0;
        if (lane == 0) found = atomicAdd(call.next, (u64)UNITS_PER_FETCH);
        found = __shfl_sync(ALL, found, 0);
        queue.at = call.first + (i64)found;
        queue.end = queue.at + UNITS_PER_FETCH < call.last ? queue.at + UNITS_PER_FETCH : call.last;
        if (queue.at >= call.last) return -1;
    }
    return queue.at++;
}
