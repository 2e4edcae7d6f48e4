//! The installer, on a node, where it can do no harm: with an apt-get that only writes down what it is asked.

use crate::support::{TestLab, succeeded};

const SCRIPT: &str = include_str!("../../lab/src/install.sh");

/// While packages are installed policy-rc.d forbids services to start, and afterwards it is what it was; lists
/// are fetched only if the installation fails without.
#[test]
fn services_are_held_and_lists_fetched_only_if_needed() {
    let lab = TestLab::up("install", 1);
    let on_n1 = |command: &str| succeeded(lab.ssh("n1", command));
    let fake = "#!/bin/sh\n\
        for word; do case $word in install | update) verb=$word;; esac; done\n\
        /usr/sbin/policy-rc.d; echo $verb policy=$? >> /tmp/calls\n\
        [ $verb = update ] && touch /tmp/lists\n\
        [ -e /tmp/lists ]\n";
    on_n1(&format!(
        "mkdir /tmp/fake && cat > /tmp/fake/apt-get << 'END'\n{fake}END\nchmod 755 /tmp/fake/apt-get"
    ));
    on_n1(&format!("cat > /tmp/install.sh << 'END'\n{SCRIPT}END"));
    let run = "PATH=/tmp/fake:$PATH sh -c \"$(cat /tmp/install.sh)\" install some-package && cat /tmp/calls";

    on_n1("rm -f /usr/sbin/policy-rc.d");
    assert_eq!(on_n1(run), "install policy=101\nupdate policy=101\ninstall policy=101\n");
    on_n1("test ! -e /usr/sbin/policy-rc.d");

    on_n1(
        "rm /tmp/calls; printf '#!/bin/sh\\nexit 104\\n' > /usr/sbin/policy-rc.d; chmod 755 /usr/sbin/policy-rc.d",
    );
    assert_eq!(on_n1(run), "install policy=101\n");
    assert_eq!(on_n1("/usr/sbin/policy-rc.d; echo $?"), "104\n", "the host's own is back");
    on_n1("test ! -e /usr/sbin/policy-rc.d.before-deposed");
}
