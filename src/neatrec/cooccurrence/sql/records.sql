-- One row for each pair of lines: low, high (item codes, low < high), low_first (1 if low was added first), customer.
-- Lines at most `reach` positions apart; a reach as long as the longest basket means all pairs.
SELECT
  CASE WHEN a.item < b.item THEN a.item ELSE b.item END AS low,
  CASE WHEN a.item < b.item THEN b.item ELSE a.item END AS high,
  CASE WHEN a.item < b.item THEN 1 ELSE 0 END AS low_first,
  a.customer
FROM lines AS a
JOIN lines AS b ON b.basket = a.basket
WHERE b.position > a.position AND b.position - a.position <= (SELECT reach FROM settings) AND a.removal <> b.removal
