-- pair_counts_with_customers.sql where a pair counts at most once per customer.
SELECT
  low,
  high,
  CAST(SUM(CASE WHEN ahead > 0 THEN 1 ELSE 0 END) AS BIGINT) AS ahead,
  CAST(SUM(CASE WHEN behind > 0 THEN 1 ELSE 0 END) AS BIGINT) AS behind,
  COUNT(*) AS either,
  CAST(SUM(CASE WHEN ahead > 0 THEN 1 ELSE 0 END) AS BIGINT) AS customers_ahead,
  CAST(SUM(CASE WHEN behind > 0 THEN 1 ELSE 0 END) AS BIGINT) AS customers_behind,
  COUNT(*) AS customers_either
FROM customer_pairs
GROUP BY low, high
