"""The inner loops of training, behind one set of names and arguments.

`reference` says in plain NumPy what is meant, `cpu` says the same in compiled code and `cuda` for GPUs; `dispatch` is the
only place that asks which of them to use. Kernels check nothing and know no model: tables, baskets and settings go in,
the tables change in place, step statistics come out.
"""
