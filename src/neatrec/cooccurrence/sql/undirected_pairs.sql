-- Each unordered pair once, query < item: pair_count, customers.
SELECT
  low AS query, high AS item, either AS pair_count, CAST(NULL AS BIGINT) AS reverse_count, customers_either AS customers
FROM pair_counts
