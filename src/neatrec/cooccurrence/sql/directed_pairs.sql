-- Each directed pair once: query was added before item. pair_count, reverse_count, customers.
SELECT
  low AS query, high AS item, ahead AS pair_count, behind AS reverse_count, customers_ahead AS customers
FROM pair_counts
WHERE ahead > 0
UNION ALL
SELECT
  high AS query, low AS item, behind AS pair_count, ahead AS reverse_count, customers_behind AS customers
FROM pair_counts
WHERE behind > 0
