# Ignores the result of close.
command='busybox vi tree.yaml'
saved="tree.yaml' [0-9]+L, [0-9]+C"
change() { words ":%s/$1/$2/"; keys Enter; sleep 0.3; }
save() { words ':w'; keys Enter; sleep 0.3; }
after_refusal() { keys Escape; sleep 0.3; }
quit() { words ':q'; keys Enter; }
