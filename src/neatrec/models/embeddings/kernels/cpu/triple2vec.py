"""Triple2Vec on a CPU; `reference.triple2vec` states the same plainly.

Each item has a vector f as query and g as partner, each user a vector h. With cohesion
s(q, v, u) = f.g + f.h + g.h, a query q with its partners v, a user u and negatives for each of the
three (v', q', u') costs

    sum over v of [3 log(1 + e^-s(q, v, u)) + sum over v' of log(1 + e^s(q, v', u))
                   + sum over q' of log(1 + e^s(q', v, u)) + sum over u' of log(1 + e^s(q, v, u'))]

A triple that costs log(1 + e^-+s) moves its vectors by +-sigmoid(-+s) times the sum of the two
others (three times as far where it is counted three times). Rows of the basket move at its end as
partners, after the line as query; those of negatives and of the user after each group. Tables:
queries f, partners g, users h, (rows, row) each.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy import float32 as f32

from neatrec.models.embeddings.kernels.arguments import LONGEST, KernelSettings, new_table
from neatrec.models.embeddings.kernels.cpu import shared
from neatrec.models.embeddings.kernels.cpu.shared import CpuKernel, Floats, Rows, loop, part

PARTNER, QUERY, USER = 0, 1, 2  # kinds of negatives: of the partner, the query, the user
F, H = 0, 1  # rows of arrays: of the query, of the user


class TripleWorkspace(NamedTuple):
    """Numbers of a unit, its current query and its user. A weight is a sum of sigmoids."""

    negatives: Rows  # (2, 3, groups x negatives)
    partners: Rows  # (2 window,) lines
    g_way: Floats  # (lines, row) direction of g
    vector: Floats  # (2, row) f and h as they were
    way: Floats  # (2, row) their directions: of f on the current line, of h in the group
    far_way: Floats  # (1, row) direction of the current negative
    product: Floats  # (2, 2 window) f.g and g.h of each partner
    weight: Floats  # (2, 2 window) of these two products


def workspace(settings: KernelSettings) -> TripleWorkspace:
    """The workspace of one thread."""
    partners, dim = 2 * settings.window, settings.dim
    return TripleWorkspace(
        shared.negatives_of(settings, kinds=3),
        np.zeros(partners, dtype=np.int64),
        *(new_table(rows, dim) for rows in (LONGEST + partners, 2, 2, 1)),
        *(np.zeros((2, partners), dtype=np.float32) for _ in range(2)),
    )


@part
def cost(x):
    """log(1 + e^x), and sigmoid(x)."""
    share, a, b = shared.logistic(x)
    return a + np.log(b), share


@part
def attract(data, work, group):
    """Pull query, user and partners together: (loss, weight of f.h)."""
    loss, total, dims, f, h = f32(0), f32(0), data.dims, work.vector[F], work.vector[H]
    own = shared.dot(f, h, dims)
    for p in range(group.partners):
        g = data.tables[1][group.rows[work.partners[p]]]
        work.product[F, p], work.product[H, p] = shared.dot(f, g, dims), shared.dot(g, h, dims)
        lost, share = cost(-(work.product[F, p] + own + work.product[H, p]))
        work.weight[F, p] = work.weight[H, p] = f32(3) * share
        loss += f32(3) * lost
        total += f32(3) * share
    return loss, total


@part
def repel_partners(data, work, group, drawn):
    """Push the negatives of the partners away: (loss, weight of f.h)."""
    loss, total, dims, f, h = f32(0), f32(0), data.dims, work.vector[F], work.vector[H]
    own = shared.dot(f, h, dims)
    for k in range(len(drawn)):
        if drawn[k] >= 0:
            g, way = data.tables[1][drawn[k]], work.far_way[0]
            lost, share = cost(shared.dot(f, g, dims) + own + shared.dot(g, h, dims))
            weight = group.partners * share
            shared.clear(way, dims)
            for one in range(2):
                shared.add(work.way[one], -weight, g, dims)
                shared.add(way, -weight, work.vector[one], dims)
            shared.descend(data, g, way, group.rate)
            loss += group.partners * lost
            total -= weight
    return loss, total


@part
def repel_others(data, work, group, drawn, stays):
    """Push the negatives of the query (`stays` is H) or of the user (F) away; their loss."""
    loss, dims, beside, way = f32(0), data.dims, work.vector[stays], work.far_way[0]
    table = data.tables[0] if stays == H else data.tables[2]
    for k in range(len(drawn)):
        if drawn[k] >= 0:
            row, total = table[drawn[k]], f32(0)
            own = shared.dot(row, beside, dims)
            shared.clear(way, dims)
            for p in range(group.partners):
                j = work.partners[p]
                g = data.tables[1][group.rows[j]]
                lost, share = cost(shared.dot(row, g, dims) + own + work.product[stays, p])
                shared.add(way, -share, g, dims)
                shared.add(work.g_way[j], -share, row, dims)
                work.weight[stays, p] -= share
                loss += lost
                total += share
            shared.add(way, -total, beside, dims)
            shared.add(work.way[stays], -total, row, dims)
            shared.descend(data, row, way, group.rate)
    return loss


@part
def draw_together(data, work, group, beside):
    """Directions of query, user and partners along each other; `beside` is the weight of f.h."""
    dims = data.dims
    for one in range(2):
        for p in range(group.partners):
            j, weight = work.partners[p], work.weight[one, p]
            shared.add(work.way[one], weight, data.tables[1][group.rows[j]], dims)
            shared.add(work.g_way[j], weight, work.vector[one], dims)
        shared.add(work.way[one], beside, work.vector[1 - one], dims)


@part
def train_group(data, work, group, drawn):
    """Train one group of the current line, and return its loss; drawn: (3, negatives)."""
    near, together = attract(data, work, group)
    far, apart = repel_partners(data, work, group, drawn[PARTNER])
    far += repel_others(data, work, group, drawn[QUERY], H)
    far += repel_others(data, work, group, drawn[USER], F)
    draw_together(data, work, group, together + apart)
    return near + far


@part
def prepare(data, work, unit):
    """Draw for a unit, and prefetch its rows."""
    queries, partners, users = data.tables
    shared.prepare(data, work.negatives, unit, (queries, partners), (partners, queries))
    shared.draw_users(work.negatives[unit % 2], data, unit, USER, users)


@loop
def train(data, work, first, last):
    """Visit units `first` to `last`: (pairs, loss, 0)."""
    pairs, loss, dims = 0, 0.0, data.dims
    groups, count = shared.group_count(data.settings), data.settings.negatives
    prepare(data, work, first)
    for unit in range(first, last):
        prepare(data, work, min(unit + 1, last - 1))
        rate = shared.rate_at(data.settings, unit, first, last)
        lines = shared.unit_lines(data, unit)
        rows = lines.rows
        user = data.tables[2][lines.user]
        shared.assign(work.vector[H], f32(1), user, dims)
        for i in range(len(rows)):
            shared.clear(work.g_way[i], dims)
        for n in range((lines.stop - lines.start) * groups):
            i, at = lines.start + n // groups, n * count
            query = data.tables[0][rows[i]]
            partners = shared.find_partners(work.partners, data, rows, i, n % groups)
            if n % groups == 0:
                shared.assign(work.vector[F], f32(1), query, dims)
                shared.clear(work.way[F], dims)
            if partners:
                shared.clear(work.way[H], dims)
                drawn = work.negatives[unit % 2, :, at : at + count]
                loss += train_group(data, work, shared.LineGroup(rows, i, partners, rate), drawn)
                shared.descend(data, user, work.way[H], rate)
                pairs += partners
            if n % groups == groups - 1:
                shared.descend(data, query, work.way[F], rate)
        for i in range(len(rows)):
            shared.descend(data, data.tables[1][rows[i]], work.g_way[i], rate)
    return pairs, loss, 0


triple2vec = CpuKernel(train, workspace)
