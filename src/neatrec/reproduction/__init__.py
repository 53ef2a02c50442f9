"""The tables and figures of the NEAT paper, with the published numbers and ours."""
