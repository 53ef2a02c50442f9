// Partners of skip-gram models: the lines within the window of a query, with their updates, in shared memory.
//
// Line t arrives, line t - WINDOW is the query, line t - 2 WINDOW has had all its queries and changes its row.

struct Workspace {
    float4* x;     // (SLOTS, STRIDE): lines as partners, by number % SLOTS
    float4* update;   // (SLOTS, STRIDE): their updates
    float* before; // (SLOTS,): sums of squares of their rows
    float* user_product;  // (SLOTS,): user . line
    int* item;     // (SLOTS,)
    int* category; // (SLOTS,)
    int* negative; // (32,)
    int* query;    // (32,): other queries
    int* user;     // (32,): other users
};

constexpr int WORKSPACE = 16 * 2 * SLOTS * STRIDE + 4 * (4 * SLOTS + 96);
static_assert(WORKSPACE <= WORKSPACE_BYTES, "gpu.py gives a warp too little shared memory");

__device__ __forceinline__ Workspace workspace_at(char* memory) {
    Workspace workspace;
    workspace.x = (float4*)memory;
    workspace.update = workspace.x + SLOTS * STRIDE;
    workspace.before = (float*)(workspace.update + SLOTS * STRIDE);
    workspace.user_product = workspace.before + SLOTS;
    workspace.item = (int*)(workspace.user_product + SLOTS);
    workspace.category = workspace.item + SLOTS;
    workspace.negative = workspace.category + SLOTS;
    workspace.query = workspace.negative + 32;
    workspace.user = workspace.query + 32;
    return workspace;
}

__device__ __forceinline__ void load_line(const Call& call, const Unit& unit, const Workspace& workspace, int t, const Vector& next,
                                       float before, float user_product, const Lane& warp) {
    int slot = (u32)t % SLOTS;
    keep(workspace.x, slot, warp, next);
    keep(workspace.update, slot, warp, zeros());
    if (warp.id == 0) {
        int row = __ldg(call.items + unit.low + t);
        workspace.item[slot] = row;
        workspace.category[slot] = __ldg(call.category + row);
        workspace.before[slot] = before;
        workspace.user_product[slot] = user_product;
    }
    __syncwarp();
}

// The slot of this lane's partner of query i: lanes 0 ... for the lines after it, WINDOW ... for those before; -1: none.
__device__ __forceinline__ int partner_of(const Unit& unit, const Workspace& workspace, int i, int lane) {
    int line = lane < WINDOW ? i + 1 + lane : i - 1 - (lane - WINDOW);
    if (lane >= 2 * WINDOW || line < 0 || line >= unit.count) return -1;
    int slot = (u32)line % SLOTS, own = (u32)i % SLOTS;
    return is_pair(workspace.item[own], workspace.category[own], workspace.item[slot], workspace.category[slot]) ? slot : -1;
}

__device__ __forceinline__ void change_row(const Call& call, float* table, int row, float before, const Vector& update,
                                           float rate, const Lane& warp) {
    float squared = total(dot(update, update));
    if (squared > 0) {
        raise_row(table, row, warp, step_of(rate, before, squared), update);
        if (warp.id == 0) raise_tail(table, row, 0, squared * (1.0f / DIM), 0);
    }
}

__device__ __forceinline__ void apply_line(const Call& call, const Workspace& workspace, int j, float rate, const Lane& warp) {
    int slot = (u32)j % SLOTS;
    change_row(call, call.table[1], workspace.item[slot], workspace.before[slot], kept(workspace.update, slot, warp), rate, warp);
    __syncwarp();
}

__device__ __forceinline__ void add_to_update(const Workspace& workspace, int slot, float s, const Vector& v, const Lane& warp) {
    Vector update = kept(workspace.update, slot, warp);
    add(update, s, v);
    keep(workspace.update, slot, warp, update);
}
