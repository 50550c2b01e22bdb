//! How the columns of published datasets are called, as data: the rules by which a corpus is recognised.

/// Columns that hold the question, the likeliest first.
/// A prompt may be a template around the question, and a formatted question has what the plain one lacks, such as the options
/// that it asks to choose from.
pub(crate) const QUESTIONS: &[&str] = &[
    "problem",
    "formated_question",
    "formatted_question",
    "question",
    "prompt",
    "instruction",
    "query",
    "input",
    "text",
];

/// Columns that hold a chain, or a list of chains, beside an answer, the likeliest first.
pub(crate) const CHAINS: &[&str] = &[
    "cot",
    "reasoning_content",
    "reasoning",
    "thinking",
    "think",
    "thought",
    "complex_cot",
    "chain_of_thought",
    "thinking_trajectory",
    "thinking_trajectories",
    "reason",
];

pub(crate) const ANSWERS: &[&str] =
    &["gen_ans", "answer", "final_answer", "response", "output", "content", "solution", "translation", "trans"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Chain and answer, each in a column of its own; a list of texts is a chain of steps.
    Columns,
    Generation,
    Generations {
        needs_flags: bool,
    },
    Turns,
}

impl Form {
    pub(crate) fn told(self) -> &'static str {
        match self {
            Self::Columns => "chain and answer, each in a column; a list of texts is a chain of steps",
            Self::Generation => "one text: the chain in think tags, then the answer",
            Self::Generations { .. } => {
                "several such texts: the first that a flag calls correct, and that is_reasoning_complete does not call cut off"
            }
            Self::Turns => {
                "a conversation of one exchange: the user's turn, and the assistant's with the chain in think tags or in reasoning_content, reasoning or thinking"
            }
        }
    }
}

pub(crate) struct Rule {
    pub name: &'static str,
    pub form: Form,
    pub question: &'static [&'static str],
    pub cot: &'static [&'static str],
    /// Columns that hold the answer, or flags that say which of several texts are correct.
    pub answer: &'static [&'static str],
}

/// Flags that say whether a generation is correct: Booleans, or numbers of which 1 is true.
pub(crate) const FLAGS: &[&str] = &[
    "correctness_math_verify",
    "correctness_llama",
    "is_correct",
    "correct",
    "correctness",
    "verified",
    "score",
    "scores",
];

/// Flags in a column of their own that say whether the row is correct, the likeliest first: they count only if every value is a
/// Boolean, 0 or 1.
pub(crate) const ROW_FLAGS: &[&str] = &["is_correct", "correct", "correctness", "verified", "reward", "score"];

pub(crate) const SYSTEMS: &[&str] = &["system", "system_prompt"];

/// Flags of which either suffices; of the others the likeliest that is there decides.
pub(crate) const EITHER: &[&str] = &["correctness_math_verify", "correctness_llama"];

/// Flags that say whether a generation was ended by its model; one that was not is never taken.
pub(crate) const COMPLETE: &str = "is_reasoning_complete";

pub(crate) const ITEM_TEXTS: &[&str] =
    &["generation", "solution", "response", "completion", "full_cot", "output", "content", "text"];

pub(crate) const TURN_CHAINS: &[&str] = &["reasoning_content", "reasoning", "thinking"];

pub(crate) const OWN: &str = "asap";

/// What a layout is called that was found by the think tags in its values, and one that the user names.
pub(crate) const BY_TAGS: &str = "think tags";
pub(crate) const BY_USER: &str = "--columns";

/// Every layout that is known by its names, in the order in which they are tried. What fits none is looked at: a text that
/// holds think tags, beside a question, is a generation.
pub(crate) const RULES: &[Rule] = &[
    Rule { name: OWN, form: Form::Columns, question: &["question"], cot: &["cot"], answer: &["answer"] },
    Rule { name: "cot", form: Form::Generation, question: &["question"], cot: &["cot"], answer: &[] },
    Rule {
        name: "generation",
        form: Form::Generation,
        question: QUESTIONS,
        cot: &["generation", "generated_solution"],
        answer: &[],
    },
    Rule {
        name: "generations",
        form: Form::Generations { needs_flags: false },
        question: QUESTIONS,
        cot: &["generations"],
        answer: FLAGS,
    },
    Rule {
        name: "solutions",
        form: Form::Generations { needs_flags: true },
        question: QUESTIONS,
        cot: &["solutions", "responses", "completions", "samples", "rollouts", "code"],
        answer: FLAGS,
    },
    Rule {
        name: "deepseek_reasoning",
        form: Form::Columns,
        question: QUESTIONS,
        cot: &["deepseek_reasoning"],
        answer: &["deepseek_solution"],
    },
    Rule {
        name: "deepseek_thinking_trajectory",
        form: Form::Columns,
        question: QUESTIONS,
        cot: &["deepseek_thinking_trajectory", "thinking_trajectories"],
        answer: &["deepseek_attempt", "attempt"],
    },
    Rule {
        name: "messages",
        form: Form::Turns,
        question: &[],
        cot: &["messages", "conversations", "conversation"],
        answer: &[],
    },
    Rule {
        name: "prompt and completion",
        form: Form::Turns,
        question: &["prompt", "input"],
        cot: &["completion", "output", "response"],
        answer: &[],
    },
    Rule { name: "chain and answer", form: Form::Columns, question: QUESTIONS, cot: CHAINS, answer: ANSWERS },
];
