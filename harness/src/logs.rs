//! Logs of the nodes: collecting them, searching them, and finding the lines around a moment.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use chrono::{DateTime, NaiveDateTime};
use deposed_checkers::{LogMatch, LogPatterns};
use deposed_report::{Interest, LogExcerpt, LogLine};
use futures_util::future::join_all;
use regex::{Regex, RegexSet};

use crate::rig::Rig;

/// A longer line is cut where it is read: it is looked at, not archived.
const LINE_BYTES_MAX: u64 = 16 << 10;

/// At most this many matches of one file are kept; more say nothing new.
const MATCHES_MAX: usize = 100;

/// At most this many lines of one file are excerpted.
const EXCERPT_LINES_MAX: usize = 40;

/// Nanoseconds before and after a moment that belong to its surroundings.
const AROUND_NS: i64 = 1_500_000_000;

/// The logs of a run, collected into its folder.
#[derive(Debug, Clone, Default)]
pub struct Logs {
    /// Where the files are.
    folder: PathBuf,
    /// Node and path relative to the folder, in order.
    files: Vec<(String, PathBuf)>,
    /// What could not be collected, in words.
    pub missing: Vec<String>,
}

/// Copies every log of every node below `nodes/<node>/` of a folder. What cannot be had is noted
/// and never an error: logs explain a verdict, they do not change it.
pub async fn collect(rig: &Rig, folder: &Path) -> Logs {
    let system = &rig.system;
    let collected = join_all(rig.cluster.remotes().iter().map(|remote| async move {
        let node = remote.node().name.to_string();
        let mut files = Vec::new();
        let mut missing = Vec::new();
        match system.db().log_files(&**remote).await {
            Err(error) => missing.push(format!("the logs of {node}: {error}")),
            Ok(logs) => {
                for log in logs {
                    let to = Path::new("nodes").join(&node).join(&log.name);
                    match remote.download(&log.path, &folder.join(&to)).await {
                        Ok(()) => files.push((node.clone(), to)),
                        Err(error) => missing.push(error.to_string()),
                    }
                }
            }
        }
        (files, missing)
    }));
    let mut logs = Logs { folder: folder.to_owned(), ..Logs::default() };
    for (files, missing) in collected.await {
        logs.files.extend(files);
        logs.missing.extend(missing);
    }
    logs
}

impl Logs {
    /// The logs that were collected into a run's folder before.
    pub fn of(folder: &Path) -> Self {
        let mut logs = Self { folder: folder.to_owned(), ..Self::default() };
        for node in entries(&folder.join("nodes")) {
            let name = node.file_name().unwrap_or_default().to_string_lossy().into_owned();
            for file in entries(&node).into_iter().filter(|path| path.is_file()) {
                if let Ok(relative) = file.strip_prefix(folder) {
                    logs.files.push((name.clone(), relative.to_owned()));
                }
            }
        }
        logs
    }

    /// Node and path of each file.
    pub fn files(&self) -> impl Iterator<Item = (&str, PathBuf)> {
        self.files.iter().map(|(node, file)| (node.as_str(), self.folder.join(file)))
    }

    /// How much there is: `5 files, 14 MiB`.
    pub fn summary(&self) -> String {
        let size = |file: &PathBuf| self.folder.join(file).metadata().map_or(0, |m| m.len());
        let bytes: u64 = self.files.iter().map(|(_, file)| size(file)).sum();
        format!("{} log files, {} KiB", self.files.len(), bytes.div_ceil(1024))
    }

    /// Searches for patterns that mark a crash.
    ///
    /// # Errors
    /// If a pattern is no regular expression.
    pub fn search(&self, patterns: Vec<String>) -> Result<LogPatterns, regex::Error> {
        let set = RegexSet::new(&patterns)?;
        let mut matches = Vec::new();
        for (node, file) in &self.files {
            let mut found = Vec::new();
            // A file that cannot be read has nothing to say.
            let _ = lines(&self.folder.join(file), |number, line| {
                let hit = set.matches(line).iter().next();
                if let (Some(hit), true) = (hit, found.len() < MATCHES_MAX) {
                    found.push(LogMatch {
                        node: node.clone(),
                        file: file.display().to_string(),
                        number,
                        line: line.to_owned(),
                        pattern: patterns[hit].clone(),
                    });
                }
            });
            matches.append(&mut found);
        }
        Ok(LogPatterns { patterns, files: self.files.len(), matches, forgiven: 0 })
    }

    /// The lines around a window of wall time (nanoseconds since the Unix epoch). `zones` tells how
    /// many seconds the clock of each node's log lines is ahead of UTC.
    pub fn around(&self, window: (i64, i64), zones: &BTreeMap<String, i64>) -> Vec<LogExcerpt> {
        let (from, to) = (window.0 - AROUND_NS, window.1 + AROUND_NS);
        let stamp = Stamp::new();
        let mut excerpts = Vec::new();
        for (node, file) in &self.files {
            let zone = zones.get(node).copied().unwrap_or(0);
            let mut excerpt = LogExcerpt {
                node: node.clone(),
                file: file.display().to_string(),
                interest: Interest::Near,
                lines: Vec::new(),
                omitted: 0,
            };
            let _ = lines(&self.folder.join(file), |number, text| {
                let Some(wall_ns) = stamp.parse(text, zone) else { return };
                if wall_ns < from || wall_ns > to {
                    return;
                }
                if excerpt.lines.len() == EXCERPT_LINES_MAX {
                    excerpt.omitted += 1;
                    return;
                }
                excerpt.lines.push(LogLine {
                    number,
                    wall_ns: Some(wall_ns),
                    text: text.to_owned(),
                });
            });
            if !excerpt.lines.is_empty() {
                excerpts.push(excerpt);
            }
        }
        excerpts
    }

    /// The matches of a search, as the report shows them.
    pub fn crashes(found: &LogPatterns) -> Vec<LogExcerpt> {
        let mut by_file: BTreeMap<(&str, &str, &str), Vec<LogLine>> = BTreeMap::new();
        for hit in &found.matches {
            let place = (hit.node.as_str(), hit.file.as_str(), hit.pattern.as_str());
            by_file.entry(place).or_default().push(LogLine {
                number: hit.number,
                wall_ns: None,
                text: hit.line.clone(),
            });
        }
        by_file
            .into_iter()
            .map(|((node, file, pattern), mut lines)| {
                let omitted = lines.len().saturating_sub(EXCERPT_LINES_MAX) as u64;
                lines.truncate(EXCERPT_LINES_MAX);
                LogExcerpt {
                    node: node.to_owned(),
                    file: file.to_owned(),
                    interest: Interest::Crash { pattern: pattern.to_owned() },
                    lines,
                    omitted,
                }
            })
            .collect()
    }
}

/// Files and folders in a folder, sorted.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let listed = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = listed.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

/// Calls `each` with the number and text of every line, however long or badly encoded.
fn lines(path: &Path, mut each: impl FnMut(u64, &str)) -> io::Result<()> {
    let mut reader = BufReader::new(File::open(path)?);
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        if io::Read::take(&mut reader, LINE_BYTES_MAX).read_until(b'\n', &mut line)? == 0 {
            break;
        }
        if line.last() == Some(&b'\n') {
            line.pop();
        } else {
            reader.skip_until(b'\n')?;
        }
        each(number, &String::from_utf8_lossy(&line));
    }
    Ok(())
}

/// Finds the time a log line begins with.
struct Stamp(Regex);

impl Stamp {
    fn new() -> Self {
        let date_and_time = r"(\d{4})[-/](\d\d)[-/](\d\d)[T ](\d\d:\d\d:\d\d)([.,]\d{1,9})?";
        let zone = r"(?: ?(Z|[+-]\d\d:?\d\d))?";
        Self(Regex::new(&format!("^.{{0,40}}?{date_and_time}{zone}")).expect("a sound pattern"))
    }

    /// Nanoseconds since the Unix epoch. A line that names no zone is `zone_s` ahead of UTC.
    fn parse(&self, line: &str, zone_s: i64) -> Option<i64> {
        let found = self.0.captures(line)?;
        let fraction =
            found.get(5).map_or_else(|| ".0".to_owned(), |f| f.as_str().replace(',', "."));
        let local = format!("{}-{}-{} {}{fraction}", &found[1], &found[2], &found[3], &found[4]);
        if let Some(zone) = found.get(6) {
            let zone = if zone.as_str() == "Z" { "+00:00" } else { zone.as_str() };
            let whole = format!("{local} {zone}");
            let time = DateTime::parse_from_str(&whole, "%Y-%m-%d %H:%M:%S%.f %z").ok()?;
            return time.timestamp_nanos_opt();
        }
        let time = NaiveDateTime::parse_from_str(&local, "%Y-%m-%d %H:%M:%S%.f").ok()?;
        Some(time.and_utc().timestamp_nanos_opt()? - zone_s * 1_000_000_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_line_is_found_in_the_usual_dialects() {
        let stamp = Stamp::new();
        let expected = Some(1_764_434_124_123_456_000);
        for line in [
            "2025-11-29 16:35:24.123456 I | raft: became leader",
            "2025/11/29 16:35:24.123456 [INF] started",
            "[2025-11-29 16:35:24,123456] INFO started",
            "{\"level\":\"info\",\"ts\":\"2025-11-29T16:35:24.123456Z\",\"msg\":\"started\"}",
            "time=2025-11-29T18:35:24.123456+02:00 level=info",
        ] {
            assert_eq!(stamp.parse(line, 0), expected, "{line}");
        }
        let local = "2025-11-29 18:35:24.123456 in a zone of its own";
        assert_eq!(stamp.parse(local, 7200), expected);
        assert_eq!(stamp.parse("no time here", 0), None);
    }

    #[test]
    fn long_lines_and_broken_text_are_read_to_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut bytes = vec![b'x'; 100_000];
        bytes.extend_from_slice(b"\n\xff\xfe second\nthird");
        std::fs::write(&path, bytes).unwrap();
        let mut seen = Vec::new();
        lines(&path, |number, line| seen.push((number, line.len().min(20_000)))).unwrap();
        assert_eq!(seen.len(), 3);
        assert_eq!(seen[0], (1, LINE_BYTES_MAX as usize));
        assert_eq!(seen[2], (3, 5));
    }
}
