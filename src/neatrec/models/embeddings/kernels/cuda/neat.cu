// NEAT, spherical Gaussians, and with RANKING the users' losses of NEAT+bpr: `reference.neat` and `reference.neat_bpr`.
//
// Lines arrive one by one. The distance of a line to those within the window before it is taken when it arrives, line i
// is the query when line i + WINDOW has arrived, the pairs of i with the lines before it are settled then (both
// directions are known), and line i - WINDOW, which has no more pairs, changes its row: one load and one change a line.

constexpr float LARGEST_STEP = 0.3f;  // a log-variance moves by at most this much at a time
constexpr float NO_PAIR = 3e38f;
constexpr float NEVER = -1e30f;
constexpr bool KEEPS = NEGATIVES * PARTS <= 8;  // negatives stay in registers; otherwise they are read again

constexpr int WAYS = WINDOW + 1;  // lines that have pairs to come

struct Workspace {
    float4* x;        // (SLOTS, STRIDE): lines by number % SLOTS
    float4* update;      // (WAYS, STRIDE): updates, by number % WAYS
    float* likely;    // (SLOTS, WINDOW): of line r and line r - 1 - o; NO_PAIR where they make no pair
    float* precision; // (SLOTS, WINDOW)
    float* far;       // (SLOTS, WINDOW): square distances
    float* forth;     // (WAYS, WINDOW): active hinges of query i with line i + 1 + o
    float4* tail;     // (SLOTS,)
    float* variance;  // (SLOTS,)
    float* slope;     // (WAYS,)
    float* user_product;     // (SLOTS,) user . line
    float* liked;     // (SLOTS,) how much of the user's vector the line is moved by
    int* item;        // (SLOTS,)
    int* category;    // (SLOTS,)
    int* negative;    // (32,)
    int* other;       // (32,) other queries
};

constexpr int WORKSPACE = 16 * ((SLOTS + WAYS) * STRIDE + SLOTS) +
                     4 * (3 * SLOTS * WINDOW + WAYS * WINDOW + 5 * SLOTS + WAYS + 64);
static_assert(WORKSPACE <= WORKSPACE_BYTES, "gpu.py gives a warp too little shared memory");

__device__ __forceinline__ Workspace workspace_at(char* memory) {
    Workspace workspace;
    workspace.x = (float4*)memory;
    workspace.update = workspace.x + SLOTS * STRIDE;
    workspace.tail = workspace.update + WAYS * STRIDE;
    workspace.likely = (float*)(workspace.tail + SLOTS);
    workspace.precision = workspace.likely + SLOTS * WINDOW;
    workspace.far = workspace.precision + SLOTS * WINDOW;
    workspace.forth = workspace.far + SLOTS * WINDOW;
    workspace.variance = workspace.forth + WAYS * WINDOW;
    workspace.slope = workspace.variance + SLOTS;
    workspace.user_product = workspace.slope + WAYS;
    workspace.liked = workspace.user_product + SLOTS;
    workspace.item = (int*)(workspace.liked + SLOTS);
    workspace.category = workspace.item + SLOTS;
    workspace.negative = workspace.category + SLOTS;
    workspace.other = workspace.negative + 32;
    return workspace;
}

struct User {
    Vector vector, change;
    float squared, before, squares;  // |vector|^2; the row's sum of squares, and what is added to it
};

// Everything about line t goes to shared memory; `next` is its row, already loaded.
__device__ __forceinline__ void load_line(const Call& call, const Unit& unit, const Workspace& workspace, int t, const Vector& next,
                                       float4 tail, const User& user, const Lane& warp) {
    const int lane = warp.id;
    int slot = (u32)t % SLOTS, row = __ldg(call.items + unit.low + t), category = __ldg(call.category + row);
    float variance = __expf(between(tail.x, call.low, call.high));
    keep(workspace.x, slot, warp, next);
    float sums[WINDOW + (RANKING ? 1 : 0)];
#pragma unroll
    for (int o = 0; o < WINDOW; o++)
        sums[o] = distance(next, kept(workspace.x, (u32)(t - 1 - o) % SLOTS, warp));  // of no use where o >= t
    if constexpr (RANKING) sums[WINDOW] = dot(next, user.vector);
    float found = totals(sums, lane);
    if (lane < WINDOW) {
        float likely = NO_PAIR, precision = 0;
        if (lane < t) {
            int before = (u32)(t - 1 - lane) % SLOTS;
            float both = variance + workspace.variance[before];
            precision = 1.0f / both;
            if (is_pair(row, category, workspace.item[before], workspace.category[before]))
                likely = -0.5f * DIM * __logf(both) - 0.5f * found * precision;
        }
        workspace.likely[slot * WINDOW + lane] = likely;
        workspace.precision[slot * WINDOW + lane] = precision;
        workspace.far[slot * WINDOW + lane] = found;
    }
    if (RANKING && lane == WINDOW) workspace.user_product[slot] = found;
    if (lane == 0) {
        workspace.tail[slot] = tail;
        workspace.variance[slot] = variance;
        workspace.item[slot] = row;
        workspace.category[slot] = category;
        workspace.liked[slot] = 0;
    }
    __syncwarp();
}

// How far a log-variance moves. From where it is seen between its bounds: if each of several warps also brought back what
// the others together had moved it beyond, it would swing ever wider.
__device__ __forceinline__ float move_of(const Call& call, float rate, float4 tail, float spread) {
    float seen = between(tail.x, call.low, call.high);
    float step = rate * call.variance_rate * spread * rsqrtf(tail.z + spread * spread + TINY);
    return between(seen + between(step, -LARGEST_STEP, LARGEST_STEP), call.low, call.high) - seen;
}

// The change of line j's row.
__device__ __forceinline__ void apply_line(const Call& call, const Workspace& workspace, int j, float rate, const User& user,
                                      const Lane& warp) {
    const int lane = warp.id;
    Vector update = kept(workspace.update, (u32)j % WAYS, warp);
    int slot = (u32)j % SLOTS, row = workspace.item[slot];
    if constexpr (RANKING) add(update, workspace.liked[slot], user.vector);
    float squared = total(dot(update, update));
    if (squared > 0) {
        float4 tail = workspace.tail[slot];
        raise_row(call.table[0], row, warp, step_of(rate, tail.y, squared), update);
        if (lane == 0) {
            float spread = workspace.slope[(u32)j % WAYS] * workspace.variance[slot];
            raise_tail(call.table[0], row, move_of(call, rate, tail, spread), squared * (1.0f / DIM), spread * spread);
        }
    }
    __syncwarp();
}

// Loss and minus its derivative of theta . (better - worse) = x.
__device__ __forceinline__ float2 ranking(float x, bool logistic) {
    float s = sigmoid(x);
    return logistic ? make_float2(softplus(-x), 1.0f - s) : make_float2(1.0f - s, s * (1.0f - s));
}

extern "C" __global__ void __launch_bounds__(WARPS * 32, BLOCKS) train(const Call call) {
    extern __shared__ char memory[];
    const Lane warp(threadIdx.x);
    const int lane = warp.id;
    const Workspace workspace = workspace_at(memory + (threadIdx.x >> 5) * WORKSPACE_BYTES);
    float* const table = call.table[0];
    for (int n = 0; n < SLOTS; n++) keep(workspace.x, n, warp, zeros());  // no NaN where a line has nobody before it
    for (int n = 0; n < WAYS; n++) keep(workspace.update, n, warp, zeros());
    Queue queue = {0, 0};
    Seen seen = {0, 0, 0};
    for (i64 number = take(call, queue, lane); number >= 0; number = take(call, queue, lane)) {
        const Unit unit = unit_of(call, number, lane);
        const float rate = rate_at(call, number);
        float loss = 0;
        u32 pairs = 0, active = 0;
        User user;
        if constexpr (RANKING) {
            user.vector = row_of(call.table[1], unit.user, warp);
            user.change = zeros();
            user.squared = total(dot(user.vector, user.vector));
            user.before = tail_of(call.table[1], unit.user).y;
            user.squares = 0;
        }
        int row = __ldg(call.items + unit.low), drawn = -1;
        Vector next = row_of(table, row, warp);
        float4 next_tail = tail_of(table, row);
        for (int t = 0; t < unit.count + WINDOW; t++) {
            const int i = t - WINDOW;
            const bool is_query = i >= unit.start && i < unit.stop;
            int first = (i - unit.start) * GROUPS;
            Vector negatives[KEEPS ? NEGATIVES : 1];
            int rows[KEEPS ? NEGATIVES : 1];
            float4 tail = make_float4(0, 0, 0, 0);
            int negative = -1;
            auto look = [&](int group) {  // ask for the negatives of a group
                if (group / TOGETHER != drawn) {
                    drawn = group / TOGETHER;
                    draw_items(call, unit, unit.key, drawn, workspace.negative, lane);
                    if constexpr (RANKING) draw_items(call, unit, mixed(unit.key + 1), drawn, workspace.other, lane);
                }
                const int* from = workspace.negative + group % TOGETHER * NEGATIVES;
                if constexpr (KEEPS) {
#pragma unroll
                    for (int k = 0; k < NEGATIVES; k++) {
                        rows[k] = from[k];
                        negatives[k] = row_of(table, max(rows[k], 0), warp);
                    }
                }
                negative = lane < NEGATIVES ? from[lane] : -1;
                tail = tail_of(table, max(negative, 0));
            };
            if (GROUPS == 1 && is_query) look(first);
            if (t < unit.count) {
                Vector here = next;
                float4 here_tail = next_tail;
                if (t + 1 < unit.count) {
                    row = __ldg(call.items + unit.low + t + 1);
                    next = row_of(table, row, warp);
                    next_tail = tail_of(table, row);
                }
                load_line(call, unit, workspace, t, here, here_tail, user, warp);
                hold(here_tail);
            }
            if (i < 0) continue;
            // line i: its update so far, its slope (spread over the lanes), hinges of its pairs (a lane a partner)
            const int slot = (u32)i % SLOTS, place = (u32)i % WAYS;
            const Vector query = kept(workspace.x, slot, warp);
            Vector update = zeros();
            float slope = 0, hinges = 0;
            if (is_query) {
                float likely = NO_PAIR;
                int partner = slot;
                if (lane < WINDOW && i + 1 + lane < unit.count) {
                    partner = (u32)(i + 1 + lane) % SLOTS;
                    likely = workspace.likely[partner * WINDOW + lane];
                } else if (lane >= WINDOW && lane < 2 * WINDOW) {
                    likely = workspace.likely[slot * WINDOW + lane - WINDOW];
                    partner = (u32)(i - 1 - (lane - WINDOW)) % SLOTS;
                }
                const float variance = workspace.variance[slot];
                for (int g = 0; g < GROUPS; g++) {
                    const bool live = likely < 1e38f && (GROUPS == 1 || lane == g);
                    const int partners = __popc(__ballot_sync(ALL, live));
                    if (!partners) continue;
                    if (GROUPS > 1) look(first + g);
                    float sums[NEGATIVES], liking[RANKING ? NEGATIVES : 1];
#pragma unroll
                    for (int k = 0; k < NEGATIVES; k++) {
                        const Vector far = KEEPS ? negatives[KEEPS ? k : 0]
                                                 : row_of(table, max(__shfl_sync(ALL, negative, k), 0), warp);
                        sums[k] = distance(query, far);
                        if constexpr (RANKING) liking[k] = dot(far, user.vector);
                    }
                    const float far = totals(sums, lane);
                    const float far_variance = __expf(between(tail.x, call.low, call.high));
                    const float precision = 1.0f / (variance + far_variance);
                    const float unlikely =
                        negative < 0 ? NEVER : -0.5f * DIM * __logf(variance + far_variance) - 0.5f * far * precision;
                    const float bar = live ? call.margin - likely : NEVER;
                    float in_hinges = 0;
#pragma unroll
                    for (int k = 0; k < NEGATIVES; k++) {
                        const float height = bar + __shfl_sync(ALL, unlikely, k);
                        const u32 on = __ballot_sync(ALL, height > 0);
                        if (height > 0) hinges += 1;
                        if (live && !(height <= 0)) loss += height;
                        if (lane == k) in_hinges = __popc(on);
                    }
                    pairs += partners;
                    active += (u32)in_hinges;
                    const float force = in_hinges * precision;
                    const float bend = force * (0.5f * DIM - 0.5f * far * precision);
                    slope += bend;
                    float squared = force * force * far, dislike = 0, towards_query = 0;
                    Vector towards;
                    if constexpr (RANKING) {
                        towards = zeros();
                        const float user_product = totals(liking, lane), own = workspace.user_product[slot];
                        const float theirs = workspace.user_product[partner];
                        float weights[NEGATIVES], all = 0;
#pragma unroll
                        for (int k = 0; k < NEGATIVES; k++) {
                            const int k_row = __shfl_sync(ALL, negative, k);
                            const bool counts = live && k_row >= 0;
                            const float2 found = ranking(theirs - __shfl_sync(ALL, user_product, k), call.logistic);
                            weights[k] = counts ? found.y : 0;
                            loss += counts ? found.x : 0;
                            all += weights[k];
                        }
                        dislike = totals(weights, lane);  // lane k: of negative k
                        if (live) workspace.liked[partner] += all;
                        const int other = lane < NEGATIVES ? workspace.other[(first + g) % TOGETHER * NEGATIVES + lane] : -1;
                        Vector others[KEEPS ? NEGATIVES : 1];
                        float scores[NEGATIVES];
#pragma unroll
                        for (int k = 0; k < NEGATIVES; k++) {
                            const Vector found = row_of(table, max(__shfl_sync(ALL, other, k), 0), warp);
                            if constexpr (KEEPS) others[k] = found;
                            scores[k] = dot(found, user.vector);
                        }
                        const float2 found = ranking(own - totals(scores, lane), call.logistic);
                        const float weight = other >= 0 ? partners * found.y : 0;
                        loss += other >= 0 ? partners * found.x : 0;
                        towards_query = total(weight);
                        add(towards, towards_query, query);
                        for (int p = 0; p < 2 * WINDOW; p++) {
                            const float share = __shfl_sync(ALL, live ? all : 0.0f, p);
                            if (share != 0) add(towards, share, kept(workspace.x, __shfl_sync(ALL, partner, p), warp));
                        }
                        const float pushed = weight * weight * user.squared;
                        const float step = -weight * step_of(rate, tail_of(table, max(other, 0)).y, pushed);
                        if (pushed > 0) raise_tail(table, other, 0, pushed * (1.0f / DIM), 0);
#pragma unroll
                        for (int k = 0; k < NEGATIVES; k++) {
                            const float share = __shfl_sync(ALL, weight, k);
                            const int k_row = __shfl_sync(ALL, other, k);
                            if (share == 0) continue;
                            add(towards, -share, KEEPS ? others[KEEPS ? k : 0] : row_of(table, k_row, warp));
                            raise_row(table, k_row, warp, __shfl_sync(ALL, step, k), user.vector);
                        }
                        if (lane == 0) workspace.liked[slot] += towards_query;
                        __syncwarp();
                        squared += dislike * (2 * force * (own - user_product) + dislike * user.squared);
                    }
                    // negatives are pushed away; lane k knows about negative k
                    const float step = -step_of(rate, tail.y, squared);
                    auto tell_tails = [&] {
                        if (negative < 0 || !(squared > 0)) return;
                        const float spread = bend * far_variance;
                        const float move = move_of(call, rate, tail, spread);
                        raise_tail(table, negative, move, squared * (1.0f / DIM), spread * spread);
                    };
                    if constexpr (KEEPS) tell_tails();
                    hold(tail);
#pragma unroll
                    for (int k = 0; k < NEGATIVES; k++) {
                        const float push = __shfl_sync(ALL, force, k);
                        const int k_row = KEEPS ? rows[KEEPS ? k : 0] : __shfl_sync(ALL, negative, k);
                        float hate = 0, scale = __shfl_sync(ALL, step, k);
                        if constexpr (RANKING) hate = __shfl_sync(ALL, dislike, k);
                        const Vector far_row = KEEPS ? negatives[KEEPS ? k : 0] : row_of(table, max(k_row, 0), warp);
                        Vector away = zeros();
                        add_difference(away, push, query, far_row);
                        add(update, 1.0f, away);
                        if constexpr (RANKING) {
                            add(towards, -hate, far_row);
                            add(away, hate, user.vector);
                        }
                        if constexpr (!KEEPS) {
                            // read again, the row may have moved: by a step for the length it had, it could go anywhere
                            const float length = total(dot(away, away));
                            scale = -step_of(rate, __shfl_sync(ALL, tail.y, k), length);
                            if (lane == k) squared = length;
                        }
                        // no row where a likelihood that has run away makes even a missing negative seem likely
                        const bool pushed = k_row >= 0 && (push != 0 || hate != 0);
                        if (pushed) raise_row(table, k_row, warp, scale, away);
                    }
                    if constexpr (!KEEPS) tell_tails();
                    if constexpr (RANKING) {
                        const float length = total(dot(towards, towards));
                        if (length > 0) {
                            add(user.change, step_of(rate, user.before + user.squares, length), towards);
                            user.squares += length * (1.0f / DIM);
                        }
                    }
                }
                if (lane < WINDOW) workspace.forth[place * WINDOW + lane] = hinges;
            } else if (lane < WINDOW) {
                workspace.forth[place * WINDOW + lane] = 0;
            }
            __syncwarp();
            // the pairs of line i with the lines before it, both directions; lane WINDOW + o knows about line i - 1 - o
            const int o = lane - WINDOW, back = i - 1 - o;
            float weight = 0;
            if (o >= 0 && o < WINDOW && back >= 0) {
                const float both = hinges + workspace.forth[(u32)back % WAYS * WINDOW + o];
                const float precision = workspace.precision[slot * WINDOW + o];
                weight = both * precision;
                const float bend = weight * (0.5f * workspace.far[slot * WINDOW + o] * precision - 0.5f * DIM);
                workspace.slope[(u32)back % WAYS] += bend;
                slope += bend;
            }
            slope = total(slope);
            if (lane == 0) workspace.slope[place] = slope;
            __syncwarp();
#pragma unroll
            for (int n = 0; n < WINDOW; n++) {
                const float pull = __shfl_sync(ALL, weight, WINDOW + n);
                const int other = (u32)(i - 1 - n) % WAYS;
                const Vector x = kept(workspace.x, (u32)(i - 1 - n) % SLOTS, warp);
                add_difference(update, pull, x, query);
                Vector theirs = kept(workspace.update, other, warp);
                add_difference(theirs, pull, query, x);
                keep(workspace.update, other, warp, theirs);
            }
            keep(workspace.update, place, warp, update);
            if (i >= WINDOW) apply_line(call, workspace, i - WINDOW, rate, user, warp);
        }
        for (int j = max(unit.count - WINDOW, 0); j < unit.count; j++) apply_line(call, workspace, j, rate, user, warp);
        if constexpr (RANKING) {
            if (user.squares > 0) {
                raise_row(call.table[1], unit.user, warp, 1.0f, user.change);
                if (lane == 0) raise_tail(call.table[1], unit.user, 0, user.squares, 0);
            }
        }
        seen.loss += loss;
        seen.pairs += pairs;
        seen.active += active;
        __syncwarp();
    }
    tell(call, seen, lane);
}
