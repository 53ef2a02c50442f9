-- Each unordered pair once: low, high; its records with low first (ahead), high first (behind), and either.
SELECT
  low,
  high,
  CAST(SUM(low_first) AS BIGINT) AS ahead,
  CAST(SUM(1 - low_first) AS BIGINT) AS behind,
  COUNT(*) AS either,
  CAST(NULL AS BIGINT) AS customers_ahead,
  CAST(NULL AS BIGINT) AS customers_behind,
  CAST(NULL AS BIGINT) AS customers_either
FROM records
GROUP BY low, high
