-- Chains whose steps are labelled, with the scores that take one pass each. `corpus` has, for the steps of each chain as
-- cot_steps cuts them, the columns `needed` (whether the answer depends on the step) and `importance` (how much it moves the
-- answer), NULL where a step was not judged.
CREATE TABLE scored AS
SELECT question, answer, cot, needed, importance, concat(source['file'], ' ', source['row']) AS chain, cot_steps(cot) AS own,
    cot_surprisal(question, cot_steps(cot)) AS surprisal,
    cot_entropy(question, cot_steps(cot)) AS entropy,
    cot_perplexity(question, cot_steps(cot)) AS perplexity,
    cot_step_entropy(question, cot_steps(cot)) AS step_entropy,
    cot_self_information(cot_steps(cot)) AS self_information,
    cot_answer_gain(question, cot_steps(cot), answer) AS answer_gain
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
    SELECT chain, array_agg(CAST(tokens AS DOUBLE) ORDER BY step) AS lengths,
        -- Of two steps as near to it, the earlier one is the farther.
        array_agg(abs(step - (count + 1.1) / 2) ORDER BY step) AS from_middle
    FROM (SELECT chain, tokens, step, count(*) OVER (PARTITION BY chain) AS count FROM steps)
    GROUP BY chain
) USING (chain)
CROSS JOIN (VALUES (0.5), (0.25)) AS ratios(ratio);
