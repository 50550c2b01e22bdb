-- The candidates that perplexity and self-information were chosen from, in the table `methods`: the scores that take one pass,
-- perplexity by its rank within thirds of the chain, and means of two of these ranks, by cot_fit. Every other question, in the
-- order of their texts, is a selection question; the rest are held out. The candidate with the highest mean on the selection
-- questions is chosen.
CREATE TABLE methods AS
WITH thirds AS (SELECT *, CAST(ceil(cardinality(own) / 3.0) AS BIGINT) AS third FROM budgets),
singles AS (
    SELECT chain, ratio, unnest([
        'surprisal', 'entropy', 'perplexity', 'step_entropy', 'self_information', 'answer_gain', 'perplexity within thirds'
    ]) AS name, unnest([
        cot_rank(surprisal), cot_rank(entropy), cot_rank(perplexity), cot_rank(step_entropy), cot_rank(self_information),
        cot_rank(answer_gain), array_concat(
            cot_rank(array_slice(perplexity, 1, third)),
            cot_rank(array_slice(perplexity, third + 1, 2 * third)),
            cot_rank(array_slice(perplexity, 2 * third + 1, 3 * third))
        )
    ]) AS ranks
    FROM thirds
),
candidates AS (
    SELECT chain, ratio, name, ranks FROM singles
    UNION ALL SELECT chain, ratio, a.name || ', ' || b.name, array_add(a.ranks, b.ranks)
        FROM singles AS a JOIN singles AS b USING (chain, ratio) WHERE a.name < b.name
),
kept AS (
    SELECT chain, ratio, name AS pipeline, cot_fit(own, ranks, budget) AS kept FROM candidates JOIN budgets USING (chain, ratio)
    UNION ALL SELECT chain, ratio, 'truncate', cot_truncate(own, least(1.0, budget / CAST(all_tokens AS DOUBLE))) FROM budgets
    UNION ALL SELECT chain, ratio, 'middle first', cot_fit(own, from_middle, budget) FROM budgets
    UNION ALL SELECT chain, ratio, 'longest first', cot_fit(own, array_scale(lengths, -1.0), budget) FROM budgets
),
halves AS (
    SELECT question, CASE row_number() OVER (ORDER BY question) % 2 WHEN 1 THEN 'chosen on' ELSE 'held out' END AS half
    FROM (SELECT DISTINCT question FROM scored)
)
SELECT half, kept.* FROM kept JOIN scored USING (chain) JOIN halves USING (question);
