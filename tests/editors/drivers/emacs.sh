# Below the directory for temporary files, emacs would make no backup.
# With a new home, emacs would compile its Lisp in each session.
command="emacs -nw -Q --eval '(setq native-comp-jit-compilation nil native-comp-deferred-compilation nil)' --eval '(setq backup-enable-predicate (quote identity) ${emacs_options:-})' tree.yaml"
saved='Wrote .*tree.yaml'
refused='Invalid argument'
change() { keys Escape '<'; keys Escape '%'; words "$1"; keys Enter; words "$2"; keys Enter; sleep 0.3; words '!'; sleep 0.3; }
save() { keys C-x C-s; }
after_refusal() { keys C-g; sleep 0.3; }
quit() { keys C-x C-c; }
