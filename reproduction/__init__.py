"""The tables and figures of the NEAT paper beside ours: `make reproduce DATA=folder`."""
