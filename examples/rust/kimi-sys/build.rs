//! Finds libkimi in the folder KIMI_LIB_DIR or, without it, by pkg-config. With KIMI_STATIC=1 the
//! archive is linked instead of the shared library.
use std::env;
use std::process::Command;

fn pkg_config() -> Result<Vec<String>, String> {
    let output = Command::new("pkg-config")
        .args(["--libs-only-L", "kimi"])
        .env("PKG_CONFIG_ALLOW_SYSTEM_LIBS", "1") // the archive is only looked for in named folders
        .output()
        .map_err(|error| format!("pkg-config: {}", error))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let flags = String::from_utf8_lossy(&output.stdout);
    let folders = flags.split_whitespace().filter_map(|flag| flag.strip_prefix("-L"));
    Ok(folders.map(String::from).collect())
}

fn main() {
    for name in ["KIMI_LIB_DIR", "KIMI_STATIC", "PKG_CONFIG_PATH", "PKG_CONFIG_SYSROOT_DIR"] {
        println!("cargo:rerun-if-env-changed={}", name);
    }
    let folders = match env::var("KIMI_LIB_DIR") {
        Ok(folder) => vec![folder],
        Err(_) => pkg_config().unwrap_or_else(|error| {
            eprintln!("libkimi was not found; KIMI_LIB_DIR may name its folder.\n{}", error);
            std::process::exit(1);
        }),
    };
    let archive = env::var("KIMI_STATIC").map_or(false, |value| value == "1");
    for folder in folders {
        println!("cargo:rustc-link-search=native={}", folder);
        if archive {
            println!("cargo:rerun-if-changed={}/libkimi.a", folder); // it becomes part of the crate
        }
    }
    if archive {
        println!("cargo:rustc-link-lib=static=kimi");
        println!("cargo:rustc-link-lib=dylib=stdc++");
    } else {
        println!("cargo:rustc-link-lib=dylib=kimi");
    }
}
