//! What is wrong with a body or a query, in words for people: the parser speaks of its own types, which say nothing to
//! whoever wrote the request.

/// A parser's sentence in plain words, and the field that it names besides the path to it.
pub fn plain(text: &str) -> (String, Option<String>) {
    let text = text.rsplit_once(" at line ").map_or(text, |(reason, _)| reason);
    if let Some(name) = text.strip_prefix("missing field ").map(unquoted) {
        return ("this is missing".to_owned(), Some(name.to_owned()));
    }
    if let Some((_, known)) = text.strip_prefix("unknown field ").and_then(|rest| rest.split_once(", expected ")) {
        return (format!("there is no such field; there is {}", words(known)), None);
    }
    if text.starts_with("unknown field ") {
        return ("there is no such field".to_owned(), None);
    }
    if let Some(name) = text.strip_prefix("duplicate field ").map(unquoted) {
        return ("this is there twice".to_owned(), Some(name.to_owned()));
    }
    if let Some((_, known)) = text.strip_prefix("unknown variant ").and_then(|rest| rest.split_once(", expected ")) {
        return (format!("this can only be {}", words(known)), None);
    }
    let mismatch = ["invalid type: ", "invalid value: "].into_iter().find_map(|start| text.strip_prefix(start));
    if let Some((found, expected)) = mismatch.and_then(|rest| rest.rsplit_once(", expected ")) {
        return (format!("this must be {}, and is {}", wanted(expected), given(found)), None);
    }
    if text.starts_with("invalid length ") && text.contains("expected struct ") {
        return ("this must be an object, and is a list".to_owned(), None);
    }
    if text.contains("invalid digit") || text.contains("cannot parse integer") || text.contains("number too ") {
        return ("this must be a whole number that fits".to_owned(), None);
    }
    (text.to_owned(), None)
}

fn unquoted(text: &str) -> &str {
    text.trim_matches('`')
}

/// Names as the parser lists them, without its quotes.
fn words(list: &str) -> String {
    list.trim_start_matches("one of ").replace('`', "\"")
}

fn wanted(expected: &str) -> String {
    let range = |most: u64| format!("a whole number from 0 to {most}");
    match expected.split(' ').next().unwrap_or_default() {
        "u8" => range(u8::MAX.into()),
        "u16" => range(u16::MAX.into()),
        "u32" => range(u32::MAX.into()),
        "u64" | "usize" => "a whole number that is not negative".to_owned(),
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number".to_owned(),
        "f32" | "f64" => "a number".to_owned(),
        "struct" | "map" | "internally" => "an object".to_owned(),
        "tuple" | "sequence" => "a list".to_owned(),
        "string" => "a text".to_owned(),
        "enum" | "variant" => "one of the words it can have".to_owned(),
        _ => match expected {
            "a string" | "a borrowed string" | "string or map" => "a text".to_owned(),
            "a boolean" => "true or false".to_owned(),
            "a sequence" => "a list".to_owned(),
            "a map" => "an object".to_owned(),
            other => other.to_owned(),
        },
    }
}

fn given(found: &str) -> String {
    let value = || found.split_once('`').map_or(found, |(_, rest)| unquoted(rest)).to_owned();
    match found.split([' ', '`']).next().unwrap_or_default() {
        "map" => "an object".to_owned(),
        "sequence" => "a list".to_owned(),
        "integer" | "floating" | "boolean" => value(),
        "string" => format!("the text {}", found.trim_start_matches("string ")),
        "unit" => "null".to_owned(),
        _ => found.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn nothing_of_the_parser_is_left() {
        let cases = [
            (
                "invalid type: map, expected u32 at line 1 column 3",
                "this must be a whole number from 0 to 4294967295, and is an object",
            ),
            (
                "invalid type: sequence, expected struct ReserveRequest with 5 elements",
                "this must be an object, and is a list",
            ),
            ("invalid type: integer `1`, expected a string", "this must be a text, and is 1"),
            (
                "invalid value: integer `-1`, expected u32",
                "this must be a whole number from 0 to 4294967295, and is -1",
            ),
            ("invalid type: string \"x\", expected a boolean", "this must be true or false, and is the text \"x\""),
            ("invalid type: null, expected a sequence", "this must be a list, and is null"),
            ("unknown variant `gone`, expected one of `open`, `closed`", "this can only be \"open\", \"closed\""),
            ("unknown field `x`, expected `section`", "there is no such field; there is \"section\""),
        ];
        for (parser, people) in cases {
            assert_eq!(plain(parser), (people.to_owned(), None), "{parser}");
        }
        assert_eq!(plain("missing field `event_id`"), ("this is missing".to_owned(), Some("event_id".to_owned())));
    }
}
