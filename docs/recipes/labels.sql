-- How many of the needed and important steps each method keeps, compared with random selections of equally many tokens.
--
--   asap sql --from labelled.parquet -f labels.sql --set asap.scorer.model=DIR
--
-- For each step that cot_steps finds in a chain, the columns `needed` (whether the answer depends on it) and `importance` (how
-- much it moves the answer) hold a value, or NULL for a step without a label. The chains are pruned to half and to a quarter
-- of their tokens. The figures are differences in percentage points from the mean of 30 random selections of the same chain,
-- whose last step is cut to fit: the share of the needed steps that is kept (steps), and of their tokens (tokens); the share
-- of the kept labelled steps that is needed (precision); the share of the total importance that is kept (importance), also
-- with each step weighted by its tokens (its tokens). mean is the mean of all of them except precision, over both shares. Means
-- and Student's t intervals are over questions, because chains for the same question are not independent. ± is the half-width
-- of a 95 % interval; * marks an interval without 0.
CREATE TABLE scored AS
SELECT question, answer, cot, needed, importance, concat(source['file'], ' ', source['row']) AS chain, cot_steps(cot) AS own,
    cot_surprisal(question, cot_steps(cot)) AS surprisal,
    cot_perplexity(question, cot_steps(cot)) AS perplexity,
    cot_self_information(cot_steps(cot)) AS self_information
FROM corpus;

CREATE TABLE steps AS
SELECT chain, question, needed, importance, text, cot_tokens(text) AS tokens, step
FROM (
    SELECT chain, question, unnest(needed) AS needed, unnest(importance) AS importance, unnest(own) AS text,
        unnest(generate_series(1, CAST(cardinality(own) AS BIGINT))) AS step
    FROM scored
);

-- Each chain at half and at a quarter of its tokens.
CREATE TABLE budgets AS
SELECT *, cot_tokens(array_to_string(own, E'\n\n')) AS all_tokens, CAST(floor(ratio * cot_tokens(cot)) AS BIGINT) AS budget
FROM scored
JOIN (
    SELECT chain, array_agg(CAST(tokens AS DOUBLE) ORDER BY step) AS lengths FROM steps GROUP BY chain
) USING (chain)
CROSS JOIN (VALUES (0.5), (0.25)) AS ratios(ratio);

-- What each method keeps: the numbers of the steps that remain. Stage 1 asks asap.anchor.*.
CREATE TABLE methods AS
WITH
anchored AS (
    SELECT *, cot_surprisal(question, cot_steps(coarse['cot'])) AS coarse_surprisal
    FROM (
        SELECT *, cot_coarse(cot, direct['thought']) AS coarse
        FROM (SELECT *, cot_anchor(question, answer) AS direct FROM budgets)
    )
),
coarse_kept AS (
    SELECT chain, ratio, 'asap' AS pipeline, coarse['kept'] AS of,
        cot_refine_or_fit(cot_steps(coarse['cot']), coarse_surprisal, budget)['kept'] AS kept FROM anchored
),
kept AS (
    SELECT chain, ratio, pipeline, array_agg(of[place] ORDER BY place) AS kept
    FROM (
        -- A chain that is emptied stays.
        SELECT chain, ratio, pipeline, of, unnest(CASE cardinality(kept) WHEN 0 THEN [NULL] ELSE kept END) AS place FROM coarse_kept
    )
    GROUP BY chain, ratio, pipeline
    UNION ALL SELECT chain, ratio, 'without_anchor', cot_refine_or_fit(own, surprisal, budget)['kept'] FROM budgets
    UNION ALL SELECT chain, ratio, 'spirit', cot_refine(own, perplexity, budget) FROM budgets
    UNION ALL SELECT chain, ratio, 'self_information_steps', cot_refine(own, self_information, budget) FROM budgets
    UNION ALL SELECT chain, ratio, 'random', cot_random(own, least(1.0, budget / CAST(all_tokens AS DOUBLE)), 42) FROM budgets
    UNION ALL SELECT chain, ratio, 'truncate', cot_truncate(own, least(1.0, budget / CAST(all_tokens AS DOUBLE))) FROM budgets
    UNION ALL SELECT chain, ratio, 'longest first', cot_refine(own, array_scale(lengths, -1.0), budget) FROM budgets
)
SELECT * FROM kept;

CREATE TABLE weighed AS
WITH kept AS (
    SELECT chain, ratio, pipeline, step, tokens, coalesce(CAST(array_has(kept, step) AS DOUBLE), 0.0) AS weight
    FROM methods JOIN steps USING (chain) WHERE kept IS NOT NULL
),
lengths AS (
    SELECT chain, ratio, pipeline, sum(weight * tokens) AS kept_tokens FROM kept GROUP BY chain, ratio, pipeline
),
drawn AS (
    SELECT chain, draw, step, tokens,
        sum(tokens) OVER (PARTITION BY chain, draw ORDER BY md5(concat(draw, ' ', step, ' ', text))) - tokens AS tokens_before
    FROM steps CROSS JOIN (SELECT value AS draw FROM generate_series(1, 30))
)
SELECT chain, ratio, pipeline, 0 AS draw, step, weight FROM kept
UNION ALL
SELECT chain, ratio, pipeline, draw, step,
    greatest(0.0, least(1.0, (kept_tokens - tokens_before) / greatest(1.0, CAST(tokens AS DOUBLE))))
FROM lengths JOIN drawn USING (chain);

WITH figures AS (
    SELECT chain, question, ratio, pipeline, draw, sum(weight * tokens) / sum(tokens) AS share,
        unnest([1, 2, 3, 4, 5]) AS place, unnest([
            sum(weight * is_needed) / nullif(sum(is_needed), 0.0),
            sum(weight * is_needed * tokens) / nullif(sum(is_needed * tokens), 0.0),
            sum(weight * is_needed) / nullif(sum(weight) FILTER (WHERE is_needed IS NOT NULL), 0.0),
            sum(weight * importance) / nullif(sum(importance), 0.0),
            sum(weight * importance * tokens) / nullif(sum(importance * tokens), 0.0)
        ]) AS value
    FROM weighed JOIN (SELECT *, CAST(needed AS DOUBLE) AS is_needed FROM steps) USING (chain, step)
    GROUP BY chain, question, ratio, pipeline, draw
),
of_chains AS (
    SELECT question, ratio, pipeline, place,
        100 * (avg(value) FILTER (WHERE draw = 0) - avg(value) FILTER (WHERE draw > 0)) AS points
    FROM figures GROUP BY chain, question, ratio, pipeline, place
),
of_questions AS (
    SELECT question, ratio, pipeline, place, count(points) AS chains, avg(points) AS points
    FROM of_chains GROUP BY question, ratio, pipeline, place
    UNION ALL SELECT question, 0, pipeline, 0, count(points) / 8, avg(points)
        FROM of_chains WHERE place <> 3 GROUP BY question, pipeline
),
of_all AS (
    SELECT ratio, pipeline, place, avg(points) AS points, stddev(points) / sqrt(count(*)) AS error, count(*) - 1.0 AS freedom,
        sum(chains) AS chains
    FROM of_questions WHERE points IS NOT NULL GROUP BY ratio, pipeline, place
),
intervals AS (
    -- Student's 97.5 % quantile, from the sixth degree of freedom by Cornish and Fisher's expansion.
    SELECT *, error * coalesce(
            [12.706, 4.303, 3.182, 2.776, 2.571][CAST(freedom AS BIGINT)],
            1.96 + 2.372 / freedom + 2.822 / power(freedom, 2) + 2.556 / power(freedom, 3)
        ) AS half_interval
    FROM of_all
),
shown AS (
    SELECT *, concat(CASE WHEN points < 0 THEN '−' ELSE '+' END, round(abs(points), 1), ' ± ' || round(half_interval, 1),
        CASE WHEN abs(points) > half_interval THEN ' *' ELSE '' END) AS text
    FROM intervals
)
SELECT of_ratios.pipeline, of_ratios.ratio, round(100 * share, 1) AS "tokens kept, %", steps, tokens, precision,
    importance, "its tokens", means.text AS mean, questions, chains
FROM (
    SELECT ratio, pipeline, max(text) FILTER (WHERE place = 1) AS steps, max(text) FILTER (WHERE place = 2) AS tokens,
        max(text) FILTER (WHERE place = 3) AS precision, max(text) FILTER (WHERE place = 4) AS importance,
        max(text) FILTER (WHERE place = 5) AS "its tokens", CAST(max(freedom) + 1 AS BIGINT) AS questions, max(chains) AS chains
    FROM shown WHERE place > 0 GROUP BY ratio, pipeline
) AS of_ratios
JOIN (SELECT pipeline, points, text FROM shown WHERE place = 0) AS means ON means.pipeline = of_ratios.pipeline
JOIN (SELECT ratio, pipeline, avg(share) AS share FROM figures WHERE draw = 0 GROUP BY ratio, pipeline) AS shares
    ON shares.ratio = of_ratios.ratio AND shares.pipeline = of_ratios.pipeline
ORDER BY means.points DESC, of_ratios.pipeline, of_ratios.ratio DESC;
