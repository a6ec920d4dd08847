//! The functions that a model may call here: calculate and search_files. --tools declares them.
use crate::conversation::json_string;
use kimi::Call;
use std::io;

/// The text of a member that holds a string. The arguments are JSON on one line, because --tools
/// constrains them.
fn string_member(json: &str, name: &str) -> Option<String> {
    let begin = json.find(name)? + name.len();
    let mut characters =
        json[begin..].trim_start_matches(|c| "\": ".contains(c)).chars().peekable();
    let mut text = String::new();
    loop {
        match characters.next()? {
            '"' => return Some(text),
            '\\' if matches!(characters.peek(), Some('"' | '\\')) => text.extend(characters.next()),
            c => text.push(c),
        }
    }
}

/// "A + B", "A - B" or "A * B", of whole numbers.
fn calculate(expression: &str) -> Option<i64> {
    let parts: Vec<_> = expression.split(' ').filter(|part| !part.is_empty()).collect();
    if parts.len() != 3 {
        return None;
    }
    let a = i64::from(parts[0].parse::<i32>().ok()?);
    let b = i64::from(parts[2].parse::<i32>().ok()?);
    match parts[1] {
        "+" => Some(a + b),
        "-" => Some(a - b),
        "*" => Some(a * b),
        _ => None,
    }
}

/// The names in the current folder that contain the word, as JSON.
fn search_files(word: &str) -> io::Result<String> {
    let entries = std::fs::read_dir(".")?.collect::<io::Result<Vec<_>>>()?;
    let names = entries.into_iter().filter_map(|entry| entry.file_name().into_string().ok());
    let mut found: Vec<_> = names.filter(|name| name.contains(word)).collect();
    found.sort();
    let found: Vec<_> = found.iter().map(|name| json_string(name)).collect();
    Ok(format!("[{}]", found.join(", ")))
}

/// The result, or what was wrong with the call.
pub fn run(call: &Call) -> String {
    let name = match &*call.name {
        "calculate" => "\"expression\"",
        "search_files" => "\"word\"",
        _ => return "error: there is no such function".into(),
    };
    let argument = match string_member(&call.arguments, name) {
        Some(argument) => argument,
        None => return "error: an argument is missing".into(),
    };
    if call.name == "calculate" {
        let error = "error: expected two whole numbers with +, - or * between them";
        return calculate(&argument).map_or(error.into(), |result| result.to_string());
    }
    search_files(&argument).unwrap_or_else(|error| format!("error: {}", error))
}
