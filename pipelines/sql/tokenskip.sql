-- TokenSkip (Xia et al. 2025): compresses each chain with LLMLingua-2 (asap.compressor.model) to a ratio gamma.
-- Gamma is drawn per row from the seed 42, the question and the chain. The prompt states gamma, so that a model
-- learns to answer at any ratio: the question of an output ends with gamma. The answer stays as it is, or becomes the
-- published sentence with the final answer (asap.tokenskip.answer). The budget has no effect.
-- As published in the ASAP paper, which keeps answers. With asap.tokenskip.answer = sentence, as published by TokenSkip, if you first select what it trains on: correct answers that are values, and chains of at most 500 tokens.
SELECT * EXCEPT (output) REPLACE (output AS completion, array_concat(prompt, output) AS messages)
FROM pruned((
    WITH hashed AS (SELECT *, md5(concat('42', question, cot)) AS hash FROM corpus),
    drawn AS (
        SELECT * EXCEPT (hash), -- the first hash digit below 12 draws evenly from six
            ['1.0', '0.9', '0.8', '0.7', '0.6', '0.5'][1 + strpos('0123456789ab', substr(ltrim(hash, 'cdef'), 1, 1)) % 6] AS gamma
        FROM hashed
    ),
    skipped AS (
        SELECT * REPLACE (
            CASE gamma WHEN '1.0' THEN question ELSE concat(question, '<|eot_id|>', gamma, '<|eot_id|>') END AS question,
            cot_tokenskip_answer(answer) AS answer
        ), cot_llmlingua2(cot, CAST(gamma AS DOUBLE)) AS compressed
        FROM drawn
    )
    SELECT *, [named_struct('role', 'assistant', 'content', concat(compressed, E'\n\n', answer))] AS output FROM skipped
))
