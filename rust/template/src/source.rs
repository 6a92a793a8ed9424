//! Rewrites the source of a template: line ends, and the tags of generation blocks.

use std::borrow::Cow;

use crate::error::{Kind, TemplateError};

/// The filter to which the body of a generation block is passed.
pub(crate) const FILTER: &str = "nanotok_generation";

/// The source with the line ends of Jinja2, in which each generation block is a filter block with a
/// scope of its own, and the number of these blocks. Dashes and lines remain as they are.
///
/// # Errors
///
/// For blocks in which the engine does not do what Jinja2 does.
pub(crate) fn rewrite(source: &str) -> Result<(String, usize), TemplateError> {
    let source = with_newlines(source);
    let (mut out, mut blocks) = (String::with_capacity(source.len()), 0);
    let mut rest: &str = &source;
    while let Some(place) = rest.find('{') {
        let (text, tag) = rest.split_at(place);
        out.push_str(text);
        let length = match tag.as_bytes().get(1) {
            Some(b'#') => tag.find("#}").map_or(tag.len(), |end| end + 2),
            Some(b'{') => end_of_code(tag, "}}"),
            Some(b'%') => end_of_code(tag, "%}"),
            _ => 1,
        };
        let (tag, after) = tag.split_at(length);
        rest = after;
        match word_of(tag) {
            Some((open, "generation", close)) => {
                blocks += 1;
                out.extend(["{%", open, " filter ", FILTER, " %}{% with ", close, "%}"]);
            }
            Some((open, "endgeneration", close)) => {
                out.extend(["{%", open, " endwith %}{% endfilter ", close, "%}"]);
            }
            Some((_, "raw", close)) => {
                if close != "-" && rest.starts_with('\n') {
                    return Err(unsupported(&out, "a line end after raw"));
                }
                let (raw, after) = rest.split_at(end_of_raw(rest));
                out.push_str(tag);
                out.push_str(raw);
                rest = after;
            }
            Some((_, inner, _)) if inner.starts_with("autoescape") => {
                return Err(unsupported(&out, "autoescape"));
            }
            _ => out.push_str(tag),
        }
    }
    out.push_str(rest);
    Ok((out, blocks))
}

/// The error for something that is not supported, which stands behind this text.
fn unsupported(before: &str, what: &str) -> TemplateError {
    let line = before.matches('\n').count() + 1;
    let message = format!("{what} is not supported");
    TemplateError { kind: Kind::Syntax, line: Some(line), message }
}

fn with_newlines(source: &str) -> Cow<'_, str> {
    if source.contains('\r') {
        source.replace("\r\n", "\n").replace('\r', "\n").into()
    } else {
        source.into()
    }
}

/// The length of a tag up to its end mark, which does not count in strings.
fn end_of_code(tag: &str, end: &str) -> usize {
    let bytes = tag.as_bytes();
    let mut place = 2;
    let mut quote = None;
    while place < bytes.len() {
        match (bytes[place], quote) {
            (b'\\', Some(_)) => place += 1,
            (byte, Some(open)) if byte == open => quote = None,
            (byte @ (b'"' | b'\''), None) => quote = Some(byte),
            (_, None) if bytes[place..].starts_with(end.as_bytes()) => return place + 2,
            _ => (),
        }
        place += 1;
    }
    bytes.len()
}

/// The dash of a block tag, what it says, and the dash at its end.
fn word_of(tag: &str) -> Option<(&str, &str, &str)> {
    let inner = tag.strip_prefix("{%")?.strip_suffix("%}")?;
    let (open, inner) = inner.split_at(usize::from(inner.starts_with(['-', '+'])));
    let (inner, close) = inner.split_at(inner.len() - usize::from(inner.ends_with(['-', '+'])));
    Some((open, inner.trim(), close))
}

/// The length of the text before the tag that ends a raw block.
fn end_of_raw(text: &str) -> usize {
    let ends = text.match_indices("{%").map(|(place, _)| place);
    ends.into_iter()
        .find(|&place| {
            let tag = text[place + 2..].trim_start_matches(['-', '+']).trim_start();
            tag.starts_with("endraw")
        })
        .unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::rewrite;

    #[test]
    fn only_tags_of_generation_blocks_change() {
        let same = "{# {% generation %} #}{{ '{% generation %}' }}{% raw %}{% generation %}\
                    {% endraw %}{% set x = \"\\\"%}{% generation %}\" %}{";
        assert_eq!(rewrite(same), Ok((same.to_owned(), 0)));
        let (text, blocks) = rewrite("a\r\n{%- generation -%}b{%endgeneration+%}\rc").unwrap();
        assert_eq!(blocks, 1);
        assert_eq!(
            text,
            "a\n{%- filter nanotok_generation %}{% with -%}b{% endwith %}{% endfilter +%}\nc"
        );
    }
}
