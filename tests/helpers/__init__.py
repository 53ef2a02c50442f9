"""Data, references and worker processes that several tests share."""
