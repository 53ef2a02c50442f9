// Ranks and lists of the best among candidates. Row r is one query: its candidates are scores[begin[r]] ... begin[r + 1].
//
// Without `items` a row holds every item, in the order of the codes, and those that are not sold, are the query itself or
// share its category do not compete.

typedef long long i64;

constexpr int THREADS = 256;
constexpr int MOST = 2048;  // candidates that may come into question for the best of a row
constexpr float NOTHING = -3.4e38f;

struct Rows {
    const float* scores;
    const i64* begin;
    const int* items;            // (candidates,), or nothing: every item
    const int* queries;          // (rows,)
    const unsigned char* sold;   // (items,), or nothing
    const int* category;         // (items,), or nothing
};

__device__ __forceinline__ int code_of(const Rows& rows, i64 row, i64 place) {
    return rows.items ? rows.items[place] : (int)(place - rows.begin[row]);
}
__device__ __forceinline__ bool competes(const Rows& rows, int query, int query_category, int code) {
    if (rows.items) return true;
    if (code == query || (rows.sold && !rows.sold[code])) return false;
    return !(query_category >= 0 && rows.category[code] == query_category);
}
__device__ __forceinline__ int category_of(const Rows& rows, int query) { return rows.category ? rows.category[query] : -1; }

// Scores of the candidates of each row, one block a row: lane by lane along the vectors.
extern "C" __global__ void score_lists(const float* vectors, const float* partners, int dim, Rows rows, float* out) {
    const i64 row = blockIdx.x;
    const int lane = threadIdx.x & 31;
    const float* own = vectors + (i64)rows.queries[row] * dim;
    for (i64 place = rows.begin[row] + (threadIdx.x >> 5); place < rows.begin[row + 1]; place += blockDim.x >> 5) {
        const float* other = partners + (i64)rows.items[place] * dim;
        float sum = 0;
        for (int n = lane; n < dim; n += 32) sum = fmaf(own[n], other[n], sum);
#pragma unroll
        for (int o = 16; o; o >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, o);
        if (lane == 0) out[place] = sum;
    }
}

// For each label of a row the candidates above it and level with it; one block a label. Both stay 0 for no candidate.
extern "C" __global__ void rank_labels(Rows rows, const int* label_row, const int* label_item, int* higher, int* equal) {
    __shared__ int own_place, above, same;
    const i64 row = label_row[blockIdx.x], begin = rows.begin[row], end = rows.begin[row + 1];
    const int wanted = label_item[blockIdx.x], query = rows.queries[row], category = category_of(rows, query);
    if (threadIdx.x == 0) own_place = -1, above = 0, same = 0;
    __syncthreads();
    if (rows.items) {
        for (i64 place = begin + threadIdx.x; place < end; place += THREADS)
            if (rows.items[place] == wanted) own_place = (int)(place - begin);
    } else if (threadIdx.x == 0 && competes(rows, query, category, wanted)) {
        own_place = wanted;
    }
    __syncthreads();
    if (own_place < 0) return;
    const float own = rows.scores[begin + own_place];
    int mine_above = 0, mine_same = 0;
    for (i64 place = begin + threadIdx.x; place < end; place += THREADS) {
        if (!competes(rows, query, category, code_of(rows, row, place))) continue;
        const float score = rows.scores[place];
        mine_above += score > own;
        mine_same += score == own;
    }
    atomicAdd(&above, mine_above);
    atomicAdd(&same, mine_same);
    __syncthreads();
    if (threadIdx.x == 0) higher[blockIdx.x] = above, equal[blockIdx.x] = same;
}

__device__ __forceinline__ bool better(float score, int code, float other_score, int other_code) {
    return score > other_score || (score == other_score && code < other_code);
}

// The best of each row, equal scores by ascending code, -1 where there are no more; one block a row, at most THREADS asked.
//
// The k-th largest of the threads' own maxima is no higher than the k-th best of all: what lies below cannot be among the
// best. The few that are left are ranked by counting. Where too many are level, the best are found one after the other.
extern "C" __global__ void best_of_rows(Rows rows, int wanted, int* out, float* out_score, int* nan) {
    __shared__ float score[MOST];
    __shared__ int code[MOST];
    __shared__ float bar;
    __shared__ int found;
    const i64 row = blockIdx.x, begin = rows.begin[row], end = rows.begin[row + 1];
    const int query = rows.queries[row], category = category_of(rows, query), thread = threadIdx.x;
    float most = NOTHING;
    for (i64 place = begin + thread; place < end; place += THREADS) {
        const int item = code_of(rows, row, place);
        if (!competes(rows, query, category, item)) continue;
        const float here = rows.scores[place];
        if (here != here) atomicMax(nan, (int)row + 1);
        most = fmaxf(most, here);
    }
    score[thread] = most;
    if (thread == 0) bar = NOTHING, found = 0;
    __syncthreads();
    int rank = 0;
    for (int n = 0; n < THREADS; n++) rank += better(score[n], n, most, thread);
    __syncthreads();
    if (rank == wanted - 1) bar = most;
    __syncthreads();
    for (i64 place = begin + thread; place < end; place += THREADS) {
        const int item = code_of(rows, row, place);
        const float here = rows.scores[place];
        if (!(here >= bar) || !competes(rows, query, category, item)) continue;
        const int at = atomicAdd(&found, 1);
        if (at < MOST) score[at] = here, code[at] = item;
    }
    __syncthreads();
    if (found <= MOST) {
        for (int n = thread; n < found; n += THREADS) {
            int place = 0;
            for (int m = 0; m < found; m++) place += better(score[m], code[m], score[n], code[n]);
            if (place < wanted) out[row * wanted + place] = code[n], out_score[row * wanted + place] = score[n];
        }
        return;
    }
    __shared__ float last_score;
    __shared__ int last_code;
    for (int k = 0; k < wanted; k++) {
        float best = NOTHING;
        int best_code = 0x7fffffff;
        for (i64 place = begin + thread; place < end; place += THREADS) {
            const int item = code_of(rows, row, place);
            const float here = rows.scores[place];
            if (!competes(rows, query, category, item) || (k && !better(last_score, last_code, here, item))) continue;
            if (better(here, item, best, best_code)) best = here, best_code = item;
        }
        __syncthreads();
        score[thread] = best, code[thread] = best_code;
        __syncthreads();
        if (thread == 0) {
            for (int n = 1; n < THREADS; n++)
                if (better(score[n], code[n], best, best_code)) best = score[n], best_code = code[n];
            last_score = best, last_code = best_code;
            if (best_code != 0x7fffffff) out[row * wanted + k] = best_code, out_score[row * wanted + k] = best;
        }
        __syncthreads();
    }
}
