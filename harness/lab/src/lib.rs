//! A cluster on one Linux machine: namespaces, a bridge, and an sshd for each node.
