//! Code in texts: its fences, and code that has no fences.

/// Words of programs that are words of English too, or long.
const KEYWORDS: [&str; 40] = [
    "and",
    "assert",
    "auto",
    "bool",
    "break",
    "case",
    "catch",
    "char",
    "class",
    "const",
    "continue",
    "def",
    "double",
    "elif",
    "else",
    "except",
    "false",
    "float",
    "for",
    "from",
    "import",
    "include",
    "int",
    "lambda",
    "let",
    "long",
    "namespace",
    "new",
    "not",
    "public",
    "return",
    "static",
    "std",
    "string",
    "struct",
    "try",
    "unsigned",
    "using",
    "void",
    "while",
];
/// What begins a line of Python that ends with a colon.
const BLOCKS: [&str; 10] = ["async ", "class ", "def ", "elif ", "else", "except", "for ", "if ", "try", "while "];
/// What begins a line of code.
const BEGINNINGS: [&str; 8] =
    ["#include", "@", "import ", "print(", "return ", "return;", "template", "using namespace"];

/// The fence of code that the texts before left open: code with blank lines spans several steps.
#[derive(Debug, Default, Clone)]
pub(crate) struct Fence(Option<String>);

impl Fence {
    /// The fence that is open.
    pub(crate) fn open(&self) -> Option<&str> {
        self.0.as_deref()
    }

    /// Reads on, over a text.
    pub(crate) fn pass(&mut self, text: &str) {
        for line in text.lines() {
            self.holds(line);
        }
    }

    /// Whether the next line is within fences or one of them.
    fn holds(&mut self, line: &str) -> bool {
        let line = line.trim_start();
        let mark = if line.starts_with("```") { "```" } else { "~~~" };
        let marks = line.len() - line.trim_start_matches(&mark[..1]).len();
        let was_open = self.0.is_some();
        self.0 = match self.0.take() {
            Some(open) if line.starts_with(&open) && line[marks..].trim().is_empty() => None,
            None if marks >= 3 => Some(line[..marks].to_string()),
            open => open,
        };
        was_open || self.0.is_some()
    }
}

/// What a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Line {
    Code,
    /// Code if it is next to code.
    Maybe,
    Text,
}

/// A text with fences around its code that has none. Markdown keeps the spaces of code only.
pub(crate) fn with_fences(text: &str) -> String {
    let mut fence = Fence::default();
    let line = |line| {
        let was_open = fence.open().is_some();
        match (fence.holds(line), fence.open().is_some()) {
            (false, _) => (line, Line::of(line)),
            // To Markdown, a mark after four spaces is code.
            (true, is_open) if is_open != was_open && (line.starts_with("    ") || line.starts_with('\t')) => {
                (line.trim_start_matches([' ', '\t']), Line::Text)
            }
            (true, _) => (line, Line::Text),
        }
    };
    let lines: Vec<(&str, Line)> = text.split_inclusive('\n').map(line).collect();
    let mut written = String::with_capacity(text.len());
    for run in lines.chunk_by(|one, next| (one.1 == Line::Text) == (next.1 == Line::Text)) {
        let whole: String = run.iter().map(|(line, _)| *line).collect();
        if !is_code(run) {
            written += &whole;
            continue;
        }
        let ticks = whole.split(|letter| letter != '`').map(str::len).max().unwrap_or(0).max(2) + 1;
        let marks = "`".repeat(ticks);
        written += &format!("{marks}\n{}\n{marks}\n", whole.trim_start_matches('\n').trim_end());
    }
    written
}

/// Whether lines without text are code for sure.
fn is_code(run: &[(&str, Line)]) -> bool {
    let code = run.iter().filter(|(_, kind)| *kind == Line::Code).count();
    let is_indented = |(line, _): &(&str, Line)| line.starts_with([' ', '\t']) && !line.trim().is_empty();
    code > 1 || code == 1 && run.iter().any(is_indented) && run.len() > 1
}

impl Line {
    fn of(line: &str) -> Self {
        let (is_indented, line) = (line.starts_with([' ', '\t']), line.trim());
        if line.is_empty() {
            return Self::Maybe;
        }
        let code = without_texts(line);
        if is_marked(line) || code.contains(['$', '\\']) || words(&code) > 2 {
            return Self::Text;
        }
        let code = code.trim();
        let is_block = code.ends_with(':') && BLOCKS.iter().any(|word| code.starts_with(word));
        let is_ended = code.ends_with('{') || code.ends_with(';') && code.contains(['(', '=', '<', '}', '[']);
        let is_begun = BEGINNINGS.iter().any(|begins| code.starts_with(begins)) && !code.ends_with('.');
        let named = code
            .split_once(['=', '('])
            .map(|(name, _)| name.trim_end_matches([' ', '+', '-', '*', '/', '%', '|', '&']));
        let is_call = named.is_some_and(is_name) && !code.ends_with(['.', ':', '?']);
        let is_closing = !code.is_empty() && code.chars().all(|letter| ")]};,".contains(letter));
        if is_closing || is_block || is_ended || is_begun || is_call && code.ends_with(['(', '[']) {
            Self::Code
        } else if is_indented || is_call || code.is_empty() {
            Self::Maybe
        } else {
            Self::Text
        }
    }
}

/// Whether a text may be what a program assigns to or calls, with types.
fn is_name(text: &str) -> bool {
    let is_letter = |letter: char| letter.is_alphanumeric() || "_.[],:<> ".contains(letter);
    text.starts_with(|letter: char| letter.is_alphabetic() || letter == '_') && text.chars().all(is_letter)
}

/// Whether a line is an item of a list, a quote, a row of a table or a heading.
fn is_marked(line: &str) -> bool {
    let number = line.trim_start_matches(|letter: char| letter.is_ascii_digit());
    let is_numbered = number.len() < line.len() && [". ", ") "].iter().any(|mark| number.starts_with(mark));
    is_numbered || ["- ", "* ", "+ ", "> ", "##", "|"].iter().any(|mark| line.starts_with(mark))
}

/// A line of code without its comment and what is in quotes.
fn without_texts(line: &str) -> String {
    let (mut open, mut before) = (None, ' ');
    let mut is_shown = |letter: char| {
        let is_quote = letter == '"' || letter == '\'' && (open.is_some() || !before.is_alphanumeric());
        open = match open {
            None if is_quote => Some(letter),
            Some(quote) if quote == letter => None,
            open => open,
        };
        before = letter;
        open.is_none() && !is_quote
    };
    let shown: String = line.chars().filter(|letter| is_shown(*letter)).collect();
    let end = ["//", "# "].iter().filter_map(|mark| shown.find(mark)).min();
    shown[..end.unwrap_or(shown.len())].to_string()
}

/// The words of a line that are no keywords of programs.
fn words(line: &str) -> usize {
    let is_word = |word: &&str| {
        word.len() > 2 && word.chars().all(char::is_alphabetic) && !KEYWORDS.contains(&word.to_lowercase().as_str())
    };
    line.split_whitespace().map(|word| word.trim_end_matches([',', ':', ';', '.'])).filter(is_word).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_without_fences_gets_them() {
        let code = [
            "def f(x):\n    return x",
            "class ModelNew(nn.Module):\n    def __init__(self):\n        super().__init__()",
            "for (int k = 0; k < n; k++) {\n    // ... as above ...\n    sum += a[k] * b[k];\n}",
            "if (t < K) {\n    a[t] = A[i * K + t];\n}\n__syncthreads();",
            "# Compile the inline CUDA code\nmatvec = load_inline(\n    name=\"matvec\",\n    functions=[\"matvec_cuda\"],\n)",
            "n = int(input())\nfor i in range(n):\n    \n    print(i, \"of the numbers that were read\")",
            "    return 1;\n}",
            "auto C = torch::zeros({M, N}, A.options());\nreturn C;",
        ];
        for code in code {
            assert_eq!(with_fences(code), format!("```\n{code}\n```\n"), "{code}");
        }
        let mixed = "So I write:\nfor x in y:\n    print(x)\nThis prints each number.\n";
        assert_eq!(with_fences(mixed), "So I write:\n```\nfor x in y:\n    print(x)\n```\nThis prints each number.\n");
    }

    #[test]
    fn text_gets_no_fences() {
        let texts = [
            "x = 5\ny = 6\nx + y = 11",
            "For each i:\n  - add it\n  - go on",
            "So a = 1; then b = 2;\nand we get the sum of both;",
            "if x is even, then it ends:\n  the rest of this line explains it;",
            "$x = 5;$\n$y = 6;$",
            "1. First {a}\n2. Second {b}",
            "```python\nfor x in y:\n    print(x)\n```",
            "```\nfor x in y:\n\n    print(x)",
            "return to the start\nimport taxes are high.",
            "First:\n  11 + 2 = 13\n  13 + 4 = 17",
            "The function f(x) = 2;",
            "A = {1, 2}\nB = {2, 3}",
        ];
        for text in texts {
            assert_eq!(with_fences(text), text);
        }
        assert_eq!(with_fences("So:\n    ```\n    x\n    ```\nDone."), "So:\n```\n    x\n```\nDone.");
    }
}
