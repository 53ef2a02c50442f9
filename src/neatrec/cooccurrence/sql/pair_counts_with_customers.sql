-- pair_counts.sql with the distinct customers of either direction and of both.
SELECT
  low,
  high,
  CAST(SUM(ahead) AS BIGINT) AS ahead,
  CAST(SUM(behind) AS BIGINT) AS behind,
  CAST(SUM(ahead + behind) AS BIGINT) AS either,
  CAST(SUM(CASE WHEN ahead > 0 THEN 1 ELSE 0 END) AS BIGINT) AS customers_ahead,
  CAST(SUM(CASE WHEN behind > 0 THEN 1 ELSE 0 END) AS BIGINT) AS customers_behind,
  COUNT(*) AS customers_either
FROM customer_pairs
GROUP BY low, high
