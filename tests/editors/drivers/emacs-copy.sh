emacs_options='backup-by-copying t'
. "$here/emacs.sh"
