//! A real browser opens the pages: no error, no request but for the page itself, and something to
//! see. Needs Chromium (`apt-get install chromium`), so it runs only when asked for:
//! `cargo test -p deposed-report --test browser -- --ignored`.

mod samples;

use std::path::{Path, PathBuf};
use std::process::Command;

/// How long a browser may take over one page.
const SECONDS_MAX: &str = "120";

/// What a browser did with a page.
struct Visit {
    /// Addresses it asked for, but for the page's own.
    requests: Vec<String>,
    /// What it complained of.
    complaints: Vec<String>,
    /// Size of a screenshot, in bytes.
    picture: u64,
}

/// Opens a page in headless Chromium, with its network log on.
fn visit(folder: &Path, page: &str) -> Visit {
    let file = folder.join("page.html");
    let (net_log, picture) = (folder.join("net.json"), folder.join("page.png"));
    std::fs::write(&file, page).expect("the temporary folder is writable");
    let address = format!("file://{}", file.display());
    let output = Command::new("timeout")
        .args([SECONDS_MAX, "chromium"])
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .args(["--disable-extensions", "--enable-logging=stderr", "--window-size=1200,2000"])
        // What the browser itself wants to say to its makers leads nowhere.
        .arg("--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1")
        .arg(format!("--user-data-dir={}", folder.join("profile").display()))
        .arg(format!("--log-net-log={}", net_log.display()))
        .arg(format!("--screenshot={}", picture.display()))
        .arg(&address)
        .output()
        .expect("timeout, of coreutils, starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "chromium (apt-get install chromium): {said}");
    let log = std::fs::read_to_string(&net_log).expect("chromium wrote its network log");
    Visit {
        requests: requests(&log).into_iter().filter(|url| *url != address).collect(),
        complaints: said.lines().filter(|l| l.contains("CONSOLE")).map(str::to_owned).collect(),
        picture: std::fs::metadata(&picture).expect("chromium took a picture").len(),
    }
}

/// Every address in a network log that a page asked for. What the browser asks for on its own
/// account (updates, the time) has no page as its initiator.
fn requests(log: &str) -> Vec<String> {
    let log: serde_json::Value = serde_json::from_str(log).expect("a network log is JSON");
    let events = log["events"].as_array().expect("it lists events");
    let by_page = |params: &serde_json::Value| {
        params["initiator"].as_str().is_some_and(|initiator| initiator != "not an origin")
    };
    events
        .iter()
        .map(|event| &event["params"])
        .filter(|params| by_page(params))
        .filter_map(|params| params["url"].as_str().map(str::to_owned))
        .collect()
}

/// A new folder below the system's temporary one, removed with its owner.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("deposed-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("the temporary folder is writable");
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Pages open with no complaint and ask for nothing.
#[test]
#[ignore = "needs chromium"]
fn pages_open_without_error_or_request() {
    for sample in samples::all() {
        let folder = Folder::new(sample.name);
        let visit = visit(&folder.0, &sample.report().html());
        assert!(visit.requests.is_empty(), "{}: {:?}", sample.name, visit.requests);
        assert!(visit.complaints.is_empty(), "{}: {:?}", sample.name, visit.complaints);
        assert!(visit.picture > 20_000, "{}: a picture of {} bytes", sample.name, visit.picture);
    }
}

/// The test above would see a request and a complaint: a page with both is caught.
#[test]
#[ignore = "needs chromium"]
fn a_page_that_asks_and_fails_is_caught() {
    let page = "<!DOCTYPE html><title>x</title><img src=\"http://127.0.0.1:9/x.png\">\
                <script>console.error('caught')</script>";
    let folder = Folder::new("control");
    let visit = visit(&folder.0, page);
    assert_eq!(visit.requests, ["http://127.0.0.1:9/x.png"]);
    assert!(visit.complaints.iter().any(|line| line.contains("caught")), "{:?}", visit.complaints);
}
