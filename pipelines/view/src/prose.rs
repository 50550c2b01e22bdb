//! Texts of a corpus as pages show them: Markdown and LaTeX rendered, next to the raw text, which a switch shows.
//!
//! Nothing of a text becomes markup or an address: its HTML, links and images are shown as they are written.

use maud::{Markup, PreEscaped, html};
use pulldown_cmark::html::push_html;
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use pulldown_latex::config::DisplayMode;
use pulldown_latex::event::{Content, Event as Part};
use pulldown_latex::{ParserError, RenderConfig, Storage, push_mathml};
use std::ops::Range;

use super::code::{Fence, with_fences};
use crate::terminal::visible;

/// The longest formula that is rendered, in bytes. The parser of LaTeX recurses, so it gets a stack for this length.
const FORMULA: usize = 2_000;
const STACK: usize = 32 << 20;
/// A space that a page keeps.
const NO_BREAK: &str = "\u{a0}";
/// The box around an answer.
const BOXED: &str = "\\boxed";
/// Definitions expand, and colors and characters by number are not for a page that has its own.
const REFUSED: [&str; 6] = ["\\def", "\\let", "\\futurelet", "command", "\\char", "color"];

/// A text, rendered and raw; only once if both are equal.
pub(crate) fn prose(text: &str, fence: &mut Fence) -> Markup {
    let text = visible(text);
    let source = match fence.open() {
        Some(open) => format!("{open}\n{text}"),
        None => text.to_string(),
    };
    fence.pass(&text);
    html! {
        @match rendered(&source) {
            Some(rendered) => {
                // A formula may be wider than a phone, and keys scroll only what they reach.
                div.md dir="auto" tabindex=[rendered.contains("<math").then_some("0")] { (PreEscaped(&rendered)) }
                div.raw.t dir="auto" { (text) }
            }
            None => div.t dir="auto" { (text) }
        }
    }
}

/// None if the text is only text.
fn rendered(source: &str) -> Option<String> {
    let fenced = with_fences(source);
    if !fenced.contains(['$', '\\']) {
        return markdown(&with_dollars(&fenced), source);
    }
    std::thread::scope(|scope| {
        let render = || markdown(&with_dollars(&fenced), source);
        std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, render).ok()?.join().ok()?
    })
}

fn markdown(source: &str, text: &str) -> Option<String> {
    let parser = Parser::new_ext(source, Options::ENABLE_TABLES | Options::ENABLE_MATH);
    if parser.reference_definitions().iter().next().is_some() {
        // A page would not show them.
        return None;
    }
    let (mut events, mut depth, mut blocks) = (Vec::new(), 0usize, 0usize);
    for (event, range) in parser.into_offset_iter() {
        blocks = match event {
            Event::Start(Tag::Item | Tag::BlockQuote(_)) => blocks + 1,
            Event::End(TagEnd::Item | TagEnd::BlockQuote(_)) => blocks - 1,
            _ => blocks,
        };
        match &event {
            // Within a link.
            _ if depth > 0 => {
                depth = match event {
                    Event::Start(_) => depth + 1,
                    Event::End(_) => depth - 1,
                    _ => depth,
                };
            }
            Event::Start(Tag::Link { .. } | Tag::Image { .. }) => {
                depth = 1;
                events.push(Event::Text(source[range].into()));
            }
            Event::SoftBreak | Event::HardBreak => {
                events.push(Event::HardBreak);
                // The spaces before an item are those of its list.
                events.extend((blocks == 0).then(|| indent(&source[range.start..])).flatten());
            }
            _ => shown(event, source, &range, &mut events),
        }
    }
    if is_plain(&events, text) {
        return None;
    }
    let mut page = String::new();
    push_html(&mut page, events.into_iter());
    Some(page)
}

/// The spaces that begin the next line, as a page does not lose them.
fn indent(rest: &str) -> Option<Event<'static>> {
    let (_, next) = rest.split_once('\n')?;
    let spaces = next.len() - next.trim_start_matches([' ', '\t']).len();
    (spaces > 0).then(|| Event::Text(next[..spaces].replace('\t', "    ").replace(' ', NO_BREAK).into()))
}

/// What a page shows of an event.
fn shown<'a>(event: Event<'a>, source: &'a str, range: &Range<usize>, events: &mut Vec<Event<'a>>) {
    let raw = || Event::Text(source[range.clone()].into());
    match event {
        // The headings of a page are its own.
        Event::Start(Tag::Heading { .. }) => events.extend([Event::Start(Tag::Paragraph), Event::Start(Tag::Strong)]),
        Event::End(TagEnd::Heading(_)) => {
            events.extend([Event::End(TagEnd::Strong), Event::End(TagEnd::Paragraph)]);
        }
        Event::Html(text) | Event::InlineHtml(text) => events.push(Event::Text(text)),
        Event::Start(Tag::Emphasis | Tag::Strong) | Event::End(TagEnd::Emphasis | TagEnd::Strong)
            if is_product(source, range) =>
        {
            let marks = if matches!(event, Event::Start(Tag::Strong) | Event::End(TagEnd::Strong)) { 2 } else { 1 };
            let is_start = matches!(event, Event::Start(_));
            let begin = if is_start { range.start } else { range.end - marks };
            events.push(Event::Text(source[begin..begin + marks].into()));
        }
        // Amounts of money.
        Event::InlineMath(_) if source[range.end..].starts_with(char::is_alphanumeric) => events.push(raw()),
        Event::InlineMath(tex) => {
            events.push(formula(&tex, DisplayMode::Inline).map_or_else(raw, |math| Event::InlineHtml(math.into())));
        }
        Event::DisplayMath(tex) => {
            events.push(formula(&tex, DisplayMode::Block).map_or_else(raw, |math| Event::InlineHtml(math.into())));
        }
        event => events.push(event),
    }
}

/// Whether marks stand between factors or in names: `2*3*4`, `x**2 + y**2`, `(a)*(b)*(c)` and `__init__(` have no emphasis.
fn is_product(source: &str, range: &Range<usize>) -> bool {
    let ends = |letter: char| letter.is_alphanumeric() || ")]}".contains(letter);
    let begins = |letter: char| letter.is_alphanumeric() || "([{".contains(letter);
    source[..range.start].ends_with(ends) || source[range.end..].starts_with(begins)
}

fn is_plain(events: &[Event<'_>], text: &str) -> bool {
    let mut shown = String::new();
    for event in events {
        match event {
            Event::Text(part) => shown += part,
            Event::HardBreak => shown.push('\n'),
            Event::Start(Tag::Paragraph) | Event::End(TagEnd::Paragraph) => {}
            _ => return false,
        }
    }
    shown.replace(NO_BREAK, " ") == text.trim().replace(NO_BREAK, " ")
}

/// Writes formulas between `\(…\)`, `\[…\]` and lines of dollars as Markdown does, and a tag that begins a line as text:
/// it would begin a block of HTML, in which nothing else is Markdown. Code stays as it is.
fn with_dollars(text: &str) -> String {
    const PAIRS: [(&str, &str, &str); 3] = [("\\(", "\\)", "$"), ("\\[", "\\]", "$$"), ("$$", "$$", "$$")];
    let (mut written, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find(['`', '\\', '$', '<']) {
        written += &rest[..at];
        rest = &rest[at..];
        let pair = PAIRS.iter().find(|(opening, ..)| rest.starts_with(opening));
        let inner = pair.and_then(|(_, closing, _)| rest[2..].find(closing).map(|end| &rest[2..2 + end]));
        let is_formula =
            |inner: &&str| !inner.trim().is_empty() && !inner.contains(['$', '`']) && !inner.contains("\n\n");
        if let Some((tex, after)) = boxed(rest).filter(|(_, after)| !first_paragraph(after).contains('$')) {
            // This one is an amount of money.
            open_dollar(&written).into_iter().for_each(|at| written.insert(at, '\\'));
            written += &format!("${tex}$");
            rest = after;
            continue;
        }
        let end = match (pair, inner.filter(is_formula)) {
            (Some((.., dollars)), Some(inner)) => {
                // A line of a formula is no item of a list.
                written += &format!("{dollars}{}{dollars}", inner.trim().replace('\n', " "));
                rest = &rest[inner.len() + 4..];
                continue;
            }
            _ if rest.starts_with('`') => {
                let ticks = rest.len() - rest.trim_start_matches('`').len();
                let closed = rest[ticks..].find(&rest[..ticks]).map(|end| 2 * ticks + end);
                closed.unwrap_or(if ticks < 3 { ticks } else { rest.len() })
            }
            _ if rest.starts_with('<') => {
                let line = written.rfind('\n').map_or(0, |end| end + 1);
                if written[line..].trim().is_empty() {
                    written.push('\\');
                }
                1
            }
            // With what a backslash escapes.
            _ => rest.char_indices().nth(if rest.starts_with('\\') { 2 } else { 1 }).map_or(rest.len(), |(end, _)| end),
        };
        written += &rest[..end];
        rest = &rest[end..];
    }
    written + rest
}

/// The answer in a box that begins a text, as a formula, and what follows. None if it is empty, or no formula.
fn boxed(text: &str) -> Option<(String, &str)> {
    let (answer, after) = in_box(text)?;
    let inner = answer.replace(['$', '`'], "").split_whitespace().collect::<Vec<_>>().join(" ");
    let tex = format!("{BOXED}{{{inner}}}");
    (!inner.is_empty() && formula(&tex, DisplayMode::Inline).is_some()).then_some((tex, after))
}

/// What is in the box that begins a text, and what follows.
fn in_box(text: &str) -> Option<(&str, &str)> {
    let answer = text.strip_prefix(BOXED)?.strip_prefix('{')?;
    let mut depth = 1;
    let (end, _) = answer.char_indices().take(FORMULA).find(|(at, letter)| {
        depth += match letter {
            _ if answer[..*at].ends_with('\\') => 0,
            '{' => 1,
            '}' => -1,
            _ => 0,
        };
        depth == 0
    })?;
    Some((&answer[..end], &answer[end + 1..]))
}

/// The place of a dollar in the last paragraph that no other one closes.
fn open_dollar(text: &str) -> Option<usize> {
    let paragraph = text.rfind("\n\n").map_or(0, |end| end + 2);
    let is_escaped = |(at, _): &(usize, &str)| text[paragraph..][..*at].ends_with('\\');
    let mut dollars = text[paragraph..].match_indices('$').filter(|dollar| !is_escaped(dollar));
    let last = dollars.next_back()?;
    (dollars.count() % 2 == 0).then_some(paragraph + last.0)
}

fn first_paragraph(text: &str) -> &str {
    text.split("\n\n").next().unwrap_or_default()
}

/// LaTeX as MathML. None if the parser does not know it. An answer in a box has a box.
fn formula(tex: &str, display_mode: DisplayMode) -> Option<String> {
    if tex.len() > FORMULA || REFUSED.iter().any(|refused| tex.contains(refused)) {
        return None;
    }
    let is_boxed = in_box(tex.trim()).is_some_and(|(_, after)| after.is_empty());
    let (storage, tex) = (Storage::new(), with_mod(&tex.replace(BOXED, "")));
    let parts: Vec<_> = pulldown_latex::Parser::new(&tex, &storage).collect::<Result<_, ParserError>>().ok()?;
    // The writer escapes texts, and neither names of functions nor single characters.
    let is_markup =
        |part: &Part<'_>| matches!(part, Part::Content(Content::Function(name)) if name.contains(['<', '>', '&']));
    if parts.iter().any(is_markup) {
        return None;
    }
    let mut math = String::new();
    let config = RenderConfig { display_mode, ..RenderConfig::default() };
    push_mathml(&mut math, parts.into_iter().map(Ok::<_, ParserError>), config).ok()?;
    let math = math.replace("><<", ">&lt;<").replace(">&<", ">&amp;<");
    Some(if is_boxed { format!("<span class=\"boxed\">{math}</span>") } else { math })
}

/// Texts write the operator `mod` as three letters, which would be three factors, or as `\mod`. Words in braces are names.
fn with_mod(tex: &str) -> String {
    let tex = tex.replace("\\mod", "\\bmod");
    let is_operator = |at: &usize| {
        let (before, after) = (&tex[..*at], &tex[at + 3..]);
        let is_outside = before.matches('{').count() == before.matches('}').count();
        is_outside && !before.ends_with(char::is_alphabetic) && !after.starts_with(char::is_alphabetic)
    };
    let (mut written, mut end) = (String::new(), 0);
    for at in tex.match_indices("mod").map(|(at, _)| at).filter(is_operator) {
        written += &format!("{}\\bmod ", &tex[end..at]);
        end = at + 3;
    }
    written + &tex[end..]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> String {
        rendered(text).unwrap_or_else(|| format!("plain: {text}")).trim_end().to_string()
    }

    #[test]
    fn markdown_is_rendered_and_plain_text_stays() {
        assert_eq!(of("So 1 < 2.\nThen."), "plain: So 1 < 2.\nThen.");
        assert_eq!(of("**So** `a<b`"), "<p><strong>So</strong> <code>a&lt;b</code></p>");
        assert_eq!(of("# Plan\n- a\n- b"), "<p><strong>Plan</strong></p>\n<ul>\n<li>a</li>\n<li>b</li>\n</ul>");
        assert_eq!(
            of("2*3*4, x**2 + y**2, (a)*(b)*(c), __f__(), `c`"),
            "<p>2*3*4, x**2 + y**2, (a)*(b)*(c), __f__(), <code>c</code></p>"
        );
        assert_eq!(of("<think>\nSo 1.\n</think>"), "plain: <think>\nSo 1.\n</think>");
        let think = "<p>&lt;think&gt;<br />\nSo <code>1</code>.<br />\n&lt;/think&gt;</p>";
        assert_eq!(of("<think>\nSo `1`.\n</think>"), think);
        assert_eq!(of("[1]: the first"), "plain: [1]: the first");
        // Spaces that begin a line stay.
        assert_eq!(of("So:\n  11 + 2\n  = 13"), "plain: So:\n  11 + 2\n  = 13");
        assert_eq!(
            of("**So**:\n  11\n- a\n  b"),
            "<p><strong>So</strong>:<br />\n\u{a0}\u{a0}11</p>\n<ul>\n<li>a<br />\nb</li>\n</ul>"
        );
        let code =
            "<p>So I <strong>write</strong>:</p>\n<pre><code>def f(x):\n    return x\n</code></pre>\n<p>Done.</p>";
        assert_eq!(of("So I **write**:\ndef f(x):\n    return x\nDone."), code);
    }

    #[test]
    fn code_with_blank_lines_spans_steps() {
        let mut fence = Fence::default();
        let steps = ["```python\ndef f():", "    return 1", "```", "    So **x**"];
        let shown: Vec<_> = steps.iter().map(|step| prose(step, &mut fence).into_string()).collect();
        assert!(
            shown[1].starts_with("<div class=\"md\" dir=\"auto\"><pre><code>    return 1</code></pre>"),
            "{}",
            shown[1]
        );
        assert!(fence.open().is_none() && shown[3].contains("So **x**"), "{shown:?}");
    }

    #[test]
    fn nothing_of_a_text_is_markup() {
        let hostile = [
            "<img src=x onerror=alert(1)>",
            "a <b onclick=x>b</b> **c**",
            "<div>\n<script>alert(1)</script>\n</div>",
            "[a](javascript:alert(1)) ![b](https://evil.example/x.png) <https://evil.example>",
            "$\\operatorname{<img src=x onerror=alert(1)>}$",
            "$\\text{<img src=x>} < \\char60 img$",
            "```\"><script>alert(1)</script>\nx\n```",
            "| <script>alert(1)</script> |\n|---|\n| <img src=x> |",
            "$\\mathop{<script>alert(1)</script>}$ $x < y$",
        ];
        for text in hostile {
            let shown = of(text).replace("plain: ", "").to_lowercase();
            let page = if rendered(text).is_some() { shown } else { String::new() };
            for tag in ["<img", "<script", "<div", "<b ", "<a", "href", "src=\""] {
                assert!(!page.contains(tag), "{text}: {page}");
            }
        }
    }

    #[test]
    fn formulas_become_mathml() {
        let math = "<math display=\"inline\"><msup><mi>x</mi><mn>2</mn></msup><mo>&lt;</mo><mn>3</mn></math>";
        assert_eq!(of("So \\( x^2 < 3 \\)."), format!("<p>So {math}.</p>"));
        assert_eq!(of("So $x^2 < 3$."), format!("<p>So {math}.</p>"));
        assert!(
            of("\\[\nx\n= \\frac{1}{2}\n\\]").starts_with("<p><math display=\"block\"><mi>x</mi><mo>=</mo><mfrac>")
        );
        let boxed = "<span class=\"boxed\"><math display=\"inline\"><mrow><mn>5</mn></mrow></math></span>";
        assert!(of("\\[ \\boxed{5} \\]").contains("<mn>5</mn>"));
        for text in ["$\\boxed{5}$", "\\boxed{5}", "\\boxed{$5$}", "\\boxed{`5`}"] {
            assert_eq!(of(text), format!("<p>{boxed}</p>"), "{text}");
        }
        assert!(of("It costs $8 in all: \\boxed{\\frac{8}{\\text{\\{a\\}}}}.").contains("$8 in all: <span"));
        assert_eq!(of("Put it within \\boxed{}."), "plain: Put it within \\boxed{}.");
        for modulo in ["$17 mod 5$", "$17 \\mod 5$", "$17 \\bmod 5$"] {
            assert!(of(modulo).contains(">mod<"), "{}", of(modulo));
        }
        assert!(of("$\\text{ mod } + modes$").contains("<mi>m</mi>"));
        // What is not understood stays as it is written.
        assert_eq!(of("From $5 to $6, or $5-$6."), "plain: From $5 to $6, or $5-$6.");
        assert_eq!(of("$\\unknown{x}$"), "plain: $\\unknown{x}$");
        assert_eq!(of("`\\(x\\)` and \\(open"), "<p><code>\\(x\\)</code> and (open</p>");
        for deep in ["\\not", "\\frac1", "\\sqrt", "{", "\\mathop", "\\xrightarrow[1]"] {
            of(&format!("${}$", deep.repeat(FORMULA / deep.len())));
        }
    }
}
