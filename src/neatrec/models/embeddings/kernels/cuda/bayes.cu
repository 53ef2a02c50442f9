// Near logarithms of the scores of `bayes`: models/bayes/screen.py for a GPU, which has the meaning of all names.
// Row r is one query, a column one of the items sold. Expects ranking.cu before it (i64, THREADS, NOTHING).

struct Csr {
    const i64* start;
    const int* item;
    const float* value;
};

struct QueryNumbers {
    const float *total, *near_total, *like_total, *bought, *others, *level, *length;
};

struct ItemNumbers {
    const float *total, *near_total, *like_total, *prior, *odds, *length;
};

struct Settings {
    float k, share, scale, low_rank, like_names, w_lift, w_chance, w_times, w_company;
    float like_pseudo, company_pseudo, least, farthest, farthest_odds;
};

// Adds to each row what the items like its query were bought with; one block a row. The items of one lender are distinct,
// and lenders come one after the other: no two threads meet, and sums are made in the order of the CPU.
extern "C" __global__ void lend_rows(const int* queries, Csr like, Csr pairs, i64 sold, float* out) {
    const int query = queries[blockIdx.x];
    float* row = out + blockIdx.x * sold;
    for (i64 near = like.start[query]; near < like.start[query + 1]; near++) {
        const int other = like.item[near];
        const float share = like.value[near];
        for (i64 place = pairs.start[other] + threadIdx.x; place < pairs.start[other + 1]; place += blockDim.x)
            row[pairs.item[place]] += share * pairs.value[place];
        __syncthreads();
    }
}

// Takes the query's own counts from each row; one block a row.
extern "C" __global__ void take_own(const int* queries, Csr pairs, i64 sold, float* out) {
    const int query = queries[blockIdx.x];
    for (i64 place = pairs.start[query] + threadIdx.x; place < pairs.start[query + 1]; place += blockDim.x)
        out[blockIdx.x * sold + pairs.item[place]] -= pairs.value[place];
}

// Log-scores as if no pair had been seen, and the whole log-priors; one thread a pair, rows along y.
extern "C" __global__ void screen_unseen(
    i64 sold, const float* plus, const float* minus, const float* words, const float* reached, const float* others,
    QueryNumbers query, ItemNumbers item, const int* category, const float* category_prior, const float* category_odds,
    i64 categories, Csr borrows, Settings s, float* prior, float* out) {
    const i64 v = (i64)blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y, at = r * sold + v;
    if (v >= sold) return;
    float together = 0;
    if (borrows.start)
        for (i64 place = borrows.start[v]; place < borrows.start[v + 1]; place++)
            together += borrows.value[place] * reached[r * sold + borrows.item[place]];
    const float like = logf((together / s.like_pseudo + 1) / (query.like_total[r] * item.like_total[v] + 1));
    // an unknown category is the last of the table
    const i64 pair = r * categories + (category[v] < 0 ? categories + category[v] : category[v]);
    float mean = item.prior[v] + category_prior[pair] + s.low_rank * (plus[at] - minus[at]) + words[at];
    mean = fminf(fmaxf(mean + s.like_names * like, -s.farthest), s.farthest);
    prior[at] = mean;
    float score = query.level[r] + item.odds[v] + category_odds[pair];
    score += query.length[r] * item.length[v] * (plus[at] + minus[at]);
    score += s.w_lift * (mean + logf(s.k) - logf(s.k + query.total[r] * item.total[v] + query.near_total[r] * item.near_total[v]));
    score += s.w_chance * logf(query.bought[r] * item.total[v] + s.least);
    const float company = fmaxf(others[at], 0) / s.company_pseudo + 1;
    score += s.w_company * logf(company / (query.others[r] * item.total[v] + 1));
    out[at] = score;
}

// Adds what the counts of each query's pairs say, near ones by their share; one block a row. `sure`: (pairs,) or nothing.
extern "C" __global__ void screen_seen(
    const int* queries, i64 sold, Csr pairs, Csr near, const i64* offsets, const float* sure, Settings s,
    const float* prior, float* out) {
    const i64 r = blockIdx.x;
    const int query = queries[r];
    for (i64 place = pairs.start[query] + threadIdx.x; place < pairs.start[query + 1]; place += blockDim.x) {
        const int v = pairs.item[place];
        const float times = pairs.value[place];
        i64 low = near.start[query], high = near.start[query + 1];
        while (low < high) {
            const i64 middle = (low + high) / 2;
            if (near.item[middle] < v) low = middle + 1; else high = middle;
        }
        float together = times - s.share * times;
        if (low < near.start[query + 1] && near.item[low] == v) together += s.share * s.scale * near.value[low];
        float more = s.w_lift * log1pf(together / (s.k * expf(prior[r * sold + v]))) + s.w_times * log1pf(times);
        if (sure) more += sure[offsets[r] + place - pairs.start[query]];
        out[r * sold + v] += more;
    }
}

// Cuts scores off, and leaves out items of the query's own group; one thread a pair, rows along y.
extern "C" __global__ void screen_finish(
    i64 sold, const int* query_group, const int* item_group, float farthest, float* out) {
    const i64 v = (i64)blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y, at = r * sold + v;
    if (v >= sold) return;
    const float score = fminf(fmaxf(out[at], -farthest), farthest);
    out[at] = query_group[r] == item_group[v] ? NOTHING : (out[at] == out[at] ? score : out[at]);
}
