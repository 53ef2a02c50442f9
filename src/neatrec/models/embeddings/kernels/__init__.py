"""The inner loops of training, behind one set of names and arguments.

`reference` says in plain NumPy what is meant; the `cpu_*` files say the same in compiled code, and `dispatch` is the
only place that asks which of them to use. Kernels check nothing and know no model: tables, a shard and settings go in,
the tables change in place, step statistics come out.
"""
