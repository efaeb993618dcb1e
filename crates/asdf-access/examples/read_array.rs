//! Prints the type, the shape and the range of an array: `cargo run --example read_array FILE [PATH]`.
//!
//! FILE is a path or an address. Without PATH, the arrays are listed.

use asdf_access::{Array, Datatype, Element, File, Result, Scalar};

fn main() -> std::process::ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match &arguments[..] {
        [file] => list(file),
        [file, path] => show(file, path),
        _ => {
            eprintln!("usage: read_array FILE [PATH]");
            return 2.into();
        }
    };
    match done {
        Ok(()) => 0.into(),
        Err(error) => {
            eprintln!("read_array: {error}");
            1.into()
        }
    }
}

fn list(file: &str) -> Result<()> {
    for array in File::open(file)?.arrays()? {
        println!("{}\t{}\t{:?}", array.path, array.datatype, array.shape);
    }
    Ok(())
}

fn show(file: &str, path: &str) -> Result<()> {
    let file = File::open(file)?;
    let array = file.array(path)?;
    println!("{} {:?}", array.datatype, array.shape);
    let range = match array.datatype {
        Datatype::Scalar(Scalar::Float16 | Scalar::Float32) => range::<f32>(&array)?,
        Datatype::Scalar(Scalar::Float64) => range::<f64>(&array)?,
        Datatype::Scalar(Scalar::Int16) => range::<i16>(&array)?,
        Datatype::Scalar(Scalar::Int32) => range::<i32>(&array)?,
        Datatype::Scalar(Scalar::Uint8) => range::<u8>(&array)?,
        _ => return Ok(()),
    };
    println!("{range}");
    Ok(())
}

/// Reads the array in parts, so that it may be larger than memory.
fn range<T: Element + Copy + Default + PartialOrd + std::fmt::Display>(array: &Array) -> Result<String> {
    let mut part = vec![T::default(); 64 << 10];
    let mut found: Option<(T, T)> = None;
    let mut first = 0;
    loop {
        let count = array.read(first, &mut part)?;
        if count == 0 {
            break;
        }
        for element in &part[..count] {
            let (low, high) = found.unwrap_or((*element, *element));
            found = Some((
                if *element < low { *element } else { low },
                if *element > high { *element } else { high },
            ));
        }
        first += count as u64;
    }
    Ok(found.map_or_else(|| "no elements".to_owned(), |(low, high)| format!("{low} to {high}")))
}
