-- What the `methods` of pipelines.sql or candidates.sql keep of the chains of scores.sql, compared with random selections of
-- equally many tokens.
--
-- At half and a quarter of each chain's tokens: the share of the needed steps that is kept (steps), and of their tokens
-- (tokens); the share of the kept labelled steps that is needed (precision); the share of the total importance that is kept
-- (importance), also with each step weighted by its tokens (its tokens). Each figure is a difference in percentage points from
-- the mean of 30 random selections of the same chain, whose last step is cut to fit. mean is the mean of all of them except
-- precision, over both budgets. The unit of means and of Student's t intervals is the question, because chains for the same
-- question are not independent. ± is the half-width of a 95 % interval; * marks an interval without 0.
CREATE TABLE weighed AS
WITH kept AS (
    SELECT half, chain, ratio, pipeline, step, tokens, coalesce(CAST(array_has(kept, step) AS DOUBLE), 0.0) AS weight
    FROM methods JOIN steps USING (chain) WHERE kept IS NOT NULL
),
lengths AS (
    SELECT half, chain, ratio, pipeline, sum(weight * tokens) AS kept_tokens FROM kept GROUP BY half, chain, ratio, pipeline
),
drawn AS (
    SELECT chain, draw, step, tokens,
        sum(tokens) OVER (PARTITION BY chain, draw ORDER BY md5(concat(draw, ' ', step, ' ', text))) - tokens AS tokens_before
    FROM steps CROSS JOIN (SELECT value AS draw FROM generate_series(1, 30))
)
SELECT half, chain, ratio, pipeline, 0 AS draw, step, weight FROM kept
UNION ALL
SELECT half, chain, ratio, pipeline, draw, step,
    greatest(0.0, least(1.0, (kept_tokens - tokens_before) / greatest(1.0, CAST(tokens AS DOUBLE))))
FROM lengths JOIN drawn USING (chain);

WITH figures AS (
    SELECT chain, question, half, ratio, pipeline, draw, sum(weight * tokens) / sum(tokens) AS share,
        unnest([1, 2, 3, 4, 5]) AS place, unnest([
            sum(weight * is_needed) / nullif(sum(is_needed), 0.0),
            sum(weight * is_needed * tokens) / nullif(sum(is_needed * tokens), 0.0),
            sum(weight * is_needed) / nullif(sum(weight) FILTER (WHERE is_needed IS NOT NULL), 0.0),
            sum(weight * importance) / nullif(sum(importance), 0.0),
            sum(weight * importance * tokens) / nullif(sum(importance * tokens), 0.0)
        ]) AS value
    FROM weighed JOIN (SELECT *, CAST(needed AS DOUBLE) AS is_needed FROM steps) USING (chain, step)
    GROUP BY chain, question, half, ratio, pipeline, draw
),
of_chains AS (
    SELECT question, half, ratio, pipeline, place,
        100 * (avg(value) FILTER (WHERE draw = 0) - avg(value) FILTER (WHERE draw > 0)) AS points
    FROM figures GROUP BY chain, question, half, ratio, pipeline, place
),
of_questions AS (
    SELECT question, half, ratio, pipeline, place, count(points) AS chains, avg(points) AS points
    FROM of_chains GROUP BY question, half, ratio, pipeline, place
    UNION ALL SELECT question, half, 0, pipeline, 0, count(points) / 8, avg(points)
        FROM of_chains WHERE place <> 3 GROUP BY question, half, pipeline
),
of_all AS (
    SELECT half, ratio, pipeline, place, avg(points) AS points, stddev(points) / sqrt(count(*)) AS error, count(*) - 1.0 AS freedom,
        sum(chains) AS chains
    FROM of_questions WHERE points IS NOT NULL GROUP BY half, ratio, pipeline, place
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
SELECT of_ratios.half, of_ratios.pipeline, of_ratios.ratio, round(100 * share, 1) AS "tokens kept, %", steps, tokens, precision,
    importance, "its tokens", means.text AS mean, questions, chains
FROM (
    SELECT half, ratio, pipeline, max(text) FILTER (WHERE place = 1) AS steps, max(text) FILTER (WHERE place = 2) AS tokens,
        max(text) FILTER (WHERE place = 3) AS precision, max(text) FILTER (WHERE place = 4) AS importance,
        max(text) FILTER (WHERE place = 5) AS "its tokens", CAST(max(freedom) + 1 AS BIGINT) AS questions, max(chains) AS chains
    FROM shown WHERE place > 0 GROUP BY half, ratio, pipeline
) AS of_ratios
JOIN (SELECT half, pipeline, points, text FROM shown WHERE place = 0) AS means ON means.half = of_ratios.half AND means.pipeline = of_ratios.pipeline
JOIN (SELECT half, ratio, pipeline, avg(share) AS share FROM figures WHERE draw = 0 GROUP BY half, ratio, pipeline) AS shares
    ON shares.half = of_ratios.half AND shares.ratio = of_ratios.ratio AND shares.pipeline = of_ratios.pipeline
ORDER BY of_ratios.half, means.points DESC, of_ratios.pipeline, of_ratios.ratio DESC;
