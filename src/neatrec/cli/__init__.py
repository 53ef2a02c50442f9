"""The command line: parse, one call, print. Nobody imports it."""
