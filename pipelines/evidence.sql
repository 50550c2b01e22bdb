-- What each pipeline keeps of chains whose steps are labelled, beside random subsets of as many tokens. `corpus` has, for the
-- steps of each chain as cot_steps cuts them, the columns `needed` (whether the answer depends on the step) and `importance`
-- (how much it moves the answer), NULL where a step was not judged.
--
--   asap sql --from labelled.parquet -f pipelines/evidence.sql --set asap.scorer.model=MODEL
--
-- At half and a quarter of each chain's tokens: of all needed steps the share that is kept (steps), of their tokens (tokens),
-- of the kept steps the share that is needed (precision), and the share of all importance that is kept; each less its mean over
-- 30 random orders of the same chain at the same length, in points, with half of its 95 % interval. Chains of one question are
-- no independent witnesses: means and Student's intervals are those of questions, and * marks what excludes 0.
CREATE TABLE scored AS
SELECT *,
    cot_surprisal(question, cot_steps(coarse['cot'])) AS coarse_surprisal
FROM (
    SELECT question, answer, cot, needed, importance, source['file'] || source['row'] AS chain, cot_steps(cot) AS own,
        cot_coarse(cot, direct['thought']) AS coarse,
        cot_surprisal(question, cot_steps(cot)) AS surprisal,
        cot_perplexity(question, cot_steps(cot)) AS perplexity,
        cot_step_entropy(question, cot_steps(cot)) AS step_entropy,
        cot_self_information(cot_steps(cot)) AS self_information,
        cot_answer_gain(question, cot_steps(cot), answer) AS answer_gain,
        cot_attribution(question, cot_steps(cot), answer) AS attribution
    FROM (SELECT *, cot_anchor(question, answer) AS direct FROM corpus)
);

CREATE TABLE steps AS
SELECT chain, question, needed, importance, text, cot_tokens(text) AS tokens, step
FROM (
    SELECT chain, question, unnest(needed) AS needed, unnest(importance) AS importance, unnest(own) AS text,
        unnest(generate_series(1, CAST(cardinality(own) AS BIGINT))) AS step
    FROM scored
);

CREATE TABLE kept AS
WITH budgets AS (
    SELECT *, cot_tokens(array_to_string(own, E'\n\n')) AS all_tokens, CAST(floor(ratio * cot_tokens(cot)) AS BIGINT) AS budget
    FROM scored CROSS JOIN (VALUES (0.5), (0.25)) AS ratios(ratio)
),
-- The greedy order reads a chain of K steps about K²/6 times: only chains for which that is at most half a million tokens.
greedy AS (SELECT * FROM budgets WHERE power(cardinality(own), 2) * all_tokens / 6 <= 5e5),
coarse_kept AS (
    SELECT chain, ratio, 'asap' AS pipeline, coarse['kept'] AS of,
        cot_refine(cot_steps(coarse['cot']), coarse_surprisal, budget) AS kept FROM budgets
    UNION ALL SELECT chain, ratio, 'without_surprisal', coarse['kept'],
        cot_random(cot_steps(coarse['cot']), least(1.0, budget / CAST(cot_tokens(coarse['cot']) AS DOUBLE)), 42) FROM budgets
),
methods AS (
    SELECT chain, ratio, pipeline, array_agg(of[place]) AS kept
    FROM (SELECT chain, ratio, pipeline, of, unnest(kept) AS place FROM coarse_kept) GROUP BY chain, ratio, pipeline
    UNION ALL SELECT chain, ratio, 'recommended',
        cot_fit(own, array_add(cot_rank(perplexity), cot_rank(self_information)), budget) FROM budgets
    UNION ALL SELECT chain, ratio, 'recommended, cot_refine',
        cot_refine(own, array_add(cot_rank(perplexity), cot_rank(self_information)), budget) FROM budgets
    UNION ALL SELECT chain, ratio, 'without_anchor', cot_refine(own, surprisal, budget) FROM budgets
    UNION ALL SELECT chain, ratio, 'spirit', cot_refine(own, perplexity, budget) FROM budgets
    UNION ALL SELECT chain, ratio, 'step_entropy', cot_refine(own, step_entropy, budget) FROM budgets
    UNION ALL SELECT chain, ratio, 'selective_context', cot_refine(own, self_information, budget) FROM budgets
    UNION ALL SELECT chain, ratio, 'answer_gain', cot_refine(own, answer_gain, budget) FROM budgets
    UNION ALL SELECT chain, ratio, 'attribution', cot_refine(own, attribution, budget) FROM budgets
    UNION ALL SELECT chain, ratio, 'spirit_greedy', cot_spirit(question, own, answer, budget) FROM greedy
    UNION ALL SELECT chain, ratio, 'spirit, of the chains of spirit_greedy', cot_refine(own, perplexity, budget) FROM greedy
    UNION ALL SELECT chain, ratio, 'earliest_correct',
        cot_truncate(first, least(1.0, budget / CAST(cot_tokens(array_to_string(first, E'\n\n')) AS DOUBLE)))
        FROM (SELECT *, array_slice(own, 1, CAST(cardinality(cot_earliest_correct(own, answer)) AS BIGINT)) AS first FROM budgets)
    UNION ALL SELECT chain, ratio, 'truncate', cot_truncate(own, least(1.0, budget / CAST(all_tokens AS DOUBLE))) FROM budgets
    UNION ALL SELECT chain, ratio, 'longest first', cot_refine(own, array_scale(lengths, -1.0), budget)
        FROM budgets JOIN (SELECT chain, array_agg(CAST(tokens AS DOUBLE) ORDER BY step) AS lengths FROM steps GROUP BY chain)
        USING (chain)
),
lengths AS (
    SELECT chain, ratio, pipeline, kept, own, cot_tokens(cot_select(own, kept)) / CAST(all_tokens AS DOUBLE) AS share
    FROM methods JOIN budgets USING (chain, ratio)
)
SELECT chain, ratio, pipeline, share, 0 AS draw, kept FROM lengths
UNION ALL
SELECT chain, ratio, pipeline, share, draw, cot_random(own, share, draw)
FROM lengths CROSS JOIN (SELECT value AS draw FROM generate_series(1, 30));

WITH figures AS (
    SELECT chain, question, ratio, pipeline, draw, unnest([1, 2, 3, 4]) AS place, unnest([
        sum(needed_kept) / nullif(sum(CAST(needed AS DOUBLE)), 0.0),
        sum(needed_kept * tokens) / nullif(sum(CAST(needed AS DOUBLE) * tokens), 0.0),
        sum(needed_kept) / nullif(sum(is_kept) FILTER (WHERE needed IS NOT NULL), 0.0),
        sum(is_kept * importance) / nullif(sum(importance), 0.0)
    ]) AS value
    FROM (
        SELECT *, CAST(array_has(kept, step) AS DOUBLE) AS is_kept, CAST(array_has(kept, step) AND needed AS DOUBLE) AS needed_kept
        FROM kept JOIN steps USING (chain)
    )
    GROUP BY chain, question, ratio, pipeline, draw
),
of_chains AS (
    SELECT question, ratio, pipeline, place, 100 * (avg(value) FILTER (WHERE draw = 0) - avg(value) FILTER (WHERE draw > 0)) AS points
    FROM figures GROUP BY chain, question, ratio, pipeline, place
),
of_questions AS (
    SELECT question, ratio, pipeline, place, count(points) AS chains, avg(points) AS points FROM of_chains GROUP BY question, ratio, pipeline, place
),
means AS (
    SELECT ratio, pipeline, place, avg(points) AS points, stddev(points) / sqrt(count(*)) AS error, count(*) - 1.0 AS freedom, sum(chains) AS chains
    FROM of_questions WHERE points IS NOT NULL GROUP BY ratio, pipeline, place
),
intervals AS (
    -- Student's 97.5 % quantile by Cornish and Fisher's expansion.
    SELECT *, error * (1.96 + 2.372 / freedom + 2.822 / power(freedom, 2) + 2.556 / power(freedom, 3)) AS half FROM means
),
shown AS (
    SELECT *, concat(CASE WHEN points < 0 THEN '−' ELSE '+' END, round(abs(points), 1), ' ± ', round(half, 1),
        CASE WHEN abs(points) > half THEN ' *' ELSE '' END) AS text
    FROM intervals
)
SELECT ratio, pipeline, round(100 * share, 1) AS "tokens kept, %", steps, tokens, precision, importance, questions, chains
FROM (
    SELECT ratio, pipeline, max(text) FILTER (WHERE place = 1) AS steps, max(text) FILTER (WHERE place = 2) AS tokens,
        max(text) FILTER (WHERE place = 3) AS precision, max(text) FILTER (WHERE place = 4) AS importance,
        CAST(max(freedom) + 1 AS BIGINT) AS questions, max(chains) AS chains
    FROM shown GROUP BY ratio, pipeline
) JOIN (SELECT ratio, pipeline, avg(share) AS share FROM kept WHERE draw = 0 GROUP BY ratio, pipeline) USING (ratio, pipeline)
ORDER BY ratio DESC, pipeline;
