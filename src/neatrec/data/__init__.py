"""The frozen records that everything else passes around: catalogue, baskets, counts, splits."""
