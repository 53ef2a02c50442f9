"""The tables and figures of the NEAT paper, its published numbers beside ours."""
