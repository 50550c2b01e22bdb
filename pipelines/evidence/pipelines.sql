-- What each pipeline keeps of the chains of scores.sql, in the table `methods`: the numbers of the steps that stay. Stage 1
-- asks asap.anchor.*.
CREATE TABLE methods AS
WITH
-- The greedy order reads a chain of K steps about K²/6 times: only chains for which that is at most half a million tokens.
greedy AS (SELECT * FROM budgets WHERE power(cardinality(own), 2) * all_tokens / 6 <= 5e5),
anchored AS (
    SELECT *, cot_surprisal(question, cot_steps(coarse['cot'])) AS coarse_surprisal
    FROM (
        SELECT *, cot_coarse(cot, direct['thought']) AS coarse
        FROM (SELECT *, cot_anchor(question, answer) AS direct FROM budgets)
    )
),
coarse_kept AS (
    SELECT chain, ratio, 'asap' AS pipeline, coarse['kept'] AS of,
        cot_fit(cot_steps(coarse['cot']), coarse_surprisal, budget) AS kept FROM anchored
    UNION ALL SELECT chain, ratio, 'without_surprisal', coarse['kept'],
        cot_fit(cot_steps(coarse['cot']), cot_random_scores(cot_steps(coarse['cot']), 42), budget) FROM anchored
),
kept AS (
    SELECT chain, ratio, pipeline, array_agg(of[place] ORDER BY place) AS kept
    FROM (
        -- A chain that is emptied stays.
        SELECT chain, ratio, pipeline, of, unnest(CASE cardinality(kept) WHEN 0 THEN [NULL] ELSE kept END) AS place FROM coarse_kept
    )
    GROUP BY chain, ratio, pipeline
    UNION ALL SELECT chain, ratio, 'perplexity_and_self_information',
        cot_fit_with_headings(own, array_add(cot_rank(perplexity), cot_rank(self_information)), budget) FROM budgets
    UNION ALL SELECT chain, ratio, 'perplexity_and_self_information, cot_refine',
        cot_refine(own, array_add(cot_rank(perplexity), cot_rank(self_information)), budget) FROM budgets
    UNION ALL SELECT chain, ratio, 'without_anchor', cot_fit(own, surprisal, budget) FROM budgets
    UNION ALL SELECT chain, ratio, 'spirit', cot_refine(own, perplexity, budget) FROM budgets
    UNION ALL SELECT chain, ratio, 'step_entropy', cot_refine(own, step_entropy, budget) FROM budgets
    UNION ALL SELECT chain, ratio, 'selective_context', cot_refine(own, self_information, budget) FROM budgets
    UNION ALL SELECT chain, ratio, 'answer_gain', cot_refine(own, answer_gain, budget) FROM budgets
    UNION ALL SELECT chain, ratio, 'attribution', cot_refine(own, attribution, budget)
        FROM budgets JOIN (SELECT chain, cot_attribution(question, own, answer) AS attribution FROM scored) USING (chain)
    UNION ALL SELECT chain, ratio, 'spirit_greedy', cot_spirit(question, own, answer, budget) FROM greedy
    UNION ALL SELECT chain, ratio, 'spirit, of the chains of spirit_greedy', cot_refine(own, perplexity, budget) FROM greedy
    UNION ALL SELECT chain, ratio, 'earliest_correct',
        cot_truncate(first, least(1.0, budget / CAST(cot_tokens(array_to_string(first, E'\n\n')) AS DOUBLE)))
        FROM (SELECT *, array_slice(own, 1, CAST(cardinality(cot_earliest_correct(own, answer)) AS BIGINT)) AS first FROM budgets)
    UNION ALL SELECT chain, ratio, 'random', cot_random(own, least(1.0, budget / CAST(all_tokens AS DOUBLE)), 42) FROM budgets
    UNION ALL SELECT chain, ratio, 'truncate', cot_truncate(own, least(1.0, budget / CAST(all_tokens AS DOUBLE))) FROM budgets
    UNION ALL SELECT chain, ratio, 'longest first', cot_refine(own, array_scale(lengths, -1.0), budget) FROM budgets
    UNION ALL SELECT chain, ratio, 'middle first', cot_refine(own, from_middle, budget) FROM budgets
)
SELECT 'both' AS half, * FROM kept;
