-- The training tokens of a pruned table or any other corpus, for the tokenizer and chat template of asap.scorer.model.
-- Rows of more than 16,384 tokens are rejects, and so are conversations with several exchanges or tools.
SELECT
    source,
    id,
    example['input_ids'] AS input_ids,
    example['attention_mask'] AS attention_mask,
    example['labels'] AS labels,
    CASE WHEN example IS NULL THEN coalesce(status, CASE WHEN fault IS NULL THEN 'too_long' ELSE 'no_prompt' END) END AS status,
    CASE
        WHEN example IS NULL AND status = 'multi_turn'
        THEN concat(error, '; it may have several examples, and a row here has one: use asap feed, asap.sft or asap train')
        WHEN example IS NULL THEN coalesce(error, fault, 'more than 16,384 tokens')
    END AS error
FROM (
    SELECT *, CASE WHEN example IS NULL THEN cot_no_score(cot_prompt(question, system)) END AS fault
    FROM (SELECT *, cot_example(cot_prompt(question, system), cot, answer, 16384) AS example FROM corpus)
)
