"""Models trained on the same baskets and compared by the same evaluation task."""
