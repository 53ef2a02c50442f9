// Cohesion of query, partner and user: `reference.triple2vec`. Tables: queries f, partners g, users h.
//
// s(q, v, u) = f.g + f.h + g.h. Negatives stand in for the partner, for the query and for the user in turn.

// TILE rows of a table, drawn as negatives, in registers: each partner that is read from shared memory serves all of them.
// Numbers of row k are lane k's.
constexpr int MAX_TILE = PARTS == 1 ? 5 : PARTS == 2 ? 2 : 1;  // what stays in registers
constexpr int TILE = NEGATIVES < MAX_TILE ? NEGATIVES : MAX_TILE;

struct Tile {
    Vector row[TILE];
    int number;    // lane k's row in its table, -1: none
    float before;  // the sum of squares of lane k's row
};

__device__ __forceinline__ Tile tile_of(const float* table, const int* drawn, int first, const Lane& warp) {
    Tile tile;
    tile.number = warp.id < TILE && first + warp.id < NEGATIVES ? drawn[first + warp.id] : -1;
    tile.before = tile.number >= 0 ? tail_of(table, tile.number).y : 0;
#pragma unroll
    for (int k = 0; k < TILE; k++) tile.row[k] = row_of(table, max(__shfl_sync(ALL, tile.number, k), 0), warp);
    return tile;
}

// Row k moves by `away[k]`, whose length^2 lane k knows.
template <typename Away>
__device__ __forceinline__ void change_tile(const Call& call, float* table, const Tile& tile, float squared, float rate, const Lane& warp,
                                            Away away) {
    const bool moves = tile.number >= 0 && squared > 0;
    const float step = moves ? step_of(rate, tile.before, squared) : 0;
    if (moves) raise_tail(table, tile.number, 0, squared * (1.0f / DIM), 0);
#pragma unroll
    for (int k = 0; k < TILE; k++) {
        const float scale = __shfl_sync(ALL, step, k);
        const int number = __shfl_sync(ALL, tile.number, k);
        if (scale > 0) raise_row(table, number, warp, scale, away(k));
    }
}

// Rows that stand in for the partner of all pairs of a group. `rest`: query . user; `beside`: query + user.
// Returns the sum of their weights, by which query and user move away from each other.
__device__ __forceinline__ float other_partners(const Call& call, const int* drawn, const Vector& beside, float rest, int count, float rate,
                                                Vector& update, Vector& user_way, float& loss, const Lane& warp) {
    const float length = total(dot(beside, beside));
    float all = 0;
    for (int first = 0; first < NEGATIVES; first += TILE) {
        const Tile tile = tile_of(call.table[1], drawn, first, warp);
        float sums[TILE];
#pragma unroll
        for (int k = 0; k < TILE; k++) sums[k] = dot(tile.row[k], beside);
        const float s = totals(sums, warp.id) + rest;
        const float weight = tile.number >= 0 ? count * sigmoid(s) : 0;
        if (tile.number >= 0) loss += count * softplus(s);
        float shares[TILE];
#pragma unroll
        for (int k = 0; k < TILE; k++) {
            shares[k] = __shfl_sync(ALL, weight, k);
            all += shares[k];
            add(update, -shares[k], tile.row[k]);
            add(user_way, -shares[k], tile.row[k]);
        }
        change_tile(call, call.table[1], tile, weight * weight * length, rate, warp, [&](int k) {
            Vector away = zeros();
            add(away, -shares[k], beside);
            return away;
        });
    }
    return all;
}

// Rows that stand in for the query (or the user) of the live pairs of a group, lane p's partner being `partner`; `beside`
// is the user (or the query). `rest`: lane p's score without such a row. Lane p's `share`, of its partner in the update of
// the query (or the user), falls by the weights; `beside_update` is what `beside` moves by.
__device__ __forceinline__ void stand_ins(const Call& call, const Workspace& workspace, float* table, const int* drawn, const Vector& beside,
                                          int partner, u32 live, float rest, float rate, float& share, Vector& beside_update, float& loss,
                                          const Lane& warp) {
    const int lane = warp.id;
    for (int first = 0; first < NEGATIVES; first += TILE) {
        const Tile tile = tile_of(table, drawn, first, warp);
        float sums[TILE], all[TILE];
        Vector away[TILE];
#pragma unroll
        for (int k = 0; k < TILE; k++) {
            sums[k] = dot(tile.row[k], beside);
            all[k] = 0;
            away[k] = zeros();
        }
        const float own = __shfl_sync(ALL, totals(sums, lane), lane >> 2);  // from here on lanes 4 k to 4 k + 3 know row k's
        const bool counts = __shfl_sync(ALL, tile.number, lane >> 2) >= 0 && lane < 4 * TILE;
        for (u32 left = live; left; left &= left - 1) {
            const int p = __ffs(left) - 1, from = __shfl_sync(ALL, partner, p);
            const Vector x = kept(workspace.x, from, warp);
            float dots[8];
#pragma unroll
            for (int k = 0; k < 8; k++) dots[k] = k < TILE ? dot(tile.row[k < TILE ? k : 0], x) : 0;
            const float s = totals_of_8(dots, lane) + own + __shfl_sync(ALL, rest, p);
            const float weight = counts ? sigmoid(s) : 0;
            if (counts && lane % 4 == 0) loss += softplus(s);
            Vector change = kept(workspace.update, from, warp);
            float of_pair = 0;
#pragma unroll
            for (int k = 0; k < TILE; k++) {
                const float of_row = __shfl_sync(ALL, weight, 4 * k);
                of_pair += of_row;
                all[k] += of_row;
                add(away[k], -of_row, x);
                add(change, -of_row, tile.row[k]);
            }
            keep(workspace.update, from, warp, change);
            if (lane == p) share -= of_pair;
        }
#pragma unroll
        for (int k = 0; k < TILE; k++) {
            add(beside_update, -all[k], tile.row[k]);
            add(away[k], -all[k], beside);
            sums[k] = dot(away[k], away[k]);
        }
        change_tile(call, table, tile, totals(sums, lane), rate, warp, [&](int k) { return away[k]; });
    }
}

extern "C" __global__ void __launch_bounds__(WARPS * 32, BLOCKS) train(const Call call) {
    extern __shared__ char memory[];
    const Lane warp(threadIdx.x);
    const int lane = warp.id;
    const Workspace workspace = workspace_at(memory + (threadIdx.x >> 5) * WORKSPACE_BYTES);
    float *const queries = call.table[0], *const partners = call.table[1], *const users = call.table[2];
    Queue queue = {0, 0};
    Seen seen = {0, 0, 0};
    for (i64 number = take(call, queue, lane); number >= 0; number = take(call, queue, lane)) {
        const Unit unit = unit_of(call, number, lane);
        const float rate = rate_at(call, number);
        float loss = 0;
        u32 pairs = 0;
        int drawn = -1;
        const Vector user = row_of(users, unit.user, warp);
        const float user_before = tail_of(users, unit.user).y;
        Vector user_change = zeros();
        float user_squares = 0;
        for (int t = 0; t < unit.count + WINDOW; t++) {
            const int i = t - WINDOW, slot = (u32)i % SLOTS;
            if (t < unit.count) {
                const int row = __ldg(call.items + unit.low + t);
                const Vector here = row_of(partners, row, warp);
                load_line(call, unit, workspace, t, here, tail_of(partners, row).y, total(dot(here, user)), warp);
            }
            if (i >= unit.start && i < unit.stop) {
                const Vector query = row_of(queries, workspace.item[slot], warp);
                const float before = tail_of(queries, workspace.item[slot]).y;
                const int partner = partner_of(unit, workspace, i, lane);
                const float query_user = total(dot(query, user));
                float sums[2 * WINDOW];
#pragma unroll
                for (int p = 0; p < 2 * WINDOW; p++) {
                    const int from = __shfl_sync(ALL, partner, p);
                    sums[p] = from >= 0 ? dot(query, kept(workspace.x, from, warp)) : 0;
                }
                const float pair = totals(sums, lane);  // f_q . g_v
                const float user_product = partner >= 0 ? workspace.user_product[partner] : 0;
                const float near = pair + query_user + user_product;
                Vector update = zeros();
                for (int g = 0; g < GROUPS; g++) {
                    const bool is_live = partner >= 0 && (GROUPS == 1 || lane == g);
                    const u32 live = __ballot_sync(ALL, is_live);
                    const int count = __popc(live);
                    if (!count) continue;
                    pairs += count;
                    const int group = (i - unit.start) * GROUPS + g;
                    if (group / TOGETHER != drawn) {
                        drawn = group / TOGETHER;
                        draw_items(call, unit, unit.key, drawn, workspace.negative, lane);
                        draw_items(call, unit, mixed(unit.key + 1), drawn, workspace.query, lane);
                        draw_users(call, unit, mixed(unit.key + 2), drawn, workspace.user, lane);
                    }
                    const int place = group % TOGETHER * NEGATIVES;
                    const float pull = is_live ? 3 * sigmoid(-near) : 0;
                    if (is_live) loss += 3 * softplus(-near);
                    float with_query = pull, with_user = pull;  // lane p: partner p's share of f_q, of h_u
                    Vector user_way = zeros(), beside = query;
                    add(beside, 1, user);
                    const float user_share =  // of f_q in the user's update, of h_u in the query's
                        total(pull) - other_partners(call, workspace.negative + place, beside, query_user, count, rate, update, user_way, loss, warp);
                    stand_ins(call, workspace, queries, workspace.query + place, user, partner, live, user_product, rate, with_user, user_way, loss, warp);
                    stand_ins(call, workspace, users, workspace.user + place, query, partner, live, pair, rate, with_query, update, loss, warp);
                    add(update, user_share, user);
                    add(user_way, user_share, query);
                    for (u32 left = live; left; left &= left - 1) {
                        const int p = __ffs(left) - 1, from = __shfl_sync(ALL, partner, p);
                        const float share = __shfl_sync(ALL, with_query, p), liked = __shfl_sync(ALL, with_user, p);
                        const Vector x = kept(workspace.x, from, warp);
                        add(update, share, x);
                        add(user_way, liked, x);
                        Vector change = kept(workspace.update, from, warp);
                        add(change, share, query);
                        add(change, liked, user);
                        keep(workspace.update, from, warp, change);
                    }
                    const float squared = total(dot(user_way, user_way));
                    if (squared > 0) {
                        add(user_change, step_of(rate, user_before + user_squares, squared), user_way);
                        user_squares += squared * (1.0f / DIM);
                    }
                }
                change_row(call, queries, workspace.item[slot], before, update, rate, warp);
            }
            if (i >= WINDOW) apply_line(call, workspace, i - WINDOW, rate, warp);
        }
        for (int j = max(unit.count - WINDOW, 0); j < unit.count; j++) apply_line(call, workspace, j, rate, warp);
        if (user_squares > 0) {
            raise_row(users, unit.user, warp, 1.0f, user_change);
            if (lane == 0) raise_tail(users, unit.user, 0, user_squares, 0);
        }
        seen.loss += loss;
        seen.pairs += pairs;
        __syncwarp();
    }
    tell(call, seen, lane);
}
