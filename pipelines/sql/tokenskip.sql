-- TokenSkip (Xia et al. 2025): each chain is compressed by LLMLingua-2 (asap.compressor.model) to a share gamma that is drawn
-- for its row from a seed, 42, question and chain, and the prompt says the share, so that a model learns to answer at any. The
-- budget does not matter here. TokenSkip trains on right answers and chains of at most 500 tokens: choose them before.
SELECT * EXCEPT (input, output)
    REPLACE (
        cot_prompt(input, system) AS prompt, output AS completion, array_concat(cot_prompt(input, system), output) AS messages
    )
FROM pruned((
    WITH hashed AS (SELECT *, md5(concat('42', question, cot)) AS hash FROM corpus),
    drawn AS (
        SELECT * EXCEPT (hash), -- the first of the hash's digits that is below 12 draws evenly from six
            ['1.0', '0.9', '0.8', '0.7', '0.6', '0.5'][1 + strpos('0123456789ab', substr(ltrim(hash, 'cdef'), 1, 1)) % 6] AS gamma
        FROM hashed
    ),
    skipped AS (SELECT *, cot_llmlingua2(cot, CAST(gamma AS DOUBLE)) AS compressed FROM drawn)
    SELECT *, CASE gamma WHEN '1.0' THEN question ELSE concat(question, '<|eot_id|>', gamma, '<|eot_id|>') END AS input,
        [named_struct('role', 'assistant', 'content',
            concat(compressed, E'\n\nThe final answer is: $\\boxed{', coalesce(cot_answer(answer), answer), '}$'))] AS output
    FROM skipped
))
