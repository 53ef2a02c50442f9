"""The inner loops of training, behind one set of names and arguments.

`reference` defines the computation in plain NumPy, `cpu` runs it in compiled code, `cuda` on
GPUs; `dispatch` alone asks which of them to use. Kernels check nothing and know no model: tables,
baskets and settings go in, the tables change in place, step statistics come out.
"""
