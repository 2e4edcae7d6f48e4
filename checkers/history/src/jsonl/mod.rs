//! Our own format: one JSON object a line. The first line is the header, each later one an event:
//!
//! ```json
//! {"schema":1,"plan":"2c9f","workload":"register","keyed":true}
//! {"index":0,"time":1042,"process":3,"type":"invoke","f":"read","value":[7,null],"node":"n1"}
//! ```
//!
//! JSON has neither keywords nor maps whose keys are not text: a keyword is written as its text, a
//! key as EDN would print it, and a float that is no number (`NaN`, the infinities) as text. EDN
//! keeps all of these.

mod write;

pub use write::{write, write_header, write_op};
