"""The compiled kernels of the CPU: one module per model, and `shared` for what they have in common."""
