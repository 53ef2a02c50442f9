"""Compiled kernels: one module per model, and `shared` for their common parts."""
