. "$here/emacs.sh"
command="emacs -nw -Q --eval '(setq backup-by-copying t)' tree.yaml"
