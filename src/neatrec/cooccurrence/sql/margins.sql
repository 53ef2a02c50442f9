-- Records of each item: in the first place, in the second, in either.
SELECT
  item,
  CAST(SUM(in_front) AS BIGINT) AS records_first,
  CAST(SUM(at_back) AS BIGINT) AS records_second,
  CAST(SUM(either) AS BIGINT) AS records_either
FROM (
  SELECT low AS item, ahead AS in_front, behind AS at_back, either FROM pair_counts
  UNION ALL
  SELECT high AS item, behind AS in_front, ahead AS at_back, either FROM pair_counts
) AS both_ways
GROUP BY item
