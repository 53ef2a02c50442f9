"""The two loops over all kept pairs, compiled: merging sorted rows, and screening them."""

from __future__ import annotations

from neatrec.compiled import compiled


@compiled
def merge(key_a, count_a, customers_a, key_b, count_b, customers_b, key, count, customers):
    """Write the sums of two sorted sets of rows, all arrays of shape (rows,); returns how many are not zero."""
    i = j = n = 0
    while i < len(key_a) or j < len(key_b):
        if j == len(key_b) or (i < len(key_a) and key_a[i] <= key_b[j]):
            key[n], count[n], customers[n] = key_a[i], count_a[i], customers_a[i]
            if j < len(key_b) and key_b[j] == key_a[i]:
                count[n] += count_b[j]
                customers[n] += customers_b[j]
                j += 1
            i += 1
        else:
            key[n], count[n], customers[n] = key_b[j], count_b[j], customers_b[j]
            j += 1
        n += count[n] != 0
    return n


@compiled
def screened(key, value, codes, directed, least, a, b, u, w, chosen):
    """Write the places of the rows that pass a `Screen` of these vectors (all empty: only `least`); returns how many.

    key and value have the shape (rows,); codes turns the state's numbers into codes.
    """
    n = 0
    for i in range(len(key)):
        if value[i] < least:
            continue
        if len(a):
            q, v = codes[key[i] >> 32], codes[(key[i] >> 1) & 0x7FFFFFFF]
            if (directed and key[i] & 1) or (not directed and q > v):
                q, v = v, q
            excess = value[i] - a[q] * b[v]
            if excess < 0 or excess * excess < u[q] * w[v]:
                continue
        chosen[n] = i
        n += 1
    return n
