//! The witness as lines of text: a lane for each process, for Markdown and terminals.

use crate::call_text::process_name;
use crate::compressed_time::{CompressedTime, Grain, Stretch};
use crate::phrase;
use crate::witness::{Row, Witness, WitnessOp};

/// One character is the unit.
const GRAIN: Grain = Grain { step_min: 2.0, step_growth: 0.8 };
/// Room for calls whose end is open.
const OPEN_END: usize = 6;

impl Witness {
    /// Draws it with box characters, in lines without trailing blanks.
    pub(crate) fn lanes(&self) -> String {
        let labels: Vec<String> = self.ops.iter().map(label).collect();
        let time = self.character_time(&labels);
        let width = time.length().ceil() as usize + OPEN_END + 2;
        let names: Vec<String> = self.rows.iter().map(row_name).collect();
        let gutter = names.iter().map(|name| name.chars().count()).max().unwrap_or(0).max(6);

        let mut text = String::new();
        for fault in &self.faults {
            let from = time.at(fault.from_ns).round() as usize;
            let to = fault.to_ns.map_or(width - 1, |to| time.at(to).round() as usize);
            let mut lane = vec![' '; width];
            lane[from..=to.min(width - 1)].fill('░');
            let name: Vec<char> = format!(" {} ", fault.name).chars().collect();
            let at = from + 1;
            lane.resize(width.max(at + name.len()), ' ');
            lane[at..at + name.len()].copy_from_slice(&name);
            push_lane(&mut text, "fault", gutter, &lane);
        }
        for (row, name) in names.iter().enumerate() {
            let mut lane = vec![' '; width];
            for (op, label) in self.ops.iter().zip(&labels).filter(|(op, _)| op.row == row) {
                draw(&mut lane, op, label, &time);
            }
            push_lane(&mut text, name, gutter, &lane);
        }
        let (first, last) = self.span();
        text.push_str(&format!(
            "{:gutter$}   {} to {}; order is exact, distances are not\n",
            "time",
            phrase::moment(first),
            phrase::moment(last),
        ));
        text
    }

    fn character_time(&self, labels: &[String]) -> CompressedTime {
        let (first, last) = self.span();
        let mut moments: Vec<u64> = Vec::new();
        let mut stretches = Vec::new();
        for (op, label) in self.ops.iter().zip(labels) {
            let to_ns = op.end_ns.unwrap_or(last);
            moments.extend([op.start_ns, to_ns]);
            let length_min = label.chars().count() as f64 + 4.0;
            stretches.push(Stretch { from_ns: op.start_ns, to_ns, length_min });
        }
        let faults = self.faults.iter().flat_map(|f| [Some(f.from_ns), f.to_ns]).flatten();
        moments.extend(faults.filter(|&at| first < at && at < last));
        CompressedTime::new(&moments, &stretches, GRAIN)
    }
}

fn draw(lane: &mut Vec<char>, op: &WitnessOp, label: &str, time: &CompressedTime) {
    let from = time.at(op.start_ns).round() as usize;
    let label: Vec<char> = format!(" {label} ").chars().collect();
    let end = op.end_ns.map(|end| time.at(end).round() as usize);
    let to = end.unwrap_or(lane.len() - 1).max(from + label.len() + 1);
    lane.resize(lane.len().max(to + 1), ' ');
    lane[from..=to].fill(if end.is_some() { '─' } else { '┄' });
    lane[from] = '├';
    lane[to] = if end.is_some() { '┤' } else { '▷' };
    let at = from + 1;
    lane[at..at + label.len()].copy_from_slice(&label);
}

fn label(op: &WitnessOp) -> String {
    let mark = if op.accused { " ✗" } else { "" };
    format!("{}{mark}", phrase::cut(&op.named(), 36))
}

/// `process 3 → n1`.
pub(crate) fn row_name(row: &Row) -> String {
    let process = process_name(row.process);
    match &row.node {
        Some(node) => format!("{process} → {}", phrase::clean(node)),
        None => process,
    }
}

fn push_lane(text: &mut String, name: &str, gutter: usize, lane: &[char]) {
    let lane: String = lane.iter().collect();
    let line = format!("{name:gutter$}   {lane}");
    text.push_str(line.trim_end());
    text.push('\n');
}
