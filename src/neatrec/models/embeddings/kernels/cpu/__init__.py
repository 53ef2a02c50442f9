"""Compiled kernels: one module per model, and `shared` for what they have in common."""
