//! Whether a text is well-formed XML, as far as a machine-made document needs checking: tags close in order, attributes
//! are quoted and appear once, entities are known, no control characters.

/// Checks a document.
///
/// # Errors
/// What is wrong, with the text around it.
pub fn check(text: &str) -> Result<(), String> {
    if let Some(letter) = text.chars().find(|&letter| {
        matches!(letter, '\u{0}'..='\u{8}' | '\u{b}'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{fffe}' | '\u{ffff}')
    }) {
        return Err(format!("control character {letter:?}"));
    }
    let (mut open, mut rest, mut roots) = (Vec::new(), text, 0);
    while let Some(at) = rest.find('<') {
        entities(&rest[..at])?;
        if open.is_empty() && !rest[..at].trim().is_empty() {
            return Err(format!("text outside of the root: {:?}", &rest[..at]));
        }
        let end = rest[at..].find('>').ok_or("a tag without an end")? + at;
        let tag = &rest[at + 1..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            if open.pop() != Some(name) {
                return Err(format!("</{name}> closes nothing"));
            }
            continue;
        }
        let (body, closed) = tag.strip_suffix('/').map_or((tag, false), |body| (body, true));
        let name = body.split([' ', '\n']).next().unwrap_or_default();
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
            return Err(format!("tag name {name:?}"));
        }
        attributes(&body[name.len()..])?;
        roots += usize::from(open.is_empty());
        if !closed {
            open.push(name);
        }
    }
    if open.is_empty() && roots == 1 && rest.trim().is_empty() {
        Ok(())
    } else {
        Err(format!("{roots} roots, open: {open:?}"))
    }
}

fn attributes(mut text: &str) -> Result<(), String> {
    let mut names = Vec::new();
    loop {
        text = text.trim_start();
        if text.is_empty() {
            return Ok(());
        }
        let (name, rest) = text.split_once("=\"").ok_or(format!("attribute {text:?}"))?;
        let (value, rest) = rest.split_once('"').ok_or(format!("attribute {text:?}"))?;
        if names.contains(&name) || value.contains('<') || name.contains(char::is_whitespace) {
            return Err(format!("attribute {name:?} = {value:?}"));
        }
        entities(value)?;
        names.push(name);
        text = rest;
    }
}

fn entities(text: &str) -> Result<(), String> {
    for part in text.split('&').skip(1) {
        let name = part.split_once(';').map_or("", |(name, _)| name);
        if !["amp", "lt", "gt", "quot", "#39"].contains(&name) {
            return Err(format!("entity in {part:?}"));
        }
    }
    Ok(())
}
