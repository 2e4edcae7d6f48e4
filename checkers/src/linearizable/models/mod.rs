//! The objects that come with the product.

mod collection;
mod kv;
mod lock;
mod multi_register;
mod queue;
mod register;

pub use collection::{Counter, CounterOp, List, ListOp, ListState, Set, SetOp, SetState};
pub use kv::{Kv, KvOp, KvState};
pub use lock::{Lock, LockOp, LockState, Mutex, MutexOp, Semaphore, SemaphoreOp};
pub use multi_register::{Access, MultiRegister, MultiRegisterOp, MultiRegisterState};
pub use queue::{FifoQueue, QueueOp, QueueState};
pub use register::{Register, RegisterOp};
