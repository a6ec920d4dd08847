//! Prints one reply of a model: the one-shot form of kimi-chat, in Rust.
mod conversation;
mod options;
mod reply;
mod stats;
mod tools;

use std::process::exit;

/// The exit statuses, as --help states them.
const EXIT_STOP: i32 = 0;
const EXIT_ERROR: i32 = 1;
const EXIT_USAGE: i32 = 2;
const EXIT_LENGTH: i32 = 3;
const EXIT_PIPE: i32 = 141;

fn main() {
    let options = match options::parse(std::env::args_os().skip(1)) {
        Ok(options) => options,
        Err(options::End::Help) => {
            print!("{}", options::HELP);
            exit(EXIT_STOP)
        }
        Err(options::End::Mistake(text)) => {
            eprintln!("kimi-chat: {}", text);
            exit(EXIT_USAGE)
        }
    };
    match conversation::run(&options) {
        Ok(kimi::Finish::Length) => exit(EXIT_LENGTH),
        Ok(_) => {}
        Err(error) => {
            let broken_pipe = error
                .downcast_ref::<std::io::Error>()
                .map_or(false, |error| error.kind() == std::io::ErrorKind::BrokenPipe);
            if broken_pipe {
                exit(EXIT_PIPE);
            }
            eprintln!("kimi-chat: {}", error);
            exit(EXIT_ERROR)
        }
    }
}
