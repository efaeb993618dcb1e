# Below the directory for temporary files, emacs would make no backup.
# With a new home, emacs would compile its Lisp in each session, by another process in the mount. The options of the
# command line come too late: the terminal's Lisp is loaded before them.
mkdir "$HOME/.emacs.d"
echo '(setq native-comp-jit-compilation nil native-comp-deferred-compilation nil)' >"$HOME/.emacs.d/early-init.el"
command="emacs -nw --no-site-file --no-site-lisp --no-splash --eval '(setq backup-enable-predicate (quote identity) ${emacs_options:-})' tree.yaml"
saved='Wrote .*tree.yaml'
refused='Invalid argument'
change() { keys Escape '<'; keys Escape '%'; words "$1"; keys Enter; words "$2"; keys Enter; sleep 0.3; words '!'; sleep 0.3; }
save() { keys C-x C-s; }
after_refusal() { keys C-g; sleep 0.3; }
quit() { keys C-x C-c; }
