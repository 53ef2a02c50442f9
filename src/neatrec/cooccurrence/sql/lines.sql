-- The lines of the counted baskets: basket, position, item, removal, customer.
-- Two lines make a pair if their removal codes differ.
SELECT l.basket, l.position, l.item, i.removal, b.customer
FROM basket_lines AS l
JOIN counted_baskets AS c ON c.basket = l.basket
JOIN baskets AS b ON b.basket = l.basket
JOIN items AS i ON i.item = l.item
