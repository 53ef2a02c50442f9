-- Each pair both ways, (query, item) and (item, query), with the records of both directions together: pair_count.
SELECT low AS query, high AS item, either AS pair_count FROM pair_counts
UNION ALL
SELECT high AS query, low AS item, either AS pair_count FROM pair_counts
