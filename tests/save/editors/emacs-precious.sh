. "$here/emacs.sh"
command="emacs -nw -Q --eval '(setq file-precious-flag t)' tree.yaml"
# It says that it wrote the temporary file before that is renamed.
save() { keys C-x C-s; sleep 1; }
