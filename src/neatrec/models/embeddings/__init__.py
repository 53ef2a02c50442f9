"""Embedding models and their training: NEAT, NEAT+bpr, Item2Vec, Triple2Vec."""
