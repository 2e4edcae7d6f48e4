//! Writes the reports of made-up runs, to look at: `cargo run -p deposed-report --example samples DIR`.

#[path = "../tests/samples/mod.rs"]
mod samples;

use std::path::PathBuf;

fn main() -> std::io::Result<()> {
    let Some(dir) = std::env::args_os().nth(1).map(PathBuf::from) else {
        return Err(std::io::Error::other("give the folder to write to"));
    };
    for sample in samples::all() {
        let report = sample.report();
        let dir = dir.join(sample.name);
        std::fs::create_dir_all(&dir)?;
        std::fs::write(dir.join("results.json"), report.results_json())?;
        std::fs::write(dir.join("junit.xml"), report.junit("report.html"))?;
        std::fs::write(dir.join("report.html"), report.html())?;
        std::fs::write(dir.join("report.md"), report.markdown())?;
        let lines: Vec<String> =
            report.closing("report.html", &sample.plan.id).iter().map(|l| l.to_string()).collect();
        std::fs::write(dir.join("closing.txt"), lines.join("\n") + "\n")?;
    }
    Ok(())
}
