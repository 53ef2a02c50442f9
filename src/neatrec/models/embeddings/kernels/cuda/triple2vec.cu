// Cohesion of query, partner and user: `reference.triple2vec`. Tables: queries f, partners g, users h.
//
// s(q, v, u) = f.g + f.h + g.h. Negatives stand in for the partner, for the query and for the user in turn.

// One row that stands in for the query (or the user) of all live pairs of a group: lane p's weight of partner p.
__device__ __forceinline__ float negative_weight(const Workspace& workspace, const Vector& other, int partner, bool live, float rest, float& loss,
                                       const Lane& warp) {
    const int lane = warp.id;
    float sums[2 * WINDOW];
#pragma unroll
    for (int p = 0; p < 2 * WINDOW; p++) {
        const int from = __shfl_sync(ALL, partner, p);
        sums[p] = from >= 0 ? dot(other, kept(workspace.x, from, warp)) : 0;
    }
    const float s = totals(sums, lane) + rest;
    if (live) loss += softplus(s);
    return live ? sigmoid(s) : 0;
}

// Its update, minus the sum over partners of weight g_v; the partners move away from it by their weights.
__device__ __forceinline__ Vector negative_update(const Workspace& workspace, const Vector& other, int partner, float weight, const Lane& warp) {
    Vector update = zeros();
    for (int p = 0; p < 2 * WINDOW; p++) {
        const float share = __shfl_sync(ALL, weight, p);
        const int from = __shfl_sync(ALL, partner, p);
        if (share == 0) continue;
        add(update, -share, kept(workspace.x, from, warp));
        add_to_update(workspace, from, -share, other, warp);
    }
    return update;
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
                    const bool live = partner >= 0 && (GROUPS == 1 || lane == g);
                    const int count = __popc(__ballot_sync(ALL, live));
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
                    const float pull = live ? 3 * sigmoid(-near) : 0;
                    if (live) loss += 3 * softplus(-near);
                    float with_query = pull, with_user = pull;  // lane p: partner p's share of f_q, of h_u
                    Vector user_way = zeros();
                    float user_share = total(pull);  // of f_q in the user's update, of h_u in the query's
                    for (int k = 0; k < NEGATIVES; k++) {  // other partners
                        const int k_row = workspace.negative[place + k];
                        if (k_row < 0) continue;
                        const Vector other = row_of(partners, k_row, warp);
                        const float k_before = tail_of(partners, k_row).y;
                        const float s = total(dot(other, query) + dot(other, user)) + query_user;
                        const float a = count * sigmoid(s);
                        if (lane == 0) loss += count * softplus(s);
                        add(update, -a, other);
                        add(user_way, -a, other);
                        user_share -= a;
                        Vector away = zeros();
                        add(away, -a, query);
                        add(away, -a, user);
                        change_row(call, partners, k_row, k_before, away, rate, warp);
                    }
                    for (int k = 0; k < NEGATIVES; k++) {  // other queries
                        const int k_row = workspace.query[place + k];
                        if (k_row < 0) continue;
                        const Vector other = row_of(queries, k_row, warp);
                        const float k_before = tail_of(queries, k_row).y;
                        const float b = negative_weight(workspace, other, partner, live, total(dot(other, user)) + user_product, loss, warp);
                        const float all = total(b);
                        with_user -= b;
                        add(user_way, -all, other);
                        Vector away = negative_update(workspace, other, partner, b, warp);
                        add(away, -all, user);
                        change_row(call, queries, k_row, k_before, away, rate, warp);
                    }
                    for (int k = 0; k < NEGATIVES; k++) {  // other users
                        const int k_row = workspace.user[place + k];
                        if (k_row < 0) continue;
                        const Vector other = row_of(users, k_row, warp);
                        const float k_before = tail_of(users, k_row).y;
                        const float c = negative_weight(workspace, other, partner, live, total(dot(other, query)) + pair, loss, warp);
                        const float all = total(c);
                        with_query -= c;
                        add(update, -all, other);
                        Vector away = negative_update(workspace, other, partner, c, warp);
                        add(away, -all, query);
                        change_row(call, users, k_row, k_before, away, rate, warp);
                    }
                    add(update, user_share, user);
                    add(user_way, user_share, query);
                    for (int p = 0; p < 2 * WINDOW; p++) {
                        const float share = __shfl_sync(ALL, with_query, p), liked = __shfl_sync(ALL, with_user, p);
                        const int from = __shfl_sync(ALL, partner, p);
                        if (!__shfl_sync(ALL, (int)live, p)) continue;
                        const Vector x = kept(workspace.x, from, warp);
                        add(update, share, x);
                        add(user_way, liked, x);
                        add_to_update(workspace, from, share, query, warp);
                        add_to_update(workspace, from, liked, user, warp);
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
        if (call.learns && user_squares > 0) {
            raise_row(users, unit.user, warp, 1.0f, user_change);
            if (lane == 0) raise_tail(users, unit.user, 0, user_squares, 0);
        }
        seen.loss += loss;
        seen.pairs += pairs;
        __syncwarp();
    }
    tell(call, seen, lane);
}
